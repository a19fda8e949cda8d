"""Clipped and noised sums: differential privacy for vehicles, towards whoever sees the models.

H. B. McMahan, D. Ramage, K. Talwar, L. Zhang, "Learning Differentially Private Recurrent Language Models", ICLR 2018
(arXiv:1710.06963), with equal weights and a fixed denominator, and without sampling: passing traffic is no random
sample, so no amplification is claimed.

What is promised: the base station is trusted. Of two trainings that differ in one vehicle, all of whose uploads are
replaced by "no change", nobody who sees every model can tell which one it was, up to (ε, δ). Who passes by and when is
not hidden. So a step in which anybody answered is noised, whatever was in the answers: an upload that is rejected is no
change, and not a step without noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import EXTRAS, InputError, MissingExtraError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic

Change = Mapping[str, NDArray[np.float64]]

ACCOUNTANT = "dp_accounting"
_MEAN, _VARIANCE = "running_mean", "running_var"
_EPSILON = 1e-5  # batch norm adds as much to a variance before it takes the root
_FARTHEST = 60.0  # a variance that noise multiplies by up to e^60 stays finite


@dataclass(frozen=True)
class Private:
    """x ← x + (the sum of changes clipped to length clip, + noise·clip·N(0, 1))/uploads; ε is told with the run."""

    draws: ClassVar[bool] = True
    hides_content: ClassVar[bool] = True

    uploads: float  # the denominator, whatever really comes
    clip: float = 1.0  # C
    noise: float = 1.0  # standard deviation over C
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("uploads", "clip", "noise"):
            if not 0 < (value := getattr(self, name)) < inf:
                raise InputError(f"private must have {name} > 0, got {value:g}")
        if not 0 < self.delta < 1:
            raise InputError(f"private must have a delta > 0 and < 1, got {self.delta:g}")
        if find_spec(ACCOUNTANT) is None:
            raise MissingExtraError(*EXTRAS[ACCOUNTANT])

    def apply(
        self, state: State, model: Weights, uploads: Sequence[Upload], random: np.random.Generator
    ) -> tuple[State, Weights]:
        """In double precision; noise is drawn in the order of names, which no checkpoint changes."""
        spread, total = self.noise * self.clip, self.clipped_sum(model, uploads)
        noised = {name: total[name] + spread * random.standard_normal(total[name].shape) for name in sorted(total)}
        return state, moved(model, {name: values / self.uploads for name, values in noised.items()})

    def clipped_sum(self, model: Weights, uploads: Sequence[Upload]) -> dict[str, NDArray[np.float64]]:
        """Of all changes, each shortened to length `clip`: one upload more or less moves it by no more than that."""
        total = {name: np.zeros(values.shape) for name, values in model.items()}
        for upload in uploads:
            change = change_of(upload.weights, upload.base or model)
            share = min(1.0, self.clip / length) if (length := length_of(change)) else 1.0
            for name, values in change.items():
                total[name] += share * values
        return total


# ---- a change in numbers that noise of one size suits --------------------------------------------
#
# Batch norm's statistics are the vehicles' data too, and have scales of their own. Means are counted in standard
# deviations and variances by their logarithm, both from the model that the vehicle was sent, which everybody knows. So
# noise shifts a mean by a share of its spread and multiplies a variance, which stays positive.


def change_of(weights: Weights, base: Weights) -> Change:
    """How a vehicle has changed the model that it was sent."""
    return {name: _difference(name, values.astype(np.float64), base) for name, values in weights.items()}


def _difference(name: str, values: NDArray[np.float64], base: Weights) -> NDArray[np.float64]:
    before = base[name].astype(np.float64)
    if name.endswith(_VARIANCE):
        return np.log((values + _EPSILON) / (before + _EPSILON))
    return (values - before) / _unit(name, base)


def moved(model: Weights, change: Change) -> dict[str, NDArray[np.float32]]:
    """The other way: the model after this change."""
    return {name: _after(name, change[name], model).astype(values.dtype) for name, values in model.items()}


def _after(name: str, change: NDArray[np.float64], model: Weights) -> NDArray[np.float64]:
    before = model[name].astype(np.float64)
    if name.endswith(_VARIANCE):
        factor = np.exp(np.clip(change, -_FARTHEST, _FARTHEST))
        return np.maximum((before + _EPSILON) * factor - _EPSILON, 0.0)
    return before + change * _unit(name, model)


def _unit(name: str, model: Weights) -> Any:
    """A running mean's standard deviation; 1 for everything else."""
    variance = name.removesuffix(_MEAN) + _VARIANCE
    if not (is_statistic(name) and variance in model):
        return 1.0
    return np.sqrt(model[variance].astype(np.float64) + _EPSILON)


def length_of(change: Change) -> float:
    """The Euclidean length over all arrays that travel."""
    return float(np.sqrt(sum(np.square(values).sum() for values in change.values())))
