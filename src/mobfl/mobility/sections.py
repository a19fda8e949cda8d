"""The stretch of road that counts, and how positions over time become crossings of it.

A section is written `edge:ID[:FROM:TO]` (metres along an edge), `circle:X,Y,R` (around the base station) or
`box:X0,Y0,X1,Y1`. Between two samples a vehicle is taken to move evenly, so that the instants at which it enters and
leaves are found between the samples, not at them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.tracks import TrackKeeper
from mobfl.scenario import MOST


class Sample(NamedTuple):
    """Where a vehicle is at one instant; `x, y` or `edge, along_m, speed_mps` may be missing (NaN, empty)."""

    time_s: float
    x: float = np.nan
    y: float = np.nan
    edge: str = ""
    along_m: float = np.nan
    speed_mps: float = np.nan


Step = dict[Any, Sample]  # all vehicles at one instant


class Section(Protocol):
    def inside(self, sample: Sample) -> bool: ...

    def part(self, before: Sample, after: Sample) -> tuple[float, float] | None:
        """From which to which share of the way between two samples a vehicle is inside, None if never."""


@dataclass(frozen=True)
class Circle:
    x: float
    y: float
    radius: float

    def inside(self, sample: Sample) -> bool:
        return (sample.x - self.x) ** 2 + (sample.y - self.y) ** 2 <= self.radius**2

    def part(self, before: Sample, after: Sample) -> tuple[float, float] | None:
        px, py = before.x - self.x, before.y - self.y
        dx, dy = after.x - before.x, after.y - before.y
        a, b, c = dx * dx + dy * dy, px * dx + py * dy, px * px + py * py - self.radius**2
        if a == 0.0:
            return (0.0, 1.0) if c <= 0.0 else None
        discriminant = b * b - a * c
        if discriminant < 0.0:
            return None
        root = discriminant**0.5
        return _within((-b - root) / a, (-b + root) / a)


@dataclass(frozen=True)
class Box:
    x0: float
    y0: float
    x1: float
    y1: float

    def inside(self, sample: Sample) -> bool:
        return self.x0 <= sample.x <= self.x1 and self.y0 <= sample.y <= self.y1

    def part(self, before: Sample, after: Sample) -> tuple[float, float] | None:
        across = _slab(before.x, after.x, self.x0, self.x1)
        along = _slab(before.y, after.y, self.y0, self.y1)
        return _within(max(across[0], along[0]), min(across[1], along[1]))


@dataclass(frozen=True)
class Edge:
    """A part of an edge of the network, measured along it; without an end, all of it."""

    edge: str
    from_m: float = 0.0
    to_m: float = np.inf

    def inside(self, sample: Sample) -> bool:
        return sample.edge == self.edge and self.from_m <= sample.along_m <= self.to_m

    def part(self, before: Sample, after: Sample) -> tuple[float, float] | None:
        seconds = after.time_s - before.time_s
        if before.edge == self.edge == after.edge:
            return _within(*_slab(before.along_m, after.along_m, self.from_m, self.to_m))
        if after.edge == self.edge:  # it came onto the edge: go back from where it is now
            entered = max(1.0 - _seconds_for(after.along_m, after) / seconds, 0.0)
            inside = _within(*_slab(after.along_m - after.speed_mps * seconds, after.along_m, self.from_m, self.to_m))
            return _within(max(entered, inside[0]), inside[1]) if inside else None
        if before.edge == self.edge:  # it left the edge: go back from where it is on the next one
            left = max(1.0 - _seconds_for(after.along_m, after) / seconds, 0.0)
            inside = _within(
                *_slab(before.along_m, before.along_m + before.speed_mps * seconds, self.from_m, self.to_m)
            )
            return _within(inside[0], min(left, inside[1])) if inside else None
        return None


def _seconds_for(metres: float, sample: Sample) -> float:
    return metres / sample.speed_mps if sample.speed_mps > 0 else 0.0


def _slab(start: float, end: float, low: float, high: float) -> tuple[float, float]:
    """From which to which share of the way from start to end a value lies between low and high."""
    if start == end:
        return (-np.inf, np.inf) if low <= start <= high else (np.inf, -np.inf)
    a, b = (low - start) / (end - start), (high - start) / (end - start)
    return min(a, b), max(a, b)


def _within(enter: float, leave: float) -> tuple[float, float] | None:
    enter, leave = max(enter, 0.0), min(leave, 1.0)
    return (enter, leave) if enter <= leave else None


def parse_section(text: str) -> Section:
    kind, _, rest = text.partition(":")
    try:
        if kind == "circle":
            x, y, radius = map(_coordinate, rest.split(","))
            if radius > 0:
                return Circle(x, y, radius)
        if kind == "box":
            x0, y0, x1, y1 = map(_coordinate, rest.split(","))
            if x0 < x1 and y0 < y1:
                return Box(x0, y0, x1, y1)
        if kind == "edge" and rest:
            return _parse_edge(rest)
    except ValueError:
        pass
    raise InputError(
        f"section must be edge:ID[:FROM:TO], circle:X,Y,R with R > 0 or box:X0,Y0,X1,Y1 with X0 < X1 and Y0 < Y1,"
        f" in metres of at most {MOST:g}, got {text!r}"
    )


def _coordinate(text: str) -> float:
    metres = float(text)
    if not abs(metres) <= MOST:
        raise ValueError(text)
    return metres


def _parse_edge(rest: str) -> Edge:
    *name, start, end = rest.rsplit(":", 2) if rest.count(":") >= 2 else (rest, "", "")
    if not start and not end:
        return Edge(rest)
    if not float(start) < float(end):
        raise ValueError
    return Edge(name[0], float(start), float(end))


@dataclass
class Tracker:
    """Follows vehicles sample by sample and collects their crossings of one section."""

    section: Section
    last: dict[Any, Sample] = field(default_factory=dict)
    entered: dict[Any, float] = field(default_factory=dict)
    crossings: list[tuple[Any, float, float]] = field(default_factory=list)
    keeper: TrackKeeper | None = None  # of where they are, if that is asked for

    def see(self, vehicle: Any, sample: Sample) -> None:
        """A vehicle's next sample; its samples come in the order of time."""
        before = self.last.get(vehicle)
        self.last[vehicle] = sample
        if before is None:
            if self.section.inside(sample):
                self._enter(vehicle, sample, sample, 1.0)
            return
        part = self.section.part(before, sample)
        if part is None:
            self._leave(vehicle, before.time_s)
            return
        enters = vehicle not in self.entered and part[0] < part[1]
        if enters:
            self._enter(vehicle, before, sample, part[0])
        stays = self.section.inside(sample)
        start, stop = part[0] if enters else 0.0, 1.0 if stays else part[1]
        if self.keeper is not None and vehicle in self.entered:
            self.keeper.go_on(vehicle, *between(before, sample, stop), (stop - start) * metres_between(before, sample))
        if not stays:
            self._leave(vehicle, between(before, sample, stop)[0])

    def lose(self, vehicle: Any) -> None:
        """The vehicle is seen no more: it left where it was last seen."""
        sample = self.last.pop(vehicle)
        self._leave(vehicle, sample.time_s)

    def finish(self) -> Crossings:
        for vehicle in list(self.last):
            self.lose(vehicle)
        vehicle, enter, leave = zip(*self.crossings, strict=True) if self.crossings else ((), (), ())
        return Crossings.sorted(vehicle, enter, leave, None if self.keeper is None else self.keeper.tracks())

    def _enter(self, vehicle: Any, before: Sample, after: Sample, share: float) -> None:
        time_s, x, y = between(before, after, share)
        self.entered[vehicle] = time_s
        if self.keeper is not None:
            self.keeper.begin(vehicle, time_s, x, y)

    def _leave(self, vehicle: Any, time_s: float) -> None:
        enter = self.entered.pop(vehicle, None)
        if enter is not None:
            self.crossings.append((vehicle, enter, max(enter, time_s)))
            if self.keeper is not None:
                self.keeper.end(vehicle)


