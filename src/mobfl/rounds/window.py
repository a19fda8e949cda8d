"""What happens on the air in a stretch of time: who downloads, trains and sends, from event to event.

Between two events everybody's rate is constant, so a transfer is complete when its bits are. Events are: a vehicle
enters or leaves, its steps are done, a transfer is complete, a cell of time ends. Cells count only while something is
on the air.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.rounds.air import downlink_bps, gain, uplink_bps
from mobfl.rounds.draws import compute_s
from mobfl.rounds.fitting import expected_stay_s, fitting_steps

Array = NDArray[np.float64]

# Where a vehicle is in its round. What it listens to is the broadcast of those who were there as it began.
LISTENING, LOADING, TRAINING, SENDING, OVER = range(5)
# How it ended, as `Outcome` has it.
UPLOADED, LEFT_EARLY, ROUND_OVER, SAT_OUT, RADIO, PARTIAL = range(6)
LEAST_PART = 0.01  # of an upload, below which a part of it is worth nothing


class Cars(NamedTuple):
    """The vehicles, in the order of entering."""

    label: NDArray[np.int64]
    key: NDArray[np.uint64]
    enter_s: Array
    leave_s: Array
    attempt: NDArray[np.int64]
    vehicle_class: NDArray[np.int8]
    track: NDArray[np.int64]
    origin_s: Array  # when it really entered, which may be before anybody looked


class Turn(NamedTuple):
    """What each vehicle is about; seconds since the stretch began."""

    phase: NDArray[np.int8]
    begin_s: Array
    stop_s: Array  # when it leaves or is cut off
    compute_s: Array  # of one step until it is known how many fit
    steps: NDArray[np.int64]
    train_s: Array  # when its download was complete, NaN before
    send_s: Array  # when its upload began, NaN before
    end_s: Array  # when it was over
    left_bits: Array  # of what is under way
    done_s: Array  # when that will be complete at the present rate
    bps: Array
    gain: Array
    cell: NDArray[np.int64]  # of which that is the gain
    outcome: NDArray[np.int8]

    @classmethod
    def none(cls, vehicles: int) -> "Turn":
        kinds: Any = (np.int8, *[np.float64] * 3, np.int64, *[np.float64] * 7, np.int64, np.int8)
        return cls(*(np.zeros(vehicles, kind) for kind in kinds))


class Stretch(NamedTuple):
    """From when on, for how long, and by how much a clock may be wrong."""

    start_s: float
    length_s: float
    rounding_s: float


class Crowd(NamedTuple):
    """Who takes part: those in `active`; `counts` has how many they are, who enters next, and before whom it ends."""

    active: NDArray[np.int64]
    counts: NDArray[np.int64]
    on_air: NDArray[np.int64]  # room for those of them whose transfers are under way

    @classmethod
    def of(cls, vehicles: int, there: int, last: int | None = None) -> "Crowd":
        """Of so many vehicles the first are there, and the others up to the `last` enter; by default none does yet."""
        active = np.arange(vehicles)
        counts = np.array([there, there, there if last is None else last])
        return cls(active, counts, np.empty(vehicles, np.int64))


class Log(NamedTuple):
    """A row for every turn, as it ends; `rows` counts them, also those for which there was no room."""

    rows: NDArray[np.int64]
    number: NDArray[np.int64]  # of the round
    vehicle: NDArray[np.int64]  # its place among the cars
    attempt: NDArray[np.int64]
    begin_s: Array
    compute_s: Array
    steps: NDArray[np.int64]
    train_s: Array
    send_s: Array
    end_s: Array
    sent: Array  # the share of the upload that has arrived
    outcome: NDArray[np.int8]

    @classmethod
    def empty(cls, rows: int) -> "Log":
        whole, real = np.int64, np.float64
        kinds: Any = (whole, whole, whole, real, real, whole, real, real, real, real, np.int8)
        return cls(np.zeros(1, whole), *(np.empty(rows, kind) for kind in kinds))


@njit(inline="always", cache=True)
def begin(i, now_s, listens, air, stretch, cars, turn, laws, steps):
    """The vehicle's download begins."""
    turn.phase[i] = LISTENING if listens else LOADING
    turn.begin_s[i] = now_s
    turn.stop_s[i] = min(cars.leave_s[i] - stretch.start_s, stretch.length_s)
    turn.compute_s[i] = compute_s(laws, cars.vehicle_class[i], cars.key[i], cars.attempt[i])
    turn.train_s[i] = turn.send_s[i] = math.nan
    turn.left_bits[i], turn.bps[i], turn.done_s[i] = air.down_bits, 0.0, math.inf
    turn.steps[i], turn.cell[i] = steps, -1


