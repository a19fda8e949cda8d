"""The coordinate-wise median: a few uploads that lie cannot move it far.

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
Rates", ICML 2018 (arXiv:1803.01498). With one or two uploads it is their mean: nobody can be outvoted.
"""

from collections.abc import Sequence

import numpy as np

from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


class Median:
    """The median of the uploads, number by number; all vehicles count the same. From 3 uploads on."""

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        return state, {
            name: np.median(np.stack([upload.weights[name] for upload in uploads]), axis=0).astype(values.dtype)
            for name, values in model.items()
        }
