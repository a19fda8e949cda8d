"""Beam selection on one street, generated in Raymobtime's conventions: what a receiver's LIDAR sees and its channel.

Everything is reckoned in the street's own frame: metres across (towards the east side), metres along (towards the
south) and height. The positions of lanes and house fronts, the arrays' directions and the LIDAR's field of view were
read off the real street (Raymobtime s010); vehicles and their shares are the data set's.

The channel at 60 GHz is the sum of the direct path, first- and second-order reflections at house fronts and
first-order ones at vehicles, each found by mirroring the base station. All mirrors are upright: a path by way of the
ground or another's roof would reach the antenna from below, through its own vehicle. A path that one vehicle cuts
bends around it with the knife edge's loss, a path cut twice is lost. So trucks, higher than the base station, hear it
over the edge of their own roof: in real s008 they never have a line of sight, in s010 mostly the direct beam.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, hypot, log10, pi, sin, sqrt

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.rng import stream

Array = NDArray[np.float64]

BASE_STATION_M = (746.0, 560.0, 4.0)
GRID_ORIGIN_M = (744.0, 429.0, 0.0)
GRID_STEP_M = (1.15, 1.25, 1.0)
GRID_SHAPE = (20, 200, 10)
OBSTACLE, BASE_STATION, RECEIVER = 1, -1, -2
BASE_BEAMS, RECEIVER_BEAMS = 32, 8

_NORTH_END_M, _SOUTH_END_M = np.array([747.0, 675.2]), np.array([765.1, 417.0])
_ALONG = (_SOUTH_END_M - _NORTH_END_M) / np.linalg.norm(_SOUTH_END_M - _NORTH_END_M)
_ACROSS = np.array([-_ALONG[1], _ALONG[0]])

# Lanes: metres across, direction of travel along (right-hand traffic), mean clear distance between vehicles.
_LANES = ((-5.25, 1.0, 24.0), (-2.25, 1.0, 19.0), (6.05, -1.0, 26.0), (9.05, -1.0, 25.0))
_LEAST_GAP_M = 2.5
_TRAFFIC_M = (10.0, 221.0)  # the traffic's extent along the street
_RECEIVERS_FROM_M, _RECEIVERS_TO_M = np.array([745.0, 462.0]), np.array([766.0, 658.0])  # Raymobtime's area, on the map
_RECEIVERS_PER_SCENE = 10
_LENGTH_WIDTH_HEIGHT_M = np.array([[4.645, 1.775, 1.59], [9.0, 2.4, 3.2], [12.5, 2.5, 4.3]])  # car, bus, truck
_SHARES = np.array([0.7, 0.2, 0.1])
_MOST_PER_LANE = int((_TRAFFIC_M[1] - _TRAFFIC_M[0]) / (_LENGTH_WIDTH_HEIGHT_M[0, 0] + _LEAST_GAP_M)) + 1

# House fronts, a row each: the axis they stand across (0 across, 1 along), where, begin and end on the other axis,
# height. Side streets open between those of a side. The west side's northern houses stand back (x = 739 beside the
# base station); its southern ones do not: real grids show them 1.7 m behind the base station's line.
HOUSE_FRONTS = np.array(
    [
        [0.0, -10.75, 110.0, 218.0, np.inf],
        [0.0, -16.0, 16.0, 100.0, np.inf],
        [0.0, 15.0, 65.0, 226.0, np.inf],
        [0.0, 15.0, 16.0, 58.0, np.inf],
        [1.0, -20.0, -15.0, 11.5, np.inf],
        [1.0, 262.0, -15.0, 15.0, np.inf],
    ]
)

WAVELENGTH_M = 299_792_458.0 / 60e9
_CONCRETE = 5.31 - 0.8967j / (2 * pi * 60e9 * 8.8541878128e-12)  # complex permittivity, ITU-R P.2040
_TOUCH = 1e-9  # share of a leg below which it touches a vehicle instead of passing through

_LIDAR_ABOVE_ROOF_M, _LIDAR_RANGE_M = 1.0, 100.0
_LIDAR_SLOPES = np.tan(np.radians(np.linspace(-24.8, 2.0, 64)))  # the lasers of a Velodyne HDL-64E, lowest first
_LIDAR_LOWEST, _LIDAR_HIGHEST = float(_LIDAR_SLOPES[0]), float(_LIDAR_SLOPES[-1])
_LIDAR_AZIMUTHS = 1800


@dataclass(frozen=True)
class StreetSamples:
    """What N receivers saw (a grid each) and their beams' amplitudes; a beam pair's class is rx · 32 + tx."""

    grid: NDArray[np.int8]  # (N, 20, 200, 10)
    amplitude: NDArray[np.float32]  # (N, 8, 32): |combined channel| for receive beam, transmit beam
    position_m: Array  # (N, 3) of the receiver, in the map's coordinates
    line_of_sight: NDArray[np.bool_]  # (N,)
    scene: NDArray[np.int64]  # (N,), in order


@dataclass(frozen=True)
class _Scene:
    """A snapshot of the traffic, in the street's frame, and who listens."""

    boxes: Array  # (V, 6): the least and the greatest metres across, along and high
    heading: Array  # (V,): +1 drives towards greater metres along
    receivers: NDArray[np.int64]  # vehicles
    phases: Array  # (R, paths that could be)

    def antenna_m(self, vehicle: int) -> tuple[float, float, float]:
        """The middle of the roof."""
        box = self.boxes[vehicle]
        return float(box[0] + box[3]) / 2, float(box[1] + box[4]) / 2, float(box[5])