@njit(cache=True)
def run_stretch(air, stretch, cars, turn, shadows, laws, fitting, steps, ways, crowd, log, number, again):
    """Until all who take part are over: those in `crowd.active`, and those who enter.

    Who has uploaded begins `again` if that is asked for. Everybody's turn goes into the log as it ends, under this
    number. Returns when the last one ended.
    """
    active, there, coming, last = crowd.active, crowd.counts[0], crowd.counts[1], crowd.counts[2]
    now_s, cell, cast_bits = 0.0, np.int64(0), air.down_bits
    for a in range(there):
        begin(active[a], 0.0, air.broadcast, air, stretch, cars, turn, laws, steps)
    while True:
        while coming < last and cars.enter_s[coming] - stretch.start_s <= now_s:
            active[there] = coming
            begin(coming, now_s, air.broadcast and now_s == 0.0, air, stretch, cars, turn, laws, steps)
            there, coming = there + 1, coming + 1
        event_s, senders, streams, listeners, transfers = _look(turn, active, there, air.fifo, crowd.on_air)
        if coming < last:
            event_s = min(event_s, cars.enter_s[coming] - stretch.start_s)
        if event_s == math.inf:
            crowd.counts[0], crowd.counts[1] = there, coming
            return now_s
        while True:  # from cell to cell, while nothing happens but that those on the air drive on
            cast_bps, done_s = _set_rates(
                air, stretch, cars, turn, shadows, ways, crowd.on_air, transfers, now_s, cell, senders, streams
            )
            cast_done_s = now_s + cast_bits / cast_bps if listeners > 0 else math.inf
            boundary_s = (cell + 1) * air.cell_s if transfers > 0 else math.inf
            next_s = min(event_s, done_s, cast_done_s, boundary_s)
            cast_bits -= cast_bps * (next_s - now_s)
            for a in range(transfers):
                turn.left_bits[crowd.on_air[a]] -= turn.bps[crowd.on_air[a]] * (next_s - now_s)
            now_s = next_s
            cell = cell + 1 if now_s >= boundary_s else np.int64(now_s / air.cell_s)
            if now_s < boundary_s or now_s >= min(event_s, done_s, cast_done_s):
                break
        for a in range(there):
            i = active[a]
            if turn.phase[i] != OVER:
                heard = turn.phase[i] == LISTENING and cast_done_s <= now_s
                _go_on(i, now_s, cell, heard, senders + 1, air, stretch, cars, turn, shadows, fitting, ways)
                if turn.phase[i] == OVER:
                    _note(i, number, air, stretch, cars, turn, log)
                    if again and turn.outcome[i] == UPLOADED and turn.stop_s[i] > now_s + stretch.rounding_s:
                        cars.attempt[i] += 1
                        begin(i, now_s, False, air, stretch, cars, turn, laws, steps)
        if again:
            there = _those_left(turn, active, there)


@njit(inline="always", cache=True)
def _those_left(turn, active, there):
    left = 0
    for a in range(there):
        active[left] = active[a]
        left += turn.phase[active[a]] != OVER
    return left


