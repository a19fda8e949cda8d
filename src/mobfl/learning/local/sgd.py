"""Stochastic gradient descent, Eq. 1 of the paper."""

from dataclasses import dataclass

from mobfl.errors import InputError
from mobfl.learning.task import Integers, SgdTerms, Task
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class Sgd:
    """A step of SGD per batch, with momentum if given."""

    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InputError(f"sgd must have a momentum >= 0 and < 1, got {self.momentum:g}")

    @property
    def corrects(self) -> bool:
        """With momentum a step is no longer η times a gradient."""
        return self.momentum == 0

    def train(
        self,
        task: Task,
        model: Weights,
        batches: Integers,
        learning_rate: float,
        correction: Weights | None = None,
    ) -> Weights:
        return task.local_steps(model, batches, SgdTerms(learning_rate, self.momentum, correction=correction))
