"""What the LIDAR on a vehicle's roof sees of the street. Its field of view was read off real grids."""

from math import cos, hypot, pi, sin

import numpy as np
from numba import njit

from mobfl.tasks.beams.conventions import GRID_ORIGIN_M, GRID_SHAPE, GRID_STEP_M, OBSTACLE
from mobfl.tasks.beams.street_frame import ACROSS, ALONG, NORTH_END_M

_LIDAR_ABOVE_ROOF_M, _LIDAR_RANGE_M = 1.0, 100.0
_LIDAR_SLOPES = np.tan(np.radians(np.linspace(-24.8, 2.0, 64)))  # the lasers of a Velodyne HDL-64E, lowest first
_LIDAR_LOWEST, _LIDAR_HIGHEST = float(_LIDAR_SLOPES[0]), float(_LIDAR_SLOPES[-1])
_LIDAR_AZIMUTHS = 1800


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
    x = NORTH_END_M[0] + across * ACROSS[0] + along * ALONG[0]
    y = NORTH_END_M[1] + across * ACROSS[1] + along * ALONG[1]
    return _cell(x, 0), _cell(y, 1)


@njit(cache=True)
def _cell(position_m, axis):
    nearest = int(np.rint((position_m - GRID_ORIGIN_M[axis]) / GRID_STEP_M[axis]))
    return min(max(nearest, 0), GRID_SHAPE[axis] - 1)
