"""Traffic in a small town, generated in Argoverse's kind: five seconds of tracks at 10 Hz among lanes of ten points.

The lanes are those of `town_map`, the driving that of `town_driving`; here vehicles are placed and tracked.
"""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.rng import stream
from mobfl.tasks.trajectories.recordings import NO, OBSERVED, PREDICTED, STEP_S, STEPS, YES, Recording
from mobfl.tasks.trajectories.town_driving import CYCLE_S, FORKS, VEHICLE, drive
from mobfl.tasks.trajectories.town_map import Array, Indices, town_lanes

CITY = "TOWN"
_WARM_UP_S = 18.0
_OCCUPANCY = (0.2, 0.4)  # the share of lanes with a vehicle at first lies between these
_CENTRAL_M, _CENTRAL_FACTOR = 120.0, 2.0  # about the junction it is greater
_TRUCK_SHARE = 0.08
_TURN_OFF_SHARE = 0.45
_MEAN_WISH_S = 40.0  # until a driver wants to change lanes for no visible reason
_RANGE_M = 100.0
_NOISE_M, _NOISE_MEMORY_S = 0.12, 0.5  # the tracker's wander
_JITTER_M = 0.03  # and what is fresh at every step
_DROP_OUT_SHARE, _LONGEST_DROP_OUT = 0.3, 15
_CAPPED_MISS_M, _DULL_M, _CROSSING_FACTOR = 4.0, 0.6, 12.0  # how interesting an agent is


class Tracks(NamedTuple):
    """Where vehicles really were at every step."""

    position_m: Array  # (V, steps, 2)
    lane: Indices  # (V, steps)
    along_m: Array  # (V, steps)
    aside_m: Array  # (V, steps): to the right of the lane's centre line


def town_recordings(seed: int, first: int, count: int) -> list[Recording]:
    """`count` recordings from number `first` on; a recording depends on seed and number alone."""
    if first < 0 or count < 0:
        raise InputError(f"first and count must be >= 0, got {first} and {count}")
    key = stream(seed, "town")
    return [_recording(f"town-{seed}-{number:06}", key, number) for number in range(first, first + count)]


def _recording(name: str, key: np.uint64, number: int) -> Recording:
    random = np.random.Generator(np.random.Philox(key=np.array([key, number], np.uint64)))
    _, tracks = traffic(random)
    return Recording(name, CITY, _observed(random, tracks))


def traffic(random: np.random.Generator) -> tuple[NDArray[np.void], Tracks]:
    """Vehicles (VEHICLE) at random on the town's lanes, and where they drive after a warm-up."""
    lanes = town_lanes()
    vehicles = _draw_vehicles(random, lanes)
    clock_s = random.uniform(0, CYCLE_S)
    return vehicles, Tracks(*drive(lanes, vehicles, clock_s, round(_WARM_UP_S / STEP_S), STEPS))


def _draw_vehicles(random: np.random.Generator, lanes: NDArray[np.void]) -> NDArray[np.void]:
    lane = _occupied(random, lanes)
    count = len(lane)
    vehicles = np.zeros(count, VEHICLE)
    truck = random.random(count) < _TRUCK_SHARE
    vehicles["length_m"] = np.where(truck, random.uniform(7.0, 10.0, count), random.uniform(4.0, 5.0, count))
    vehicles["desired_mps"] = np.clip(random.normal(13.0, 2.0, count), 8.0, 17.0)
    vehicles["headway_s"] = random.uniform(0.9, 1.7, count)
    vehicles["acceleration_mps2"] = np.where(truck, 1.0, random.uniform(1.3, 2.3, count))
    vehicles["turns_off"] = np.where(random.random((count, FORKS)) < _TURN_OFF_SHARE, YES, NO)
    vehicles["wish_s"] = random.exponential(_MEAN_WISH_S, count)
    vehicles["lane"] = lane
    vehicles["along_m"] = lanes["length_m"][lane] / 2 + random.uniform(-3, 3, count)
    free_mps = np.minimum(vehicles["desired_mps"], lanes["limit_mps"][lane])
    vehicles["speed_mps"] = free_mps * random.uniform(0.4, 1.0, count)
    vehicles["came_from"] = -1
    return vehicles


