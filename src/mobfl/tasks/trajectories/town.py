"""Traffic in a small town, generated in Argoverse's kind: lanes of ten points, five seconds of tracks at 10 Hz.

Two main roads of two lanes per direction cross at signals; beyond them they bend into two loops, so that nobody ever
leaves the town. A slip road in the north-west and a roundabout in the south-east, with a side street around a block,
join the main roads from the right. Traffic keeps right.

A vehicle follows its leader by the Intelligent Driver Model (Treiber, Hennecke, Helbing 2000), slows down for bends,
stops at red, yields where it joins, turns off at random and changes lanes when that is safe (the criteria of MOBIL:
Kesting, Treiber, Helbing 2007) and either faster or what the driver wants anyway.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil, cos, exp, inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.rng import stream
from mobfl.tasks.trajectories.recordings import (
    LEFT,
    NO,
    OBSERVED,
    PREDICTED,
    RIGHT,
    STEP_S,
    STEPS,
    STRAIGHT,
    YES,
    LaneMap,
    Recording,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Pose = tuple[float, float, float]  # m, m, heading in degrees, counter-clockwise from the east

CITY = "TOWN"

_LANE_WIDTH_M = 3.5
_LANES_M = (5.25, 8.75)  # a main road's lanes, to the right of its middle
_TURN_LANE_M = 1.75  # where the lane for turning left is, between the two directions
_LONGEST_LANE_M = 30.0
_MAP_POINTS = 10
_FINE = 3  # pieces, about a metre each, into which driving divides the map's
_POINTS = (_MAP_POINTS - 1) * _FINE + 1
_FORKS = 12
_CLEAR_M = 2.6  # centre lines closer than this are in each other's way

_SPEED_LIMIT_MPS = 16.0
_LATERAL_LIMIT_MPS2 = 2.2  # what drivers accept in bends
_GREEN_S = (10.0, 5.0, 10.0, 5.0)  # north-south, its left turns, east-west, its left turns
_CLEARING_S = 2.5
_CYCLE_S = sum(_GREEN_S) + len(_GREEN_S) * _CLEARING_S

_WARM_UP_S = 18.0
_OCCUPANCY = (0.2, 0.4)  # the share of lanes with a vehicle at first lies between these
_CENTRAL_M, _CENTRAL_FACTOR = 120.0, 2.0  # about the junction it is greater
_TRUCK_SHARE = 0.08
_TURN_OFF_SHARE = 0.45
_MEAN_WISH_S = 40.0  # until a driver wants to change lanes for no visible reason

_LEAST_GAP_M = 2.0
_COMFORTABLE_BRAKING_MPS2 = 2.0
_HARDEST_BRAKING_MPS2 = 8.0
_WILL_STOP_MPS2 = 3.0  # whoever would have to brake harder drives on
_ANTICIPATED_BRAKING_MPS2 = 1.5  # before bends and lines to stop at
_HEED_M = 15.0  # so much earlier drivers decide whether such a line concerns them
_SIGHT_M = 80.0
_LANES_AHEAD = 4  # of who comes from behind
_JOINING_MPS = 4.0  # who waits to join reckons with at least this speed
_AFTER_S = 3.0  # who joins wants this much time before the next vehicle
_CHANGE_S = 4.0
_CHANGE_FROM_MPS = 5.0  # slower, a vehicle could not move aside in that time
_CHANGE_GAIN_MPS2, _CHANGE_BRAKING_MPS2 = 0.4, 2.0
_DECISION_STEPS = 5  # a driver thinks about changing lanes every so many steps

_RANGE_M = 100.0
_NOISE_M, _NOISE_MEMORY_S = 0.12, 0.5  # the tracker's wander
_JITTER_M = 0.03  # and what is fresh at every step
_DROP_OUT_SHARE, _LONGEST_DROP_OUT = 0.3, 15
_CAPPED_MISS_M, _DULL_M, _CROSSING_FACTOR = 4.0, 0.6, 12.0  # how interesting an agent is


@dataclass(frozen=True)
class _Path:
    """A lane from one fork or joint to the next, to be cut into so many pieces."""

    line: Array
    pieces: int
    turn: int = STRAIGHT
    intersection: int = NO
    phase: int = -1  # of the signals; none outside their junction
    yields: bool = False


# The lanes as driving needs them. Lanes that fork or join are twins: they share some metres of road.
# An index of -1 stands for none.
LANE = np.dtype(
    [
        ("points", np.float64, (_POINTS, 2)),  # m, equally far apart
        ("directions", np.float64, (_POINTS, 2)),  # unit vectors
        ("length_m", np.float64),
        ("limit_mps", np.float64),
        ("turn", np.int8),
        ("intersection", np.int8),
        ("phase", np.int64),  # of the signals in whose junction it lies
        ("stop_phase", np.int64),  # of the signals at its end
        ("yields", np.bool_),  # to its twin at the end
        ("successors", np.int64, 2),
        ("before", np.int64),  # the lane that it continues; none where two join
        ("fork", np.int64),  # the number of the fork at its end
        ("neighbours", np.int64, 2),  # left, right
        ("start_twin", np.int64),
        ("start_shared_m", np.float64),
        ("end_twin", np.int64),
        ("end_shared_m", np.float64),
    ],
    align=True,
)

# A vehicle with its driver, then where it is at the moment.
VEHICLE = np.dtype(
    [
        ("length_m", np.float64),
        ("desired_mps", np.float64),
        ("headway_s", np.float64),
        ("acceleration_mps2", np.float64),
        ("turns_off", np.int8, _FORKS),  # at each fork, YES or NO
        ("wish_s", np.float64),  # when the driver wants to change lanes for no visible reason
        ("lane", np.int64),
        ("along_m", np.float64),  # of the vehicle's middle, from the lane's start
        ("speed_mps", np.float64),
        ("came_from", np.int64),  # the side of the lane that it is leaving: 0 left, 1 right, -1 if it changes no lanes
        ("changed", np.float64),  # share of the lane change done
    ],
    align=True,
)

# Whom a lane's queue holds, in order along it. Entry V + i is vehicle i on the lane that it is leaving.
_ENTRY = np.dtype([("next", np.int64), ("along_m", np.float64)])


class Tracks(NamedTuple):
    """Where vehicles really were at every step."""

    position_m: Array  # (V, steps, 2)
    lane: Indices  # (V, steps)
    along_m: Array  # (V, steps)
    aside_m: Array  # (V, steps): to the right of the lane's centre line


def town_map() -> LaneMap:
    """The lanes of the town."""
    lanes = town_lanes()
    pairs = [(lane, after) for lane, row in enumerate(lanes["successors"]) for after in row if after >= 0]
    return LaneMap(
        points=lanes["points"][:, ::_FINE].reshape(-1, 2),
        offsets=np.arange(len(lanes) + 1, dtype=np.int64) * _MAP_POINTS,
        turn=lanes["turn"].copy(),
        control=np.where((lanes["phase"] >= 0) | lanes["yields"], YES, NO).astype(np.int8),
        intersection=lanes["intersection"].copy(),
        successors=np.array(pairs, np.int64),
        left=lanes["neighbours"][:, 0].copy(),
        right=lanes["neighbours"][:, 1].copy(),
    )


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


# The map


@cache
def town_lanes() -> NDArray[np.void]:
    """The town's lanes (LANE) with all that follows from their geometry."""
    paths = [*_main_roads(), *_junction(), *_slip_road(), *_roundabout()]
    pieces = [(line, path, last) for path in paths for line, last in _cut(path)]
    lanes = np.zeros(len(pieces), LANE)
    points = lanes["points"] = np.array([line for line, _, _ in pieces])
    directions = lanes["directions"] = _directions(points)
    lanes["length_m"] = _length_m(points)
    lanes["limit_mps"] = np.minimum(_SPEED_LIMIT_MPS, np.sqrt(_LATERAL_LIMIT_MPS2 / _sharpest_bend_per_m(points)))
    lanes["turn"] = [path.turn for _, path, _ in pieces]
    lanes["intersection"] = [path.intersection for _, path, _ in pieces]
    lanes["yields"] = [path.yields and last for _, path, last in pieces]
    phase = lanes["phase"] = np.array([path.phase for _, path, _ in pieces])
    successors = lanes["successors"] = _successors(points)
    lanes["before"] = _before(successors)
    lanes["stop_phase"] = np.where(phase < 0, phase[successors[:, 0]], -1)
    forks = successors[:, 1] >= 0
    lanes["fork"] = np.where(forks, np.cumsum(forks) - 1, -1)
    lanes["neighbours"] = np.stack([_beside(points, directions, left) for left in (1.0, -1.0)], axis=1)
    lanes["start_twin"], lanes["end_twin"] = _twins(successors, phase)
    lanes["start_shared_m"] = _shared_m(points, lanes["start_twin"])
    lanes["end_shared_m"] = _shared_m(points[:, ::-1], lanes["end_twin"])
    return lanes


