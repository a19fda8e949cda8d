"""What the server does with uploads: reject what cannot be a model, average the rest (Eq. 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A model: its parameters and batch-norm statistics by name.
Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Upload:
    """What a vehicle sends after its local steps, and D_m, the number of samples it holds."""

    weights: Weights
    samples: int


def aggregate(model: Weights, uploads: Sequence[Upload]) -> tuple[Weights, list[str]]:
    """The next model, and why uploads were rejected. Without a good upload the model stays as it is."""
    faults = [fault(model, upload) for upload in uploads]
    good = [upload for upload, reason in zip(uploads, faults, strict=True) if reason is None]
    return weighted_mean(good) if good else model, [reason for reason in faults if reason is not None]


def weighted_mean(uploads: Sequence[Upload]) -> Weights:
    """Eq. 3: the mean of the models, weighted by their D_m; summed in double precision, in the order given."""
    total = sum(upload.samples for upload in uploads)
    return {name: _mean_of(name, uploads, total) for name in uploads[0].weights}


def _mean_of(name: str, uploads: Sequence[Upload], total: int) -> NDArray[np.float32]:
    weighted = uploads[0].weights[name].astype(np.float64) * uploads[0].samples
    for upload in uploads[1:]:
        weighted += upload.weights[name].astype(np.float64) * upload.samples
    return (weighted / total).astype(np.float32)


def fault(model: Weights, upload: Upload) -> str | None:
    """Why an upload must not be averaged into this model; None if nothing speaks against it."""
    if upload.samples < 1:
        return "without samples"
    if upload.weights.keys() != model.keys():
        return "another model"
    for name, expected in model.items():
        got = upload.weights[name]
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return "wrong shape"
        if not np.isfinite(got).all():
            return "not finite"
    return None
