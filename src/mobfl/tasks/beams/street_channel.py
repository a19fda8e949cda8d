"""The channel of a receiver on the street at 60 GHz, and its beams.

It is the sum of the direct path, first- and second-order reflections at house fronts and first-order ones at vehicles,
each found by mirroring the base station. All mirrors are upright: a path by way of the ground or another's roof would
reach the antenna from below, through its own vehicle. A path that one vehicle cuts bends around it with the knife
edge's loss, a path cut twice is lost. So trucks, higher than the base station, hear it over the edge of their own roof:
in real s008 they never have a line of sight, in s010 mostly the direct beam.
"""

from math import hypot, log10, pi, sin, sqrt

import numpy as np
from numba import njit

from mobfl.tasks.beams.conventions import BASE_BEAMS, RECEIVER_BEAMS
from mobfl.tasks.beams.street_frame import ACROSS, ALONG, BASE_M, HOUSE_FRONTS

WAVELENGTH_M = 299_792_458.0 / 60e9
_CONCRETE = 5.31 - 0.8967j / (2 * pi * 60e9 * 8.8541878128e-12)  # complex permittivity, ITU-R P.2040
_TOUCH = 1e-9  # share of a leg below which it touches a vehicle instead of passing through


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
    found = _keep_path(paths, which, 0, 0, (BASE_M, antenna, antenna, antenna), 1, 1.0, boxes)
    for i in range(sides):
        face = fronts[i] if i < count else _vehicle_side(boxes[(i - count) // 4], (i - count) % 4)
        if i >= count and not _both_outside(face, (i - count) % 2, antenna):
            continue
        image = _mirrored(BASE_M, face)
        hit, point = _mirror_point(antenna, image, face)
        if hit:
            left = _reflected(antenna, image, face) if i < count else 1.0  # vehicles are metal
            found = _keep_path(paths, which, found, 1 + i, (BASE_M, point, antenna, antenna), 2, left, boxes)
    for i in range(count):
        image = _mirrored(BASE_M, fronts[i])
        for j in range(count):
            twice = _mirrored(image, fronts[j])
            hit, last = _mirror_point(antenna, twice, fronts[j])
            if i == j or not hit:
                continue
            hit, point = _mirror_point(last, image, fronts[i])
            if hit:
                left = _reflected(antenna, twice, fronts[j]) * _reflected(last, image, fronts[i])
                number = 1 + sides + i * count + j
                found = _keep_path(paths, which, found, number, (BASE_M, point, last, antenna), 3, left, boxes)
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
    return outwards * (BASE_M[axis] - face[1]) > 0 and outwards * (antenna[axis] - face[1]) > 0


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


@njit(cache=True)
def beam_amplitudes(paths, phases, heading):
    """|combined channel| for every receive and transmit beam of the DFT codebooks.

    The base station's array lies along the map's x, the receiver's along its heading. As in Raymobtime, arrays
    respond to the azimuth alone: real s010 shows it beside the base station, where elevation would shift the beam.
    """
    channel = np.zeros((RECEIVER_BEAMS, BASE_BEAMS), np.complex128)
    for k in range(len(paths)):
        length, left, departs_across, departs_along, _, seen_along = paths[k]
        transmit = _beam_response(departs_across * ACROSS[0] + departs_along * ALONG[0], BASE_BEAMS)
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