def _main_roads() -> Iterator[_Path]:
    """Both loops in both directions, and the lanes for turning left before the junction."""
    north_to_east: list[Pose] = [
        *((0, y, 90) for y in (20, 50, 80, 110)),
        *((70, 180, 0), (110, 180, 0), (200, 90, -90), (200, 55, -90)),
        *((x, 0, 180) for x in (145, 110, 80, 50, 20)),
    ]
    south_to_west: list[Pose] = [
        *((0, y, -90) for y in (-20, -50, -80, -110)),
        *((-60, -170, 180), (-100, -170, 180), (-175, -95, 90), (-185, -45, 90)),
        *((x, 0, 0) for x in (-140, -110, -80, -50, -20)),
    ]
    for poses in (north_to_east, south_to_west, _reversed(north_to_east), _reversed(south_to_west)):
        for start, end in pairwise(poses):
            for lane_m in _LANES_M:
                yield _Path(_curve(start, end, lane_m), _pieces(start, end))
    for arm in range(4):
        yield _path(_arriving(arm, 80.0, _LANES_M[0]), _arriving(arm, 50.0, _TURN_LANE_M))
        yield _path(_arriving(arm, 50.0, _TURN_LANE_M), _arriving(arm, 20.0, _TURN_LANE_M))


def _junction() -> Iterator[_Path]:
    """The ways across the signalled junction: left from the turn lane, straight on from the others, right from one."""
    inner_m, outer_m = _LANES_M
    for arm in range(4):
        straight = 0 if arm % 2 else 2
        ways = (
            (_TURN_LANE_M, (arm + 3) % 4, inner_m, LEFT, straight + 1),
            (inner_m, (arm + 2) % 4, inner_m, STRAIGHT, straight),
            (outer_m, (arm + 2) % 4, outer_m, STRAIGHT, straight),
            (outer_m, (arm + 1) % 4, outer_m, RIGHT, straight),
        )
        for from_m, to_arm, to_m, turn, phase in ways:
            start, (x, y, heading) = _arriving(arm, 20.0, from_m), _arriving(to_arm, 20.0, -to_m)
            yield _path(start, (x, y, heading + 180), turn=turn, intersection=YES, phase=phase)


