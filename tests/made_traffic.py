"""Stationary traffic of any length, Poisson or behind a signal, for tests of what recordings promise."""

import numpy as np

from mobfl.mobility.crossings import Crossings
from mobfl.mobility.day import Day, day_crossings

_BEFORE_S = 300.0  # until it is in its steady state


def made_traffic(rate: float, lasts_s: float, seed: int, *, signal: bool = False) -> Crossings:
    """A recording of a road that vehicles take about 20 s to pass; the signal is green for 36 of 90 s."""
    from_s = 0.0 if signal else np.inf
    day = Day(quiet_per_s=rate, busy_per_s=rate, quick_mps=20.0, slow_mps=20.0, signal_from_s=from_s, headway_s=1.0)
    begins_s = 7.3 * seed  # at another phase of the signal every time
    return day_crossings(day, seed, begins_s, begins_s + _BEFORE_S + lasts_s).between(begins_s + _BEFORE_S, np.inf)
