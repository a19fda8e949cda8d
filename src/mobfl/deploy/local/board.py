"""What is going on, as the lines of events tell it: for a table that follows a run."""

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl.deploy.clock import WallClock
from mobfl.deploy.events import EVENTS, Event, parse_line

_ROUNDS_SHOWN = 12
_STAGES = {
    "measuring": "measuring how long messages take",
    "measured": "planning",
    "started": "running rounds",
    "broke": "broken",
}
_OVER = {"uploaded", "rejected", "gave_up", "sat_out", "failed", "cut_off"}  # until the next round


class EventTail:
    """The events of a run that were added since the last look."""

    def __init__(self, folder: Path, from_start: bool = False) -> None:
        self._file, self._rest = folder / EVENTS, ""
        self._at = 0 if from_start or not self._file.exists() else self._file.stat().st_size

    def new(self) -> list[Event]:
        if not self._file.exists():
            return []
        with self._file.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._at)
            text, self._at = self._rest + file.read(), file.tell()
        *lines, self._rest = text.split("\n")
        return [event for line in lines if (event := parse_line(line)) is not None]


@dataclass
class Board:
    """The latest rounds, the vehicles that are there and what they are doing, and how often what has happened."""

    stage: str = "starting"
    clock: WallClock | None = None
    round_trip_s: float | None = None
    reason: str | None = None
    rounds: deque[Event] = field(default_factory=lambda: deque(maxlen=_ROUNDS_SHOWN))
    vehicles: dict[str, str] = field(default_factory=dict)  # by node: what it does
    names: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    most_behind_s: float = 0.0  # the wall-clock time by which imposed delays were missed

    def add(self, event: Event) -> None:
        kind = event["kind"]
        self.counts[kind] += 1
        self.most_behind_s = max(self.most_behind_s, event.get("behind_s", 0.0))
        if kind in _STAGES:
            self._add_stage(kind, event)
        elif kind == "ended":
            self.rounds.append(event)
        elif "node" in event:
            self._add_vehicle(kind, event)

    def _add_stage(self, kind: str, event: Event) -> None:
        self.stage = _STAGES[kind]
        if kind == "measured":
            self.round_trip_s = event["round_trip_s"]
            self.stage = f"a message takes {self.round_trip_s:.1f} s; planning"
        elif kind == "broke":
            self.reason = event["reason"]
        elif kind == "started":
            self.clock = WallClock(event["at_s"], event["unix_s"], event["scale"])
            while self.rounds and self.rounds[-1]["round"] >= event["round"]:  # void
                self.rounds.pop()

    def _add_vehicle(self, kind: str, event: Event) -> None:
        node: Any = event["node"]
        if event.get("vehicle"):
            self.names[node] = event["vehicle"]
        if kind == "left":
            self.vehicles.pop(node, None)
            self.names.pop(node, None)
        elif kind == "began":
            self.vehicles[node] = "working"
        elif kind in _OVER and node in self.vehicles:
            self.vehicles[node] = kind.replace("_", " ")
