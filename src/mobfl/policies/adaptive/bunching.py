"""Whether vehicles come in bunches, as behind a signal."""

import numpy as np

from mobfl.policies.adaptive.observed import Observed

_COUNTED_S = 30.0  # arrivals are counted in intervals of this length, a third of a usual signal's cycle
_FEWEST_INTERVALS = 20


class Bunching:
    """Remembers the latest arrivals."""

    def __init__(self, window_s: float) -> None:
        self._window_s, self._arrived_s = window_s, np.empty(0)
        self._start_s, self._now_s = np.nan, 0.0

    def add(self, seen: Observed) -> None:
        self._now_s = seen.end_s
        self._start_s = float(np.fmax(np.fmin(self._start_s, seen.start_s), seen.end_s - self._window_s))
        arrived_s = np.concatenate([self._arrived_s, seen.arrived_s])
        self._arrived_s = arrived_s[arrived_s >= self._start_s]

    @property
    def variance_to_mean(self) -> float:
        """Of the arrivals in short intervals: about 1 if they are Poisson, more if they come in bunches."""
        intervals = int((self._now_s - self._start_s) / _COUNTED_S) if len(self._arrived_s) else 0
        if intervals < _FEWEST_INTERVALS:
            return 1.0
        edges = self._now_s - _COUNTED_S * np.arange(intervals, -1, -1)
        counts = np.histogram(self._arrived_s, edges)[0]
        return float(counts.var(ddof=1) / counts.mean()) if counts.any() else 1.0
