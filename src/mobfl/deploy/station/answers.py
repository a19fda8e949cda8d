"""Answers as they arrive, each fetched by itself beside the rounds: nobody waits for another's upload.

A mailbox says cheaply which answers are there, and gives their parts one by one. A part that has not been uploaded yet
is asked for again after a while, by whichever thread is free, for as long as somebody asks for its answer: so an upload
over a slow link has until the deadline, and one that never completes holds nothing up. Bytes are counted while they
are read; an answer that has too many is given up there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

# By the order's message. Instead of an answer there is an exception where it cannot be read.
Arrived: TypeAlias = dict[str, Message | Exception]
# What has come of the orders that are asked for; no answer may have more bytes than this.
Fetch: TypeAlias = Callable[[Iterable[str], int], Arrived]

_READERS = 8
_AGAIN_S, _AGAIN_MOST_S = 0.05, 0.5  # until a part that was not there is asked for again
_MOST_PARTS, _PART_BYTES = 64, 1 << 20  # so many, and one more for each of these bytes


class TooLargeError(Exception):
    """An answer has more bytes than any that can be averaged."""


class GoneError(Exception):
    """A part of an answer will never come."""


@dataclass(frozen=True)
class Announced:
    """An answer that is there or on its way, known by what the SuperLink says of it, not by what is in it."""

    order: str
    parts: tuple[str, ...]  # the last one is the answer's own


class Mailbox(Protocol):
    """Where answers are; may be asked by several threads at once."""

    def look(self, orders: list[str]) -> list[Announced]:
        """Answers that have been announced since the last look; each is told once."""

    def read(self, part: str, most_bytes: int) -> bytes | None:
        """A part, or None if it has not come yet; raises `TooLargeError` or `GoneError`."""

    def unpack(self, announced: Announced, contents: dict[str, bytes]) -> Message: ...

    def discard(self, announced: Announced) -> None:
        """Nobody will ask for it again."""


class FetchedAtOnce:
    """Asks the grid and waits for what it says: for nodes in this process, which are as good as the code they are."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __call__(self, asked: Iterable[str], most_bytes: int) -> Arrived:  # noqa: ARG002
        arrived = self._grid.pull_messages(list(asked))
        return {message.metadata.reply_to_message_id: message for message in arrived}


@dataclass
class _Fetching:
    """An answer of which some parts may be here."""

    announced: Announced
    left_bytes: int
    missing: deque[str]
    contents: dict[str, bytes] = field(default_factory=dict)
    wait_s: float = _AGAIN_S
    again: float = 0.0  # when to ask for the next part, on the monotonic clock
    under_way: Future[Message | None] | None = None


class FetchedEach:
    """Says what its threads have fetched so far, and never waits for them."""

    def __init__(self, mailbox: Mailbox, readers: int = _READERS) -> None:
        self._mailbox = mailbox
        self._looker, self._readers = ThreadPoolExecutor(1), ThreadPoolExecutor(readers)
        self._look: Future[tuple[list[Announced], Arrived]] | None = None
        self._fetching = dict[str, _Fetching]()
        self._wary = False

    def __call__(self, asked: Iterable[str], most_bytes: int) -> Arrived:
        """What nobody asks for any more is given up."""
        wanted, arrived = set(asked), Arrived()
        if self._look is not None and self._look.done():
            announced, arrived = self._look.result()
            self._look = None
            arrived |= self._taken_on(announced, most_bytes)
        for order in [each for each in self._fetching if each not in wanted]:
            self._discard(self._fetching.pop(order).announced)
        arrived |= self._fetched()
        unknown = [each for each in wanted if each not in self._fetching and each not in arrived]
        if self._look is None and unknown:
            self._look = self._looker.submit(self._look_for, unknown)
        return {order: message for order, message in arrived.items() if order in wanted}

    # ---- which answers are there -------------------------------------------------------------------

    def _look_for(self, orders: list[str]) -> tuple[list[Announced], Arrived]:
        """Once somebody has announced what spoils all that is looked for with it, for each by itself."""
        found, failed = list[Announced](), Arrived()
        for some in [[each] for each in orders] if self._wary else [orders]:
            try:
                found += self._mailbox.look(some)
            except httpx.TransportError:  # it is the SuperLink that is broken
                raise
            except Exception as error:
                self._wary = True
                failed |= {some[0]: error} if len(some) == 1 else {}
        return found, failed

    def _taken_on(self, announced: list[Announced], most_bytes: int) -> Arrived:
        """Those that have too many parts fail at once."""
        failed: Arrived = {}
        for each in announced:
            parts = deque(dict.fromkeys(each.parts))
            if len(parts) > _MOST_PARTS + most_bytes // _PART_BYTES:
                self._discard(each)
                failed[each.order] = TooLargeError()
            else:
                self._fetching[each.order] = _Fetching(each, most_bytes, parts)
        return failed

    # ---- what is in them ---------------------------------------------------------------------------

    def _fetched(self) -> Arrived:
        arrived, now = Arrived(), time.monotonic()
        for order, fetching in list(self._fetching.items()):
            if fetching.under_way is not None and fetching.under_way.done():
                try:
                    message: Message | Exception | None = fetching.under_way.result()
                except Exception as error:
                    message = error
                fetching.under_way = None
                if message is not None:
                    arrived[order] = message
                    del self._fetching[order]
                    continue
            if fetching.under_way is None and fetching.again <= now:
                fetching.under_way = self._readers.submit(self._go_on, fetching)
        return arrived

    def _go_on(self, fetching: _Fetching) -> Message | None:
        """As far as parts are there: the whole answer, or None."""
        try:
            while fetching.missing:
                content = self._mailbox.read(fetching.missing[0], fetching.left_bytes)
                if content is None:
                    fetching.again = time.monotonic() + fetching.wait_s
                    fetching.wait_s = min(1.5 * fetching.wait_s, _AGAIN_MOST_S)
                    return None
                fetching.left_bytes -= len(content)
                fetching.wait_s = _AGAIN_S
                fetching.contents[fetching.missing.popleft()] = content
        except Exception:
            self._discard(fetching.announced)
            raise
        self._discard(fetching.announced)
        return self._mailbox.unpack(fetching.announced, fetching.contents)

    def _discard(self, announced: Announced) -> None:
        """Some time; should it fail, the SuperLink forgets by itself."""
        self._readers.submit(self._mailbox.discard, announced)


def unreadable(error: Exception) -> str:
    """How the events tell of an answer that could not be read."""
    known: dict[type[Any], str] = {TooLargeError: "too large", GoneError: "never completed"}
    return known.get(type(error), f"unreadable: {type(error).__name__}")
