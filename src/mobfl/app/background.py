"""Work that takes a moment, beside the server: it goes on answering, and Ctrl-C does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_AT_ONCE = 4


class Background:
    """Runs functions in threads that end with the program, a few at once."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def run(self, function: Callable[..., T], *given: Any) -> T:
        async with self._free:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[T] = loop.create_future()
            # Python's own pools wait for their threads at exit; these do not hold anybody up.
            threading.Thread(target=_work, args=(loop, answer, function, given), daemon=True).start()
            return await answer


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
