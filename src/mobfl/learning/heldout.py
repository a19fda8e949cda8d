"""A look at a model before it is adopted: its loss on a few validation samples, always the same ones.

A task has an optional method for it, `heldout_loss(model, samples)`: the mean loss on so many validation samples, or on
all where there are fewer. One forward pass tells what no look at the numbers does: whether the model still computes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mobfl.learning.task import Integers, Task
from mobfl.learning.weights import Weights, all_finite, has_negative_variance

HeldoutLoss: TypeAlias = Callable[[Weights, int], float]

_LOOKED_AT = 16  # samples; enough to see whether outputs are finite, and cheap beside a vehicle's local steps
# From models far above the untrained one's loss vehicles no longer learn: their uploads are not finite for ever.
_MOST_TIMES = 1000.0


def heldout_loss_of(task: Task) -> HeldoutLoss | None:
    """The task's method, if it has one."""
    found = getattr(task, "heldout_loss", None)
    return found if callable(found) else None


def spread(count: int, samples: int) -> Integers:
    """The numbers of so many of the samples, from the first to the last."""
    return np.linspace(0, count - 1, min(samples, count)).astype(np.int64)


@dataclass(frozen=True)
class Soundness:
    """What a model must fulfil to be adopted: finite numbers, variances >= 0, and a loss that is no disaster."""

    loss: HeldoutLoss | None  # None: nothing is computed with the model
    most: float = math.inf

    @classmethod
    def of(cls, task: Task, seed: int) -> "Soundness":
        loss = heldout_loss_of(task)
        if loss is None:
            return cls(None)
        untrained = loss(task.initial_weights(seed), _LOOKED_AT)
        return cls(loss, _MOST_TIMES * untrained if 0 < untrained < math.inf else math.inf)

    def holds(self, model: Weights) -> bool:
        if not all_finite(model) or has_negative_variance(model):
            return False
        if self.loss is None:
            return True
        found = self.loss(model, _LOOKED_AT)
        return math.isfinite(found) and found <= self.most
