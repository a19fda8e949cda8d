"""What came of a run, round by round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.rounds.rules import TIME_ROUNDING

# One row per round; the task's KPIs follow. Loss and KPIs are those of the model at the round's end.
COLUMNS = ("round", "start_s", "end_s", "local_steps", "present", "uploads", "rejected", "loss")
WHOLE = ("round", "local_steps", "present", "uploads", "rejected")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class History:
    """The rounds in columns, what the initial model scored, and of each KPI whether more is better."""

    initial: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    kpis: Mapping[str, bool]

    @classmethod
    def of_rows(cls, initial: Mapping[str, float], rows: Sequence[Row], kpis: Mapping[str, bool]) -> "History":
        names = (*COLUMNS, *kpis)
        kinds = {name: np.int64 if name in WHOLE else np.float64 for name in names}
        return cls(initial, {name: np.array([row[name] for row in rows], kinds[name]) for name in names}, kpis)

    def __len__(self) -> int:
        return len(self.columns["round"])

    def min_loss(self, at_s: float = np.inf) -> float:
        """L_min(t): the least loss of the models there were until then, the initial one included."""
        losses = self.columns["loss"][self.columns["end_s"] <= at_s * (1 + TIME_ROUNDING)]
        return float(np.nanmin([self.initial["loss"], *losses]))

    def final(self, column: str) -> float:
        return float(self.columns[column][-1]) if len(self) else self.initial[column]

    def best(self, kpi: str) -> float:
        values = [self.initial[kpi], *self.columns[kpi]]
        return float(np.nanmax(values) if self.kpis[kpi] else np.nanmin(values))

    def time_to(self, column: str, target: float) -> float | None:
        """Seconds of virtual time until the loss or a KPI is as good as this; None if it never was."""
        check_target(column, self.kpis)
        times = np.append(0.0, self.columns["end_s"])
        values = np.append(self.initial[column], self.columns[column])
        reached = values >= target if self.kpis.get(column, False) else values <= target
        return float(times[np.argmax(reached)]) if reached.any() else None


def check_target(column: str, kpis: Mapping[str, bool]) -> None:
    if column != "loss" and column not in kpis:
        raise InputError(f"--target must name one of {', '.join(['loss', *kpis])}, got {column!r}")
