"""SGD that is pulled back towards the model it began with, so that unlike data do not drive vehicles apart.

T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020 (arXiv:1812.06127).
"""

from dataclasses import dataclass
from math import inf

from mobfl.errors import InputError
from mobfl.learning.task import Integers, SgdTerms, Task
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class FedProx:
    """SGD on the loss plus mu/2·‖w − w₀‖², w₀ being the model that was downloaded."""

    mu: float = 0.01
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.mu < inf:
            raise InputError(f"fedprox must have a mu >= 0, got {self.mu:g}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"fedprox must have a momentum >= 0 and < 1, got {self.momentum:g}")

    def train(self, task: Task, model: Weights, batches: Integers, learning_rate: float) -> Weights:
        return task.local_steps(model, batches, SgdTerms(learning_rate, self.momentum, self.mu))
