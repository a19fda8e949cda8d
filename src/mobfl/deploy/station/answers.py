"""Answers as they arrive at a grid: fetched at once, or beside the rounds, so that no deadline waits for an upload."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

# By the order's message. Instead of an answer there is an exception where Flower could not even unpack it.
Arrived: TypeAlias = dict[str, Message | Exception]
Fetch: TypeAlias = Callable[[Iterable[str]], Arrived]


class FetchedAtOnce:
    """Asks the grid and waits for what it says."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._wary = grid, False

    def __call__(self, asked: Iterable[str]) -> Arrived:
        """Once somebody has sent what cannot be unpacked, which spoils all that is fetched with it, each by itself."""
        asked = list(asked)
        arrived: Arrived = {}
        for some in [[each] for each in asked] if self._wary else [asked] if asked else []:
            try:
                arrived |= {message.metadata.reply_to_message_id: message for message in self._grid.pull_messages(some)}
            except httpx.HTTPError:  # it is the SuperLink that is broken
                raise
            except Exception as error:
                self._wary = True
                arrived |= {some[0]: error} if len(some) == 1 else {}
        return arrived


class FetchedBeside:
    """Says what a thread has fetched so far. An upload that is still on its way at the deadline is late."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch, self._pool = fetch, ThreadPoolExecutor(1)
        self._under_way: Future[Arrived] | None = None

    def __call__(self, asked: Iterable[str]) -> Arrived:
        """What nobody asks for any more is left where it is."""
        asked, arrived = list(asked), Arrived()
        if self._under_way is not None and self._under_way.done():
            fetched, self._under_way = self._under_way.result(), None
            arrived = {each: fetched[each] for each in asked if each in fetched}
        missing = [each for each in asked if each not in arrived]
        if self._under_way is None and missing:
            self._under_way = self._pool.submit(self._fetch, missing)
        return arrived
