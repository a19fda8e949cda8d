"""A road in one direction with stations along it: the same vehicles pass one after the other, each at its own speed.

They come as on a single section, so its traffic and that of a corridor's first station are the same to the bit. Behind
every station a share turns off, and as many may join the road there. The road is in its steady state from time 0 on.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.poisson import arrivals_s
from mobfl.rng import stream, uniforms
from mobfl.scenario import Scenario, Stretch, listed, stretch_of
from mobfl.theory import stay
from mobfl.theory.distributions import Constant

Array = NDArray[np.float64]

VEHICLES = 1 << 40  # more than ever come onto the road at one place
_AT_ONCE = 1 << 12
_MOST_VEHICLES = 20_000_000  # which take half a gigabyte
_NOBODY, _NEVER = np.empty(0, np.int64), np.empty(0)


def corridor_crossings(scenario: Scenario, seed: int) -> list[Crossings]:
    """The crossings of every station until the training has ended."""
    stretches = [stretch for each in listed(scenario) if (stretch := stretch_of(each.section)) is not None]
    columns: list[list[tuple[NDArray[np.int64], Array, Array]]] = [[] for _ in stretches]
    for first in range(len(stretches)):
        for station, rows in _passing(scenario, stretches, first, seed):
            columns[station].append(rows)
    return [_table(rows, place) for place, rows in enumerate(columns)]


def _table(rows: Sequence[tuple[NDArray[np.int64], Array, Array]], station: int) -> Crossings:
    vehicle, enter_s, leave_s = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Crossings.sorted(vehicle, enter_s, leave_s).at(station)


def _passing(
    scenario: Scenario, stretches: Sequence[Stretch], first: int, seed: int
) -> Iterator[tuple[int, tuple[NDArray[np.int64], Array, Array]]]:
    """Who comes onto the road before the station at this place, at every station from there on."""
    road, traffic = scenario.corridor, scenario.traffic
    if road is None:
        raise ValueError("the scenario has no corridor")
    rate = traffic.arrivals_per_s * (1.0 if first == 0 else road.turns_off if road.joins else 0.0)
    if not rate:
        return
    vehicle, arrives_s = _arriving(scenario, stretches, first, rate, seed)
    # On a stretch as long as the road's section; a longer way takes longer in proportion.
    stays_s = _stays_s(scenario, vehicle, seed) / scenario.road.length_m
    there = uniforms(stream(seed, "participation"), vehicle.view(np.uint64)) <= traffic.participation
    for place in range(first, len(stretches)):
        stretch = stretches[place]
        enter_s = arrives_s + (stretch.from_m - stretches[first].from_m) * stays_s
        leave_s = enter_s + _stay_s(scenario, stretch, vehicle, seed)
        seen = there & (leave_s > 0.0)
        yield place, (vehicle[seen], enter_s[seen], leave_s[seen])
        there &= uniforms(stream(seed, f"turning off behind {place}"), vehicle.view(np.uint64)) > road.turns_off


def _stay_s(scenario: Scenario, stretch: Stretch, vehicle: NDArray[np.int64], seed: int) -> Array:
    """To the last bit that of a single section where it is as long."""
    share = stretch.length_m / scenario.road.length_m
    return _stays_s(scenario, vehicle, seed) * (1.0 if abs(share - 1) < 1e-12 else share)


def _stays_s(scenario: Scenario, vehicle: NDArray[np.int64], seed: int) -> Array:
    dwell = stay(scenario)
    if isinstance(dwell, Constant):
        return np.full(len(vehicle), scenario.dwell_s)
    return dwell.draw(uniforms(stream(seed, "speed"), vehicle.view(np.uint64)))


def _arriving(
    scenario: Scenario, stretches: Sequence[Stretch], first: int, rate: float, seed: int
) -> tuple[NDArray[np.int64], Array]:
    """Vehicles and when they come, from those on who are still on the road at time 0.

    Those who came before a single section's first vehicle are counted backwards.
    """
    longest_s = float(stay(scenario).longest)
    lead_s = longest_s * (stretches[-1].to_m - stretches[first].from_m) / scenario.road.length_m
    own = first * VEHICLES
    expected = rate * (lead_s + longest_s + _until_s(scenario))
    if not expected <= _MOST_VEHICLES:
        raise InputError(
            f"corridor must bring at most {_MOST_VEHICLES} vehicles onto the road, got about {expected:.3g}: they come"
            f" from so far that those at the last station left the first {lead_s:.3g} s before"
        )
    later, after_s = _counted(seed, "arrival", rate, range(own, own + VEHICLES), -longest_s, _until_s(scenario))
    sooner, before_s = _counted(seed, "arrival before", rate, range(own - 1, own - VEHICLES, -1), 0.0, lead_s)
    return np.concatenate([sooner[::-1], later]), np.concatenate([-longest_s - before_s[::-1], after_s])


def _until_s(scenario: Scenario) -> float:
    """Who comes later is of no use to the training."""
    return scenario.training.duration_s + scenario.dwell_s


def _counted(
    seed: int, purpose: str, rate: float, numbers: range, start_s: float, end_s: float
) -> tuple[NDArray[np.int64], Array]:
    """Poisson arrivals from start to end, of vehicles with these numbers."""
    gaps, vehicles, times, now, done = stream(seed, purpose), [_NOBODY], [_NEVER], start_s, 0
    while now <= end_s:
        some = np.array(numbers[done : done + _AT_ONCE], np.int64)
        vehicles.append(some)
        times.append(arrivals_s(gaps, some.view(np.uint64), now, 1.0 / rate))
        done, now = done + _AT_ONCE, float(times[-1][-1])
    vehicle, arrives_s = np.concatenate(vehicles), np.concatenate(times)
    kept = arrives_s <= end_s
    return vehicle[kept], arrives_s[kept]
