"""Krum: the upload that is nearest to most of the others, or the mean of the few nearest ones (Multi-Krum).

P. Blanchard, E. M. El Mhamdi, R. Guerraoui, J. Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
Descent", NeurIPS 2017. With n uploads of which f are hostile, an upload's score is the sum of its squared distances to
its n − f − 2 nearest others. The promise needs n >= 2f + 3. How many uploads come is chance here, so f is a share of
them; where they are too few, the coordinate-wise median takes its place, which needs no such number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.rules.mean import Mean
from mobfl.learning.rules.median import Median
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic


@dataclass(frozen=True)
class Krum:
    """The upload nearest to its neighbours, or the mean of the best `keep`. Needs 5 uploads; with fewer, the median."""

    share: float = 0.2  # of hostile uploads, at least one
    keep: int = 1  # 2 and more: Multi-Krum

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise InputError(f"krum must have a share >= 0 and < 0.5, got {self.share:g}")
        if not (float(self.keep).is_integer() and self.keep >= 1):
            raise InputError(f"krum must keep a whole number >= 1, got {self.keep:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """All vehicles count the same, whatever they claim.

        Statistics of batch norm are the median of all: they are not looked at when the nearest are chosen.
        """
        count, hostile = len(uploads), max(1, int(self.share * len(uploads)))
        _, medians = Median().apply({}, model, uploads)
        if count < 2 * hostile + 3:
            return state, medians
        order = np.argsort(_scores(model, uploads, count - hostile - 2), kind="stable")
        nearest = [replace(uploads[k], samples=1) for k in sorted(order[: min(int(self.keep), count - hostile)])]
        _, chosen = Mean().apply({}, model, nearest)
        return state, {name: medians[name] if is_statistic(name) else values for name, values in chosen.items()}


def _scores(model: Weights, uploads: Sequence[Upload], neighbours: int) -> NDArray[np.float64]:
    trained = [name for name in model if not is_statistic(name)]
    rows = np.stack([np.concatenate([upload.weights[name].ravel() for name in trained]) for upload in uploads])
    return np.array([np.sort(_squares(rows, row))[1 : neighbours + 1].sum() for row in rows])  # the nearest is itself


def _squares(rows: NDArray[np.float32], row: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.square(rows.astype(np.float64) - row).sum(axis=1)
