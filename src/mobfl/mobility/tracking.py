"""Follows vehicles sample by sample through all sections at once: compiled, on arrays alone.

Between two samples a vehicle is taken to move evenly. Who is on which section is kept as a list of presences per
vehicle, so that the memory is that of the vehicles, whatever the number of sections.
"""

import math

import numpy as np
from numba import njit

from mobfl.mobility.geometry import CHAIN, CIRCLE, in_area, inside, metres, on, part
from mobfl.mobility.samples import JUNCTION, NOBODY

FOUND_INSIDE, LOST_INSIDE = 16, 32  # it was not seen entering, or leaving
_NONE = -1


# A vehicle on a section, now.
PRESENCE = np.dtype(
    [
        ("section", np.int64),
        ("enter_s", float),
        ("marks", np.int64),
        ("samples", np.int64),  # inside
        ("every_s", float),  # between the two samples around its entering
        ("left_s", float),  # since when it is on a junction that may belong to the chain, else NaN
        ("visit", np.int64),
        ("way_m", float),
        ("next", np.int64),  # of the same vehicle, or of those that are free
    ]
)
# A crossing that has ended; `when` and `order` tell which ended first.
CROSSING = np.dtype(
    [(name, np.int64) for name in ("section", "vehicle", "marks", "samples", "when", "order", "visit")]
    + [(name, float) for name in ("enter_s", "leave_s", "every_s")]
)
# A sample of a track, in the order in which they were seen.
LOGGED_SAMPLE = np.dtype([("visit", np.int64), ("time_s", float), ("x", float), ("y", float), ("way_m", float)])


# The places in `counters`.
ROW, FREE, FOUND, LOGGED, VISITS, THERE, KEEP = range(7)
BEFORE = -(2**62)  # added to an order: before all that were seen in that step
IN_ORDER, FULL, BACKWARDS = range(3)  # why `follow` ended


@njit(cache=True)
def _log(log, counters, visit, share, vehicles, v, now, way_m):
    """Where the vehicle has come so far from one sample to the next; before its first place, there."""
    if counters[KEEP] == 0:
        return
    k = counters[LOGGED]
    counters[LOGGED] += 1
    log[k].visit, log[k].way_m = visit, way_m
    if vehicles[v].step < 0:
        log[k].time_s, log[k].x, log[k].y = now[0].time_s, now[0].x, now[0].y
        return
    log[k].time_s = vehicles[v].time_s + share * (now[0].time_s - vehicles[v].time_s)
    if math.isnan(vehicles[v].x):
        log[k].x, log[k].y = now[0].x, now[0].y
    else:
        log[k].x = vehicles[v].x + share * (now[0].x - vehicles[v].x)
        log[k].y = vehicles[v].y + share * (now[0].y - vehicles[v].y)


@njit(cache=True)
def _enter(presences, counters, vehicles, v, s, enter_s, flags, every_s):
    node = counters[FREE]
    counters[FREE] = presences[node].next
    presences[node].section, presences[node].enter_s, presences[node].marks = s, enter_s, flags
    presences[node].samples, presences[node].every_s, presences[node].left_s = 0, every_s, math.nan
    presences[node].visit, presences[node].way_m = counters[VISITS], 0.0
    counters[VISITS] += 1
    counters[THERE] += 1
    presences[node].next = vehicles[v].head
    vehicles[v].head = node
    return node


@njit(cache=True)
def _leave(presences, counters, found, node, v, leave_s, flags, when, order):
    """Writes the crossing and frees the presence; whoever calls takes it out of the vehicle's list."""
    k = counters[FOUND]
    counters[FOUND] += 1
    counters[THERE] -= 1
    found[k].section, found[k].vehicle = presences[node].section, v
    found[k].enter_s, found[k].leave_s = presences[node].enter_s, max(presences[node].enter_s, leave_s)
    found[k].marks, found[k].samples = presences[node].marks | flags, presences[node].samples
    found[k].every_s, found[k].visit = presences[node].every_s, presences[node].visit
    found[k].when, found[k].order = when, order
    presences[node].next = counters[FREE]
    counters[FREE] = node


@njit(cache=True)
def lose(vehicles, presences, counters, found, v, when, order):
    """The vehicle is seen no more: it left where it was last seen."""
    node = vehicles[v].head
    while node != _NONE:
        after = presences[node].next
        waiting = not math.isnan(presences[node].left_s)
        leave_s = presences[node].left_s if waiting else vehicles[v].time_s
        _leave(presences, counters, found, node, v, leave_s, 0 if waiting else LOST_INSIDE, when, order)
        node = after
    vehicles[v].head, vehicles[v].step = _NONE, -1


