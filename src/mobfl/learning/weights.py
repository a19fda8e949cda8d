"""A model as a mapping of names to arrays: what can be said and done with it without knowing what it computes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[np.float32]]
"""A model: its parameters and batch-norm statistics by name, arrays of float32."""

# Batch norm's values are measured, not trained.
_VARIANCE = "running_var"
_STATISTICS = ("running_mean", _VARIANCE)


def is_statistic(name: str) -> bool:
    return name.endswith(_STATISTICS)


def is_variance(name: str) -> bool:
    return name.endswith(_VARIANCE)


def unlike(model: Weights, other: Weights) -> str | None:
    """Why these are not weights of the same kind of model; None if they are."""
    if other.keys() != model.keys():
        return "another model"
    same = all(
        other[name].shape == values.shape and other[name].dtype == values.dtype for name, values in model.items()
    )
    return None if same else "wrong shape"


def same(model: Weights, other: Weights) -> bool:
    """Whether two models of one kind have the same numbers."""
    return model is other or all(np.array_equal(model[name], values) for name, values in other.items())


def all_finite(weights: Weights) -> bool:
    return all(bool(np.isfinite(values).all()) for values in weights.values())


def has_negative_variance(weights: Weights) -> bool:
    """Batch norm takes the root of its running variances: one below zero turns every output into NaN."""
    return any(bool((values < 0).any()) for name, values in weights.items() if is_variance(name))


def mixed(model: Weights, other: Weights, share: float) -> Weights:
    """(1 − share)·model + share·other, in double precision."""
    return {name: _mix(values, other[name], share) for name, values in model.items()}


def _mix(values: NDArray[np.float32], others: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    return ((1.0 - share) * values.astype(np.float64) + share * others.astype(np.float64)).astype(np.float32)


def added(model: Weights, now: Weights, before: Weights) -> Weights:
    """The model with what has changed elsewhere since; what is measured, such as variances, stays as it is."""
    return {
        name: values if is_statistic(name) else _moved(values, now[name], before[name], 1.0)
        for name, values in model.items()
    }


def moved(model: Weights, now: Weights, before: Weights, share: float) -> Weights:
    """The model with a share of what has changed elsewhere; what is measured is mixed: no variance goes below 0."""
    return {
        name: _mix(values, now[name], share) if is_statistic(name) else _moved(values, now[name], before[name], share)
        for name, values in model.items()
    }


def _moved(
    values: NDArray[np.float32], now: NDArray[np.float32], before: NDArray[np.float32], share: float
) -> NDArray[np.float32]:
    change = now.astype(np.float64) - before.astype(np.float64)
    return (values.astype(np.float64) + share * change).astype(np.float32)
