"""Adam at the server: FedAdam.

S. Reddi et al., "Adaptive Federated Optimization", ICLR 2021 (arXiv:2003.00295), Algorithm 2, with its values of β₁, β₂
and τ.
"""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.weights import Weights, is_statistic

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ServerAdam:
    """x ← x + rate·m/(√v + tau), m and v fading means of the combined change and its square."""

    _name: ClassVar[str] = "adam"

    rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        for name, value in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0 <= value < 1:
                raise InputError(f"{self._name} must have a {name} >= 0 and < 1, got {value:g}")
        for name, value in (("rate", self.rate), ("tau", self.tau)):
            if not 0 < value < inf:
                raise InputError(f"{self._name} must have a {name} > 0, got {value:g}")

    def init(self, model: Weights) -> State:
        trained = [name for name in model if not is_statistic(name)]
        means = {f"m/{name}": np.zeros(model[name].shape) for name in trained}
        return means | {f"v/{name}": np.full(model[name].shape, self.tau**2) for name in trained}

    def step(self, state: State, model: Weights, proposed: Weights) -> tuple[State, Weights]:
        new, moved = dict(state), dict(proposed)
        for name in (key[2:] for key in state if key.startswith("m/")):
            change = proposed[name].astype(np.float64) - model[name]
            m = new[f"m/{name}"] = self.beta1 * state[f"m/{name}"] + (1 - self.beta1) * change
            v = new[f"v/{name}"] = self.second_moment(state[f"v/{name}"], np.square(change))
            moved[name] = (model[name] + self.rate * m / (np.sqrt(v) + self.tau)).astype(model[name].dtype)
        return new, moved

    def second_moment(self, v: Floats, squared: Floats) -> Floats:
        """A fading mean of the squared change."""
        return self.beta2 * v + (1 - self.beta2) * squared