@dataclass(frozen=True)
class _Reached:
    """A receiver that at least one path reaches."""

    number: int
    scene: _Scene
    vehicle: int
    amplitude: NDArray[np.float32]
    line_of_sight: bool


def street_scenes(seed: int, first: int, count: int) -> StreetSamples:
    """The samples of `count` scenes from number `first` on; a scene's samples depend on seed and number alone."""
    if first < 0 or count < 0:
        raise InputError(f"first and count must be >= 0, got {first} and {count}")
    key = stream(seed, "street")
    return _samples([one for number in range(first, first + count) for one in _reached(number, _draw(key, number))])


def street_from_map(position_m: Array) -> Array:
    """Metres across and along (and high, where given) of positions in the map's coordinates."""
    level = (position_m[..., :2] - _NORTH_END_M) @ np.stack([_ACROSS, _ALONG], axis=1)
    return np.concatenate([level, position_m[..., 2:]], axis=-1)


def map_from_street(position_m: Array) -> Array:
    """The map's coordinates of positions in the street's frame."""
    # Written out: a matrix product's last bits may depend on how many positions there are.
    level = _NORTH_END_M + position_m[..., :1] * _ACROSS + position_m[..., 1:2] * _ALONG
    return np.concatenate([level, position_m[..., 2:]], axis=-1)


_BASE_M: tuple[float, float, float] = tuple(street_from_map(np.array(BASE_STATION_M)).tolist())


# Traffic


def _draw(key: np.uint64, number: int) -> _Scene:
    """The scene of this number: vehicles lane by lane, up to ten of them receivers."""
    random = np.random.Generator(np.random.Philox(key=np.array([key, number], np.uint64)))
    lanes = [_lane(random, across_m, gap_m) for across_m, _, gap_m in _LANES]
    boxes = np.concatenate(lanes)
    heading = np.repeat([heading for _, heading, _ in _LANES], [len(lane) for lane in lanes])
    middle = map_from_street((boxes[:, :2] + boxes[:, 3:5]) / 2)
    there = np.flatnonzero(((middle > _RECEIVERS_FROM_M) & (middle < _RECEIVERS_TO_M)).all(axis=1))
    receivers = np.sort(random.permutation(there)[:_RECEIVERS_PER_SCENE])
    phases = 2 * pi * random.random((len(receivers), most_paths(len(boxes))))
    return _Scene(boxes, heading, receivers, phases)


def _lane(random: np.random.Generator, across_m: float, gap_m: float) -> Array:
    """Boxes of a lane's vehicles, which follow each other at the least gap plus an exponential one."""
    kind = np.searchsorted(np.cumsum(_SHARES)[:-1], random.random(_MOST_PER_LANE), side="right")
    length, width, height = _LENGTH_WIDTH_HEIGHT_M[kind].T
    gap = _LEAST_GAP_M + (gap_m - _LEAST_GAP_M) * random.standard_exponential(_MOST_PER_LANE)
    rear = _TRAFFIC_M[0] + np.cumsum(gap + length) - length - random.random() * gap[0]
    side = across_m + np.outer([-0.5, 0.5], width)
    boxes = np.stack([side[0], rear, np.zeros_like(height), side[1], rear + length, height], axis=1)
    return boxes[rear + length < _TRAFFIC_M[1]]


