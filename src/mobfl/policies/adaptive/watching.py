"""What a base station would have seen of simulated rounds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.policies.adaptive.observed import Observed
from mobfl.rounds.orders import AsManyAsFit, Steps
from mobfl.rounds.rows import Outcome, Rounds, VehicleRows

Array = NDArray[np.float64]


class Watcher:
    """Follows vehicles from one order's rounds to the next. What a cut-off vehicle computed stays hidden from it.

    Args:
        transfer_s: What both transfers take, where they share no radio.
    """

    def __init__(self, transfer_s: float) -> None:
        self._transfer_s = transfer_s
        self._there = dict[Any, float]()  # since when, by the vehicle's key; NaN if since before the first round

    def see(self, rounds: Rounds) -> Observed:
        rows = rounds.vehicles
        if rows is None:
            raise ValueError("rounds without their vehicles show nothing of the traffic")
        start_s, end_s = float(rounds.start_s[0]), float(rounds.start_s[-1] + rounds.round_s)
        arrived_s = self._let_in(rows, rounds)
        left_s, stay_s = self._let_go(rows, rounds, start_s)
        there_s = end_s - np.array(list(self._there.values()))
        told = _telling(rows, rounds.local_steps)
        took_s = self._transfer_s + rows.compute_s if rows.transfers is None else rows.end_s - rows.begin_s
        reply_s = np.where(rows.outcome == Outcome.UPLOADED, took_s, np.nan)
        return Observed(
            start_s, end_s, arrived_s, left_s, stay_s, there_s[np.isfinite(there_s)],
            (rows.end_s - rows.begin_s)[told], reply_s[told], np.maximum(rows.steps[told], 1).astype(float),
        )  # fmt: skip

    def _let_in(self, rows: VehicleRows, rounds: Rounds) -> Array:
        """Notes who is new, and returns when they entered."""
        new = rows.attempt == 0
        since = rows.begin_s[new].copy()
        # Only in the very first round may somebody have been there before.
        since[(rows.round[new] == 0) & (since == rounds.start_s[0])] = np.nan
        self._there.update(zip(rows.key[new].tolist(), since.tolist(), strict=True))
        return np.sort(since[np.isfinite(since)])

    def _let_go(self, rows: VehicleRows, rounds: Rounds, start_s: float) -> tuple[Array, Array]:
        """Forgets who is gone; returns when they left and how long they had stayed, where that is known."""
        over_s = rounds.start_s + rounds.round_s
        row_over_s = over_s[rows.round - rounds.round[0]]
        stays_on = (rows.round == rounds.round[-1]) & (rows.end_s == row_over_s)
        still_there = set(rows.key[stays_on].tolist())
        last_s = dict(zip(rows.key.tolist(), rows.end_s.tolist(), strict=True))  # a later row replaces an earlier one
        gone = [key for key in self._there if key not in still_there]
        left_s = np.array([last_s.get(key, start_s) for key in gone])
        stay_s = left_s - np.array([self._there.pop(key) for key in gone])
        known = np.isfinite(stay_s)
        return left_s[known], stay_s[known]


def _telling(rows: VehicleRows, asked: Steps) -> Any:
    """The attempts that tell something of delays.

    Of H steps all do: one that was cut off took at least its window. Of as many as fit, one that was lost tells nothing
    but that its vehicle left too early; one that sat out says that a single step takes more than its window, unless it
    may have been wrong about that.
    """
    if not isinstance(asked, AsManyAsFit):
        return slice(None)
    right = asked.knows in ("nothing", "leaving") and not asked.error
    sat_out = (rows.outcome == Outcome.SAT_OUT) & right
    return (rows.outcome == Outcome.UPLOADED) | sat_out
