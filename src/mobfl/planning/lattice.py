"""Plans to try: H by ratios, T by ratios of what it has beyond the least round, both as fine as asked.

In these coordinates the tops of g are about as wide on every road, however little steps jitter and however rare
vehicles are: a longer T_min(H) takes T along, and what counts is how much longer than T_min(H) a round is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

_STEPS_RATIO, _BEYOND_WIDTH, _WIDTH_ALONE = 0.3, 0.4, 0.2  # of the coarsest lattice; the last where H is not planned
_SAME = 1e-9


class Point(NamedTuple):
    """H, and how far beyond T_min(H) a round goes: 0 is T_min(H) itself, one more is about e times as far."""

    local_steps: int
    beyond: float


@dataclass(frozen=True)
class Space:
    """Which plans there are.

    Args:
        most_steps: The largest H; 1 where H is not planned.
        least_s: T_min(H), below which nobody uploads.
        worth: What a round of this H is worth at most, in local steps: no plan reaches more than worth/T per second.
        stay_s: How long a vehicle stays; in a much longer time nothing is left of who was there.
        longest_s: Longer rounds are not looked at.
        leaps_s: Other T, for an H, at which the objective may leap.
        near: Rounds longer than T_min(H) by less than this share of it are hardly told apart.
    """

    most_steps: int
    least_s: Callable[[int], float]
    worth: Callable[[int], float]
    stay_s: float
    longest_s: float
    leaps_s: Callable[[int], Sequence[float]] = lambda _: ()
    near: float = 1e-3

    def round_s(self, point: Point) -> float:
        least_s = self.least_s(point.local_steps)
        return least_s + least_s * self.near * math.expm1(point.beyond)

    def beyond(self, local_steps: int, round_s: float) -> float:
        """The inverse of `round_s`."""
        return math.log1p(max(round_s / self.least_s(local_steps) - 1, 0.0) / self.near)

    def farthest(self, local_steps: int, floor: float) -> float:
        """Beyond it no plan of this H reaches `floor`; below 0 if none does at all."""
        longest_s = min(self.longest_s, self.worth(local_steps) / floor if floor > 0 else math.inf)
        return self.beyond(local_steps, longest_s) if longest_s >= self.least_s(local_steps) else -1.0


class Lattice:
    """The points of one level; each level has those of the one before, and halves its steps."""

    def __init__(self, space: Space, level: int, floor: float) -> None:
        self.space, self._floor = space, floor
        ratio = _STEPS_RATIO / 2**level
        self.width = (_BEYOND_WIDTH if space.most_steps > 1 else _WIDTH_ALONE) / 2**level
        counts = np.exp(ratio * np.arange(math.log(space.most_steps) // ratio + 1))
        self.steps: Counts = np.unique(np.append(np.round(counts), space.most_steps).astype(np.int64))

    def all(self) -> list[Point]:
        """Every point whose plan may reach the floor."""
        points = set[Point]()
        for h in self.steps.tolist():
            farthest = self.space.farthest(h, self._floor)
            points |= self._between(h, 0.0, farthest)
            points |= {Point(h, self.width * i) for i in range(math.floor(farthest / self.width) + 1)}
        return sorted(points)

    def around(self, points: Iterable[Point]) -> list[Point]:
        """These, and their neighbours on this level."""
        found = set[Point]()
        for h, beyond in points:
            place = int(np.searchsorted(self.steps, h))
            for other in self.steps[max(place - 1, 0) : place + 2].tolist():
                farthest = self.space.farthest(other, self._floor)
                near = {Point(other, beyond + i * self.width) for i in (-1, 0, 1)}
                found |= {each for each in near if 0 <= each.beyond <= farthest}
                found |= self._between(other, beyond - self.width, min(beyond + self.width, farthest))
        return _told_apart(sorted(found))

    def _between(self, h: int, low: float, high: float) -> set[Point]:
        """Where the objective may leap: a rounding beyond it, never before."""
        places = (self.space.beyond(h, t) + _SAME for t in self.space.leaps_s(h) if t > self.space.least_s(h))
        return {Point(h, place) for place in (0.0, *places) if low <= place <= high}

    def unseen_beside(
        self, point: Point, others: Sequence[Point], behind: Mapping[Point, float], slack: float
    ) -> float:
        """The share of the objective that may be hidden beside a top at the edge of the others; 0 within them.

        A parabola through a top and plans beside it that are `behind` by so much has at most an eighth of that more.
        Where they are behind by more than eight times the slack, it may be a leap that nobody knew of: then it is as
        much as the ratio of the two H or T, since the best g(H)/H never rises, and steps per second fall at most as
        fast as T rises. Nothing is hidden between neighbouring H, below T_min(H), and where a leap is known.
        """

        def hidden(ratio: float, behind_by: float) -> float:
            return min(ratio, behind_by / 8 if behind_by <= 8 * slack else ratio)

        return max(
            (
                hidden(*side)
                for side in (*self._beside_steps(point, others, behind), *self._beside(point, others, behind))
            ),
            default=0.0,
        )

    def _beside_steps(
        self, point: Point, others: Sequence[Point], behind: Mapping[Point, float]
    ) -> Iterator[tuple[float, float]]:
        """For every side on which no H is left: by how much H may change, and how far behind the next one is."""
        h, steps = point.local_steps, {each.local_steps for each in others}
        fewer, more = self.steps[self.steps < min(steps)], self.steps[self.steps > max(steps)]
        for next_h, at_edge in ((fewer[-1:], h <= min(steps)), (more[:1], h >= max(steps))):
            if len(next_h) and at_edge and abs(int(next_h[0]) - h) > 1:
                by = min((by for each, by in behind.items() if each.local_steps == next_h[0]), default=math.inf)
                low, high = sorted((h, int(next_h[0])))
                yield (high - 1) / low - 1, by

    def _beside(
        self, point: Point, others: Sequence[Point], behind: Mapping[Point, float]
    ) -> Iterator[tuple[float, float]]:
        """The same for T."""
        h = min((each.local_steps for each in others), key=lambda each: abs(each - point.local_steps))
        there = [each.beyond - point.beyond for each in others if each.local_steps == h]
        leaps = [each.beyond for each in self._between(point.local_steps, 0.0, math.inf)]
        known = min(abs(point.beyond - leap) for leap in leaps) <= 2 * _SAME
        for side, at_edge in ((-1, min(there) > -_SAME and not known), (1, max(there) < _SAME)):
            other = Point(h, point.beyond + side * self.width)
            if at_edge and other.beyond <= self.space.farthest(h, self._floor):
                near = (by for each, by in behind.items() if each.local_steps == h and self._close(each, other))
                times = self.space.round_s(point), self.space.round_s(Point(h, max(other.beyond, 0.0)))
                yield max(times) / min(times) - 1, min(near, default=math.inf)

    def _close(self, one: Point, other: Point) -> bool:
        """Whether they differ by less than half a step of T."""
        return abs(one.beyond - other.beyond) < self.width / 2

    def near(self, one: Point, other: Point) -> bool:
        """Whether two points are neighbours or nearly so, without a leap between them."""
        places = np.searchsorted(self.steps, [one.local_steps, other.local_steps])
        close = abs(int(places[0] - places[1])) <= 1 and abs(one.beyond - other.beyond) < 1.5 * self.width
        return close and self.leaps_before(one) == self.leaps_before(other)

    def leaps_before(self, point: Point) -> int:
        """How many of the known leaps are not beyond it."""
        return len(self._between(point.local_steps, 0.0, point.beyond))


def _told_apart(points: list[Point]) -> list[Point]:
    """Of those that differ by a rounding the last, which is not before a leap; in order."""
    kept = list[Point]()
    for point in points:
        if kept and kept[-1].local_steps == point.local_steps and point.beyond - kept[-1].beyond < 2 * _SAME:
            kept.pop()
        kept.append(point)
    return kept
