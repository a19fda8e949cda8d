"""Moving a model by weighted changes: what FedBuff and its like have in common."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic


def moved_by_changes(model: Weights, uploads: Sequence[Upload], weights: NDArray[np.float64], rate: float) -> Weights:
    """x + rate·(1/K)·Σ weight·(x_new − x_old), where K counts uploads.

    Statistics of batch norm are averaged instead, with these weights: changes since different models, added up, could
    make a variance negative.
    """
    shares = weights / weights.sum()
    return {
        name: _weighted_sum([upload.weights[name] for upload in uploads], shares).astype(np.float32)
        if is_statistic(name)
        else (values + rate * _weighted_sum(_changes(name, uploads), weights / len(uploads))).astype(np.float32)
        for name, values in model.items()
    }


def _changes(name: str, uploads: Sequence[Upload]) -> list[NDArray[np.float64]]:
    return [upload.weights[name].astype(np.float64) - upload.base[name] for upload in uploads]


def _weighted_sum(arrays: Sequence[NDArray[np.floating]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """In double precision and in the order given."""
    total = np.zeros(arrays[0].shape)
    for array, weight in zip(arrays, weights, strict=True):
        total += weight * array.astype(np.float64)
    return total
