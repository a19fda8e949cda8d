"""FedBuff's rule: the changes of K uploads are buffered, and the model moves by their mean.

J. Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022 (arXiv:2106.06639), with
its K = 10 and its weight 1/sqrt(1 + staleness).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.uploads import Upload, Weights

BUFFER, SERVER_RATE = 10, 1.0  # K, and the η_g with which fresh uploads are just averaged

# Batch norm's values are measured, not trained.
_STATISTICS = ("running_mean", "running_var")


def staleness_weight(staleness: int) -> float:
    return float(1 + staleness) ** -0.5


def apply_buffer(model: Weights, uploads: Sequence[Upload], server_rate: float) -> Weights:
    """x ← x + η_g·(1/K)·Σ (x_new − x_old)/sqrt(1 + staleness), where K counts good uploads.

    Statistics of batch norm are averaged instead, with these weights: changes since different models, added up, could
    make a variance negative.
    """
    weights = np.array([staleness_weight(upload.staleness) for upload in uploads])
    return {
        name: _weighted_sum([upload.weights[name] for upload in uploads], weights / weights.sum()).astype(np.float32)
        if name.endswith(_STATISTICS)
        else (values + server_rate * _weighted_sum(_changes(name, uploads), weights / len(uploads))).astype(np.float32)
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
