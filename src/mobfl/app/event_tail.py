"""A deployment's events as they are written: each look reads what is new, a little at once, whole lines only."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mobfl.deploy.events import Event, parse_line

_MOST_AT_ONCE = 8_000_000  # bytes: half a second's work
_STARTED = b'"started"'


class News(NamedTuple):
    """What a look has found: whether all before is void, the events since, and whether there is more to read."""

    begins_again: bool
    events: list[Event]
    more: bool


class EventTail:
    """A server that was killed begins its round again, and voids what was said of that round and of later ones.

    So `started` lines are looked for first. If one is new, reading begins again, without what it voids.
    """

    def __init__(self, file: Path, most_at_once: int = _MOST_AT_ONCE) -> None:
        self._file, self._most = file, most_at_once
        self._inode, self._place, self.damaged = -1, 0, 0
        self._scanned, self._starts = 0, list[tuple[int, int]]()  # where and with which round a server started

    def read(self) -> News:
        begins_again = self._is_another_file()
        if begins_again:
            self._scanned, self._starts = 0, []
        known = len(self._starts)
        self._find_starts()
        begins_again |= known > 0 and len(self._starts) > known
        if begins_again:
            self._place = self.damaged = 0
        lines, more = self._lines()
        return News(begins_again, list(self._sound(lines)), more)

    def _is_another_file(self) -> bool:
        now = self._file.stat()
        is_another = now.st_ino != self._inode or now.st_size < self._place
        self._inode = now.st_ino
        return is_another

    def _find_starts(self) -> None:
        """In what has been added, as far as lines are whole."""
        with self._file.open("rb") as file:
            file.seek(self._scanned)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if _STARTED in line:
                    event = parse_line(line.decode(errors="replace"))
                    if event is not None and event["kind"] == "started":
                        self._starts.append((self._scanned, event["round"]))
                self._scanned += len(line)

    def _lines(self) -> tuple[list[tuple[int, bytes]], bool]:
        """Whole lines with their places."""
        lines = list[tuple[int, bytes]]()
        with self._file.open("rb") as file:
            file.seek(self._place)
            until = min(self._place + self._most, self._scanned)
            while self._place < until:
                line = file.readline()
                lines.append((self._place, line))
                self._place += len(line)
        return lines, self._place < self._scanned

    def _sound(self, lines: list[tuple[int, bytes]]) -> Iterator[Event]:
        """Events that no later start voids."""
        places = [place for place, _ in self._starts]
        least = [math.inf]  # of the rounds with which servers start from each start on
        for _, number in reversed(self._starts):
            least.append(min(number, least[-1]))
        least.reverse()
        for place, line in lines:
            event = parse_line(line.decode(errors="replace"))
            if event is None:
                self.damaged += bool(line.strip())
            elif event["round"] < least[bisect_right(places, place)]:
                yield event
