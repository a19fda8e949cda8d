"""Damped changes: the model moves by a share of every change, the smaller the staler it is.

FedBuff's step (J. Nguyen et al., AISTATS 2022, arXiv:2106.06639) for single uploads, with the power of FedAsync's
polynomial (C. Xie et al., arXiv:1903.03934) and a server rate below 1. FedAsync mixes models and so pulls back to where
an old one was; a change is added to what came in between. Undamped, changes made at the same time add up: with many
vehicles the model takes their sum for a step, and may fall apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.rules.changes import moved_by_changes
from mobfl.learning.rules.fedbuff import staleness_weight
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class Damped:
    """Moves by damping times the mean of the changes, each times (1 + staleness)^−staleness_power."""

    needs_staleness: ClassVar[bool] = True

    damping: float = 0.6
    staleness_power: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.damping < inf:
            raise InputError(f"damped must have a damping > 0, got {self.damping:g}")
        if not 0 <= self.staleness_power < inf:
            raise InputError(f"damped must have a staleness_power >= 0, got {self.staleness_power:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """x ← x + damping·(1/K)·Σ (x_new − x_old)·(1 + staleness)^−p."""
        weights = np.array([staleness_weight(upload.staleness, self.staleness_power) for upload in uploads])
        return state, moved_by_changes(model, uploads, weights, self.damping)
