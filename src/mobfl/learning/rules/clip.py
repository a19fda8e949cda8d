"""A bound on how far one upload may be from the model that it started from.

The bound follows what uploads usually are: `times` the running median of ‖upload − base‖, as in adaptive clipping
(G. Andrew et al., "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021, arXiv:1905.03871), here by a
fading average of each step's median. An upload within the bound passes bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic

_FADING = 0.1  # the share of the newest median in the running one


@dataclass(frozen=True)
class Clip:
    """Shortens changes longer than times × their running median; statistics of batch norm are left alone."""

    times: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.times < inf:
            raise InputError(f"clip must have times > 0, got {self.times:g}")

    def init(self, model: Weights) -> State:  # noqa: ARG002
        return {"median": np.zeros(1)}  # none is known yet

    def guard(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Sequence[Upload]]:
        norms = [_norm(upload.weights, upload.base or model) for upload in uploads]
        known, latest = float(state["median"][0]), float(np.median(norms))
        bound = self.times * (known or latest)
        clipped = [_shortened(upload, model, norm, bound) for upload, norm in zip(uploads, norms, strict=True)]
        # What is learnt of the bound is bounded too: one step cannot lift it far.
        median = latest if not known else (1 - _FADING) * known + _FADING * min(latest, bound)
        return {"median": np.array([median])}, clipped


def _norm(weights: Weights, base: Weights) -> float:
    squares = (
        np.square(weights[name].astype(np.float64) - base[name]).sum() for name in base if not is_statistic(name)
    )
    return float(np.sqrt(sum(squares)))


def _shortened(upload: Upload, model: Weights, norm: float, bound: float) -> Upload:
    if norm <= bound:
        return upload
    base, share = upload.base or model, bound / norm
    weights = {
        name: values
        if is_statistic(name)
        else (base[name] + share * (values.astype(np.float64) - base[name])).astype(values.dtype)
        for name, values in upload.weights.items()
    }
    return replace(upload, weights=weights)
