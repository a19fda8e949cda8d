"""The largest changes alone, each with its place: top-k sparsification, with or without a memory of what was left out.

S. U. Stich, J.-B. Cordonnier, M. Jaggi, "Sparsified SGD with Memory", NeurIPS 2018 (arXiv:1809.07599); A. F. Aji, K.
Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017 (arXiv:1704.05021). What a vehicle left
out of an upload it adds to its next one; an upload that is lost leaves its memory as it was. Where a schedule says
for how many bytes there is time, these are filled, as in J. Yan et al., "Mobility-Aware Asynchronous Federated
Learning with Dynamic Sparsification" (MADS), 2025 (arXiv:2506.07328): k follows the contact time.

The bytes: batch norm's statistics as they are, then a place and a float32 for every entry, the largest change first. So
any beginning of them that ends with an entry is an upload too, of fewer entries. A place takes as few whole bytes as
the model allows.
"""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.codecs.vectors import FLOAT, Floats, change, counts, rebuilt, row, statistic_names, statistics_bytes
from mobfl.learning.weights import Weights

_LEFT_OUT = "left_out"  # the memory's only array


@dataclass(frozen=True)
class TopK:
    """The given share of the changes, the largest; with memory=1 what was left out is added to the next upload."""

    takes_budget: ClassVar[bool] = True
    prefix_counts: ClassVar[bool] = True

    share: float = 0.1
    memory: float = 0.0  # the share of what was left out that is remembered

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"topk must have a share > 0 and <= 1, got {self.share:g}")
        if not 0 <= self.memory <= 1:
            raise InputError(f"topk must have a memory >= 0 and <= 1, got {self.memory:g}")

    @property
    def remembers(self) -> bool:
        return self.memory > 0

    def encode(
        self, weights: Weights, base: Weights, *, memory: Weights | None = None, budget: int | None = None
    ) -> tuple[bytes, Weights] | bytes:
        wanted = change(weights, base) + (memory[_LEFT_OUT] if memory else 0.0)
        measured = statistics_bytes(weights)
        chosen = largest(wanted, self._entries(base, budget))
        with np.errstate(over="ignore", invalid="ignore"):  # of a training that has diverged
            data = measured + _entries_bytes(chosen, wanted[chosen], len(wanted))
            left_out = self._left_out(wanted, chosen) if self.remembers else {}
        if budget is not None:
            data = data[: _whole(max(budget, 0), len(measured), _width(len(wanted)))]
        return (data, left_out) if self.remembers else data

    def _entries(self, base: Weights, budget: int | None) -> int:
        statistics, trained = counts(base)
        if budget is None:
            return ceil(self.share * trained)
        return min(max(budget - FLOAT.itemsize * statistics, 0) // _width(trained), trained)

    def _left_out(self, wanted: Floats, chosen: NDArray[np.int64]) -> Weights:
        """Nothing of a training that has diverged: it would spoil all that come after."""
        left = self.memory * wanted
        left[chosen] -= self.memory * wanted[chosen].astype(FLOAT)
        return {_LEFT_OUT: left.astype(np.float32)} if np.isfinite(left).all() else {}

    def decode(self, data: bytes, base: Weights) -> Weights:
        statistics, trained = counts(base)
        known, width = min(len(data), FLOAT.itemsize * statistics), _width(trained)
        if len(data) > FLOAT.itemsize * statistics + width * trained or known % FLOAT.itemsize:
            raise ValueError(f"not statistics and entries of a model like the base: {len(data)} bytes")
        measured = row(base, statistic_names(base))
        measured[: known // FLOAT.itemsize] = np.frombuffer(data, FLOAT, known // FLOAT.itemsize)
        places, values = _entries_of(data[known:], width)
        if len(places) and (places.max() >= trained or len(np.unique(places)) < len(places)):
            raise ValueError("an entry's place must be in the model, and each place come once")
        changes = np.zeros(trained)
        changes[places] = values
        return rebuilt(base, changes, measured)

    def decode_prefix(self, data: bytes, base: Weights) -> Weights:
        """Of a beginning of an upload, as far as whole numbers have arrived."""
        statistics, trained = counts(base)
        return self.decode(data[: _whole(len(data), FLOAT.itemsize * statistics, _width(trained))], base)

    def size(self, model: Weights, budget: int | None = None) -> int:
        statistics, trained = counts(model)
        whole = FLOAT.itemsize * statistics + _width(trained) * self._entries(model, budget)
        return (
            whole
            if budget is None
            else min(whole, _whole(max(budget, 0), FLOAT.itemsize * statistics, _width(trained)))
        )


def largest(values: Floats, count: int) -> NDArray[np.int64]:
    """The places of so many numbers, the largest first; of equal ones the first, so that the bytes are always the same.

    What is no number is the largest of all: an upload with one must be seen to be bad, as without a codec.
    """
    sizes = np.where(np.isnan(values), np.inf, np.abs(values))
    if count <= 0:
        return np.empty(0, np.int64)
    least = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    above, level = np.flatnonzero(sizes > least), np.flatnonzero(sizes == least)
    chosen = np.concatenate([above, level[: count - len(above)]])
    return chosen[np.argsort(-sizes[chosen], kind="stable")]


def _place_bytes(trained: int) -> int:
    return max(1, ceil(max(trained - 1, 1).bit_length() / 8))


def _width(trained: int) -> int:
    return _place_bytes(trained) + FLOAT.itemsize


def _whole(data_bytes: int, statistics_bytes: int, width: int) -> int:
    """As many bytes as end with a whole number or entry."""
    if data_bytes < statistics_bytes:
        return data_bytes - data_bytes % FLOAT.itemsize
    return data_bytes - (data_bytes - statistics_bytes) % width


def _entries_bytes(places: NDArray[np.int64], values: Floats, trained: int) -> bytes:
    index = places.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : _place_bytes(trained)]
    return np.hstack([index, values.astype(FLOAT).view(np.uint8).reshape(-1, FLOAT.itemsize)]).tobytes()


def _entries_of(data: bytes, width: int) -> tuple[NDArray[np.uint64], Floats]:
    if len(data) % width:
        raise ValueError(f"an entry must have {width} bytes, got a rest of {len(data) % width}")
    table = np.frombuffer(data, np.uint8).reshape(-1, width)
    index = np.zeros((len(table), 8), np.uint8)
    index[:, : width - FLOAT.itemsize] = table[:, : -FLOAT.itemsize]
    values = np.ascontiguousarray(table[:, -FLOAT.itemsize :]).view(FLOAT).ravel()
    return index.view("<u8").ravel(), values.astype(np.float64)
