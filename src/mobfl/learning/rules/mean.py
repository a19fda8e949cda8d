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
        total = sum(upload.samples for upload in uploads)
        return state, {name: _mean_of(name, uploads, total) for name in model}


def _mean_of(name: str, uploads: Sequence[Upload], total: int) -> NDArray[np.float32]:
    """Summed in double precision, in the order given."""
    weighted = uploads[0].weights[name].astype(np.float64) * uploads[0].samples
    for upload in uploads[1:]:
        weighted += upload.weights[name].astype(np.float64) * upload.samples
    return (weighted / total).astype(np.float32)
