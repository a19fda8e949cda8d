"""Sections as compiled code sees them, and from where to where a vehicle is inside on its way between two samples."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.mobility.samples import Array, Ints

CIRCLE, BOX, ALONG, CHAIN = range(4)  # kinds of sections
_NO = (1.0, 0.0)  # a part of the way that is none


SECTION = np.dtype(
    [
        ("kind", np.int64),
        ("a", float),  # x, x0 or from_m
        ("b", float),  # y, y0 or to_m
        ("c", float),  # radius or x1
        ("d", float),  # y1
        ("met", np.int64),  # the last row in which it was looked at
    ]
)
_PLACE = [("time_s", float), ("x", float), ("y", float), ("along_m", float), ("speed_mps", float)]
SAMPLE = np.dtype([*_PLACE, ("edge", np.int64), ("step", np.int64)])
# A vehicle's last sample; `step` is negative for one that is not followed. `since` is the row in which it was first
# seen, `head` its first presence.
VEHICLE = np.dtype([*_PLACE, ("edge", np.int64), ("step", np.int64), ("since", np.int64), ("head", np.int64)])


class Shapes(NamedTuple):
    """All sections, and which of them may be met where."""

    of: NDArray[Any]  # records of SECTION
    edge_first: Ints  # the sections on an edge are edge_sections[edge_first[e] : edge_first[e + 1]]
    edge_sections: Ints
    grid: Array  # x0, y0, and the cells' width and height
    cells: Ints  # how many there are across and along
    cell_first: Ints
    cell_sections: Ints


@njit(cache=True)
def _within(enter, leave):
    enter, leave = max(enter, 0.0), min(leave, 1.0)
    return (enter, leave) if enter <= leave else _NO


@njit(cache=True)
def _slab(start, end, low, high):
    """From which to which share of the way from start to end a value lies between low and high."""
    if start == end:
        return (-math.inf, math.inf) if low <= start <= high else (math.inf, -math.inf)
    a, b = (low - start) / (end - start), (high - start) / (end - start)
    return min(a, b), max(a, b)


@njit(cache=True)
def _in_circle(x, y, radius, x0, y0, x1, y1):
    px, py, dx, dy = x0 - x, y0 - y, x1 - x0, y1 - y0
    a, b, c = dx * dx + dy * dy, px * dx + py * dy, px * px + py * py - radius**2
    if a == 0.0:
        return (0.0, 1.0) if c <= 0.0 else _NO
    discriminant = b * b - a * c
    if not discriminant >= 0.0:
        return _NO
    root = discriminant**0.5
    return _within((-b - root) / a, (-b + root) / a)


@njit(cache=True)
def on(shapes, section, edge):
    if edge < 0:
        return False
    for k in range(shapes.edge_first[edge], shapes.edge_first[edge + 1]):  # noqa: SIM110, for it is compiled
        if shapes.edge_sections[k] == section:
            return True
    return False


@njit(cache=True)
def _seconds_for(metres, speed_mps):
    return metres / speed_mps if speed_mps > 0 else 0.0


@njit(cache=True)
def _on_edges(shapes, s, vehicles, v, now):
    low, high = shapes.of[s].a, shapes.of[s].b
    was, there = on(shapes, s, vehicles[v].edge), on(shapes, s, now[0].edge)
    if was and there:
        return (
            (0.0, 1.0)
            if shapes.of[s].kind == CHAIN
            else _within(*_slab(vehicles[v].along_m, now[0].along_m, low, high))
        )
    seconds = now[0].time_s - vehicles[v].time_s
    if not (was or there) or seconds <= 0.0:
        return _NO
    came = max(1.0 - _seconds_for(now[0].along_m, now[0].speed_mps) / seconds, 0.0)
    if there:  # it came onto the edge: go back from where it is now
        first, last = _slab(now[0].along_m - now[0].speed_mps * seconds, now[0].along_m, low, high)
        first, last = _within(first, last)
        return _within(max(came, first), last) if first <= last else _NO
    # It left the edge: go back from where it is on the next one.
    first, last = _slab(vehicles[v].along_m, vehicles[v].along_m + vehicles[v].speed_mps * seconds, low, high)
    first, last = _within(first, last)
    return _within(first, min(came, last)) if first <= last else _NO


@njit(cache=True)
def part(shapes, s, vehicles, v, now):
    """From which to which share of the way between two samples a vehicle is inside; the first is greater if never."""
    if shapes.of[s].kind >= ALONG:
        return _on_edges(shapes, s, vehicles, v, now)
    x0, y0, x1, y1 = vehicles[v].x, vehicles[v].y, now[0].x, now[0].y
    if shapes.of[s].kind == CIRCLE:
        return _in_circle(shapes.of[s].a, shapes.of[s].b, shapes.of[s].c, x0, y0, x1, y1)
    across, along = _slab(x0, x1, shapes.of[s].a, shapes.of[s].c), _slab(y0, y1, shapes.of[s].b, shapes.of[s].d)
    return _within(max(across[0], along[0]), min(across[1], along[1]))


@njit(cache=True)
def in_area(section, sample):
    """Whether a sample is in a circle or box."""
    if section.kind == CIRCLE:
        return (sample.x - section.a) ** 2 + (sample.y - section.b) ** 2 <= section.c**2
    return section.kind == BOX and section.a <= sample.x <= section.c and section.b <= sample.y <= section.d


@njit(cache=True)
def inside(shapes, s, now):
    if shapes.of[s].kind >= ALONG:
        there = on(shapes, s, now[0].edge)
        return there and (shapes.of[s].kind == CHAIN or shapes.of[s].a <= now[0].along_m <= shapes.of[s].b)
    return in_area(shapes.of[s], now[0])


@njit(cache=True)
def metres(vehicles, v, now):
    """As the crow flies, or where places are not told along the edge, or by the speed."""
    metres = math.hypot(now[0].x - vehicles[v].x, now[0].y - vehicles[v].y)
    if not math.isnan(metres):
        return metres
    if vehicles[v].edge == now[0].edge:
        return abs(now[0].along_m - vehicles[v].along_m)
    speed = now[0].speed_mps if math.isnan(vehicles[v].speed_mps) else vehicles[v].speed_mps
    return speed * (now[0].time_s - vehicles[v].time_s)
