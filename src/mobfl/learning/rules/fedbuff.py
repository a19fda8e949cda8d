"""FedBuff: the model moves by the mean of the uploads' changes, each divided by the root of its staleness.

J. Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022 (arXiv:2106.06639), with its
weight 1/sqrt(1 + staleness).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic


@dataclass(frozen=True)
class FedBuff:
    """Moves by server_rate times the mean of the changes, each divided by √(1 + staleness)."""

    needs_staleness: ClassVar[bool] = True

    server_rate: float = 1.0  # η_g, with which fresh uploads are just averaged

    def __post_init__(self) -> None:
        if not 0 < self.server_rate < inf:
            raise InputError(f"fedbuff must have a server_rate > 0, got {self.server_rate:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """x ← x + η_g·(1/K)·Σ (x_new − x_old)/sqrt(1 + staleness), where K counts good uploads.

        Statistics of batch norm are averaged instead, with these weights: changes since different models, added up,
        could make a variance negative.
        """
        weights = np.array([staleness_weight(upload.staleness) for upload in uploads])
        return state, {
            name: _weighted_sum([upload.weights[name] for upload in uploads], weights / weights.sum()).astype(
                np.float32
            )
            if is_statistic(name)
            else self._moved(values, _weighted_sum(_changes(name, uploads), weights / len(uploads)))
            for name, values in model.items()
        }

    def _moved(self, values: NDArray[np.float32], change: NDArray[np.float64]) -> NDArray[np.float32]:
        return (values + self.server_rate * change).astype(np.float32)


def staleness_weight(staleness: int) -> float:
    return float(1 + staleness) ** -0.5


def _changes(name: str, uploads: Sequence[Upload]) -> list[NDArray[np.float64]]:
    return [upload.weights[name].astype(np.float64) - upload.base[name] for upload in uploads]


def _weighted_sum(arrays: Sequence[NDArray[np.floating]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """In double precision and in the order given."""
    total = np.zeros(arrays[0].shape)
    for array, weight in zip(arrays, weights, strict=True):
        total += weight * array.astype(np.float64)
    return total
