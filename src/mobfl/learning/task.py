"""What the rounds need to know of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.uploads import Weights

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """The training samples as a split sees them: for each a label, a place along the road, and groups by name."""

    labels: Integers
    places: NDArray[np.float64]
    groups: Mapping[str, Integers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)


class Task(Protocol):
    """Model, data, loss and KPI. Its methods may be called from several threads at once."""

    name: str
    pool: Pool
    kpis: Mapping[str, bool]  # by name: whether more is better
    baselines: Mapping[str, Mapping[str, float]]  # what trivial answers score, by their names
    record: Mapping[str, Any]  # what a run must remember of it: data, options, backend

    def initial_weights(self, seed: int) -> Weights: ...

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
        """The model after one SGD step (Eq. 1) per row of `batches`, which names training samples."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        """`loss` and the KPIs on the validation samples."""
