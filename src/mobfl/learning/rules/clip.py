"""A bound on how far one upload may be from the model that it started from.

The bound follows what uploads usually are, as in adaptive clipping (G. Andrew et al., "Differentially Private Learning
with Adaptive Clipping", NeurIPS 2021, arXiv:1905.03871), here by the median of the latest uploads and those of this
step. A median has no liar's size in it as long as most are honest; of an even number it is the lower one, so that a
lone first liar is outvoted by the next upload. Changes are measured per local step, for H may differ between rounds. An
upload within the bound passes bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic

_REMEMBERED = 20  # uploads before this step
# Statistics of batch norm follow the last few batches, so honest ones vary far more than what is trained.
_STATISTICS_TIMES = 10.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clip:
    """Shortens changes longer than times × the median of the latest uploads'; honest ones hardly ever are."""

    times: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.times < inf:
            raise InputError(f"clip must have times > 0, got {self.times:g}")

    def init(self, model: Weights) -> State:
        return {"lengths": np.zeros((0, 1 + len(_statistics(model))))}  # none is known yet

    def guard(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Sequence[Upload]]:
        """A column of lengths for all that is trained, and one for each array of statistics."""
        statistics = _statistics(model)
        lengths = np.array([_lengths(upload, upload.base or model, statistics) for upload in uploads])
        known = np.concatenate([state["lengths"], lengths])
        times = np.array([self.times] + [self.times * _STATISTICS_TIMES] * len(statistics))
        shares = _shares(lengths, times * _lower_medians(known))
        clipped = [
            _shortened(upload, upload.base or model, dict(zip(statistics, share[1:], strict=True)), share[0])
            for upload, share in zip(uploads, shares, strict=True)
        ]
        return {"lengths": known[-_REMEMBERED:]}, clipped


def _statistics(model: Weights) -> list[str]:
    return [name for name in model if is_statistic(name)]


def _lengths(upload: Upload, base: Weights, statistics: Sequence[str]) -> list[float]:
    squares = {name: float(np.square(upload.weights[name].astype(np.float64) - base[name]).sum()) for name in base}
    trained = sum(square for name, square in squares.items() if name not in statistics)
    steps = max(upload.local_steps, 1)
    return [np.sqrt(trained) / steps, *(np.sqrt(squares[name]) for name in statistics)]


def _lower_medians(lengths: Floats) -> Floats:
    """By column; who sends back what he was given says nothing of how long changes are."""
    columns = [np.sort(column[column > 0]) for column in lengths.T]
    return np.array([column[(len(column) - 1) // 2] if len(column) else inf for column in columns])


def _shares(lengths: Floats, bounds: Floats) -> Floats:
    """How much of each change is left: 1 within the bound."""
    return np.divide(bounds, lengths, out=np.ones_like(lengths), where=lengths > bounds)


def _shortened(upload: Upload, base: Weights, shares: dict[str, float], trained: float) -> Upload:
    """Between base and upload, so a variance stays >= 0; the very same upload where nothing is too long."""
    if trained == 1 and all(share == 1 for share in shares.values()):
        return upload
    weights = {
        name: values
        if (share := shares.get(name, trained)) == 1
        else (base[name] + share * (values.astype(np.float64) - base[name])).astype(values.dtype)
        for name, values in upload.weights.items()
    }
    return replace(upload, weights=weights)
