"""Rounds imagined to begin at given instants of a recording: who is there for how long, and what comes of it.

Whoever is there from a round's beginning to its end has its whole length: such vehicles are only counted. The others
enter or leave in it, and are found in the order of entering and of leaving. So a round costs what moves in it, not what
stands in it.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.theory.delays import LOGNORMAL, MEASURED

Array = NDArray[np.float64]


class Stays(NamedTuple):
    """Vehicles in the order of entering, as compiled code wants them."""

    enter_s: Array
    leave_s: Array
    by_leaving: NDArray[np.int64]
    may_leave: NDArray[np.bool_]  # whether what it did counts if it leaves before the round ends


def stays_of(enter_s: Array, leave_s: Array, may_leave: NDArray[np.bool_] | None = None) -> Stays:
    """Of vehicles in the order of entering, whose work all counts when they leave, or for some of them does not."""
    order = np.argsort(leave_s, kind="stable")
    return Stays(enter_s, leave_s, order, np.ones(len(order), np.bool_) if may_leave is None else may_leave)


@njit(cache=True)
def done_within(laws, window):
    """P{S ≤ window} of a vehicle at random."""
    chance = 0.0
    for c in range(len(laws.law)):
        extra = window - laws.least_s[c]
        if extra < 0.0 or (extra == 0.0 and laws.law[c] != MEASURED and laws.extra_s[c] > 0.0):
            continue
        if laws.law[c] == LOGNORMAL:
            z = (math.log(extra) - laws.mu[c]) / laws.sigma[c]
            done = 0.5 * math.erfc(-z / math.sqrt(2.0))
        elif laws.law[c] == MEASURED:
            samples = laws.samples_s[laws.first[c] : laws.first[c + 1]]
            done = np.searchsorted(samples, extra, side="right") / len(samples)
        else:
            done = 1.0 if laws.extra_s[c] == 0.0 else -math.expm1(-extra / laws.extra_s[c])
        chance += laws.share[c] * done
    return chance


@njit(cache=True)
def _overlaps(start, end, stays, seen, windows):
    """How many enter or leave in the round and count, with their seconds in it; and how many are there throughout.

    `seen` holds who has entered by start and before end, and who has left by start and before end; it only grows.
    """
    enter, leave, order, may_leave = stays
    while seen[0] < len(enter) and enter[seen[0]] <= start:
        seen[0] += 1
    while seen[1] < len(enter) and enter[seen[1]] < end:
        seen[1] += 1
    while seen[2] < len(enter) and leave[order[seen[2]]] <= start:
        seen[2] += 1
    while seen[3] < len(enter) and leave[order[seen[3]]] < end:
        seen[3] += 1
    count, throughout = 0, seen[0] - seen[3]
    for i in range(seen[0], seen[1]):
        throughout += leave[i] < end
        windows[count] = min(leave[i], end) - enter[i]
        count += leave[i] >= end or may_leave[i]
    for j in range(seen[2], seen[3]):
        i = order[j]
        windows[count] = leave[i] - start
        count += enter[i] <= start and may_leave[i]
    return count, throughout


@njit(cache=True)
def empty_and_uploads(starts, t, stays, laws, share):
    """The chance of no upload and the mean number of uploads, of rounds that begin at `starts`."""
    empty, uploads = np.ones(len(starts)), np.zeros(len(starts))
    windows, seen = np.empty(len(stays.enter_s) + 1), np.zeros(4, np.int64)
    whole = share * done_within(laws, t)
    for k in range(len(starts)):
        count, throughout = _overlaps(starts[k], starts[k] + t, stays, seen, windows)
        uploads[k] = throughout * whole
        empty[k] = (1.0 - whole) ** throughout
        for j in range(count):
            success = share * done_within(laws, windows[j])
            uploads[k] += success
            empty[k] *= 1.0 - success
    return empty, uploads


@njit(cache=True)
def steps_of_round(windows, there, throughout, t, laws, transfer_s, share):
    """Of one anytime round: the mean longest training, the uploads, and the chance of none; uses `windows` up."""
    longest, uploads, empty, steps = 0.0, 0.0, 1.0, 0
    while True:  # until nobody can take one more
        steps += 1
        whole = share * done_within(laws, (t - transfer_s) / steps) if throughout else 0.0
        able, none, sum_of_chances = 0, (1.0 - whole) ** throughout, throughout * whole
        for j in range(there):
            success = share * done_within(laws, (windows[j] - transfer_s) / steps)
            windows[able] = windows[j]  # whoever cannot take so many steps cannot take more
            able += success > 0.0
            none *= 1.0 - success
            sum_of_chances += success
        there = able
        if sum_of_chances == 0.0:
            return longest, uploads, empty
        longest += 1.0 - none
        if steps == 1:
            uploads, empty = sum_of_chances, none


@njit(cache=True)
def longest_and_uploads(starts, t, stays, laws, transfer_s, share):
    """The mean longest training of anytime rounds that begin at `starts`, their uploads, and the chance of none."""
    longest, uploads, empty = np.zeros(len(starts)), np.zeros(len(starts)), np.ones(len(starts))
    windows, seen = np.empty(len(stays.enter_s) + 1), np.zeros(4, np.int64)
    for k in range(len(starts)):
        there, throughout = _overlaps(starts[k], starts[k] + t, stays, seen, windows)
        longest[k], uploads[k], empty[k] = steps_of_round(windows, there, throughout, t, laws, transfer_s, share)
    return longest, uploads, empty
