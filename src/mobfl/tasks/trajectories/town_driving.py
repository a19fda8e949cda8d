"""How vehicles drive on the lanes of the town.

A vehicle follows its leader by the Intelligent Driver Model (Treiber, Hennecke, Helbing 2000), slows down for bends,
stops at red, yields where it joins, turns off at random and changes lanes when that is safe (the criteria of MOBIL:
Kesting, Treiber, Helbing 2007) and either faster or what the driver wants anyway.
"""

from math import cos, inf, pi, sqrt

import numpy as np
from numba import njit

from mobfl.tasks.trajectories.recordings import STEP_S, YES
from mobfl.tasks.trajectories.town_map import CLEAR_M, LANE_WIDTH_M, POINTS

FORKS = 12
_GREEN_S = (10.0, 5.0, 10.0, 5.0)  # north-south, its left turns, east-west, its left turns
_CLEARING_S = 2.5
CYCLE_S = sum(_GREEN_S) + len(_GREEN_S) * _CLEARING_S
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

# A vehicle with its driver, then where it is at the moment.
VEHICLE = np.dtype(
    [
        ("length_m", np.float64),
        ("desired_mps", np.float64),
        ("headway_s", np.float64),
        ("acceleration_mps2", np.float64),
        ("turns_off", np.int8, FORKS),  # at each fork, YES or NO
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

# For functions that make no arrays. Numba would count references to those passed: three quarters of the time.
_kernel = njit(cache=True, _nrt=False)  # type: ignore[call-overload]


@njit(cache=True)
def drive(lanes, vehicles, clock_s, unseen_steps, steps):
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
def idm_acceleration(speed_mps, desired_mps, gap_m, closing_mps, headway_s, acceleration_mps2):
    """The Intelligent Driver Model: a (1 − (v / v₀)⁴ − (s* / s)²), never below the hardest braking."""
    wanted_m = speed_mps * headway_s
    wanted_m += speed_mps * closing_mps / (2.0 * sqrt(acceleration_mps2 * _COMFORTABLE_BRAKING_MPS2))
    interaction = (_LEAST_GAP_M + max(wanted_m, 0.0)) / max(gap_m, 0.1)
    free = (speed_mps / desired_mps) ** 4
    return max(acceleration_mps2 * (1.0 - free - interaction * interaction), -_HARDEST_BRAKING_MPS2)


@_kernel
def _next_lane(lanes, vehicle, lane):
    """The lane that a vehicle takes after this one."""
    fork = lanes[lane].fork
    return lanes[lane].successors[1 if fork >= 0 and vehicle.turns_off[fork] == YES else 0]


@_kernel
def _fill_queues(lanes, vehicles, first, queue):
    first[:] = -1
    for i in range(len(vehicles)):
        _enqueue(first, queue, i, vehicles[i].lane, vehicles[i].along_m)
        old_lane, old_m = _old_place(lanes, vehicles[i])
        if old_lane >= 0:
            _enqueue(first, queue, len(vehicles) + i, old_lane, old_m)


@_kernel
def _old_place(lanes, vehicle):
    """The lane that a vehicle is leaving, and how far along, while it is still in the way there; else no lane."""
    lane = lanes[vehicle.lane].neighbours[vehicle.came_from] if vehicle.came_from >= 0 else -1
    if lane < 0 or abs(_aside_m(vehicle)) < LANE_WIDTH_M - CLEAR_M:
        return -1, 0.0
    return lane, vehicle.along_m * lanes[lane].length_m / lanes[vehicle.lane].length_m


@_kernel
def _enqueue(first, queue, entry, lane, along_m):
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
def _open_phase(lanes, vehicles, time_s):
    """The signals' phase that may go, -1 for none. It waits for those of other phases to leave the junction."""
    phase, left_s = 0, time_s % CYCLE_S
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
def _acceleration(lanes, vehicles, first, queue, phase, i):
    """What driver i does, who minds two lanes while changing."""
    lane, along_m = vehicles[i].lane, vehicles[i].along_m
    chosen = _acceleration_on(lanes, vehicles, first, queue, phase, i, lane, along_m)
    old_lane, old_m = _old_place(lanes, vehicles[i])
    if old_lane >= 0:
        chosen = min(chosen, _acceleration_on(lanes, vehicles, first, queue, phase, i, old_lane, old_m))
    return chosen


@_kernel
def _acceleration_on(lanes, vehicles, first, queue, phase, i, lane, along_m):
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
def _who(entry, count):
    return entry if entry < count else entry - count


@_kernel
def _first_beyond(lanes, first, queue, i, lane, along_m):
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
def _stop_m(lanes, vehicles, first, queue, phase, i, lane, ahead_m, leader_m):
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
def _must_yield(lanes, vehicles, first, queue, i, lane, left_m):
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
def _change_lanes(lanes, vehicles, first, queue, phase, i, current, wished):
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
def _room_to_change(lanes, vehicles, i, side):
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
def _is_shared(lane):
    return lane.start_twin >= 0 or lane.end_twin >= 0 or lane.intersection == YES


@_kernel
def _distance_m(lanes, vehicle, target):
    """How far a vehicle is from the start of a lane on its way; inf unless that is among the next few."""
    lane, ahead_m = vehicle.lane, -vehicle.along_m
    for _ in range(_LANES_AHEAD):
        if lane == target:
            return ahead_m
        ahead_m += lanes[lane].length_m
        lane = _next_lane(lanes, vehicle, lane)
    return inf


@_kernel
def _lets_in(lanes, vehicles, i, target, along_m):
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
def _move(lanes, vehicles, i, acceleration):
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
def _stretch(lanes, vehicle):
    """How much longer the vehicle's way is than its lane: in a bend, the lane that it comes from may be."""
    old_lane = lanes[vehicle.lane].neighbours[vehicle.came_from] if vehicle.came_from >= 0 else -1
    if old_lane < 0:
        return 1.0
    share = abs(_aside_m(vehicle)) / LANE_WIDTH_M
    return 1.0 + share * (lanes[old_lane].length_m / lanes[vehicle.lane].length_m - 1.0)


@_kernel
def _aside_m(vehicle):
    """How far to the right of its lane's centre line a vehicle is that still comes over from the next lane."""
    if vehicle.came_from < 0:
        return 0.0
    left_over_m = LANE_WIDTH_M * (1.0 + cos(pi * vehicle.changed)) / 2
    return left_over_m if vehicle.came_from == 1 else -left_over_m


@_kernel
def _position_m(lane, along_m, aside_m):
    """The point so far along a lane and to the right of its centre line."""
    place = along_m / lane.length_m * (POINTS - 1)
    k = min(int(place), POINTS - 2)
    share = place - k
    x = (1.0 - share) * lane.points[k, 0] + share * lane.points[k + 1, 0]
    y = (1.0 - share) * lane.points[k, 1] + share * lane.points[k + 1, 1]
    ahead_x = (1.0 - share) * lane.directions[k, 0] + share * lane.directions[k + 1, 0]
    ahead_y = (1.0 - share) * lane.directions[k, 1] + share * lane.directions[k + 1, 1]
    return x + aside_m * ahead_y, y - aside_m * ahead_x
