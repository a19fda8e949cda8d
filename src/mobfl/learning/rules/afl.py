"""Weighted AFL: every upload is mixed into the model, the less the longer its training and its upload took.

Q. Wu, S. Wang, P. Fan, Q. Fan, "Deep Reinforcement Learning Based Vehicle Selection for Asynchronous Federated
Learning Enabled Vehicular Edge Computing", 2023, after S. Wang, Q. Wu et al., "Asynchronous Federated Learning for
Edge-assisted Vehicular Networks", 2022 (arXiv:2208.01901). Theirs multiplies the vehicle's weights themselves by the
two factors, which draws the model towards zero; here the factors go into the share with which it is mixed in. Vehicle
selection is no part of it. A weight for staleness, which theirs has not, can be added as in FedAsync.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, mixed


@dataclass(frozen=True)
class DelayWeights:
    """Mixes every upload in with the share mixing·training^(compute_s − usual_s)·upload^(upload_s − usual_s)."""

    mixing: float = 0.5  # 1 − γ of theirs
    training: float = 0.9  # ξ, per second
    upload: float = 0.9  # ζ, per second
    usual_s: float = 0.5  # a delay of which neither gains nor loses
    staleness_power: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mixing", "training", "upload"):
            if not 0 < (value := getattr(self, name)) <= 1:
                raise InputError(f"afl must have {name} > 0 and <= 1, got {value:g}")
        for name in ("usual_s", "staleness_power"):
            if not 0 <= (value := getattr(self, name)) < inf:
                raise InputError(f"afl must have {name} >= 0, got {value:g}")

    @property
    def needs_staleness(self) -> bool:
        return self.staleness_power > 0

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        """x ← (1 − share)·x + share·x_new, in the order given."""
        for upload in uploads:
            model = mixed(model, upload.weights, self.share(upload))
        return state, model

    def share(self, upload: Upload) -> float:
        """Who is quicker than usual counts for more, but never for more than all."""
        try:
            trained = self.training ** (upload.compute_s - self.usual_s)
            delays = trained * self.upload ** (upload.upload_s - self.usual_s)
        except OverflowError:  # quicker than usual by more than numbers tell
            return 1.0
        return min(1.0, self.mixing * delays * float(1 + upload.staleness) ** -self.staleness_power)
