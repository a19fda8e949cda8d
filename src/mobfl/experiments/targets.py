"""What runs are compared by: against which label, and how far they must get, chosen before anybody has looked.

A target is a share of the way that the baseline's own runs went, `80%` for the loss or `top_10=80%` for a KPI, or a
value, `loss=1.7`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.task import LOSS
from mobfl.runs.history import History


@dataclass(frozen=True)
class Target:
    """A loss or KPI to be reached: a value, or a share of the way from the initial to the best one."""

    column: str
    number: float
    is_share: bool

    @classmethod
    def parse(cls, text: str) -> "Target":
        column, _, number = text.rpartition("=") if "=" in text else (LOSS.name, "", text)
        is_share = number.strip().endswith("%")
        try:
            value = float(number.strip().removesuffix("%"))
        except ValueError:
            value = np.nan
        if not np.isfinite(value) or not column.strip():
            raise InputError(f"targets must be SHARE%, NAME=SHARE% or NAME=NUMBER, got {text!r}")
        if is_share and not 0 < value < 100:
            raise InputError(f"targets must have a share > 0% and < 100%, got {text!r}")
        return cls(column.strip(), value / 100 if is_share else value, is_share)

    def __str__(self) -> str:
        return f"{self.column}={100 * self.number:.12g}%" if self.is_share else f"{self.column}={self.number:.12g}"

    def value(self, baseline: Sequence[History]) -> float:
        """What must be reached, where these are the baseline's runs: one number for all of them."""
        if not self.is_share:
            return self.number
        first, best = way(baseline, self.column)
        return first + self.number * (best - first)


def way(runs: Sequence[History], column: str) -> tuple[float, float]:
    """Where the runs began and the best that they reached: means over them."""
    first = float(np.mean([run.initial[column] for run in runs]))
    return first, float(np.mean([run.min_loss() if column == LOSS.name else run.best(column) for run in runs]))


# In shares of the way, since losses of tasks have nothing in common: where curves fall steeply, bend, and are flat.
TARGETS = tuple(Target(LOSS.name, share, True) for share in (0.8, 0.9, 0.95))


@dataclass(frozen=True)
class Comparison:
    """The label that all others are compared with, and the targets; without a label nothing is compared."""

    baseline: str = ""
    targets: tuple[Target, ...] = TARGETS

    @classmethod
    def of(cls, baseline: str, targets: Iterable[str] = ()) -> "Comparison":
        return cls(baseline, tuple(map(Target.parse, targets)) or TARGETS)


NO_COMPARISON = Comparison()
