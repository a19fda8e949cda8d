"""Means over rounds, with intervals that respect that neighbouring rounds share vehicles."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.display import Sheet

Array = NDArray[np.float64]

_BATCHES = 128
_LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Compared:
    """What was measured, beside what was promised; None where nothing was."""

    measured: Estimate
    expected: float | None = None

    def to_dict(self, name: str) -> dict[str, Any]:
        """Under this name; an interval that is not known is None, as JSON has no word for infinity."""
        ends = (self.measured.low, self.measured.high)
        return {
            name: self.measured.value if math.isfinite(self.measured.value) else None,
            f"{name}_interval": list(ends) if all(map(math.isfinite, ends)) else None,
            f"expected_{name}": self.expected,
        }


def compared_sheet(title: str, compared: Iterable[tuple[str, Compared]], notes: Sequence[str] = ()) -> Sheet:
    """A row for each quantity."""
    rows = [
        (
            name,
            f"{each.measured.value:.4f}",
            f"{each.measured.low:.4f} to {each.measured.high:.4f}",
            "" if each.expected is None else f"{each.expected:.4f}",
        )
        for name, each in compared
    ]
    return Sheet(title, rows, ("", "measured", "95 % interval", "promised"), [note for note in notes if note])


class BatchMeans:
    """Sums over batches of consecutive rounds. The batches grow with the run, so memory does not.

    Rounds within a batch may depend on each other, batches hardly do: the jackknife over batches gives the interval of
    any function of the means.
    """

    def __init__(self, quantities: int, batch: int) -> None:
        self._batch = batch
        self._sums = np.empty((0, quantities))
        self._rest = np.empty((quantities, 0))
        self.rounds = 0

    def add(self, columns: Array) -> None:
        """Takes in some rounds: one row per quantity, one column per round."""
        self.rounds += columns.shape[1]
        pending = np.concatenate([self._rest, columns], axis=1)
        while whole := min(pending.shape[1] // self._batch, _BATCHES - len(self._sums)):
            taken, pending = np.split(pending, [whole * self._batch], axis=1)
            self._sums = np.vstack([self._sums, taken.reshape(len(taken), whole, -1).sum(axis=2).T])
            if len(self._sums) == _BATCHES:
                self._sums = self._sums[::2] + self._sums[1::2]
                self._batch *= 2
        self._rest = pending

    def estimate(self, function: Callable[[Array], float]) -> Estimate:
        """`function` of the means over all rounds, with its jackknife interval (infinite for less than two batches)."""
        in_batches, n = self._sums.sum(axis=0), len(self._sums)
        value = float(function((in_batches + self._rest.sum(axis=1)) / self.rounds))
        if n < 2:
            return Estimate(value, -np.inf, np.inf)
        without = np.array([function((in_batches - one) / ((n - 1) * self._batch)) for one in self._sums])
        error = np.sqrt((n - 1) / n * np.square(without - without.mean()).sum())
        from scipy.special import stdtrit

        reach = float(stdtrit(n - 1, (1 + _LEVEL) / 2) * error)
        return Estimate(value, value - reach, value + reach)