# Samples


def _reached(number: int, scene: _Scene) -> Iterator[_Reached]:
    for vehicle, phases in zip(scene.receivers, scene.phases, strict=True):
        paths, which = trace_paths(scene.antenna_m(vehicle), scene.boxes, HOUSE_FRONTS)
        if len(paths):
            amplitude = beam_amplitudes(paths, phases[which], scene.heading[vehicle])
            in_sight = which[0] == 0 and paths[0, 1] == 1.0  # the direct path, and no knife edge has weakened it
            yield _Reached(number, scene, vehicle, amplitude, bool(in_sight))


def _samples(reached: list[_Reached]) -> StreetSamples:
    """Scans for those reached only, straight into the grids, which are nearly all of the memory."""
    antennas = np.array([one.scene.antenna_m(one.vehicle) for one in reached]).reshape(-1, 3)
    positions = map_from_street(antennas)
    grid = np.zeros((len(reached), *GRID_SHAPE), np.int8)
    for cells, position, one in zip(grid, positions, reached, strict=True):
        scan(one.scene.boxes, one.vehicle, HOUSE_FRONTS, cells)
        cells[cell_of(position)] = RECEIVER
        cells[cell_of(np.array(BASE_STATION_M))] = BASE_STATION
    return StreetSamples(
        grid=grid,
        amplitude=np.array([one.amplitude for one in reached], np.float32).reshape(-1, RECEIVER_BEAMS, BASE_BEAMS),
        position_m=positions,
        line_of_sight=np.array([one.line_of_sight for one in reached], np.bool_),
        scene=np.array([one.number for one in reached], np.int64),
    )


def cell_of(position_m: Array) -> tuple[int, ...]:
    """The grid's cell of a position in the map's coordinates: the nearest, at the edge for those beyond it."""
    cell = np.rint((position_m - np.array(GRID_ORIGIN_M)) / np.array(GRID_STEP_M))
    return tuple(np.clip(cell, 0, np.array(GRID_SHAPE) - 1).astype(int).tolist())


# Paths


def most_paths(vehicles: int) -> int:
    """How many paths could be: the direct one, one per house front and vehicle's side, two fronts in either order."""
    fronts = len(HOUSE_FRONTS)
    return 1 + fronts + 4 * vehicles + fronts * fronts


