"""When a vehicle expects to leave that knows the way left and its present speed, and nothing of the traffic ahead."""

import math
from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.mobility.tracks import Tracks

Array = NDArray[np.float64]
Ways: TypeAlias = tuple[NDArray[np.int64], Array, Array]
"""Of tracks, what a prediction needs: `first`, `time_s` and `way_m`."""


def ways_of(tracks: Tracks | None) -> Ways:
    return NO_WAYS if tracks is None else (tracks.first, tracks.time_s, tracks.way_m)


NO_WAYS = ways_of(Tracks.none())


def predicted_leave_s(tracks: Tracks, rows: NDArray[np.int64], begin_s: Array) -> Array:
    """For vehicles with these rows at these instants: now and the way left over the present speed; never if it stands.

    The present speed is that between the two samples around the instant, at a sample that of the last interval.
    """
    ways, pairs = ways_of(tracks), zip(np.asarray(rows), np.asarray(begin_s, float), strict=True)
    return np.array([predicted_stay_s(ways, row, begin) + begin for row, begin in pairs])


@njit(cache=True)
def predicted_stay_s(ways, row, begin_s):
    """For how long from now on the vehicle expects to stay."""
    first, time_s, way_m = ways
    start, last = first[row], first[row + 1] - 1
    if begin_s >= time_s[last]:
        return 0.0
    after = start + np.searchsorted(time_s[start : last + 1], begin_s, side="left")
    after = max(after, start + 1)  # where it enters, at the speed that it has there
    while after < last and time_s[after] <= time_s[after - 1]:
        after += 1
    seconds = time_s[after] - time_s[after - 1]
    speed = (way_m[after] - way_m[after - 1]) / seconds
    left_m = way_m[last] - way_m[after] + speed * (time_s[after] - begin_s)
    if left_m <= 0.0:
        return 0.0
    return left_m / speed if speed > 0.0 else math.inf
