"""Beam selection on one street, generated in Raymobtime's conventions: what a receiver's LIDAR sees and its channel.

The positions of lanes were read off the real street (Raymobtime s010); vehicles and their shares are the data set's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.rng import stream
from mobfl.tasks.beams.conventions import (
    BASE_BEAMS,
    BASE_STATION,
    BASE_STATION_M,
    GRID_SHAPE,
    RECEIVER,
    RECEIVER_BEAMS,
)
from mobfl.tasks.beams.street_channel import beam_amplitudes, most_paths, trace_paths
from mobfl.tasks.beams.street_frame import HOUSE_FRONTS, Array, cell_of, map_from_street
from mobfl.tasks.beams.street_lidar import scan

# Lanes: metres across, direction of travel along (right-hand traffic), mean clear distance between vehicles.
_LANES = ((-5.25, 1.0, 24.0), (-2.25, 1.0, 19.0), (6.05, -1.0, 26.0), (9.05, -1.0, 25.0))
_LEAST_GAP_M = 2.5
_TRAFFIC_M = (10.0, 221.0)  # the traffic's extent along the street
_RECEIVERS_FROM_M, _RECEIVERS_TO_M = np.array([745.0, 462.0]), np.array([766.0, 658.0])  # Raymobtime's area, on the map
_RECEIVERS_PER_SCENE = 10
_LENGTH_WIDTH_HEIGHT_M = np.array([[4.645, 1.775, 1.59], [9.0, 2.4, 3.2], [12.5, 2.5, 4.3]])  # car, bus, truck
_SHARES = np.array([0.7, 0.2, 0.1])
_MOST_PER_LANE = int((_TRAFFIC_M[1] - _TRAFFIC_M[0]) / (_LENGTH_WIDTH_HEIGHT_M[0, 0] + _LEAST_GAP_M)) + 1


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
