"""Reads the maps of Argoverse 1: the official vector map (XML), or bare centre lines whose links are inferred."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from mobfl.errors import InputError, broken_line, shown
from mobfl.files.arrays import npz_array
from mobfl.files.xml import Element, xml_elements
from mobfl.tasks.trajectories.recordings import LEFT, NO, RIGHT, STRAIGHT, UNKNOWN, YES, LaneMap

_MEETING_M = 0.05  # a lane's end and its successor's start, which the maps give in different roundings
_BESIDE_M = (2.0, 5.0)  # from one centre line to the next: a narrow lane's width to a wide one's
_SAME_HEADING = np.cos(np.radians(20))
_SAMPLE_M = 1.0  # along a lane, where neighbours are looked for
_TOUCHING_M = 1.0  # between samples of two lanes: where they cross, two are at most 0.71 m apart

_MOST_ARRAY_BYTES = 256 << 20  # the points of Miami's lanes are 2 MB
MOST_MAP_M = 1e7  # of lanes in all, and from the map's origin: Miami has 223 km of them, within 4 km

_TURNS = {"NONE": STRAIGHT, "LEFT": LEFT, "RIGHT": RIGHT}
_FLAGS = {"False": NO, "True": YES}

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def read_map(folder: Path, city: str) -> LaneMap:
    """A city's official map if it is anywhere below the folder, else its centre lines."""
    if not city.isalnum():  # it becomes part of a file's name
        raise InputError(f"the city of a map must be letters, got {city!r}")
    for pattern, read in (
        (f"pruned_argoverse_{city}_*_vector_map.xml", read_vector_map),
        (f"{city}_lane_centerlines.npz", read_centerlines),
    ):
        for file in sorted(folder.rglob(pattern)):
            return read(file)
    raise InputError(
        f"{folder}: must hold pruned_argoverse_{city}_*_vector_map.xml or {city}_lane_centerlines.npz, got neither"
    )


# ---- lanes by name --------------------------------------------------------------------------------


@dataclass
class Lane:
    """A lane as maps tell of it: other lanes by their names, None for no neighbour."""

    name: str
    line: Floats  # (points, 2) m
    turn: int = UNKNOWN
    control: int = UNKNOWN
    intersection: int = UNKNOWN
    successors: Sequence[str] = ()
    predecessors: Sequence[str] = ()
    left: str | None = None
    right: str | None = None


def _check_extent(file: Path, points: Floats, offsets: Ints) -> None:
    """Refuses a map beyond any city: what is looked for along its lanes, metre by metre, would fill memory."""
    far_m = float(np.abs(points).max(initial=0.0))
    if not far_m <= MOST_MAP_M:
        raise InputError(f"{file}: points must lie within {MOST_MAP_M:g} m of the origin, got {far_m:g} m")
    steps_m = np.hypot(*np.diff(points, axis=0).T)
    steps_m[offsets[1:-1] - 1] = 0.0  # from one lane to the next
    if not steps_m.sum() <= MOST_MAP_M:
        raise InputError(f"{file}: lanes must have at most {MOST_MAP_M:g} m in all, got {steps_m.sum():g} m")


def lane_map(file: Path, lanes: Sequence[Lane]) -> LaneMap:
    """Lanes with their links; a link to a lane that the file does not hold leads out of the map and is left out."""
    index = {lane.name: i for i, lane in enumerate(lanes)}
    if len(index) != len(lanes) or not lanes:
        raise InputError(f"{file}: must hold lanes with different names, got {len(lanes)} with {len(index)} names")
    for lane in lanes:
        if len(lane.line) < 2 or not np.isfinite(lane.line).all():
            raise InputError(
                f"{file}: lane {lane.name} must have at least two finite points, got {shown(lane.line.tolist())}"
            )
    points = np.concatenate([lane.line for lane in lanes])
    offsets = np.cumsum([0, *(len(lane.line) for lane in lanes)], dtype=np.int64)
    _check_extent(file, points, offsets)
    left, right = (
        _without_oncoming(points, offsets, np.array([-1 if name is None else index.get(name, -1) for name in names]))
        for names in ([lane.left for lane in lanes], [lane.right for lane in lanes])
    )
    turn, control, intersection = (
        np.array(column, np.int8)
        for column in zip(*((lane.turn, lane.control, lane.intersection) for lane in lanes), strict=True)
    )
    return LaneMap(points, offsets, turn, control, intersection, _successors(lanes, index), left, right)