@njit(inline="always", cache=True)
def _note(i, number, air, stretch, cars, turn, log):
    """A row of the log, if anybody reads it."""
    row = log.rows[0]
    log.rows[0] += 1
    if row >= len(log.number):
        return
    log.number[row], log.vehicle[row], log.attempt[row] = number, i, cars.attempt[i]
    log.begin_s[row] = stretch.start_s + turn.begin_s[i]
    log.compute_s[row], log.steps[row] = turn.compute_s[i], turn.steps[i]
    log.train_s[row] = stretch.start_s + turn.train_s[i]
    log.send_s[row] = stretch.start_s + turn.send_s[i]
    log.end_s[row], log.outcome[row] = stretch.start_s + turn.end_s[i], turn.outcome[i]
    log.sent[row] = 0.0 if math.isnan(turn.send_s[i]) else 1.0 - turn.left_bits[i] / air.up_bits


@njit(inline="always", cache=True)
def _look(turn, active, there, fifo, on_air):
    """When the next thing happens that no rate decides, how many send and are sent to, and who they are."""
    event_s, senders, streams, listeners, transfers, head = math.inf, 0, 0, 0, 0, -1
    for a in range(there):
        i = active[a]
        phase = turn.phase[i]
        if phase == OVER:
            continue
        event_s = min(event_s, turn.stop_s[i])
        if phase == TRAINING:
            event_s = min(event_s, _ready_s(turn, i))
        elif phase == SENDING and fifo:
            head = i if head < 0 or _ready_s(turn, i) < _ready_s(turn, head) else head
        else:
            on_air[transfers] = i
            transfers += 1
            senders += phase == SENDING
            streams += phase == LOADING
            listeners += phase == LISTENING
    if head >= 0:
        on_air[transfers] = head
        transfers, senders = transfers + 1, 1
    return event_s, senders, streams + (listeners > 0), listeners, transfers


@njit(inline="always", cache=True)
def _ready_s(turn, i):
    return turn.train_s[i] + turn.compute_s[i]


@njit(inline="always", cache=True)
def _set_rates(air, stretch, cars, turn, shadows, ways, on_air, transfers, now_s, cell, senders, streams):
    """Everybody's rate; returns the broadcast's, which is that of the worst place, and when the first will be done."""
    worst, first_s = math.inf, math.inf
    for a in range(transfers):
        i = on_air[a]
        here = _gain(i, cell, air, stretch, cars, turn, shadows, ways)
        if turn.phase[i] == LISTENING:
            worst = min(worst, here)
            turn.bps[i] = 0.0
            continue
        if turn.phase[i] == SENDING:
            turn.bps[i] = uplink_bps(air, here, senders)
            if math.isnan(turn.send_s[i]):
                turn.send_s[i] = now_s
        else:
            turn.bps[i] = downlink_bps(air, here, streams)
        turn.done_s[i] = now_s + turn.left_bits[i] / turn.bps[i]
        first_s = min(first_s, turn.done_s[i])
    return downlink_bps(air, worst, streams) if worst < math.inf else 0.0, first_s


@njit(inline="always", cache=True)
def _gain(i, cell, air, stretch, cars, turn, shadows, ways):
    if turn.cell[i] != cell:
        middle_s = stretch.start_s + (cell + 0.5) * air.cell_s
        turn.gain[i] = gain(
            air, middle_s, i, cars.key[i], cars.origin_s[i], cars.leave_s[i], ways, cars.track[i], shadows
        )
        turn.cell[i] = cell
    return turn.gain[i]