@njit(cache=True)
def _go_on(shapes, vehicles, presences, counters, log, node, v, now):
    """The next sample of one on a section: when it left, NaN if it is still there (or on a junction of its chain)."""
    s, before_s, after_s = presences[node].section, vehicles[v].time_s, now[0].time_s
    if not math.isnan(presences[node].left_s):
        if now[0].edge == JUNCTION:
            return math.nan
        if not on(shapes, s, now[0].edge):
            return presences[node].left_s
        presences[node].left_s = math.nan  # the junction was within the chain
        first, last = 0.0, 1.0
    else:
        first, last = part(shapes, s, vehicles, v, now)
    if first > last:
        return before_s
    stays = inside(shapes, s, now)
    stop = 1.0 if stays else last
    presences[node].way_m += stop * metres(vehicles, v, now) if counters[KEEP] else 0.0
    _log(log, counters, presences[node].visit, stop, vehicles, v, now, presences[node].way_m)
    presences[node].samples += stays
    if stays:
        return math.nan
    left_s = before_s + stop * (after_s - before_s)
    if shapes.of[s].kind == CHAIN and now[0].edge == JUNCTION:
        presences[node].left_s = left_s
        return math.nan
    return left_s


@njit(cache=True)
def _come(shapes, vehicles, presences, counters, log, found, s, v, now):
    """A section that the vehicle may have come onto since its last sample; its first sample counts if it is inside."""
    if shapes.of[s].met == counters[ROW]:
        return
    shapes.of[s].met = counters[ROW]
    if vehicles[v].step < 0:
        if inside(shapes, s, now):
            node = _enter(presences, counters, vehicles, v, s, now[0].time_s, FOUND_INSIDE, math.nan)
            presences[node].samples = 1
            _log(log, counters, presences[node].visit, 1.0, vehicles, v, now, 0.0)
        return
    first, last = part(shapes, s, vehicles, v, now)
    if not first < last:
        return
    seconds = now[0].time_s - vehicles[v].time_s
    node = _enter(presences, counters, vehicles, v, s, vehicles[v].time_s + first * seconds, 0, seconds)
    _log(log, counters, presences[node].visit, first, vehicles, v, now, 0.0)
    stays = inside(shapes, s, now)
    stop = 1.0 if stays else last
    presences[node].way_m = (stop - first) * metres(vehicles, v, now) if counters[KEEP] else 0.0
    _log(log, counters, presences[node].visit, stop, vehicles, v, now, presences[node].way_m)
    presences[node].samples += stays
    if stays:
        return
    left_s = vehicles[v].time_s + stop * seconds
    if shapes.of[s].kind == CHAIN and now[0].edge == JUNCTION:
        presences[node].left_s = left_s
        return
    vehicles[v].head = presences[node].next
    _leave(presences, counters, found, node, v, left_s, 0, now[0].step, counters[ROW])


@njit(cache=True)
def _come_onto_edge(shapes, edge, vehicles, presences, counters, log, found, v, now):
    if edge >= 0:
        for k in range(shapes.edge_first[edge], shapes.edge_first[edge + 1]):
            _come(shapes, vehicles, presences, counters, log, found, shapes.edge_sections[k], v, now)


@njit(cache=True)
def _cell(low, size, cells, at):
    return min(max(int((at - low) / size), 0), cells - 1)


@njit(cache=True)
def _far(grid, cells, cell_first, x0, y0, x1, y1):
    """Whether no section is in the cells that the way touches."""
    left, low, width, height = grid
    across, along = cells
    if across == 0 or math.isnan(x0 + y0 + x1 + y1):
        return True
    if max(x0, x1) < left or min(x0, x1) > left + across * width:
        return True
    if max(y0, y1) < low or min(y0, y1) > low + along * height:
        return True
    first, last = _cell(left, width, across, min(x0, x1)), _cell(left, width, across, max(x0, x1))
    for row in range(_cell(low, height, along, min(y0, y1)), _cell(low, height, along, max(y0, y1)) + 1):
        if cell_first[row * across + first] < cell_first[row * across + last + 1]:
            return False
    return True


@njit(cache=True)
def _come_into_areas(shapes, vehicles, presences, counters, log, found, v, now):
    """Those in the cells of the grid that the way touches."""
    x1, y1 = now[0].x, now[0].y
    x0, y0 = (x1, y1) if vehicles[v].step < 0 else (vehicles[v].x, vehicles[v].y)
    if _far(shapes.grid, shapes.cells, shapes.cell_first, x0, y0, x1, y1):
        return
    left, low, width, height = shapes.grid
    across, along = shapes.cells
    for row in range(_cell(low, height, along, min(y0, y1)), _cell(low, height, along, max(y0, y1)) + 1):
        for column in range(_cell(left, width, across, min(x0, x1)), _cell(left, width, across, max(x0, x1)) + 1):
            cell = row * across + column
            for k in range(shapes.cell_first[cell], shapes.cell_first[cell + 1]):
                section = shapes.of[shapes.cell_sections[k]]
                if section.met != counters[ROW] and _touches(section, x0, y0, x1, y1):
                    _come(shapes, vehicles, presences, counters, log, found, shapes.cell_sections[k], v, now)


