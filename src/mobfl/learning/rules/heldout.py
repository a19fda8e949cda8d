"""A look at every upload by itself, on samples of the base station's own: the way where nobody can be outvoted.

After Zeno++ (C. Xie, S. Koyejo, I. Gupta, "Zeno++: Robust Fully Asynchronous SGD", ICML 2020, arXiv:1903.07020) and the
loss-based rejection of M. Fang et al., "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning", USENIX
Security 2020 (arXiv:1911.11815): an upload is dropped whose loss on held-out samples is higher than that of the model
that it started from, by more than a share that honest local steps on odd samples may cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from mobfl.errors import InputError
from mobfl.learning.heldout import HeldoutLoss
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class Heldout:
    """Drops uploads whose loss on held-out samples rose by more than this share. A forward pass each; one is enough."""

    needs_heldout: ClassVar[bool] = True

    rise: float = 0.1
    samples: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.rise < inf:
            raise InputError(f"heldout must have a rise >= 0, got {self.rise:g}")
        if not (float(self.samples).is_integer() and self.samples >= 1):
            raise InputError(f"heldout must have a whole number of samples >= 1, got {self.samples:g}")

    def guard(
        self, state: State, model: Weights, uploads: Sequence[Upload], loss: HeldoutLoss
    ) -> tuple[State, Sequence[Upload]]:
        samples, before = int(self.samples), dict[int, float]()
        kept = list[Upload]()
        for upload in uploads:
            base = upload.base or model
            if id(base) not in before:
                before[id(base)] = loss(base, samples)
            if loss(upload.weights, samples) <= before[id(base)] + self.rise * abs(before[id(base)]):
                kept.append(upload)
        return state, kept
