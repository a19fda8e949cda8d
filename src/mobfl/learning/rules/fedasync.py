"""FedAsync: every upload is mixed into the model, the less the staler it is.

C. Xie, S. Koyejo, I. Gupta, "Asynchronous Federated Optimization", arXiv:1903.03934, 2019, with its polynomial
s(staleness). Its proximal term is a matter of local training: `--local fedprox`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, mixed


@dataclass(frozen=True)
class FedAsync:
    """Mixes every upload in with the share mixing·(1 + staleness)^−staleness_power, one after the other."""

    needs_staleness: ClassVar[bool] = True

    mixing: float = 0.6  # α
    staleness_power: float = 0.5  # a

    def __post_init__(self) -> None:
        if not 0 < self.mixing <= 1:
            raise InputError(f"fedasync must have a mixing > 0 and <= 1, got {self.mixing:g}")
        if not 0 <= self.staleness_power < inf:
            raise InputError(f"fedasync must have a staleness_power >= 0, got {self.staleness_power:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """x ← (1 − α_t)·x + α_t·x_new."""
        for upload in uploads:
            model = mixed(model, upload.weights, self.share(upload.staleness))
        return state, model

    def share(self, staleness: int) -> float:
        """α_t = α·s(staleness), s = (1 + staleness)^−a."""
        return self.mixing * float(1 + staleness) ** -self.staleness_power
