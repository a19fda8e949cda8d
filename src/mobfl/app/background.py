"""What waits for files or processes, beside the server: it goes on answering, and Ctrl-C does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from mobfl.errors import InputError

T = TypeVar("T")

_AT_ONCE = 4
MOST_SECONDS = 30.0


class Background:
    """Runs functions in threads, a few at once. One that hangs keeps its place, and whoever waits is told."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def run(self, function: Callable[..., T], *given: Any) -> T:
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._free.acquire()
                work = in_thread(function, *given)
                work.add_done_callback(self._over)
                return await asyncio.shield(work)
        except TimeoutError:
            raise InputError(f"{self._what} must take at most {MOST_SECONDS:g} s, got more") from None

    def _over(self, work: "asyncio.Future[T]") -> None:
        self._free.release()
        work.exception()  # which is told to whoever still waits; if nobody does, that is no mistake


def in_thread(function: Callable[..., T], *given: Any) -> "asyncio.Future[T]":
    """Python's own pools wait for their threads at exit; this one does not hold anybody up."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=_work, args=(loop, answer, function, given), daemon=True).start()
    return answer


def _work(
    loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[T]", function: Callable[..., T], given: tuple[Any, ...]
) -> None:
    try:
        result, error = function(*given), None
    except Exception as caught:  # whoever waits for the answer gets it
        result, error = None, caught

    def tell() -> None:
        if answer.done():  # nobody waits any more
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    with suppress(RuntimeError):  # the server has ended meanwhile
        loop.call_soon_threadsafe(tell)
