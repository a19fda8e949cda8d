"""A model as two rows of numbers: what is trained, and batch norm's statistics.

Codecs that leave something out do so with what is trained alone. Statistics are measured, few, and of scales of their
own: they travel as they are, so that a variance never falls below zero on the way. Names are taken in their order, so
that both sides mean the same number by the same place.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.weights import Weights, is_statistic

Floats = NDArray[np.float64]
FLOAT = np.dtype("<f4")  # a number as it travels


def trained_names(model: Weights) -> list[str]:
    return sorted(name for name in model if not is_statistic(name))


def statistic_names(model: Weights) -> list[str]:
    return sorted(name for name in model if is_statistic(name))


def row(weights: Weights, names: list[str]) -> Floats:
    """The arrays of these names one after the other."""
    return np.concatenate([np.empty(0), *(weights[name].ravel() for name in names)])


def change(weights: Weights, base: Weights) -> Floats:
    """By how much every trained number differs from the base's."""
    names = trained_names(base)
    return row(weights, names) - row(base, names)


def statistics_bytes(weights: Weights) -> bytes:
    return row(weights, statistic_names(weights)).astype(FLOAT).tobytes()


def counts(model: Weights) -> tuple[int, int]:
    """How many statistics there are, and how many trained numbers."""
    sizes = [sum(model[name].size for name in names) for names in (statistic_names(model), trained_names(model))]
    return sizes[0], sizes[1]


def rebuilt(base: Weights, changes: Floats, statistics: Floats) -> Weights:
    """The model that differs from the base by these changes and has these statistics."""
    trained, measured = trained_names(base), statistic_names(base)
    new = dict[str, NDArray[np.float32]](_parted(base, trained, row(base, trained) + changes))
    new |= _parted(base, measured, statistics)
    return {name: new[name] for name in base}


def _parted(like: Weights, names: list[str], numbers: Floats) -> Mapping[str, NDArray[np.float32]]:
    ends = np.cumsum([like[name].size for name in names])[:-1]
    parts = np.split(numbers, ends) if names else []
    return {
        name: part.reshape(like[name].shape).astype(like[name].dtype) for name, part in zip(names, parts, strict=True)
    }
