"""The mean of uploads that took unequal numbers of local steps, weighted by D·stepsᵖ.

In anytime rounds one vehicle takes forty steps and another two. Weighted by samples alone, the two pull the model back
to where the round began. Weights that grow with the steps let the longest training count most: how far the mean gets
is E[Σ nᵖ⁺¹ / Σ nᵖ] steps (`theory.averaged_steps`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.rules.mean import weighted_mean
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class ByStepsMean:
    """The mean of the uploads, weighted by samples times steps to the given power."""

    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.power < inf:
            raise InputError(f"steps must have a power >= 0, got {self.power:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        most = max(1, *(upload.local_steps for upload in uploads))
        shares = [upload.samples * (max(upload.local_steps, 1) / most) ** self.power for upload in uploads]
        return state, weighted_mean(model, uploads, shares)