@njit(inline="always", cache=True)
def _go_on(i, now_s, cell, heard, crowd, air, stretch, cars, turn, shadows, fitting, ways):
    """From one phase to the next, if it is time: what is complete counts, also at the last moment."""
    phase, stop_s = turn.phase[i], turn.stop_s[i]
    over = stop_s <= now_s
    complete = turn.done_s[i] <= now_s or (over and turn.done_s[i] <= stop_s + stretch.rounding_s)
    if phase == SENDING and complete:
        _end(i, now_s, UPLOADED, turn)
        turn.left_bits[i] = 0.0
    elif over:
        _end(i, stop_s, _why_lost(i, air, cars, stretch, turn), turn)
    elif heard or (phase == LOADING and complete):
        turn.phase[i], turn.train_s[i], turn.done_s[i] = TRAINING, now_s, math.inf
        if fitting is not None:
            here = _gain(i, cell, air, stretch, cars, turn, shadows, ways)
            upload_s = air.up_bits / uplink_bps(air, here, 1 if air.fifo else crowd)
            _fit(i, now_s, upload_s, stretch, cars, turn, fitting, ways)
    elif phase == TRAINING and _ready_s(turn, i) <= now_s:
        turn.phase[i], turn.left_bits[i], turn.done_s[i] = SENDING, air.up_bits, math.inf


@njit(inline="always", cache=True)
def _fit(i, now_s, upload_s, stretch, cars, turn, fitting, ways):
    """As many steps as fit if the upload goes on at the rate that the vehicle would get now."""
    at_s = stretch.start_s + now_s
    stay_s = expected_stay_s(fitting, cars.key[i], at_s, cars.enter_s[i], cars.leave_s[i], ways, cars.track[i])
    left_s = min(stretch.length_s - now_s, stay_s) - upload_s + stretch.rounding_s
    turn.steps[i] = fitting_steps(left_s, turn.compute_s[i])
    turn.compute_s[i] *= turn.steps[i]
    if turn.steps[i] == 0:
        _end(i, now_s, SAT_OUT, turn)


@njit(inline="always", cache=True)
def _end(i, now_s, outcome, turn):
    turn.phase[i], turn.outcome[i], turn.end_s[i] = OVER, outcome, now_s


@njit(inline="always", cache=True)
def _why_lost(i, air, cars, stretch, turn):
    """The radio's fault if the steps alone would have been done in time, else the clock's."""
    if air.partial and turn.phase[i] == SENDING and turn.left_bits[i] <= (1.0 - LEAST_PART) * air.up_bits:
        return PARTIAL
    known = turn.steps[i] > 0  # with as many steps as fit nobody knows before the download is there
    if known and turn.begin_s[i] + turn.compute_s[i] <= turn.stop_s[i]:
        return RADIO
    return LEFT_EARLY if cars.leave_s[i] - stretch.start_s < stretch.length_s else ROUND_OVER


@njit(cache=True)
def run_radio_rounds(air, starts, t, rounding_s, cars, turn, shadows, laws, fitting, steps, ways, crowd, log, number,
                     counts, fitted):  # fmt: skip
    """Rounds of T seconds, each a stretch of its own; returns who is still there after the last one."""
    present, uploads = counts
    for k in range(len(starts)):
        stretch = Stretch(starts[k], t, rounding_s)
        while crowd.counts[2] < len(cars.enter_s) and cars.enter_s[crowd.counts[2]] < starts[k] + t:
            crowd.counts[2] += 1
        run_stretch(air, stretch, cars, turn, shadows, laws, fitting, steps, ways, crowd, log, number + k, False)
        present[k] = crowd.counts[0]
        left = 0
        for a in range(crowd.counts[0]):
            i = crowd.active[a]
            uploads[k] += turn.outcome[i] == UPLOADED
            if fitting is not None:
                _count_steps(k, turn.steps[i], turn.outcome[i], fitted)
            cars.attempt[i] += 1
            crowd.active[left] = i
            left += cars.leave_s[i] > starts[k] + t
        crowd.counts[0] = left
    return crowd.active[: crowd.counts[0]]


@njit(cache=True)
def _count_steps(k, steps, outcome, fitted):
    taken = steps if outcome == UPLOADED else 0
    fitted.started[k] += outcome != SAT_OUT
    fitted.steps[k] += taken
    fitted.longest[k] = max(fitted.longest[k], taken)
