"""A day on one road: two rush hours in which traffic slows down, and a signal that is switched on at noon."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.rng import stream

Array = NDArray[np.float64]

DAY_S = 86_400.0
_RUSH_HOURS_S = (8 * 3600.0, 17.5 * 3600.0)
_RUSH_SD_S = 1.2 * 3600.0  # a rush hour's bell


@dataclass(frozen=True)
class Day:
    """What a day is like."""

    length_m: float = 400.0
    quiet_per_s: float = 0.02
    busy_per_s: float = 0.5
    quick_mps: float = 25.0
    slow_mps: float = 6.0
    speed_spread: float = 0.08  # standard deviation of a vehicle's speed by the mean of its time
    signal_from_s: float = DAY_S / 2
    cycle_s: float = 90.0
    green_s: float = 36.0
    headway_s: float = 0.6  # between vehicles of a queue as it is released, over all lanes

    def arrivals_per_s(self, at_s: Array) -> Array:
        """λ, on a logarithmic scale between the quiet and the busy one."""
        return self.quiet_per_s * (self.busy_per_s / self.quiet_per_s) ** _rush(at_s)

    def speed_mps(self, at_s: Array) -> Array:
        return self.quick_mps + (self.slow_mps - self.quick_mps) * _rush(at_s)


def _rush(at_s: Array) -> Array:
    """0 in quiet hours, 1 at the height of a rush hour."""
    return np.sum([np.exp(-(((np.asarray(at_s) - peak) / _RUSH_SD_S) ** 2) / 2) for peak in _RUSH_HOURS_S], axis=0)


def day_crossings(day: Day, seed: int, start_s: float = 0.0, end_s: float = DAY_S) -> Crossings:
    """Who crosses from start to end: Poisson arrivals of a rate that changes, held up by the signal once it is on."""
    random = np.random.default_rng(int(stream(seed, "day")))
    most = day.busy_per_s * (1 + 1e-9)
    arrive_s = start_s + np.cumsum(random.exponential(1 / most, int(1.2 * most * (end_s - start_s)) + 100))
    arrive_s = arrive_s[arrive_s < end_s]
    arrive_s = arrive_s[random.random(len(arrive_s)) * most < day.arrivals_per_s(arrive_s)]
    enter_s = _released(arrive_s, day)
    spread = 1 + day.speed_spread * np.clip(random.standard_normal(len(enter_s)), -3, 3)
    leave_s = enter_s + day.length_m / (day.speed_mps(enter_s) * spread)
    return Crossings(np.arange(len(enter_s)), enter_s, leave_s)


def _released(arrive_s: Array, day: Day) -> Array:
    """When those who come to the signal get past it: in green, and one after the other."""
    enter_s, last_s = arrive_s.copy(), -np.inf
    for i in np.flatnonzero(arrive_s >= day.signal_from_s):
        at_s = max(arrive_s[i], last_s + day.headway_s)
        into_cycle_s = (at_s - day.signal_from_s) % day.cycle_s
        last_s = enter_s[i] = at_s if into_cycle_s < day.green_s else at_s + day.cycle_s - into_cycle_s
    return enter_s
