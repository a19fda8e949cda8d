"""The rate that whoever sends has at an instant, found again from rows: place, shadow and company are all known."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.rounds.air import Channel, Shadows, gain, uplink_bps
from mobfl.rounds.rows import VehicleRows

Array = NDArray[np.float64]


def present_bps(
    rows: VehicleRows, channel: Channel, seed: int, enter_s: Array, leave_s: Array, round_s: float, instants: int
) -> Array:
    """Uploads' rates in the middle of so many equal parts of each: (rows, instants), NaN for those who send nothing.

    Args:
        rows: All rows of rounds that began at multiples of `round_s`.
        channel: The radio of these rounds; vehicles drive steadily.
        seed: Of these rounds.
        enter_s: When the vehicle of every row enters.
        leave_s: When it leaves.
        round_s: T.
        instants: How many.
    """
    if rows.transfers is None:
        raise ValueError("these rounds had no radio")
    found = np.full((len(rows), instants), np.nan)
    air = channel.air(seed)
    _fill(air, rows.round, rows.key, enter_s, leave_s, rows.transfers.send_s, rows.end_s, round_s, found)
    return found


@njit(cache=True)
def _fill(air, number, key, enter_s, leave_s, send_s, end_s, round_s, found):
    ways = (np.zeros(1, np.int64), np.zeros(1), np.zeros(1))
    shadows = Shadows(np.full(1, -1), np.empty(1), np.empty(1))
    first, instants = 0, found.shape[1]
    for i in range(len(number)):
        while number[first] < number[i]:
            first += 1
        if not send_s[i] < end_s[i]:
            continue
        start_s = number[i] * round_s
        shadows.place[0] = -1
        for k in range(instants):
            at_s = send_s[i] + (k + 0.5) / instants * (end_s[i] - send_s[i])
            cell = np.floor((at_s - start_s) / air.cell_s)
            middle_s = start_s + (cell + 0.5) * air.cell_s
            here = gain(air, middle_s, 0, key[i], enter_s[i], leave_s[i], ways, -1, shadows)
            found[i, k] = uplink_bps(air, here, _senders(number, send_s, end_s, first, at_s))


@njit(cache=True)
def _senders(number, send_s, end_s, first, at_s):
    """How many of the round send; in a queue one does at a time."""
    found, j = 0, first
    while j < len(number) and number[j] == number[first]:
        found += send_s[j] <= at_s < end_s[j]
        j += 1
    return found
