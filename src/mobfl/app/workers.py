"""Heavy work in processes of its own: it can be given up at any moment, and one kind never waits for another.

Each piece of work has a process, forked from one that has everything loaded, which takes some milliseconds. Unlike a
thread it can be ended wherever it is. It ends with the page, however that ends.
"""

import asyncio
import fcntl
import json
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from mobfl.app.background import in_thread
from mobfl.errors import InputError

_CONTEXT = multiprocessing.get_context("forkserver")
_LOADED = ["mobfl.cli", "mobfl.app.planning", "mobfl.app.road", "mobfl.app.traces", "mobfl.app.maps", "scipy.stats"]
_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one kind of work may take, and how much of it there may be."""

    seconds: float
    mib: int
    at_once: int
    waiting: int


class Answer(NamedTuple):
    status: int
    content: bytes


class Lane:
    """Work of one kind, a few pieces at once; the others wait, and what would wait too long is refused."""

    def __init__(self, what: str, instead: str, limits: Limits) -> None:
        self._what, self._instead, self._limits = what, instead, limits
        self._free = asyncio.Semaphore(limits.at_once)
        self._inside = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one request, from its first byte to its answer; 429 if there is none."""
        most = self._limits.at_once + self._limits.waiting
        if self._inside >= most:
            raise HTTPException(
                429,
                f"at most {most} requests for {self._what} may wait at once, got one more: try again in a moment",
                {"Retry-After": "5"},
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def run(self, function: Callable[..., Any], *given: Any, hear: Callable[[Any], None] | None = None) -> Answer:
        """What the function returns, as JSON; it is ended when its time is over or nobody waits any more.

        With `hear` the function is given a `tell`, and what it tells on the way is heard here.
        """
        async with self._free:
            work = _Work(hear, self._limits, function, *given)
            try:
                async with asyncio.timeout(self._limits.seconds):
                    return await in_thread(work.done)
            except TimeoutError:
                raise self._too_much(f"{self._limits.seconds:g} s") from None
            except MemoryError:
                raise self._too_much(f"{self._limits.mib} MiB") from None
            finally:
                work.end()

    def _too_much(self, limit: str) -> InputError:
        return InputError(
            f"{self._what} must take at most {limit} in the page, got more; {self._instead} has no such limit"
        )


def warm_up() -> None:
    """Begins to load what work needs, so that the first piece need not wait for it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the arrays are small, and the cores are for several pieces
    _CONTEXT.set_forkserver_preload(_LOADED)
    forkserver.ensure_running()


class _Work:
    """One piece of work and its process, which may be ended by anybody at any time."""

    def __init__(self, hear: Callable[[Any], None] | None, *asked: Any) -> None:
        self._asked, self._hear = (hear is not None, *asked), hear
        self._ours, self._theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_work, args=(self._theirs,), daemon=True)
        self._begun = self._over = False
        self._touching = threading.Lock()

    def done(self) -> Answer:
        """Waits for the answer; in a thread, since all of this blocks."""
        with self._ours:
            with self._theirs:
                self._process.start()
            try:
                self._may_be_ended()
                self._ours.send(self._asked)
                answer = self._answer()
            except (EOFError, OSError):
                self._process.join()
                raise RuntimeError(f"a worker ended with status {self._process.exitcode} and no answer") from None
            finally:
                self.end()
                self._process.join()
        if answer.status == _OUT_OF_MEMORY:
            raise MemoryError
        return answer

    def _answer(self) -> Answer:
        while True:
            answer = Answer(int(self._ours.recv_bytes()), self._ours.recv_bytes())
            if answer.status != _ON_THE_WAY:
                return answer
            if self._hear is not None:
                self._hear(json.loads(answer.content))

    def _may_be_ended(self) -> None:
        with self._touching:
            self._begun = True
            if self._over:
                self._process.kill()

    def end(self) -> None:
        with self._touching:
            self._over = True
            if self._begun:
                self._process.kill()


# ---- in the process ---------------------------------------------------------------------------------

_OUT_OF_MEMORY = 507
_ON_THE_WAY = 100


def _work(page: Connection) -> None:
    _end_with_the_page()
    heard, limits, function, *given = page.recv()
    _limit(limits)
    tell = {"tell": lambda stage: _send(page, _ON_THE_WAY, stage)} if heard else {}
    try:
        status, content = 200, function(*given, **tell)
    except InputError as error:
        status, content = 400, {"errors": error.lines}
    except MemoryError:
        status, content = _OUT_OF_MEMORY, None
    _send(page, status, content)


def _send(page: Connection, status: int, content: Any) -> None:
    page.send_bytes(str(status).encode())
    page.send_bytes(json.dumps(content, allow_nan=False).encode())


def _end_with_the_page() -> None:
    """Also if it is killed: a pipe closes with it, and the system's signal about that ends who does not catch it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page, which ends us
    page = multiprocessing.parent_process()
    assert page is not None
    fcntl.fcntl(page.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(page.sentinel, fcntl.F_SETFL, fcntl.fcntl(page.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if not page.is_alive():  # since before that
        os._exit(1)


def _limit(limits: Limits) -> None:
    _set_limit(resource.RLIMIT_CPU, int(limits.seconds) + 1)
    with suppress(OSError):  # only Linux says how much there is already, and counts what is added
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        _set_limit(resource.RLIMIT_DATA, pages * resource.getpagesize() + limits.mib * _MIB)


def _set_limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