def _successors(lanes: Sequence[Lane], index: Mapping[str, int]) -> Ints:
    """Pairs that either lane of them tells of."""
    ahead = ((index[lane.name], index[name]) for lane in lanes for name in lane.successors if name in index)
    behind = ((index[name], index[lane.name]) for lane in lanes for name in lane.predecessors if name in index)
    return np.array(sorted({*ahead, *behind}), np.int64).reshape(-1, 2)


def _without_oncoming(points: Floats, offsets: Ints, neighbour: Ints) -> Ints:
    """Only neighbours in the same direction: both Argoverse maps also name the lane across the centre of the road."""
    chord = points[offsets[1:] - 1] - points[offsets[:-1]]
    return np.where((chord * chord[neighbour]).sum(axis=1) > 0, neighbour, -1)


# ---- the official vector map ----------------------------------------------------------------------


@dataclass
class _Way:
    """A lane's element: its centre line by the names of its nodes, and its tags."""

    line: int  # of the file
    name: str
    nodes: list[str] = field(default_factory=list)
    tags: dict[str, list[str]] = field(default_factory=dict)


def read_vector_map(file: Path) -> LaneMap:
    """Lanes of the published XML: nodes with x and y, ways with references to them and tags."""
    nodes, ways = dict[str, tuple[float, float]](), list[_Way]()
    for line, element, values in _elements(file):
        match element:
            case "node":
                nodes[_value(file, line, values, "id")] = _place(file, line, values)
            case "way":
                ways.append(_Way(line, _value(file, line, values, "lane_id")))
            case "nd" | "tag" if not ways:
                raise broken_line(file, line, "a way around it", f"<{element}> alone")
            case "nd":
                ways[-1].nodes.append(_value(file, line, values, "ref"))
            case "tag":
                key, value = (_value(file, line, values, name) for name in ("k", "v"))
                ways[-1].tags.setdefault(key, []).append(value)
    return lane_map(file, [_lane(file, way, nodes) for way in ways])


def _lane(file: Path, way: _Way, nodes: Mapping[str, tuple[float, float]]) -> Lane:
    try:
        line = np.array([nodes[name] for name in way.nodes]).reshape(-1, 2)
    except KeyError as error:
        raise broken_line(file, way.line, "nodes that the map holds", f"{error} in lane {way.name}") from None
    return Lane(
        way.name,
        line,
        _choice(file, way, "turn_direction", _TURNS),
        _choice(file, way, "has_traffic_control", _FLAGS),
        _choice(file, way, "is_intersection", _FLAGS),
        way.tags.get("successor", ()),
        way.tags.get("predecessor", ()),
        # The map says "None" for no neighbour, which is no lane's name.
        way.tags.get("l_neighbor_id", [None])[0],
        way.tags.get("r_neighbor_id", [None])[0],
    )


def _choice(file: Path, way: _Way, tag: str, meanings: Mapping[str, int]) -> int:
    """What a tag says, UNKNOWN where it is missing."""
    if tag not in way.tags:
        return UNKNOWN
    word = way.tags[tag][0]
    if word not in meanings:
        raise broken_line(file, way.line, f"{' or '.join(meanings)} in {tag}", f"{word!r} in lane {way.name}")
    return meanings[word]


def _elements(file: Path) -> Iterator[Element]:
    try:
        with file.open("rb") as binary:
            yield from xml_elements(file, binary)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None


