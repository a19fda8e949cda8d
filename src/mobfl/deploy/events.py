"""What happened to whom, a line per event, written as it happens: `events.jsonl` in the run's folder.

A line has `round`, `at_s` (the road's time), `kind` and, of a vehicle, `node`, `vehicle`, `attempt` and `reason`:

started     the server begins with this round, at `unix_s`, with `scale` wall-clock seconds per second
began       a vehicle was sent the model
uploaded    its upload came in time          rejected    it came in time, but cannot be averaged: `reason`
gave_up     it said that it would be late    failed      its app or its node broke: `reason`
left        it is no longer there            cut_off     the round ended before its upload came
sat_out     not one step would have fitted, where as many are taken as fit; there an upload tells its `steps`
late        its upload came after the round  dropped     it does not belong to the order that it answers: `reason`
refused     uploads that came in time were not merged, or spoilt the model: how many `uploads`, and the `reason`
taken_back  the full evaluation of these `rounds`' models was not finite: training goes on from the last sound one
measuring   nodes are asked how long a message without work takes
measured    what came of that: `round_trip_s`, the median, with quantiles, nodes and messages
broke       the server has ended: `reason`
ended       the round is over: its row, and by how much it ended later than planned

An upload that came later than the delay that was imposed on it says by how much: `behind_s`, on the wall's clock. If
its vehicle said how long its local steps took, that is `compute_s`, on the road's clock.
Lines are only ever added. A server that was killed begins its round again: what was said of that round and later ones
before the last `started` is void. All lines of a round are on the disk before its checkpoint, so a round that is over
for whoever resumes the run is over in its log.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mobfl.files.json import plain

EVENTS = "events.jsonl"
_MOST = 1e300  # a longer whole number is no double

Event = Mapping[str, Any]


class EventLog:
    """Adds lines to a file; a line that a kill cut in half is ended first, so that it spoils no other."""

    def __init__(self, file: Path) -> None:
        self._file = file
        if file.exists() and not file.read_bytes().endswith(b"\n"):
            self._append("\n")

    def add(self, kind: str, round: int, at_s: float, **more: Any) -> None:  # noqa: A002
        line = {"kind": kind, "round": round, "at_s": at_s, **more}
        self._append(json.dumps(plain(line), allow_nan=False) + "\n")

    def sync(self) -> None:
        """What was said so far is on the disk when this ends, even if the power fails."""
        with self._file.open("rb") as file:
            os.fsync(file.fileno())

    def _append(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(text)


def parse_line(line: str) -> Event | None:
    """None for what is no event: half a line, or somebody else's."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and _says_what_and_when(event) else None


def _says_what_and_when(event: Event) -> bool:
    kind, number, at_s = (event.get(key) for key in ("kind", "round", "at_s"))
    return isinstance(kind, str) and type(number) is int and is_number(at_s)


def is_number(value: Any) -> TypeGuard[float]:
    """A finite one."""
    return type(value) in (int, float) and abs(value) < _MOST


def read_events(folder: Path) -> list[Event]:
    """Those that hold, in their order."""
    kept = list[Event]()
    for event in _parsed(folder / EVENTS):
        if event["kind"] == "started":
            kept = [each for each in kept if each["round"] < event["round"]]
        kept.append(event)
    return kept


def damaged_lines(folder: Path) -> int:
    """How many lines are no events."""
    file = folder / EVENTS
    if not file.exists():
        return 0
    with file.open(encoding="utf-8", errors="replace") as lines:
        return sum(bool(line.strip()) and parse_line(line) is None for line in lines)


def _parsed(file: Path) -> Iterator[Event]:
    if not file.exists():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        yield from (event for line in lines if (event := parse_line(line)) is not None)
