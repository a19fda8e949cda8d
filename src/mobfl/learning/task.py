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
    """A score of a model beside its loss.

    Args:
        name: Its column in tables: a word of letters, digits and _.
        label: How a person reads it; by default the name.
        unit: Of its values, if they have one.
        more_is_better: False for an error.
        leads: Whether figures and tables show it where there is room for one.
    """

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
    """The training samples as a split sees them. What is given must have a value for every sample.

    Args:
        labels: Classes, for the split `dirichlet`.
        places: Metres along the road, for the split `place`.
        groups: By a name of your own, which is then a split: the group that each sample belongs to.
        size: How many samples there are, where nothing else tells it.
    """

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

    Args:
        learning_rate: η.
        momentum: From 0 to below 1.
        proximal: μ, the pull towards w₀.
        correction: A constant for every parameter.
    """

    learning_rate: float
    momentum: float = 0.0
    proximal: float = 0.0
    correction: Weights | None = None  # a constant for every parameter


@dataclass(frozen=True)
class TaskRequest:
    """What a task is built from. A task of your own gets the same, and takes of it what it needs.

    Args:
        options: The task's own, as `--option` gives them.
        data: Where real data are; None asks for generated ones.
        loss_scale: `training.loss_scale`, "sample" or "paper".
        backend: What computes, "auto", "fused" or "torch".
        device: Where it computes, "cpu" or "cuda".
        workers: Processes that may prepare data.
        progress: Is told how many samples are ready.
    """

    options: Mapping[str, Any] = field(default_factory=dict)  # of its own
    data: Path | None = None  # real data; None: generated ones
    loss_scale: str = "sample"
    backend: str = "auto"
    device: str = "cpu"
    workers: int = 1  # processes that may prepare data
    progress: Callable[[int], None] = lambda _: None  # told how many samples are ready


class Task(Protocol):
    """Model, data, loss and KPIs. Its methods may be called from several threads at once.

    Attributes:
        name: As run.json and tables have it.
        pool: The training samples as a split sees them.
        kpis: What `evaluate` scores beside the loss.
        baselines: What trivial answers score, by their names.
        record: What a run must remember of it: data, options, backend.
    """

    name: str
    pool: Pool
    kpis: Sequence[Kpi]
    baselines: Mapping[str, Mapping[str, float]]  # what trivial answers score, by their names
    record: Mapping[str, Any]  # what a run must remember of it: data, options, backend

    def initial_weights(self, seed: int) -> Weights:
        """The model before the first round: named arrays of float32, the same for the same seed."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        """The model after one step per row of `batches`, which names training samples."""

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        """The loss's slope in every parameter on these samples; for statistics of batch norm, their new values."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        """`loss` and the KPIs on the validation samples."""
