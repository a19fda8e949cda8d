"""What the rounds need to know of a task: model, data, loss and KPIs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.weights import Weights

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Kpi:
    """A score of a model beside its loss: its column's name, and how a person reads it."""

    name: str
    label: str = ""
    unit: str = ""
    more_is_better: bool = True
    leads: bool = False  # the one that figures and tables show where there is room for one

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise InputError(f"a KPI's name must be a word of letters, digits and _, got {self.name!r}")

    @property
    def title(self) -> str:
        """With its unit, as an axis says it."""
        return (self.label or self.name) + (f" ({self.unit})" if self.unit else "")


LOSS = Kpi("loss", "validation loss", more_is_better=False)


def leading(kpis: Sequence[Kpi]) -> Kpi:
    """The KPI that leads, else the first; the loss where there is none."""
    return next((kpi for kpi in kpis if kpi.leads), next(iter(kpis), LOSS))


@dataclass(frozen=True)
class Pool:
    """The training samples as a split sees them: how many, and where known labels, places along the road and groups."""

    labels: Integers | None = None
    places: NDArray[np.float64] | None = None
    groups: Mapping[str, Integers] = field(default_factory=dict)
    size: int | None = None

    def __post_init__(self) -> None:
        sizes = {name: len(column) for name, column in self._columns.items()}
        if self.size is not None:
            sizes["size"] = self.size
        if not sizes:
            raise InputError("a pool must have a size, labels, places or groups, got none of them")
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise InputError(f"a pool must have as many labels as places and members of groups, got {counts}")

    @property
    def _columns(self) -> dict[str, NDArray[Any]]:
        given = {"labels": self.labels, "places": self.places}
        return {name: column for name, column in given.items() if column is not None} | dict(self.groups)

    def __len__(self) -> int:
        return self.size if self.size is not None else len(next(iter(self._columns.values())))


@dataclass(frozen=True)
class SgdTerms:
    """A local step: w ← w − η·v with v ← momentum·v + ∇loss + proximal·(w − w₀) + correction.

    w₀ is the model that was downloaded.
    """

    learning_rate: float
    momentum: float = 0.0
    proximal: float = 0.0
    correction: Weights | None = None  # a constant for every parameter


@dataclass(frozen=True)
class TaskRequest:
    """What a task is built from. A foreign task gets the same, and takes of it what it needs."""

    options: Mapping[str, Any] = field(default_factory=dict)  # of its own
    data: Path | None = None  # real data; None: generated ones
    loss_scale: str = "sample"
    backend: str = "auto"
    device: str = "cpu"
    workers: int = 1  # processes that may prepare data
    progress: Callable[[int], None] = lambda _: None  # told how many samples are ready


class Task(Protocol):
    """Model, data, loss and KPIs. Its methods may be called from several threads at once."""

    name: str
    pool: Pool
    kpis: Sequence[Kpi]
    baselines: Mapping[str, Mapping[str, float]]  # what trivial answers score, by their names
    record: Mapping[str, Any]  # what a run must remember of it: data, options, backend

    def initial_weights(self, seed: int) -> Weights: ...

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        """The model after one step per row of `batches`, which names training samples."""

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        """The loss's slope in every parameter on these samples; for statistics of batch norm, their new values."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        """`loss` and the KPIs on the validation samples."""