def _value(file: Path, line: int, values: Mapping[str, str], name: str) -> str:
    if name not in values:
        raise broken_line(file, line, f"the attribute {name}", ", ".join(values) or "none")
    return values[name]


def _place(file: Path, line: int, values: Mapping[str, str]) -> tuple[float, float]:
    x, y = (_value(file, line, values, axis) for axis in ("x", "y"))
    try:
        return float(x), float(y)
    except ValueError:
        raise broken_line(file, line, "numbers in x and y", f"{x!r} and {y!r}") from None


# ---- centre lines alone ---------------------------------------------------------------------------


def read_centerlines(file: Path) -> LaneMap:
    """Lanes of which only the course is known: `offsets` and `points`, as in LaneMap. Links are inferred from it."""
    points, offsets = _centerline_arrays(file)
    left, right = inferred_neighbours(points, offsets)
    unknown = np.full(len(offsets) - 1, UNKNOWN, np.int8)
    return LaneMap(points, offsets, unknown, unknown, unknown, inferred_successors(points, offsets), left, right)


def _centerline_arrays(file: Path) -> tuple[Floats, Ints]:
    points, offsets = (npz_array(file, key, _MOST_ARRAY_BYTES) for key in ("points", "offsets"))
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fiu" or not np.isfinite(points).all():
        raise InputError(f"{file}: points must be finite numbers (points, 2), got {points.dtype} {points.shape}")
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise InputError(f"{file}: offsets must be whole numbers (lanes + 1,), got {offsets.dtype} {offsets.shape}")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(points) or (np.diff(offsets) < 2).any():
        steps = f"from {offsets[0]} to {offsets[-1]} in steps of {np.diff(offsets).min()} and more"
        raise InputError(f"{file}: offsets must go from 0 to {len(points)} in steps of 2 and more, got {steps}")
    _check_extent(file, points.astype(np.float64), offsets)
    return points.astype(np.float64), offsets


def inferred_successors(points: Floats, offsets: Ints) -> Ints:
    """Pairs (S, 2) of a lane and one that starts within 5 cm of its end, in the order of the lanes."""
    starts, ends = points[offsets[:-1]], points[offsets[1:] - 1]
    meeting = cKDTree(ends).sparse_distance_matrix(cKDTree(starts), _MEETING_M, output_type="ndarray")
    lane, after = meeting["i"], meeting["j"]
    arriving, leaving = ends - points[offsets[1:] - 2], points[offsets[:-1] + 1] - starts
    # Narrow streets have one course for both directions: the way back starts where the way there ends.
    ahead = (arriving[lane] * leaving[after]).sum(axis=1) > 0
    return np.unique(np.column_stack((lane, after))[ahead & (lane != after)], axis=0).astype(np.int64)


def inferred_neighbours(points: Floats, offsets: Ints) -> tuple[Ints, Ints]:
    """Each lane's neighbours in the same direction, left and right, -1 for none.

    A neighbour runs 2 m to 5 m beside a lane, turned by less than 20 degrees, along more than half of its length, and
    nowhere touches it as lanes do that cross, fork or follow one another. The nearest such lane counts; it counts the
    other way round, too, where that side is free.
    """
    samples = _samples(points, offsets)
    touching = _touching(samples, len(offsets) - 1)
    left, right = (_beside(samples, len(offsets) - 1, touching, side) for side in (1, -1))
    return _with_reverse(left, right), _with_reverse(right, left)


@dataclass(frozen=True)
class _Samples:
    """Points along all lanes, at most a metre apart."""

    lane: Ints  # (N,)
    place: Floats  # (N, 2)
    heading: Floats  # (N, 2), unit vectors


