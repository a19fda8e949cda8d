"""Rows of numbers that count the less the older they are."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# What counts less than this is dropped: four time constants.
_LEAST_WEIGHT = np.exp(-4.0)
# The prior fades too, but never quite: where no reply ever comes it is all there is.
_LEAST_PRIOR = 0.05


def effective(weights: Array) -> float:
    """How many equal weights would make a mean as certain (Kish)."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


class FadingRows:
    """The latest rows, each with the instant at which it was seen.

    They fade with the age of the newest: where nothing new comes nothing is forgotten, and the last values stay.
    """

    def __init__(self, columns: int, memory_s: float, most: int) -> None:
        self._memory_s, self._most = memory_s, most
        self._rows = np.empty((1 + columns, 0))
        self._first_s = self._newest_s = np.nan

    def add(self, seen_s: Array, *columns: Array) -> None:
        if not len(seen_s):
            return
        self._newest_s = float(np.fmax(self._newest_s, seen_s.max()))
        self._first_s = float(np.fmin(self._first_s, seen_s.min()))
        rows = np.concatenate([self._rows, np.stack([seen_s, *columns])], axis=1)
        self._rows = rows[:, self._weights(rows) >= _LEAST_WEIGHT][:, -self._most :]

    def weighted(self) -> tuple[Array, Array]:
        """The rows that still count, a line per column, and their weights."""
        return self._rows[1:], self._weights(self._rows)

    @property
    def prior_weight(self) -> float:
        """Of what was known before the first row."""
        if np.isnan(self._first_s):
            return 1.0
        return max(float(np.exp((self._first_s - self._newest_s) / self._memory_s)), _LEAST_PRIOR)

    def _weights(self, rows: Array) -> Array:
        return np.exp((rows[0] - self._newest_s) / self._memory_s)
