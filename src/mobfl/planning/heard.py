"""Whom a base station hears: the chance that each vehicle uploads there, and when a district is first heard.

A vehicle that takes part starts afresh in every round that it meets, so it stays unheard with the product of
1 − F_S(its seconds in the round). Whether it takes part is drawn once for a visit.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.planning.overlaps import done_within
from mobfl.planning.trace import total_delay
from mobfl.theory import Conditions

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_OFFSETS = 16  # when rounds begin, spread evenly over one round


def unheard_chances(
    crossings: Crossings, who: Counts, vehicles: int, road: Conditions, share: float, plan: tuple[int, float]
) -> Array:
    """Of each vehicle the chance that this station never hears it, averaged over when its rounds begin.

    Args:
        crossings: Of the station's section.
        who: Each row's vehicle, from 0 on.
        vehicles: How many there are in all.
        road: For the delays.
        share: Of visits that take part.
        plan: H and T.
    """
    steps, round_s = plan
    begins = (np.arange(_OFFSETS) + 0.5) / _OFFSETS * round_s
    laws = total_delay(road.delays, steps)
    return _unheard(crossings.enter_s, crossings.leave_s, who, vehicles, laws, share, round_s, begins)


def log_unheard_over_time(
    crossings: Crossings,
    district: Counts,
    districts: int,
    road: Conditions,
    share: float,
    plan: tuple[int, float],
    starts_s: Array,
    step_s: float,
    times: int,
) -> Array:
    """log P{the station has heard nobody of a district so long after its start}, by district, start and time.

    Args:
        crossings: Of the station's section.
        district: Where each row's vehicle is from; −1 counts nowhere.
        districts: How many there are.
        road: For the delays.
        share: Of visits that take part.
        plan: H and T; the first round begins at the start.
        starts_s: When the station begins.
        step_s: Between two of the times; the first is so long after the start.
        times: How many.
    """
    steps, round_s = plan
    laws = total_delay(road.delays, steps)
    logs = np.zeros((districts, len(starts_s), times))
    _add_logs(logs, crossings.enter_s, crossings.leave_s, district, laws, share, round_s, starts_s, step_s)
    return np.cumsum(logs, axis=2)


@njit(cache=True)
def _unheard(enter, leave, who, vehicles, laws, share, t, begins):
    mean, whole = np.zeros(vehicles), 1.0 - done_within(laws, t)
    for begin in begins:
        chances = np.ones(vehicles)
        for i in range(len(enter)):
            first = np.floor((enter[i] - begin) / t)
            last = np.floor((leave[i] - begin) / t)
            if first == last:
                miss = 1.0 - done_within(laws, leave[i] - enter[i])
            else:
                miss = 1.0 - done_within(laws, begin + (first + 1) * t - enter[i])
                miss *= 1.0 - done_within(laws, leave[i] - begin - last * t)
                miss *= whole ** (last - first - 1)
            chances[who[i]] *= 1.0 - share + share * miss
        mean += chances
    return mean / len(begins)


@njit(cache=True)
def _add_logs(logs, enter, leave, district, laws, share, t, starts, step_s):
    """Adds to each time the log of what the rounds that ended since the time before leave unheard."""
    horizon_s = step_s * logs.shape[2]
    for a in range(len(starts)):
        start = starts[a]
        for i in range(len(enter)):
            if district[i] < 0 or leave[i] <= start or enter[i] >= start + horizon_s:
                continue
            before, k = 1.0, max(np.floor((enter[i] - start) / t), 0.0)
            while start + k * t < leave[i] and (k + 1) * t <= horizon_s:
                window = min(leave[i], start + (k + 1) * t) - max(enter[i], start + k * t)
                after = before * (1.0 - done_within(laws, window))
                chance = (1.0 - share + share * after) / (1.0 - share + share * before) if before > 0.0 else 1.0
                # whoever is sure to be heard leaves nothing: a number that exp() takes for none
                j = min(int(np.ceil((k + 1) * t / step_s - 1e-9)) - 1, logs.shape[2] - 1)
                logs[district[i], a, j] += np.log(chance) if chance > 1e-300 else -700.0
                before, k = after, k + 1.0


@njit(cache=True)
def shared_seconds(vehicle, section, enter, leave, sections):
    """How long vehicles are in two sections at once, for every two; rows in the order of vehicle and entering."""
    shared = np.zeros((sections, sections))
    for i in range(len(enter)):
        j = i + 1
        while j < len(enter) and vehicle[j] == vehicle[i] and enter[j] < leave[i]:
            both = min(leave[i], leave[j]) - enter[j]
            if section[i] != section[j] and both > 0.0:
                shared[section[i], section[j]] += both
                shared[section[j], section[i]] += both
            j += 1
    return shared
