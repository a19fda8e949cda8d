"""Work that is called off: by name, by going away, or because the page ends."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from mobfl.errors import InputError

T = TypeVar("T")

_TICK_S = 0.1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Cancellable:
    """Work under way by the name that whoever asked for it has given it; all of it ends once `closing` says so."""

    def __init__(self, closing: Callable[[], bool]) -> None:
        self._closing = closing
        self._tasks = dict[str, asyncio.Task[Any]]()
        self._stages = dict[str, Any]()

    async def run(self, work: Coroutine[Any, Any, T], name: str = "") -> T:
        """What the work gives; 409 if it was called off."""
        task = asyncio.ensure_future(work)
        if name:
            self._tasks[name] = task
        try:
            while not task.done() and not self._closing():
                await asyncio.wait({task}, timeout=_TICK_S)
            if not task.done():
                raise HTTPException(503, "the page is being closed")
            if task.cancelled():
                raise HTTPException(409, "this was cancelled")
            return task.result()
        finally:
            self._tasks.pop(name, None)
            self._stages.pop(name, None)
            task.cancel()

    def tell(self, name: str, stage: Any) -> None:
        """How far the work is; it may come from another thread, and too late."""
        if name in self._tasks:
            self._stages[name] = stage

    def stage(self, name: str) -> Any:
        """What was told last; None if nothing was, or the work is not under way."""
        return self._stages.get(name)

    def new_name(self, name: str) -> str:
        if name and not _NAME.fullmatch(name):
            raise InputError(f"job must be 1 to 64 letters, digits, - or _, got {name[:80]!r}")
        if name in self._tasks:
            raise InputError(f"job must be a new name, got {name!r}, which is under way")
        return name

    def cancel(self, name: str) -> None:
        if name not in self._tasks:
            raise HTTPException(404, f"job must be under way, got {name[:80]!r}")
        self._tasks[name].cancel()


async def while_awaited(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; it is given up as soon as nobody waits for it. The request must have been read."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
