"""The server's own momentum: FedAvgM.

T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", arXiv:1909.06335, 2019.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.weights import Weights, is_statistic


@dataclass(frozen=True)
class ServerMomentum:
    """v ← beta·v + (combined − x), x ← x + rate·v; statistics of batch norm are taken as combined."""

    beta: float = 0.9
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"momentum must have a beta >= 0 and < 1, got {self.beta:g}")
        if not 0 < self.rate < inf:
            raise InputError(f"momentum must have a rate > 0, got {self.rate:g}")

    def init(self, model: Weights) -> State:
        return {name: np.zeros(values.shape) for name, values in model.items() if not is_statistic(name)}

    def step(self, state: State, model: Weights, proposed: Weights) -> tuple[State, Weights]:
        velocity = {
            name: self.beta * v + (proposed[name].astype(np.float64) - model[name]) for name, v in state.items()
        }
        moved = {name: (model[name] + self.rate * v).astype(model[name].dtype) for name, v in velocity.items()}
        return velocity, {name: moved.get(name, values) for name, values in proposed.items()}
