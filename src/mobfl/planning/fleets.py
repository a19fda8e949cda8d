"""The best T of a fleet whose classes have exponential or no jitter.

A fleet's Λ is the sum of its classes', so g(H, ·) may have a top for every class. But between neighbouring T_min(H) of
the classes Λ is concave, and there is one root at most: all of them are found, and the best is taken.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.at_least import least_round_s
from mobfl.planning.roots import ascend
from mobfl.theory import Conditions
from mobfl.theory.distributions import Delay, Dwell, ShiftedExponential

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def best_rounds_of_fleet(road: Conditions, h: Counts, least_mean: float = 0.0) -> tuple[Array, Array, Array, Array]:
    """For every H its best T with Λ of at least `least_mean`, and Λ, P{M_suc > 0} and g there."""
    tops = _tops(road, h)  # (classes, H)
    if least_mean:  # beyond an interval's top g(H, ·) only falls, until the next one begins
        tops = np.maximum(tops, least_round_s(road, h, least_mean))
    uploads, valid, g = theory.promise(road, h, tops)
    best = g.argmax(axis=0)[np.newaxis]
    t, uploads, valid, g = (np.take_along_axis(column, best, 0)[0] for column in (tops, uploads, valid, g))
    return t, uploads, valid, g


def _tops(road: Conditions, h: Counts) -> Array:
    """The best T of every interval that begins with a class's T_min; what does not fit stands at the longest dwell."""
    longest = road.dwell.longest
    starts = np.sort(np.stack(road.delays.least_by_class_s(h)), axis=0)
    least = np.minimum(starts, longest)
    most = np.append(least[1:], np.full_like(least[:1], longest), axis=0)
    classes = list(road.delays.by_class(h))

    def slopes(t: Array) -> tuple[Array, Array, Array]:
        parts = [_slopes(road.arrivals_per_s * share, road.dwell, delay, t, least) for share, delay in classes]
        uploads, slope, bend = (sum(column) for column in zip(*parts, strict=True))
        return uploads, slope, bend

    return ascend(slopes, (least + most) / 2, least, most, longest, road.noise)


def _slopes(rate: Any, dwell: Dwell, delay: Delay, t: Array, least: Array) -> tuple[Array, Array, Array]:
    """What one class adds to Λ and its derivatives, in intervals that begin with `least`: nothing before its own."""
    there, t = delay.least <= least, np.maximum(t, delay.least)
    if isinstance(delay, ShiftedExponential):
        parts = theory.uploads_and_slopes(rate, dwell, delay, t)
    else:  # a straight line
        line = theory.uploads_identity(rate, dwell, delay, t), theory.uploads_slope(rate, dwell, delay, t)
        parts = (*line, np.zeros_like(t))
    uploads, slope, bend = (np.where(there, part, 0.0) for part in parts)
    return uploads, slope, bend
