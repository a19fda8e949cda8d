"""What a vehicle sends, and why some of it must not reach the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mobfl.learning.weights import Weights, all_finite, has_negative_variance, unlike


@dataclass(frozen=True)
class Upload:
    """A vehicle's model after its local steps. The server adds what it knows itself: base, staleness and steps.

    Args:
        weights: The vehicle's model.
        samples: D_m, how many samples it holds.
        base: The model that it started from.
        staleness: How many server steps ago that was.
        local_steps: How many it took.
        compute_s: How long it trained, in seconds; 0 where nobody knows.
        upload_s: How long it took to send.
        along: Arrays that a rule has asked for beside the weights.
    """

    weights: Weights
    samples: int
    base: Weights = field(default_factory=dict)
    staleness: int = 0
    local_steps: int = 0
    compute_s: float = 0.0
    upload_s: float = 0.0
    along: Weights = field(default_factory=dict)


def fault(model: Weights, upload: Upload) -> str | None:
    """Why an upload must not be merged into this model; None if nothing speaks against it."""
    if upload.samples < 1:
        return "without samples"
    if (reason := unlike(model, upload.weights)) is not None:
        return reason
    if not (all_finite(upload.weights) and all_finite(upload.along)):
        return "not finite"
    return "negative variance" if has_negative_variance(upload.weights) else None


def sorted_out(model: Weights, uploads: Sequence[Upload]) -> tuple[list[Upload], list[str]]:
    """The good uploads in their order, and why the others were rejected."""
    faults = [fault(model, upload) for upload in uploads]
    good = [upload for upload, reason in zip(uploads, faults, strict=True) if reason is None]
    return good, [reason for reason in faults if reason is not None]
