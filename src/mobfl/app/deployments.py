"""A deployment as it is now, from its events: who is there and trains, who was late or rejected, and why."""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl.app.event_tail import EventTail
from mobfl.deploy.events import EVENTS, Event, is_number
from mobfl.errors import InputError

_LAST_ROUNDS, _LAST_EVENTS, _MOST_VEHICLES = 12, 30, 500
_LATE = ("late", "gave_up", "cut_off")
# What became of a vehicle's attempt; of one that is under way, that it trains.
_ENDS = ("uploaded", "rejected", "failed", "sat_out", "dropped", *_LATE)
_TOLD = ("rejected", "failed", "late", "dropped", "refused", "taken_back", "broke")  # with their reasons


@dataclass
class _Vehicle:
    node: str
    name: str
    since_s: float
    round: int = -1
    attempt: int = -1
    state: str = "began"
    at_s: float = 0.0
    there: bool = True
    counts: "Counter[str]" = field(default_factory=Counter)


@dataclass
class _Now:
    """Takes events in their order; what makes no sense is left out, for the file is another program's."""

    round: int = -1
    started: Event | None = None
    over: bool = False
    vehicles: dict[str, _Vehicle] = field(default_factory=dict)
    rounds: dict[int, "Counter[str]"] = field(default_factory=dict)
    totals: "Counter[str]" = field(default_factory=Counter)
    last: "deque[Event]" = field(default_factory=lambda: deque(maxlen=_LAST_EVENTS))

    def take(self, event: Event) -> None:
        kind, number, node = event["kind"], event["round"], event.get("node")
        if number > self.round:
            self.round, self.over = number, False
        if kind == "started":
            self.started = event
        if kind == "ended":
            self.over = number == self.round
            self._forget()
        if kind in _TOLD:
            self.last.append(event)
        if isinstance(node, str | int) and not isinstance(node, bool):
            self._take(event, str(node))

    def _take(self, event: Event, node: str) -> None:
        kind, number = event["kind"], event["round"]
        self.totals[kind] += 1
        self.rounds.setdefault(number, Counter())[kind] += 1
        vehicle = self.vehicles.get(node)
        if kind == "began":
            if vehicle is None or not vehicle.there:
                vehicle = self.vehicles[node] = _Vehicle(node, str(event.get("vehicle", "")), event["at_s"])
            vehicle.round, vehicle.attempt = number, event.get("attempt", -1)
            vehicle.state, vehicle.at_s = "began", event["at_s"]
        elif vehicle is not None:
            self._end(vehicle, event)

    def _forget(self) -> None:
        """Who is long gone, and rounds that nobody sees any more."""
        newest = max((each.round for each in self.vehicles.values()), default=-1)
        self.vehicles = {node: each for node, each in self.vehicles.items() if each.round >= newest - 1}
        for number in sorted(self.rounds)[:-_LAST_ROUNDS]:
            del self.rounds[number]

    def _end(self, vehicle: _Vehicle, event: Event) -> None:
        kind = event["kind"]
        vehicle.counts[kind] += 1
        if kind == "left":
            vehicle.there = False
        # What comes late may be about an attempt before the one that is under way.
        if kind in _ENDS and event.get("attempt", -1) == vehicle.attempt:
            vehicle.state, vehicle.at_s = kind, event["at_s"]

    @property
    def present(self) -> list[_Vehicle]:
        """Whoever takes part begins in every round: who has not begun in this one is gone, whatever was told."""
        there = [each for each in self.vehicles.values() if each.there]
        newest = max((each.round for each in there), default=-1)
        return [each for each in there if each.round >= newest]


class Deployment:
    """The deployment in a run's folder, followed as its events are written."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / EVENTS
        self._tail, self._now = EventTail(self._file), _Now()
        self._looking = threading.Lock()

    def look(self) -> dict[str, Any]:
        """What the page shows of it now; `more` if there is more than could be read at once."""
        with self._looking:
            if not self._file.is_file():
                raise InputError(f"run must be a deployment with {EVENTS}, got none")
            begins_again, events, more = self._tail.read()
            if begins_again:
                self._now = _Now()
            for event in events:
                self._now.take(event)
            return {**_told(self._now, time.time()), "damaged": self._tail.damaged, "more": more}


def told(events: Iterable[Event], unix_s: float | None = None) -> dict[str, Any]:
    """Of all these events what `Deployment` tells."""
    now = _Now()
    for event in events:
        now.take(event)
    return _told(now, time.time() if unix_s is None else unix_s)


def _told(now: _Now, unix_s: float) -> dict[str, Any]:
    present = now.present
    return {
        "round": now.round,
        "over": now.over,
        "now_s": _clock(now, unix_s),
        "present": len(present),
        "states": dict(Counter(each.state for each in present)),
        "totals": dict(now.totals),
        "vehicles": [_vehicle(each) for each in present[:_MOST_VEHICLES]],
        "rounds": [_round(number, now.rounds[number]) for number in sorted(now.rounds)[-_LAST_ROUNDS:]],
        "last": [_line(each) for each in reversed(now.last)],
    }


def _clock(now: _Now, unix_s: float) -> float | None:
    """The road's time at this moment, if the server has said how it runs."""
    if now.started is None:
        return None
    began, scale, at_s = (now.started.get(key) for key in ("unix_s", "scale", "at_s"))
    if not is_number(began) or not is_number(scale) or not is_number(at_s) or scale <= 0:
        return None
    return float(at_s + (unix_s - began) / scale)


def _vehicle(each: _Vehicle) -> dict[str, Any]:
    late = sum(each.counts[kind] for kind in _LATE)
    counted = {"uploads": each.counts["uploaded"], "late": late, "rejected": each.counts["rejected"]}
    return {
        "node": each.node[:80], "name": each.name[:80], "since_s": each.since_s, "state": each.state,
        "at_s": each.at_s, **counted,
    }  # fmt: skip


def _round(number: int, counts: Mapping[str, int]) -> dict[str, int]:
    late = sum(counts.get(kind, 0) for kind in _LATE)
    kinds = {"began": "began", "uploads": "uploaded", "rejected": "rejected", "left": "left", "failed": "failed"}
    return {"round": number, "late": late, **{name: counts.get(kind, 0) for name, kind in kinds.items()}}


def _line(event: Event) -> dict[str, Any]:
    who, reason = event.get("vehicle") or event.get("node") or "", event.get("reason") or ""
    return {
        "round": event["round"], "at_s": event["at_s"], "kind": event["kind"], "who": str(who)[:80],
        "reason": str(reason)[:300],
    }  # fmt: skip
