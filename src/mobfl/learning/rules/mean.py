"""The mean of the uploads, weighted by their samples: federated averaging (McMahan et al. 2017), Eq. 3 of the paper."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights


class Mean:
    """The mean of the uploads, weighted by the samples D_m that each was trained on."""

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        return state, weighted_mean(model, uploads, [upload.samples for upload in uploads])


def weighted_mean(model: Weights, uploads: Sequence[Upload], shares: Sequence[float]) -> Weights:
    """The uploads' mean with shares that need not sum to one."""
    return {name: _mean_of(name, uploads, shares) for name in model}


def _mean_of(name: str, uploads: Sequence[Upload], shares: Sequence[float]) -> NDArray[np.float32]:
    """Summed in double precision, in the order given."""
    weighted = uploads[0].weights[name].astype(np.float64) * shares[0]
    for upload, share in zip(uploads[1:], shares[1:], strict=True):
        weighted += upload.weights[name].astype(np.float64) * share
    return (weighted / sum(shares)).astype(np.float32)
