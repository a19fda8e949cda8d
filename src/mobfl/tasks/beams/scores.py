"""Loss and KPI of beam selection: one definition for every backend."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.tasks.beams.layout import CLASSES

TOPS = (1, 5, 10)
# The first author's code takes the mean over all entries of batch × classes: a 256th of the usual loss.
LOSS_WEIGHTS = {"sample": 1.0, "paper": 1.0 / CLASSES}


def scores(outputs: NDArray[np.float32], targets: NDArray[np.float32], loss_scale: str) -> dict[str, float]:
    """`loss` (cross-entropy, scaled), and the shares of samples whose best beam is among the k highest outputs."""
    losses, ranks = _losses_and_ranks(outputs, targets)
    return {"loss": LOSS_WEIGHTS[loss_scale] * float(losses.mean())} | top_shares(ranks)


def top_shares(ranks: NDArray[np.int64]) -> dict[str, float]:
    return {f"top_{k}": float((ranks < k).mean()) for k in TOPS}


def commonest_beams(training: NDArray[np.int64], validation: NDArray[np.int64]) -> dict[str, float]:
    """The floor: what the beams that are commonest in the training set score, whatever the grid shows."""
    order = np.argsort(-np.bincount(training, minlength=CLASSES), kind="stable")
    rank = np.empty(CLASSES, np.int64)
    rank[order] = np.arange(CLASSES)
    return top_shares(rank[validation])


@njit(cache=True, nogil=True)
def _losses_and_ranks(outputs, targets):
    """Per sample the cross-entropy, and how many outputs come before the best beam's; of equals the lower index.

    Where an output is not finite nothing is known: the best beam comes last, and the cross-entropy is no number.
    """
    samples, classes = outputs.shape
    losses, ranks = np.zeros(samples), np.zeros(samples, np.int64)
    for n in range(samples):
        if not np.isfinite(outputs[n]).all():
            losses[n], ranks[n] = np.nan, classes
            continue
        best, highest = np.argmax(targets[n]), float(outputs[n].max())
        total = 0.0
        for k in range(classes):
            total += math.exp(outputs[n, k] - highest)
            ranks[n] += outputs[n, k] > outputs[n, best] or (outputs[n, k] == outputs[n, best] and k < best)
        whole = math.log(total) + highest
        for k in range(classes):
            if targets[n, k] > 0:
                losses[n] += targets[n, k] * (whole - outputs[n, k])
    return losses, ranks
