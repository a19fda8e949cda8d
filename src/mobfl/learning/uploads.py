"""What the server does with uploads: reject what cannot be a model, merge the rest; in rounds by averaging (Eq. 3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# A model: its parameters and batch-norm statistics by name.
Weights = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Upload:
    """What a vehicle sends after its local steps, and D_m, the number of samples it holds.

    The server knows the rest: the model that the vehicle started from, and how many server steps ago that was.
    """

    weights: Weights
    samples: int
    base: Weights = field(default_factory=dict)
    staleness: int = 0


# The next model, made of the present one and at least one good upload.
Rule = Callable[[Weights, Sequence[Upload]], Weights]


def weighted_mean(_: Weights, uploads: Sequence[Upload]) -> Weights:
    """Eq. 3: the mean of the models, weighted by their D_m; summed in double precision, in the order given."""
    total = sum(upload.samples for upload in uploads)
    return {name: _mean_of(name, uploads, total) for name in uploads[0].weights}


def _mean_of(name: str, uploads: Sequence[Upload], total: int) -> NDArray[np.float32]:
    weighted = uploads[0].weights[name].astype(np.float64) * uploads[0].samples
    for upload in uploads[1:]:
        weighted += upload.weights[name].astype(np.float64) * upload.samples
    return (weighted / total).astype(np.float32)


def aggregate(model: Weights, uploads: Sequence[Upload], rule: Rule = weighted_mean) -> tuple[Weights, list[str]]:
    """The next model, and why uploads were rejected. Without a good upload the model stays as it is."""
    faults = [fault(model, upload) for upload in uploads]
    good = [upload for upload, reason in zip(uploads, faults, strict=True) if reason is None]
    return rule(model, good) if good else model, [reason for reason in faults if reason is not None]


def mixed(model: Weights, other: Weights, share: float) -> Weights:
    """(1 − share)·model + share·other, in double precision."""
    return {name: _mix(values, other[name], share) for name, values in model.items()}


def _mix(values: NDArray[np.float32], others: NDArray[np.float32], share: float) -> NDArray[np.float32]:
    return ((1.0 - share) * values.astype(np.float64) + share * others.astype(np.float64)).astype(np.float32)


def fault(model: Weights, upload: Upload) -> str | None:
    """Why an upload must not be averaged into this model; None if nothing speaks against it."""
    if upload.samples < 1:
        return "without samples"
    if (reason := unlike(model, upload.weights)) is not None:
        return reason
    return None if all(np.isfinite(values).all() for values in upload.weights.values()) else "not finite"


def unlike(model: Weights, other: Weights) -> str | None:
    """Why these are not weights of the same kind of model; None if they are."""
    if other.keys() != model.keys():
        return "another model"
    same = all(
        other[name].shape == values.shape and other[name].dtype == values.dtype for name, values in model.items()
    )
    return None if same else "wrong shape"
