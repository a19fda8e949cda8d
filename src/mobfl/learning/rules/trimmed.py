"""The trimmed mean: number by number, the largest and the smallest are left out and the rest is averaged.

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", ICML 2018 (arXiv:1803.01498), Definition 2. It withstands as many liars as it leaves out at one end. We round
that number up, where the paper takes a whole one, so that three uploads are enough for one liar; of one or two nobody
can be outvoted, and they are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class Trimmed:
    """The mean without the share of largest and of smallest values; all vehicles count the same. From 3 uploads on."""

    share: float = 0.2  # at either end

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise InputError(f"trimmed must have a share >= 0 and < 0.5, got {self.share:g}")

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        left_out = self.left_out(len(uploads))
        kept = slice(left_out, len(uploads) - left_out)
        return state, {
            name: np.sort(np.stack([upload.weights[name] for upload in uploads]), axis=0)[kept]
            .mean(axis=0, dtype=np.float64)
            .astype(values.dtype)
            for name, values in model.items()
        }

    def left_out(self, uploads: int) -> int:
        """How many at either end; at least one upload is left."""
        return min(ceil(self.share * uploads), (uploads - 1) // 2)