def _slip_road() -> Iterator[_Path]:
    middle = (-50.0, 50.0, -135.0)
    yield _path((-_LANES_M[1], 110, -90), middle)
    yield _path(middle, (-110, _LANES_M[1], 180), yields=True)


def _roundabout() -> Iterator[_Path]:
    """A circle between the south and the east road, with a side street that leaves it and comes back."""
    from_south, to_east, to_block, from_block = (_on_circle(angle) for angle in (215, 65, 250, 380))
    circle = [_on_circle(angle) for angle in (20, 65, 140, 215, 250, 315, 380)]
    for start, end in pairwise(circle):
        yield _path(start, end, turn=LEFT, intersection=YES)
    approach, leave = (35.0, -86.0, 0.0), (82.0, -45.0, 60.0)
    yield _path((_LANES_M[1], -110, 90), approach)
    yield _path(approach, from_south, yields=True)
    yield _path(to_east, leave)
    yield _path(leave, (110, -_LANES_M[1], 0), yields=True)
    block: list[Pose] = [to_block, (92, -125, -90), (125, -160, 0), (160, -125, 90), (130, -90, 180)]
    for start, end in pairwise(block):
        yield _path(start, end)
    yield _path(block[-1], from_block, yields=True)


def _on_circle(angle: float) -> Pose:
    x, y = 80 + 15 * np.cos(np.radians(angle)), -85 + 15 * np.sin(np.radians(angle))
    return float(x), float(y), angle + 90


def _arriving(arm: int, distance_m: float, lane_m: float) -> Pose:
    """Of who comes to the junction on an arm (0 east, then counter-clockwise), so far away and right of the middle."""
    out = [(1, 0), (0, 1), (-1, 0), (0, -1)][arm]
    return distance_m * out[0] - lane_m * out[1], distance_m * out[1] + lane_m * out[0], 90.0 * arm + 180


def _reversed(poses: list[Pose]) -> list[Pose]:
    return [(x, y, heading + 180) for x, y, heading in reversed(poses)]


def _path(start: Pose, end: Pose, **attributes: int) -> _Path:
    return _Path(_curve(start, end, 0.0), _pieces(start, end), **attributes)  # type: ignore[arg-type]


