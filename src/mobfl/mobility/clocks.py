"""Who is who, which edges count, and when a vehicle that is not seen counts as gone."""

import difflib
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.samples import ELSEWHERE, JUNCTION, NOBODY, Rows
from mobfl.mobility.sections import Section

_ROUNDING = 1e-6  # of times, as a share


class Codes(dict[Any, int]):
    """A number for every name, from 0 on, in the order in which they come; who has none is nobody."""

    def __missing__(self, name: Any) -> int:
        if name == "":
            return NOBODY
        self[name] = code = len(self)
        return code


class Lanes(dict[str, int]):
    """The edges of lanes: a number for those that sections name, less than 0 for the others."""

    def __init__(self, sections: Iterable[Section]) -> None:
        super().__init__()
        self.watched, self.seen = Codes(), set[str]()
        for section in sections:
            for edge in section.edges:
                _ = self.watched[edge]

    def __missing__(self, lane: str) -> int:
        return self.setdefault(lane, self.of_edge(lane.rpartition("_")[0]))

    def of_edge(self, edge: str) -> int:
        """The number of an edge, which was seen now."""
        self.seen.add(edge)
        elsewhere = JUNCTION if edge.startswith(":") else ELSEWHERE
        return self.watched.get(edge, elsewhere)

    def check(self) -> None:
        """That vehicles were seen on every edge that a section names."""
        seen = {edge for edge in self.seen if edge}
        for edge in self.watched if seen else ():
            if edge not in seen and not edge.startswith(":"):
                near = ", ".join(difflib.get_close_matches(edge, seen, 3, 0.3)) or "none that is like it"
                raise InputError(f"section must name an edge that vehicles were on, got {edge!r} (the nearest: {near})")


class Clock(NamedTuple):
    """When a vehicle counts as gone, and how near to the ends of a recording it counts as cut off by them."""

    most_steps: int = 2**62  # from one of its samples to the next, where all vehicles share their steps
    gap_s: float = math.inf
    loses: bool = False  # whether a vehicle that is not seen for long may still be there

    @property
    def near_s(self) -> float:
        return 0.0 if math.isinf(self.gap_s) else self.gap_s


SNAPSHOTS = Clock(most_steps=1)
"""All vehicles are seen at every step: who is not among them is gone."""


def ways_of(rows: Rows) -> tuple[Any, Any]:
    """Of pairs of samples of one vehicle, one after the other, the rows of the first and of the second."""
    order = np.argsort(rows.vehicle, kind="stable")
    order = order[rows.vehicle[order] != NOBODY]
    same = rows.vehicle[order][1:] == rows.vehicle[order][:-1]
    return order[:-1][same], order[1:][same]


def clock_of(rows: Rows, ways: tuple[Any, Any], steps_are_common: bool, gap_s: float | None) -> Clock:
    """How vehicles are sampled: all at the same steps, or each on a clock of its own, with gaps of three intervals."""
    first, second = ways
    seconds, steps = rows.time_s[second] - rows.time_s[first], rows.step[second] - rows.step[first]
    usual_s = float(np.median(seconds[seconds > 0])) if (seconds > 0).any() else 0.0
    if gap_s is not None and gap_s < usual_s * (1 - _ROUNDING):
        raise InputError(
            f"gap_s must be at least the usual time between two positions of a vehicle, {usual_s:.3g} s, got {gap_s:g}"
        )
    if steps_are_common and (not len(steps) or np.median(steps) <= 1):
        return SNAPSHOTS if gap_s is None else Clock(gap_s=gap_s)
    return Clock(gap_s=3 * usual_s if gap_s is None else gap_s, loses=True)
