"""The lanes of a small town.

Two main roads of two lanes per direction cross at signals; beyond them they bend into two loops, so that nobody ever
leaves the town. A slip road in the north-west and a roundabout in the south-east, with a side street around a block,
join the main roads from the right. Traffic keeps right.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import ceil, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.trajectories.recordings import LEFT, NO, RIGHT, STRAIGHT, YES, LaneMap

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Pose = tuple[float, float, float]  # m, m, heading in degrees, counter-clockwise from the east

LANE_WIDTH_M = 3.5
_LANES_M = (5.25, 8.75)  # a main road's lanes, to the right of its middle
_TURN_LANE_M = 1.75  # where the lane for turning left is, between the two directions
_LONGEST_LANE_M = 30.0
_MAP_POINTS = 10
_FINE = 3  # pieces, about a metre each, into which driving divides the map's
POINTS = (_MAP_POINTS - 1) * _FINE + 1
CLEAR_M = 2.6  # centre lines closer than this are in each other's way
_SPEED_LIMIT_MPS = 16.0
_LATERAL_LIMIT_MPS2 = 2.2  # what drivers accept in bends


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
        ("points", np.float64, (POINTS, 2)),  # m, equally far apart
        ("directions", np.float64, (POINTS, 2)),  # unit vectors
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


def _path(start: Pose, end: Pose, **attributes: Any) -> _Path:
    return _Path(_curve(start, end, 0.0), _pieces(start, end), **attributes)


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
    even = np.linspace(0, along[-1], path.pieces * (POINTS - 1) + 1)
    line = np.stack([np.interp(even, along, path.line[:, axis]) for axis in (0, 1)], axis=1)
    for piece in range(path.pieces):
        yield line[piece * (POINTS - 1) :][:POINTS], piece == path.pieces - 1


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
    return np.maximum(turned.max(axis=1) * (POINTS - 1) / _length_m(points), 1e-6)


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
        clear = int(np.argmax(apart > CLEAR_M)) if (apart > CLEAR_M).any() else POINTS - 1
        shared[lane] = _length_m(points[lane, : clear + 1])
    return shared


def _beside(points: Array, directions: Array, left: float) -> Indices:
    """The lane that runs beside each, a lane's width to the left (+1) or to the right (−1); -1 for none."""
    fits = np.ones((len(points), len(points)), np.bool_)
    for k in (0, POINTS // 2, POINTS - 1):
        (ahead_x, ahead_y), apart = directions[:, k].T[..., None], points[None, :, k] - points[:, None, k]
        along = apart[..., 0] * ahead_x + apart[..., 1] * ahead_y
        aside = left * (apart[..., 1] * ahead_x - apart[..., 0] * ahead_y)
        fits &= (np.abs(along) < 0.5) & (np.abs(aside - LANE_WIDTH_M) < 0.2)
    return np.where(fits.any(axis=1), fits.argmax(axis=1), -1)