def _occupied(random: np.random.Generator, lanes: NDArray[np.void]) -> Indices:
    """Lanes at random, more of them about the junction; each has room for a vehicle in its middle."""
    roomy = (lanes["start_twin"] < 0) & (lanes["end_twin"] < 0) & (lanes["phase"] < 0) & (lanes["length_m"] > 20)
    central = np.abs(lanes["points"][:, 0]).max(axis=1) < _CENTRAL_M
    share = random.uniform(*_OCCUPANCY) * np.where(central, _CENTRAL_FACTOR, 1.0)
    return np.flatnonzero(roomy & (random.random(len(lanes)) < share))


def _observed(random: np.random.Generator, tracks: Tracks) -> Array:
    """What a tracker makes of the agent, who comes first, and of those in range of it."""
    agent = _choose_agent(random, tracks)
    distance_m = np.linalg.norm(tracks.position_m - tracks.position_m[agent], axis=-1)
    near = np.flatnonzero(distance_m[:, OBSERVED - 1] < _RANGE_M)
    seen = np.concatenate([[agent], near[near != agent]])
    measured = tracks.position_m[seen] + _noise_m(random, len(seen))
    missed = (distance_m[seen] > _RANGE_M) | _drop_outs(random, len(seen))
    missed[0] = False
    measured[missed] = np.nan
    return measured


def _choose_agent(random: np.random.Generator, tracks: Tracks) -> int:
    """At random; likelier is who goes through a junction, and whom constant velocity misses: turning, braking, …"""
    position_m, now_m = tracks.position_m, tracks.position_m[:, OBSERVED - 1]
    constant_m = now_m + (now_m - position_m[:, OBSERVED - 2]) * PREDICTED
    miss_m = np.linalg.norm(position_m[:, -1] - constant_m, axis=1)
    moved_m = np.linalg.norm(position_m[:, -1] - position_m[:, 0], axis=1)
    crosses = (town_lanes()["intersection"][tracks.lane[:, OBSERVED:]] == YES).any(axis=1)
    weight = np.minimum(miss_m, _CAPPED_MISS_M) + np.where(moved_m > 1.0, _DULL_M, 1e-6)
    up_to = (weight * np.where(crosses, _CROSSING_FACTOR, 1.0)).cumsum()
    return int(np.searchsorted(up_to / up_to[-1], random.random(), side="right"))


def _noise_m(random: np.random.Generator, tracks: int) -> Array:
    """The tracker's error: a wander with some memory, and a jitter without."""
    fresh = random.standard_normal((2, STEPS, tracks, 2))
    noise_m = _NOISE_M * _wander(fresh[0], exp(-STEP_S / _NOISE_MEMORY_S)) + _JITTER_M * fresh[1]
    return noise_m.swapaxes(0, 1)


@njit(cache=True)
def _wander(fresh, kept):
    """Normal numbers that keep this share of the step before, from independent ones (steps first)."""
    wander = fresh.copy()
    for step in range(1, len(fresh)):
        wander[step] = kept * wander[step - 1] + sqrt(1.0 - kept * kept) * fresh[step]
    return wander


def _drop_outs(random: np.random.Generator, tracks: int) -> NDArray[np.bool_]:
    """(tracks, steps): one stretch at most per track, most tracks have none."""
    start = random.integers(-_LONGEST_DROP_OUT, STEPS, tracks)[:, None]
    length = random.integers(1, _LONGEST_DROP_OUT + 1, tracks)[:, None]
    step = np.arange(STEPS)
    return (random.random(tracks) < _DROP_OUT_SHARE)[:, None] & (start <= step) & (step < start + length)