def _pieces(start: Pose, end: Pose) -> int:
    """Into how many lanes a curve is cut; parallel ones, reckoned from the same middle, are cut side by side."""
    return ceil(float(_length_m(_curve(start, end, 0.0))) / _LONGEST_LANE_M - 1e-6)


def _curve(start: Pose, end: Pose, right_m: float) -> Array:
    """The line so far to the right of the cubic between two poses, which is an arc if an arc joins them."""
    ends = np.array([start[:2], end[:2]], np.float64)
    headings = np.radians([start[2], end[2]])
    bend = (headings[1] - headings[0] + pi) % (2 * pi) - pi
    directions = np.stack([np.cos(headings), np.sin(headings)], axis=1)
    reach_m = np.linalg.norm(ends[1] - ends[0]) / (3 * np.cos(bend / 4) ** 2)
    a, d = ends
    b, c = a + reach_m * directions[0], d - reach_m * directions[1]
    t = np.linspace(0, 1, 257)[:, None]
    line = (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d
    slope = (1 - t) ** 2 * (b - a) + 2 * t * (1 - t) * (c - b) + t**2 * (d - c)
    unit = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    return line + right_m * np.stack([unit[:, 1], -unit[:, 0]], axis=1)


def _cut(path: _Path) -> Iterator[tuple[Array, bool]]:
    """The pieces of a path, and whether each is the last."""
    along = np.concatenate([[0.0], np.linalg.norm(np.diff(path.line, axis=0), axis=1).cumsum()])
    even = np.linspace(0, along[-1], path.pieces * (_POINTS - 1) + 1)
    line = np.stack([np.interp(even, along, path.line[:, axis]) for axis in (0, 1)], axis=1)
    for piece in range(path.pieces):
        yield line[piece * (_POINTS - 1) :][:_POINTS], piece == path.pieces - 1


def _length_m(points: Array) -> Array:
    """Of lines by their points, (..., points, 2)."""
    return np.linalg.norm(np.diff(points, axis=-2), axis=-1).sum(axis=-1)


def _directions(points: Array) -> Array:
    """Unit vectors along the lanes at their points, so that lanes agree where they meet."""
    chords = np.diff(points, axis=1)
    first, last = 1.5 * chords[:, :1] - 0.5 * chords[:, 1:2], 1.5 * chords[:, -1:] - 0.5 * chords[:, -2:-1]
    tangents = np.concatenate([first, (chords[:, :-1] + chords[:, 1:]) / 2, last], axis=1)
    return tangents / np.linalg.norm(tangents, axis=-1, keepdims=True)


def _sharpest_bend_per_m(points: Array) -> Array:
    """The greatest curvature of each lane; a trace of it where there is none."""
    turned = np.linalg.norm(np.diff(_directions(points), axis=1), axis=-1)
    return np.maximum(turned.max(axis=1) * (_POINTS - 1) / _length_m(points), 1e-6)


def _successors(points: Array) -> Indices:
    """The one or two lanes that start where each ends."""
    meets = np.linalg.norm(points[:, None, -1] - points[None, :, 0], axis=-1) < 0.01
    found = [np.flatnonzero(row) for row in meets]
    return np.array([[row[0], row[1] if len(row) > 1 else -1] for row in found], np.int64)


def _before(successors: Indices) -> Indices:
    """The only lane that each continues; -1 where there are two."""
    continued = [np.flatnonzero((successors == lane).any(axis=1)) for lane in range(len(successors))]
    return np.array([lanes[0] if len(lanes) == 1 else -1 for lanes in continued], np.int64)


def _twins(successors: Indices, phase: Indices) -> tuple[Indices, Indices]:
    """The other lane that starts, and that ends, in the same place. Signals part those that end in their junction."""
    at_start, at_end = np.full((2, len(successors)), -1)
    for one, other in successors[successors[:, 1] >= 0]:
        at_start[one], at_start[other] = other, one
    for lane in range(len(successors)):
        before = np.flatnonzero((successors == lane).any(axis=1))
        if len(before) == 2 and phase[before[0]] < 0:
            at_end[before] = before[::-1]
    return at_start, at_end


def _shared_m(points: Array, twin: Indices) -> Array:
    """How far from the lanes' first points their twins are in the way."""
    shared = np.zeros(len(points))
    for lane in np.flatnonzero(twin >= 0):
        apart = np.linalg.norm(points[lane][:, None] - points[twin[lane]][None], axis=-1).min(axis=1)
        clear = int(np.argmax(apart > _CLEAR_M)) if (apart > _CLEAR_M).any() else _POINTS - 1
        shared[lane] = _length_m(points[lane, : clear + 1])
    return shared


def _beside(points: Array, directions: Array, left: float) -> Indices:
    """The lane that runs beside each, a lane's width to the left (+1) or to the right (−1); -1 for none."""
    fits = np.ones((len(points), len(points)), np.bool_)
    for k in (0, _POINTS // 2, _POINTS - 1):
        (ahead_x, ahead_y), apart = directions[:, k].T[..., None], points[None, :, k] - points[:, None, k]
        along = apart[..., 0] * ahead_x + apart[..., 1] * ahead_y
        aside = left * (apart[..., 1] * ahead_x - apart[..., 0] * ahead_y)
        fits &= (np.abs(along) < 0.5) & (np.abs(aside - _LANE_WIDTH_M) < 0.2)
    return np.where(fits.any(axis=1), fits.argmax(axis=1), -1)


# Traffic


def traffic(random: np.random.Generator) -> tuple[NDArray[np.void], Tracks]:
    """Vehicles (VEHICLE) at random on the town's lanes, and where they drive after a warm-up."""
    lanes = town_lanes()
    vehicles = _draw_vehicles(random, lanes)
    clock_s = random.uniform(0, _CYCLE_S)
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
    vehicles["turns_off"] = np.where(random.random((count, _FORKS)) < _TURN_OFF_SHARE, YES, NO)
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


# Driving

# For functions that make no arrays. Numba would count references to those passed: three quarters of the time.
_kernel = njit(cache=True, _nrt=False)  # type: ignore[call-overload]


@njit(cache=True)
def drive(lanes, vehicles, clock_s, unseen_steps, steps):  # type: ignore[no-untyped-def]
    """Moves the vehicles on from their places; where they are at each of `steps` steps, after some unseen ones.

    Returns what Tracks holds. The clock tells the signals' time at the start.
    """
    count = len(vehicles)
    position, lane = np.empty((count, steps, 2)), np.empty((count, steps), np.int64)
    along, aside = np.empty((count, steps)), np.empty((count, steps))
    first, queue = np.empty(len(lanes), np.int64), np.empty(2 * count, _ENTRY)
    acceleration = np.empty(count)
    for step in range(unseen_steps + steps):
        time_s = step * STEP_S
        _fill_queues(lanes, vehicles, first, queue)
        phase = _open_phase(lanes, vehicles, clock_s + time_s)
        for i in range(count):
            acceleration[i] = _acceleration(lanes, vehicles, first, queue, phase, i)
        if step >= unseen_steps:
            for i in range(count):
                k = step - unseen_steps
                lane[i, k], along[i, k], aside[i, k] = vehicles[i].lane, vehicles[i].along_m, _aside_m(vehicles[i])
                position[i, k, 0], position[i, k, 1] = _position_m(lanes[lane[i, k]], along[i, k], aside[i, k])
        for i in range(count):
            if (step + i) % _DECISION_STEPS == 0:
                wished = time_s >= vehicles[i].wish_s
                if _change_lanes(lanes, vehicles, first, queue, phase, i, acceleration[i], wished) and wished:
                    vehicles[i].wish_s = inf
        for i in range(count):
            _move(lanes, vehicles, i, acceleration[i])
    return position, lane, along, aside


@_kernel
def idm_acceleration(speed_mps, desired_mps, gap_m, closing_mps, headway_s, acceleration_mps2):  # type: ignore[no-untyped-def]
    """The Intelligent Driver Model: a (1 − (v / v₀)⁴ − (s* / s)²), never below the hardest braking."""
    wanted_m = speed_mps * headway_s
    wanted_m += speed_mps * closing_mps / (2.0 * sqrt(acceleration_mps2 * _COMFORTABLE_BRAKING_MPS2))
    interaction = (_LEAST_GAP_M + max(wanted_m, 0.0)) / max(gap_m, 0.1)
    free = (speed_mps / desired_mps) ** 4
    return max(acceleration_mps2 * (1.0 - free - interaction * interaction), -_HARDEST_BRAKING_MPS2)


@_kernel
def _next_lane(lanes, vehicle, lane):  # type: ignore[no-untyped-def]
    """The lane that a vehicle takes after this one."""
    fork = lanes[lane].fork
    return lanes[lane].successors[1 if fork >= 0 and vehicle.turns_off[fork] == YES else 0]


@_kernel
def _fill_queues(lanes, vehicles, first, queue):  # type: ignore[no-untyped-def]
    first[:] = -1
    for i in range(len(vehicles)):
        _enqueue(first, queue, i, vehicles[i].lane, vehicles[i].along_m)
        old_lane, old_m = _old_place(lanes, vehicles[i])
        if old_lane >= 0:
            _enqueue(first, queue, len(vehicles) + i, old_lane, old_m)


@_kernel
def _old_place(lanes, vehicle):  # type: ignore[no-untyped-def]
    """The lane that a vehicle is leaving, and how far along, while it is still in the way there; else no lane."""
    lane = lanes[vehicle.lane].neighbours[vehicle.came_from] if vehicle.came_from >= 0 else -1
    if lane < 0 or abs(_aside_m(vehicle)) < _LANE_WIDTH_M - _CLEAR_M:
        return -1, 0.0
    return lane, vehicle.along_m * lanes[lane].length_m / lanes[vehicle.lane].length_m


@_kernel
def _enqueue(first, queue, entry, lane, along_m):  # type: ignore[no-untyped-def]
    queue[entry].along_m = along_m
    before, after = -1, first[lane]
    while after >= 0 and queue[after].along_m < along_m:
        before, after = after, queue[after].next
    queue[entry].next = after
    if before < 0:
        first[lane] = entry
    else:
        queue[before].next = entry


@_kernel
def _open_phase(lanes, vehicles, time_s):  # type: ignore[no-untyped-def]
    """The signals' phase that may go, -1 for none. It waits for those of other phases to leave the junction."""
    phase, left_s = 0, time_s % _CYCLE_S
    while left_s >= _GREEN_S[phase] + _CLEARING_S:
        left_s -= _GREEN_S[phase] + _CLEARING_S
        phase += 1
    if left_s >= _GREEN_S[phase]:
        return -1
    for i in range(len(vehicles)):
        inside = lanes[vehicles[i].lane].phase
        if inside >= 0 and inside != phase:
            return -1
    return phase


@_kernel
def _acceleration(lanes, vehicles, first, queue, phase, i):  # type: ignore[no-untyped-def]
    """What driver i does, who minds two lanes while changing."""
    lane, along_m = vehicles[i].lane, vehicles[i].along_m
    chosen = _acceleration_on(lanes, vehicles, first, queue, phase, i, lane, along_m)
    old_lane, old_m = _old_place(lanes, vehicles[i])
    if old_lane >= 0:
        chosen = min(chosen, _acceleration_on(lanes, vehicles, first, queue, phase, i, old_lane, old_m))
    return chosen


@_kernel
def _acceleration_on(lanes, vehicles, first, queue, phase, i, lane, along_m):  # type: ignore[no-untyped-def]
    """What driver i does at this place of this lane, in view of all that is ahead."""
    speed, half_m = vehicles[i].speed_mps, vehicles[i].length_m / 2
    desired = min(vehicles[i].desired_mps, lanes[lane].limit_mps)
    gap, closing, stop = inf, 0.0, inf
    ahead_m = -along_m  # of the lane's start
    while ahead_m < _SIGHT_M:
        if ahead_m > 0.0:
            slow = lanes[lane].limit_mps
            desired = min(desired, sqrt(slow * slow + 2.0 * _ANTICIPATED_BRAKING_MPS2 * ahead_m))
        leader_m, leader = _first_beyond(lanes, first, queue, i, lane, max(-ahead_m, -1.0))
        stop_m = _stop_m(lanes, vehicles, first, queue, phase, i, lane, ahead_m, leader_m)
        if stop_m < inf:
            stop = ahead_m + stop_m - half_m
        if leader >= 0:
            gap = ahead_m + leader_m - half_m - vehicles[leader].length_m / 2
            closing = speed - vehicles[leader].speed_mps
        if leader >= 0 or stop < inf:
            break
        ahead_m += lanes[lane].length_m
        lane = _next_lane(lanes, vehicles[i], lane)
    headway, maximum = vehicles[i].headway_s, vehicles[i].acceleration_mps2
    chosen = idm_acceleration(speed, desired, gap, closing, headway, maximum)
    if stop < inf:
        chosen = min(chosen, idm_acceleration(speed, desired, stop, speed, headway, maximum))
    return chosen


@_kernel
def _who(entry, count):  # type: ignore[no-untyped-def]
    return entry if entry < count else entry - count


@_kernel
def _first_beyond(lanes, first, queue, i, lane, along_m):  # type: ignore[no-untyped-def]
    """Where on a lane, beyond this place, the next vehicle but i is (or as far on a twin, if in the way), and who."""
    count = len(queue) // 2
    nearest, who = inf, -1
    entry = first[lane]
    while entry >= 0 and who < 0:
        if queue[entry].along_m > along_m and _who(entry, count) != i:
            nearest, who = queue[entry].along_m, _who(entry, count)
        entry = queue[entry].next
    twin = lanes[lane].start_twin
    entry = first[twin] if twin >= 0 else -1
    while entry >= 0 and queue[entry].along_m < min(lanes[twin].start_shared_m, nearest):
        if queue[entry].along_m > along_m and _who(entry, count) != i:
            nearest, who = queue[entry].along_m, _who(entry, count)
        entry = queue[entry].next
    twin = lanes[lane].end_twin
    entry = first[twin] if twin >= 0 else -1
    while entry >= 0:
        left_m = lanes[twin].length_m - queue[entry].along_m
        place = lanes[lane].length_m - left_m
        if left_m < lanes[twin].end_shared_m and along_m < place < nearest and _who(entry, count) != i:
            nearest, who = place, _who(entry, count)
        entry = queue[entry].next
    return nearest, who


@_kernel
def _stop_m(lanes, vehicles, first, queue, phase, i, lane, ahead_m, leader_m):  # type: ignore[no-untyped-def]
    """Where on a lane, whose start is so far ahead, driver i heeds a line before any leader and must stop; or inf."""
    signals, yields = lanes[lane].stop_phase, lanes[lane].yields
    if (signals < 0 or signals == phase) and not yields:
        return inf
    stop_m = lanes[lane].length_m - (lanes[lane].end_shared_m if yields else 0.0)
    left_m = ahead_m + stop_m - vehicles[i].length_m / 2
    speed = vehicles[i].speed_mps
    too_late_m = speed * speed / (2.0 * _WILL_STOP_MPS2)
    in_time_m = speed * speed / (2.0 * _ANTICIPATED_BRAKING_MPS2) + _HEED_M
    if leader_m < stop_m or not too_late_m < left_m < in_time_m:
        return inf
    if yields and not _must_yield(lanes, vehicles, first, queue, i, lane, ahead_m + lanes[lane].length_m):
        return inf
    return stop_m


@_kernel
def _must_yield(lanes, vehicles, first, queue, i, lane, left_m):  # type: ignore[no-untyped-def]
    """Whether vehicle i, so far from the joint at the lane's end, would be in the way of somebody with priority."""
    speed = max(vehicles[i].speed_mps, _JOINING_MPS)
    enters_s, joins_s = (left_m - lanes[lane].end_shared_m) / speed, left_m / speed
    before, away_m = lanes[lane].end_twin, 0.0
    while before >= 0 and away_m < _SIGHT_M:
        away_m += lanes[before].length_m
        entry = first[before]
        while entry >= 0:
            other_mps = max(vehicles[_who(entry, len(vehicles))].speed_mps, 1.0)
            if enters_s < (away_m - queue[entry].along_m) / other_mps < joins_s + _AFTER_S:
                return True
            entry = queue[entry].next
        before = lanes[before].before
    return False


@_kernel
def _change_lanes(lanes, vehicles, first, queue, phase, i, current, wished):  # type: ignore[no-untyped-def]
    """Lets vehicle i begin a lane change if it is wished or faster, and safe; whether it does."""
    if vehicles[i].came_from >= 0 or vehicles[i].speed_mps < _CHANGE_FROM_MPS:
        return False
    for side in range(2):
        target = lanes[vehicles[i].lane].neighbours[side]
        if target < 0 or not _room_to_change(lanes, vehicles, i, side):
            continue
        along_m = vehicles[i].along_m * lanes[target].length_m / lanes[vehicles[i].lane].length_m
        there = _acceleration_on(lanes, vehicles, first, queue, phase, i, target, along_m)
        tempting = wished or there > current + _CHANGE_GAIN_MPS2
        if tempting and there > -_CHANGE_BRAKING_MPS2 and _lets_in(lanes, vehicles, i, target, along_m):
            vehicles[i].lane, vehicles[i].along_m = target, along_m
            vehicles[i].came_from, vehicles[i].changed = 1 - side, 0.0
            _fill_queues(lanes, vehicles, first, queue)
            return True
    return False


@_kernel
def _room_to_change(lanes, vehicles, i, side):  # type: ignore[no-untyped-def]
    """Whether the lanes run side by side until the change is done, and neither shares its road with others."""
    lane, needed_m = vehicles[i].lane, vehicles[i].along_m + _CHANGE_S * vehicles[i].speed_mps + 10.0
    while needed_m > 0.0:
        beside = lanes[lane].neighbours[side]
        if beside < 0 or _is_shared(lanes[lane]) or _is_shared(lanes[beside]):
            return False
        needed_m -= lanes[lane].length_m
        lane = lanes[lane].successors[0]
    return True


@_kernel
def _is_shared(lane):  # type: ignore[no-untyped-def]
    return lane.start_twin >= 0 or lane.end_twin >= 0 or lane.intersection == YES


@_kernel
def _distance_m(lanes, vehicle, target):  # type: ignore[no-untyped-def]
    """How far a vehicle is from the start of a lane on its way; inf unless that is among the next few."""
    lane, ahead_m = vehicle.lane, -vehicle.along_m
    for _ in range(_LANES_AHEAD):
        if lane == target:
            return ahead_m
        ahead_m += lanes[lane].length_m
        lane = _next_lane(lanes, vehicle, lane)
    return inf


@_kernel
def _lets_in(lanes, vehicles, i, target, along_m):  # type: ignore[no-untyped-def]
    """Whether vehicle i at this place of a lane would be beside nobody and make nobody behind it brake hard."""
    for j in range(len(vehicles)):
        behind_m = _distance_m(lanes, vehicles[j], target) + along_m
        if j == i or behind_m == inf:
            continue
        gap_m = abs(behind_m) - (vehicles[i].length_m + vehicles[j].length_m) / 2
        if gap_m < _LEAST_GAP_M:
            return False
        if behind_m > 0.0:
            speed, closing = vehicles[j].speed_mps, vehicles[j].speed_mps - vehicles[i].speed_mps
            desired, headway = vehicles[j].desired_mps, vehicles[j].headway_s
            braking = idm_acceleration(speed, desired, gap_m, closing, headway, vehicles[j].acceleration_mps2)
            if braking < -_CHANGE_BRAKING_MPS2:
                return False
    return True


@_kernel
def _move(lanes, vehicles, i, acceleration):  # type: ignore[no-untyped-def]
    vehicle = vehicles[i]
    speed = vehicle.speed_mps
    vehicle.speed_mps = max(0.0, speed + acceleration * STEP_S)
    vehicle.along_m += (speed + vehicle.speed_mps) / 2 * STEP_S / _stretch(lanes, vehicle)
    while vehicle.along_m >= lanes[vehicle.lane].length_m:
        vehicle.along_m -= lanes[vehicle.lane].length_m
        vehicle.lane = _next_lane(lanes, vehicle, vehicle.lane)
    if vehicle.came_from >= 0:
        vehicle.changed += STEP_S / _CHANGE_S * min(1.0, speed / _CHANGE_FROM_MPS)
        if vehicle.changed >= 1.0:
            vehicle.came_from = -1


@_kernel
def _stretch(lanes, vehicle):  # type: ignore[no-untyped-def]
    """How much longer the vehicle's way is than its lane: in a bend, the lane that it comes from may be."""
    old_lane = lanes[vehicle.lane].neighbours[vehicle.came_from] if vehicle.came_from >= 0 else -1
    if old_lane < 0:
        return 1.0
    share = abs(_aside_m(vehicle)) / _LANE_WIDTH_M
    return 1.0 + share * (lanes[old_lane].length_m / lanes[vehicle.lane].length_m - 1.0)


@_kernel
def _aside_m(vehicle):  # type: ignore[no-untyped-def]
    """How far to the right of its lane's centre line a vehicle is that still comes over from the next lane."""
    if vehicle.came_from < 0:
        return 0.0
    left_over_m = _LANE_WIDTH_M * (1.0 + cos(pi * vehicle.changed)) / 2
    return left_over_m if vehicle.came_from == 1 else -left_over_m


@_kernel
def _position_m(lane, along_m, aside_m):  # type: ignore[no-untyped-def]
    """The point so far along a lane and to the right of its centre line."""
    place = along_m / lane.length_m * (_POINTS - 1)
    k = min(int(place), _POINTS - 2)
    share = place - k
    x = (1.0 - share) * lane.points[k, 0] + share * lane.points[k + 1, 0]
    y = (1.0 - share) * lane.points[k, 1] + share * lane.points[k + 1, 1]
    ahead_x = (1.0 - share) * lane.directions[k, 0] + share * lane.directions[k + 1, 0]
    ahead_y = (1.0 - share) * lane.directions[k, 1] + share * lane.directions[k + 1, 1]
    return x + aside_m * ahead_y, y - aside_m * ahead_x


# Observing


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
def _wander(fresh, kept):  # type: ignore[no-untyped-def]
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