def _samples(points: Floats, offsets: Ints) -> _Samples:
    first, last = offsets[:-1], offsets[1:] - 1
    steps = np.diff(points, axis=0)
    lengths = np.hypot(*steps.T)
    lengths[last[:-1]] = 0.0  # from one lane to the next
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    length = along[last] - along[first]
    count = np.maximum(np.ceil(length / _SAMPLE_M), 1).astype(np.int64)
    lane = np.repeat(np.arange(len(count)), count)
    # In the middle of equal pieces, so that no sample lies where two lanes meet.
    piece = np.arange(len(lane)) - np.repeat(np.cumsum(count) - count, count)
    at = along[first[lane]] + length[lane] * (piece + 0.5) / count[lane]
    segment = np.clip(np.searchsorted(along, at, side="right") - 1, first[lane], last[lane] - 1)
    heading = steps[segment] / np.maximum(lengths[segment], 1e-9)[:, None]
    return _Samples(lane, points[segment] + heading * (at - along[segment])[:, None], heading)


def _touching(samples: _Samples, lanes: int) -> Ints:
    """Pairs of lanes that come together somewhere, as numbers: lane * lanes + other lane."""
    lane, other = samples.lane[cKDTree(samples.place).query_pairs(_TOUCHING_M, output_type="ndarray")].T
    return np.unique(np.concatenate((lane * lanes + other, other * lanes + lane)))


def _beside(samples: _Samples, lanes: int, touching: Ints, side: int) -> Ints:
    """Each lane's nearest lane along more than half of its length on one side: 1 is left, -1 right."""
    here, there, away_m = _pairs_beside(samples, side)
    # Samples of one lane that has several of another beside it count once.
    pair, where = np.unique(here * lanes + samples.lane[there], return_index=True)
    pair = samples.lane[pair // lanes] * lanes + pair % lanes
    pair, group, beside = np.unique(pair, return_inverse=True, return_counts=True)
    mean_m = np.bincount(group, away_m[where]) / beside
    lane, other = np.divmod(pair, lanes)
    kept = beside > np.bincount(samples.lane, minlength=lanes)[lane] / 2
    kept &= ~np.isin(pair, touching)
    lane, other, mean_m = lane[kept], other[kept], mean_m[kept]
    farthest_first = np.lexsort((-other, -mean_m))
    neighbour = np.full(lanes, -1, np.int64)
    neighbour[lane[farthest_first]] = other[farthest_first]  # of several, the last one stays
    return neighbour


def _pairs_beside(samples: _Samples, side: int) -> tuple[Ints, Ints, Floats]:
    """Pairs of samples of parallel lanes, the second beside the first, and how far away (m)."""
    nearest_m, farthest_m = _BESIDE_M
    across = side * samples.heading[:, ::-1] * [-1.0, 1.0]
    # Looked for around the middle of the strip that counts, so that only few are found in vain.
    strip = samples.place + across * (nearest_m + farthest_m) / 2
    reach_m = np.hypot((farthest_m - nearest_m) / 2, _SAMPLE_M)
    found = cKDTree(strip).sparse_distance_matrix(cKDTree(samples.place), reach_m, output_type="ndarray")
    here, there = found["i"], found["j"]
    apart = samples.place[there] - samples.place[here]
    away_m = (apart * across[here]).sum(axis=1)
    ahead_m = (apart * samples.heading[here]).sum(axis=1)
    parallel = (samples.heading[here] * samples.heading[there]).sum(axis=1) > _SAME_HEADING
    kept = parallel & (nearest_m <= away_m) & (away_m <= farthest_m) & (np.abs(ahead_m) <= _SAMPLE_M)
    kept &= samples.lane[here] != samples.lane[there]
    return here[kept], there[kept], away_m[kept]


def _with_reverse(one: Ints, other: Ints) -> Ints:
    """Neighbours on one side, completed by the lanes that have theirs on the other side."""
    lane = np.flatnonzero(other >= 0)[::-1]
    completed = np.full_like(one, -1)
    completed[other[lane]] = lane  # of several, the first one stays
    return np.where(one >= 0, one, completed)