@njit(cache=True)
def trace_paths(antenna, boxes, fronts):
    """The paths from the base station to an antenna in the street's frame, and their numbers among all that could be.

    A path's row: its length in m; what reflection and diffraction leave of the amplitude; the level direction in
    which it leaves the base station, then that in which the antenna sees it (across, along; unit vectors).
    """
    sides, count = len(fronts) + 4 * len(boxes), len(fronts)
    paths = np.empty((1 + sides + count * count, 6))
    which = np.empty(len(paths), np.int64)
    found = _keep_path(paths, which, 0, 0, (_BASE_M, antenna, antenna, antenna), 1, 1.0, boxes)
    for i in range(sides):
        face = fronts[i] if i < count else _vehicle_side(boxes[(i - count) // 4], (i - count) % 4)
        if i >= count and not _both_outside(face, (i - count) % 2, antenna):
            continue
        image = _mirrored(_BASE_M, face)
        hit, point = _mirror_point(antenna, image, face)
        if hit:
            left = _reflected(antenna, image, face) if i < count else 1.0  # vehicles are metal
            found = _keep_path(paths, which, found, 1 + i, (_BASE_M, point, antenna, antenna), 2, left, boxes)
    for i in range(count):
        image = _mirrored(_BASE_M, fronts[i])
        for j in range(count):
            twice = _mirrored(image, fronts[j])
            hit, last = _mirror_point(antenna, twice, fronts[j])
            if i == j or not hit:
                continue
            hit, point = _mirror_point(last, image, fronts[i])
            if hit:
                left = _reflected(antenna, twice, fronts[j]) * _reflected(last, image, fronts[i])
                number = 1 + sides + i * count + j
                found = _keep_path(paths, which, found, number, (_BASE_M, point, last, antenna), 3, left, boxes)
    return paths[:found].copy(), which[:found].copy()


@njit(cache=True)
def _vehicle_side(box, side):
    """A side as a face like a house front: 0 and 1 across at the least and greatest, 2 and 3 along."""
    axis = side // 2
    other = 1 - axis
    return np.array([float(axis), box[axis + 3 * (side % 2)], box[other], box[other + 3], box[5]])


@njit(cache=True)
def _both_outside(face, greatest, antenna):
    """Whether base station and antenna are both before a vehicle's side, not behind it."""
    axis = int(face[0])
    outwards = 1.0 if greatest else -1.0
    return outwards * (_BASE_M[axis] - face[1]) > 0 and outwards * (antenna[axis] - face[1]) > 0


@njit(cache=True)
def _mirrored(point, face):
    if face[0] == 0.0:
        return (2 * face[1] - point[0], point[1], point[2])
    return (point[0], 2 * face[1] - point[1], point[2])


@njit(cache=True)
def _mirror_point(seen_from, image, face):
    """Whether an image is seen in the face, and the point where."""
    axis = int(face[0])
    depth = image[axis] - seen_from[axis]
    share = (face[1] - seen_from[axis]) / depth if depth != 0.0 else -1.0
    point = _between(seen_from, image, share)
    seen = 0.0 < share < 1.0 and face[2] <= point[1 - axis] <= face[3] and point[2] <= face[4]
    return seen, point


@njit(cache=True)
def _between(start, end, share):
    return (
        start[0] + share * (end[0] - start[0]),
        start[1] + share * (end[1] - start[1]),
        start[2] + share * (end[2] - start[2]),
    )


@njit(cache=True)
def _distance(a, b):
    return sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2)


@njit(cache=True)
def _reflected(seen_from, image, front):
    """What concrete reflects of an upright wave (Fresnel: the field is parallel to the front)."""
    axis = int(front[0])
    cosine = abs(image[axis] - seen_from[axis]) / _distance(seen_from, image)
    root = np.sqrt(_CONCRETE - (1.0 - cosine * cosine))
    return abs((cosine - root) / (cosine + root))


@njit(cache=True)
def _keep_path(paths, which, found, number, corners, legs, left, boxes):
    """Writes down the path along these corners unless vehicles cut it more than once; how many there are then."""
    length = 0.0
    for leg in range(legs):
        length += _distance(corners[leg], corners[leg + 1])
    left *= _past_vehicles(corners, legs, length, boxes)
    if left > 0.0:
        start, second, last, end = corners[0], corners[1], corners[legs - 1], corners[legs]
        departing = hypot(second[0] - start[0], second[1] - start[1])
        arriving = hypot(last[0] - end[0], last[1] - end[1])
        paths[found, 0], paths[found, 1] = length, left
        paths[found, 2], paths[found, 3] = (second[0] - start[0]) / departing, (second[1] - start[1]) / departing
        paths[found, 4], paths[found, 5] = (last[0] - end[0]) / arriving, (last[1] - end[1]) / arriving
        which[found] = number
        found += 1
    return found


@njit(cache=True)
def _past_vehicles(corners, legs, length, boxes):
    """What the vehicles leave of a path's amplitude: all if none cuts it, nothing if it is cut twice."""
    left, cuts, before = 1.0, 0, 0.0
    for leg in range(legs):
        start, end = corners[leg], corners[leg + 1]
        for k in range(len(boxes)):
            enter, leave = _inside(start, end, boxes[k])
            if leave - enter > _TOUCH:
                cuts += 1
                if cuts > 1:
                    return 0.0
                left = _knife_edge(_obstruction(start, end, enter, leave, boxes[k], before, length))
        before += _distance(start, end)
    return left


@njit(cache=True)
def _inside(start, end, box):
    """From which to which share of a leg it is inside the box; nowhere if the first is not below the second."""
    enter, leave = 0.0, 1.0
    for axis in range(3):
        low, high, step = box[axis] - start[axis], box[axis + 3] - start[axis], end[axis] - start[axis]
        if step == 0.0:
            if low >= 0.0 or high <= 0.0:
                return 1.0, 0.0
        else:
            enter = max(enter, min(low / step, high / step))
            leave = min(leave, max(low / step, high / step))
    return enter, leave


@njit(cache=True)
def _obstruction(start, end, enter, leave, box, before, length):
    """Fresnel's parameter of the easiest way around a vehicle that cuts a leg: over the roof, left or right."""
    leg, level = _distance(start, end), hypot(end[0] - start[0], end[1] - start[1])
    over = 0.0
    for share in (enter, leave):
        height = start[2] + share * (end[2] - start[2])
        over = max(over, _fresnel_parameter(box[5] - height, before + share * leg, length))
    left = right = 0.0
    for corner in range(4):
        across, along = box[3 * (corner % 2)] - start[0], box[1 + 3 * (corner // 2)] - start[1]
        beside = (across * (end[1] - start[1]) - along * (end[0] - start[0])) / level
        share = (across * (end[0] - start[0]) + along * (end[1] - start[1])) / (level * level)
        parameter = _fresnel_parameter(abs(beside), before + share * leg, length)
        if beside > 0.0:
            left = max(left, parameter)
        else:
            right = max(right, parameter)
    return min(over, left, right)


@njit(cache=True)
def _fresnel_parameter(excess_m, distance_m, length_m):
    """ν of an edge that stands into a path by this much at this distance from its start (ITU-R P.526)."""
    near = max(distance_m, WAVELENGTH_M)  # corners beside or behind the antenna count as next to it
    far = max(length_m - distance_m, WAVELENGTH_M)
    return excess_m * sqrt(2.0 * (near + far) / (WAVELENGTH_M * near * far))


@njit(cache=True)
def _knife_edge(parameter):
    """What a knife edge leaves of the amplitude (ITU-R P.526's closed form)."""
    v = parameter - 0.1
    loss_db = 6.9 + 20.0 * log10(sqrt(v * v + 1.0) + v)
    return 10.0 ** (-loss_db / 20.0)


# Beams


@njit(cache=True)
def beam_amplitudes(paths, phases, heading):
    """|combined channel| for every receive and transmit beam of the DFT codebooks.

    The base station's array lies along the map's x, the receiver's along its heading. As in Raymobtime, arrays
    respond to the azimuth alone: real s010 shows it beside the base station, where elevation would shift the beam.
    """
    channel = np.zeros((RECEIVER_BEAMS, BASE_BEAMS), np.complex128)
    for k in range(len(paths)):
        length, left, departs_across, departs_along, _, seen_along = paths[k]
        transmit = _beam_response(departs_across * _ACROSS[0] + departs_along * _ALONG[0], BASE_BEAMS)
        receive = np.conj(_beam_response(heading * seen_along, RECEIVER_BEAMS))
        gain = left * WAVELENGTH_M / (4 * pi * length) * np.exp(-1j * phases[k])
        for rx in range(RECEIVER_BEAMS):
            for tx in range(BASE_BEAMS):
                channel[rx, tx] += gain * receive[rx] * transmit[tx]
    return np.abs(channel).astype(np.float32)


@njit(cache=True)
def _beam_response(cosine, beams):
    """Each beam's response to a direction: Σₙ e^(−jπn(cosine + 2k/beams)) / √beams, summed as a geometric series."""
    response = np.empty(beams, np.complex128)
    for k in range(beams):
        half = pi * (cosine + 2.0 * k / beams) / 2.0
        below = sin(half)
        if abs(below) < 1e-9:
            response[k] = sqrt(beams)
        else:
            response[k] = np.exp(-1j * half * (beams - 1)) * (sin(beams * half) / below / sqrt(beams))
    return response


# LIDAR


@njit(cache=True)
def scan(boxes, own, fronts, cells):
    """Marks the cells that the LIDAR on a vehicle's roof hits: vehicles' sides and roofs, house fronts; not the ground.

    At every azimuth the view moves outwards; what it has met hides all under the steepest line to it. A side is a
    column of hits, whatever the laser; on roofs, met at a grazing angle, lasers land far apart and count one by one.
    """
    across, along = (boxes[own, 0] + boxes[own, 3]) / 2, (boxes[own, 1] + boxes[own, 4]) / 2
    height = boxes[own, 5] + _LIDAR_ABOVE_ROOF_M
    circles = _circles(boxes, own, across, along)
    found = (np.empty(len(boxes)), np.empty(len(boxes)), np.empty(len(boxes)))
    enter, leave, top = found
    for azimuth in range(_LIDAR_AZIMUTHS):
        angle = 2 * pi * (azimuth + 0.5) / _LIDAR_AZIMUTHS  # by half a step never parallel to an axis: no division by 0
        ray = (across, along, cos(angle), sin(angle))
        front_m = _nearest_front(ray, fronts)
        hidden = _LIDAR_LOWEST
        for k in range(_vehicles_on_ray(ray, min(front_m, _LIDAR_RANGE_M), boxes, circles, found)):
            edge = (top[k] - height) / enter[k]
            if edge > hidden:
                highest = min(top[k], height + _LIDAR_HIGHEST * enter[k])
                _mark_column(cells, ray, enter[k], height + hidden * enter[k], highest)
                hidden = edge
            if top[k] < height:
                hidden = max(hidden, _mark_roof(cells, ray, hidden, leave[k], top[k], height))
        if front_m < _LIDAR_RANGE_M and hidden < _LIDAR_HIGHEST:
            _mark_column(cells, ray, front_m, height + hidden * front_m, height + _LIDAR_HIGHEST * front_m)


@njit(cache=True)
def _circles(boxes, own, across, along):
    """Centre, relative to a point, and radius of a circle around each vehicle; none, so negative, around one's own."""
    circles = np.empty((len(boxes), 3))
    for k in range(len(boxes)):
        circles[k, 0] = (boxes[k, 0] + boxes[k, 3]) / 2 - across
        circles[k, 1] = (boxes[k, 1] + boxes[k, 4]) / 2 - along
        circles[k, 2] = hypot(boxes[k, 3] - boxes[k, 0], boxes[k, 4] - boxes[k, 1]) / 2
    circles[own, 2] = -1.0
    return circles


@njit(cache=True)
def _nearest_front(ray, fronts):
    """Metres along a level ray to the first house front; infinite if it meets none."""
    nearest = np.inf
    for k in range(len(fronts)):
        axis = int(fronts[k, 0])
        distance = (fronts[k, 1] - ray[axis]) / ray[2 + axis]
        aside = ray[1 - axis] + distance * ray[3 - axis]
        if 0.0 < distance < nearest and fronts[k, 2] <= aside <= fronts[k, 3]:
            nearest = distance
    return nearest


@njit(cache=True)
def _vehicles_on_ray(ray, reach_m, boxes, circles, found):
    """How many vehicles a level ray meets; where it enters and leaves them, and their tops, go to `found` in order."""
    enters, leaves, tops = found
    count = 0
    for k in range(len(boxes)):
        if abs(circles[k, 0] * ray[3] - circles[k, 1] * ray[2]) > circles[k, 2]:
            continue  # most vehicles, at the price of no division
        enter, leave = 0.0, reach_m
        for axis in range(2):
            low, high = (boxes[k, axis] - ray[axis]) / ray[2 + axis], (boxes[k, axis + 3] - ray[axis]) / ray[2 + axis]
            enter, leave = max(enter, min(low, high)), min(leave, max(low, high))
        if enter >= leave:
            continue
        place = count
        while place > 0 and enters[place - 1] > enter:
            enters[place], leaves[place], tops[place] = enters[place - 1], leaves[place - 1], tops[place - 1]
            place -= 1
        enters[place], leaves[place], tops[place] = enter, leave, boxes[k, 5]
        count += 1
    return count


@njit(cache=True)
def _mark_column(cells, ray, distance_m, low_m, high_m):
    x, y = _level_cell(ray, distance_m)
    for z in range(_cell(low_m, 2), _cell(high_m, 2) + 1):
        cells[x, y, z] = OBSTACLE


@njit(cache=True)
def _mark_roof(cells, ray, hidden, end_m, roof_m, height_m):
    """Marks where lasers steeper than `hidden` land on a roof that ends at this distance; the slope to its end."""
    end = (roof_m - height_m) / end_m
    laser = np.searchsorted(_LIDAR_SLOPES, hidden, side="right")
    while laser < len(_LIDAR_SLOPES) and _LIDAR_SLOPES[laser] < end:
        x, y = _level_cell(ray, (roof_m - height_m) / _LIDAR_SLOPES[laser])
        cells[x, y, _cell(roof_m, 2)] = OBSTACLE
        laser += 1
    return end


@njit(cache=True)
def _level_cell(ray, distance_m):
    """The column of cells over the point at this distance on a ray."""
    across, along = ray[0] + distance_m * ray[2], ray[1] + distance_m * ray[3]
    x = _NORTH_END_M[0] + across * _ACROSS[0] + along * _ALONG[0]
    y = _NORTH_END_M[1] + across * _ACROSS[1] + along * _ALONG[1]
    return _cell(x, 0), _cell(y, 1)


@njit(cache=True)
def _cell(position_m, axis):
    nearest = int(np.rint((position_m - GRID_ORIGIN_M[axis]) / GRID_STEP_M[axis]))
    return min(max(nearest, 0), GRID_SHAPE[axis] - 1)
