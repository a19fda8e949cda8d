"""Poisson arrivals with constant or spread speeds, of which a share takes part, as a stream of crossings."""

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.mobility.crossings import COLUMNS, Crossings
from mobfl.rng import exponential, stream, uniforms, vehicle_key
from mobfl.scenario import Scenario
from mobfl.theory import stay
from mobfl.theory.distributions import Constant

_VEHICLES_AT_ONCE = 1 << 15


def poisson_crossings(scenario: Scenario, seed: int, first: int = 0) -> Iterator[Crossings]:
    """Endless blocks of crossings, of vehicles numbered from `first` on. The road is in its steady state from 0 on."""
    gaps, speeds, choices = (stream(seed, purpose) for purpose in ("arrival", "speed", "participation"))
    dwell = stay(scenario)
    spread = not isinstance(dwell, Constant)
    now = -float(dwell.longest)  # early enough that the slowest are still there at 0
    while True:
        vehicle = np.arange(first, first + _VEHICLES_AT_ONCE, dtype=np.uint64)
        enter = arrivals_s(gaps, vehicle, now, 1.0 / scenario.traffic.arrivals_per_s)
        first, now = first + len(vehicle), enter[-1]
        leave = enter + (dwell.draw(uniforms(speeds, vehicle)) if spread else scenario.dwell_s)
        there = leave > 0.0
        if scenario.traffic.participation < 1:
            there &= uniforms(choices, vehicle) <= scenario.traffic.participation
        chosen = slice(None) if there.all() else there
        yield Crossings(vehicle.view(np.int64)[chosen], enter[chosen], leave[chosen])


def poisson_table(scenario: Scenario, seed: int, first: int = 0) -> Crossings:
    """The crossings until the training has ended."""
    until_s, blocks = scenario.training.duration_s + scenario.dwell_s, list[Crossings]()
    for block in poisson_crossings(scenario, seed, first):
        blocks.append(block)
        if block.enter_s[-1] > until_s:
            break
    columns = (np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS)
    vehicle, enter_s, leave_s = columns
    kept = enter_s <= until_s
    return Crossings(vehicle[kept], enter_s[kept], leave_s[kept])


@njit(cache=True)
def arrivals_s(gaps: np.uint64, vehicle: NDArray[np.uint64], start_s: float, mean_gap_s: float) -> NDArray[np.float64]:
    enter = np.empty(len(vehicle))
    now = start_s
    for i in range(len(vehicle)):
        now += mean_gap_s * exponential(vehicle_key(gaps, vehicle[i]), 0)
        enter[i] = now
    return enter
