"""Samples of beam selection: what the network reads and what it shall say, in one convention for all sources."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.tasks.beams.conventions import BASE_STATION, GRID_SHAPE, OBSTACLE, PAIRS, RECEIVER

_FAINT_DB = 6.0  # what is weaker than the best beam by more is no answer


@dataclass(frozen=True)
class BeamSamples:
    grids: NDArray[np.int8]  # (N, 20, 200) seen from above
    targets: NDArray[np.float32]  # (N, 256), rows that sum to 1
    places: NDArray[np.float64]  # (N,) m along the road, for splits by place

    def __len__(self) -> int:
        return len(self.grids)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The best beam pair of each."""
        return self.targets.argmax(axis=1)

    def fingerprint(self) -> str:
        """Tells whether it is the same data."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.grids, self.targets, self.places):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def seen_from_above(grids: NDArray[Any]) -> NDArray[np.int8]:
    """(N, 20, 200, 10) to (N, 20, 200): the base station (−1) before the receiver (−2) before obstacles (1)."""
    flat = np.empty((len(grids), *GRID_SHAPE[:2]), np.int8)
    _look_down(grids, flat)
    return flat


@njit(cache=True)
def _look_down(grids, flat):
    for n in range(len(grids)):
        for i in range(flat.shape[1]):
            for j in range(flat.shape[2]):
                seen = 0
                for value in grids[n, i, j]:
                    over = value == BASE_STATION or (value == RECEIVER and seen != BASE_STATION)
                    if over or (value == OBSTACLE and seen == 0):
                        seen = value
                flat[n, i, j] = seen


@njit(cache=True)
def odd_samples(grids):
    """Which samples have a cell that is none of −2, −1, 0 and 1; without copies of what may be half a gigabyte."""
    odd = np.zeros(len(grids), np.bool_)
    for n in range(len(grids)):
        for value in grids[n].flat:
            odd[n] |= not (value == 0 or value == OBSTACLE or value == BASE_STATION or value == RECEIVER)  # noqa: SIM109
    return odd


def soft_targets(amplitudes: NDArray[Any]) -> NDArray[np.float32]:
    """Amplitudes of all pairs, those more than 6 dB below the best left out, normalised."""
    levels = np.asarray(amplitudes, np.float64).reshape(len(amplitudes), PAIRS)
    best = levels.max(axis=1, keepdims=True)
    kept = np.where(levels >= best * 10.0 ** (-_FAINT_DB / 20.0), levels, 0.0)
    return (kept / kept.sum(axis=1, keepdims=True)).astype(np.float32)


def one_hot_targets(labels: NDArray[Any]) -> NDArray[np.float32]:
    targets = np.zeros((len(labels), PAIRS), np.float32)
    targets[np.arange(len(labels)), labels] = 1.0
    return targets


def targets_of(amplitudes: NDArray[Any], kind: str) -> NDArray[np.float32]:
    if kind == "one-hot":
        return one_hot_targets(amplitudes.reshape(len(amplitudes), PAIRS).argmax(axis=1))
    return soft_targets(amplitudes)