@njit(cache=True)
def _touches(section, x0, y0, x1, y1):
    """Whether the box around the way and that around the section have a place in common."""
    if section.kind == CIRCLE:
        left, right, low, high = (
            section.a - section.c,
            section.a + section.c,
            section.b - section.c,
            section.b + section.c,
        )
    else:
        left, right, low, high = section.a, section.c, section.b, section.d
    return max(x0, x1) >= left and min(x0, x1) <= right and max(y0, y1) >= low and min(y0, y1) <= high


@njit(cache=True)
def _see(shapes, vehicles, presences, counters, log, found, v, now):
    """What a sample means for the sections that the vehicle is on or may have come onto."""
    node, before = vehicles[v].head, _NONE
    while node != _NONE:
        after = presences[node].next
        shapes.of[presences[node].section].met = counters[ROW]
        left_s = math.nan
        # Areas have no dents: who was inside and is inside was there all the way.
        if counters[KEEP] == 0 and presences[node].samples > 0 and in_area(shapes.of[presences[node].section], now[0]):
            presences[node].samples += 1
        else:
            left_s = _go_on(shapes, vehicles, presences, counters, log, node, v, now)
        if math.isnan(left_s):
            before = node
        else:
            if before == _NONE:
                vehicles[v].head = after
            else:
                presences[before].next = after
            _leave(presences, counters, found, node, v, left_s, 0, now[0].step, counters[ROW])
        node = after
    _come_onto_edge(shapes, now[0].edge, vehicles, presences, counters, log, found, v, now)
    if vehicles[v].step >= 0 and vehicles[v].edge != now[0].edge:
        _come_onto_edge(shapes, vehicles[v].edge, vehicles, presences, counters, log, found, v, now)
    _come_into_areas(shapes, vehicles, presences, counters, log, found, v, now)


@njit(cache=True)
def follow(shapes, vehicles, presences, counters, log, found, now, rows, begin, most_steps, gap_s):
    """Follows from row `begin` on; returns where and why it ended. After a gap a vehicle counts as another visit."""
    sections = len(shapes.of)
    for i in range(begin, len(rows.vehicle)):
        if counters[FOUND] + 2 * sections > len(found) or counters[LOGGED] + 4 * sections > len(log):
            return i, FULL
        if counters[THERE] + sections >= len(presences):
            return i, FULL
        v = rows.vehicle[i]
        if v == NOBODY:
            continue
        counters[ROW] += 1
        if vehicles[v].step >= 0:
            seconds = rows.time_s[i] - vehicles[v].time_s
            if seconds < 0.0:
                return i, BACKWARDS
            if rows.step[i] - vehicles[v].step > most_steps:
                lose(vehicles, presences, counters, found, v, vehicles[v].step + 1, BEFORE + vehicles[v].since)
            elif seconds > gap_s:
                lose(vehicles, presences, counters, found, v, rows.step[i], BEFORE)
        # Most are far from every section, and a call with all these arrays costs more than what it does.
        new = vehicles[v].step < 0
        x0, y0 = (rows.x[i], rows.y[i]) if new else (vehicles[v].x, vehicles[v].y)
        elsewhere = rows.edge[i] < 0 and (new or vehicles[v].edge < 0) and vehicles[v].head == _NONE
        if not (elsewhere and _far(shapes.grid, shapes.cells, shapes.cell_first, x0, y0, rows.x[i], rows.y[i])):
            sample = now[0]
            sample.time_s, sample.x, sample.y, sample.edge = rows.time_s[i], rows.x[i], rows.y[i], rows.edge[i]
            sample.along_m, sample.speed_mps, sample.step = rows.along_m[i], rows.speed_mps[i], rows.step[i]
            _see(shapes, vehicles, presences, counters, log, found, v, now)
        if new:
            vehicles[v].since = counters[ROW]
        vehicles[v].time_s, vehicles[v].x, vehicles[v].y = rows.time_s[i], rows.x[i], rows.y[i]
        vehicles[v].edge, vehicles[v].along_m, vehicles[v].speed_mps = rows.edge[i], rows.along_m[i], rows.speed_mps[i]
        vehicles[v].step = rows.step[i]
    return len(rows.vehicle), IN_ORDER
