"""FedBuff: the model moves by the mean of the uploads' changes, each divided by the root of its staleness.

J. Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022 (arXiv:2106.06639), with its
weight 1/sqrt(1 + staleness).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.rules.changes import moved_by_changes
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class FedBuff:
    """Moves by server_rate times the mean of the changes, each divided by √(1 + staleness)."""

    needs_staleness: ClassVar[bool] = True

    server_rate: float = 1.0  # η_g, with which fresh uploads are just averaged

    def __post_init__(self) -> None:
        if not 0 < self.server_rate < inf:
            raise InputError(f"fedbuff must have a server_rate > 0, got {self.server_rate:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """x ← x + η_g·(1/K)·Σ (x_new − x_old)/sqrt(1 + staleness), where K counts good uploads."""
        weights = np.array([staleness_weight(upload.staleness) for upload in uploads])
        return state, moved_by_changes(model, uploads, weights, self.server_rate)


def staleness_weight(staleness: int, power: float = 0.5) -> float:
    return float(1 + staleness) ** -power