def between(before: Sample, after: Sample, share: float) -> tuple[float, float, float]:
    """When and where a vehicle has come so far from one sample to the next; before its first place, there."""
    time_s = before.time_s + share * (after.time_s - before.time_s)
    if math.isnan(before.x):
        return time_s, after.x, after.y
    return time_s, before.x + share * (after.x - before.x), before.y + share * (after.y - before.y)


def metres_between(before: Sample, after: Sample) -> float:
    """As the crow flies, or where places are not told along the edge, or by the speed."""
    metres = math.hypot(after.x - before.x, after.y - before.y)
    if not math.isnan(metres):
        return metres
    if before.edge == after.edge:
        return abs(after.along_m - before.along_m)
    speed = after.speed_mps if math.isnan(before.speed_mps) else before.speed_mps
    return speed * (after.time_s - before.time_s)


def follow(section: Section, steps: Iterator[Step], keep_tracks: bool = False) -> Crossings:
    """Crossings from time steps, each with all vehicles that were seen at it."""
    tracker = Tracker(section, keeper=TrackKeeper() if keep_tracks else None)
    for seen in steps:
        for vehicle in [vehicle for vehicle in tracker.last if vehicle not in seen]:
            tracker.lose(vehicle)
        for vehicle, sample in seen.items():
            tracker.see(vehicle, sample)
    return tracker.finish()
