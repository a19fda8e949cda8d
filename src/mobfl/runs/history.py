"""What came of a run, round by round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.display import Displayed, Sheet, Tabular
from mobfl.errors import InputError, counted
from mobfl.learning.task import LOSS, Kpi, leading
from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.scenario import CLOUD

# One row per round; the task's KPIs follow, then MORE. Loss and KPIs are those of the model at the round's end.
COLUMNS = ("round", "start_s", "end_s", "local_steps", "present", "uploads", "rejected", "loss")
# The sum of the uploads' local steps, bytes both ways, and the vehicles' energy. Older runs have no such columns.
# Where a part of an upload counts, how many came so.
MORE = ("steps", "bytes", "energy_j", "partial")
STATION = "station"  # before these where there are several: the place of the row's own, and below 0 the cloud
OF_CLOUD = -1
OWN = "own_"  # and behind them, where data differ by place: the loss and KPIs on the station's own samples
WHOLE = ("round", "local_steps", "present", "uploads", "rejected", "steps", "bytes", "partial", STATION)

Row = Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class History(Displayed, Tabular):
    """What came of a run, round by round. Times are virtual: seconds of road since training began.

    Args:
        initial: What the initial model scored: `loss` and the KPIs.
        columns: The columns of `rounds.parquet`, an array each; loss and KPIs are those at the round's end.
        kpis: What was scored beside the loss.
        stations: The names of a city's; a row's `station` is a place among them, or below 0 for the cloud.
    """

    initial: Mapping[str, float]
    columns: Mapping[str, NDArray[Any]]
    kpis: tuple[Kpi, ...]
    stations: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls, initial: Mapping[str, float], rows: Sequence[Row], kpis: Iterable[Kpi], stations: Sequence[str] = ()
    ) -> "History":
        kpis = tuple(kpis)
        own = own_columns(kpis) if rows and stations else []
        more = [name for name in (*MORE, *own) if all(name in row for row in rows)]
        names = (*COLUMNS, *(kpi.name for kpi in kpis), *([STATION] if stations else []), *more)
        kinds = {name: np.int64 if name in WHOLE else np.float64 for name in names}
        columns = {name: np.array([row[name] for row in rows], kinds[name]) for name in names}
        return cls(initial, columns, kpis, tuple(stations))

    def of_station(self, name: str) -> "History":
        """The rows of one station, or of the `cloud`."""
        places = {each: place for place, each in enumerate(self.stations)} | {CLOUD: OF_CLOUD}
        if not self.stations or name not in places:
            known = ", ".join([*self.stations, CLOUD]) if self.stations else "none, for the run has one station"
            raise InputError(f"the station must be one of {known}, got {name!r}")
        own = self.columns[STATION] == places[name]
        columns = {each: values[own] for each, values in self.columns.items()}
        return replace(self, columns=columns)

    @property
    def of_vehicles(self) -> "History":
        """Without the cloud's rows, in which no vehicle uploads."""
        if not self.stations:
            return self
        own = self.columns[STATION] >= 0
        return replace(self, columns={each: values[own] for each, values in self.columns.items()})

    def __len__(self) -> int:
        return len(self.columns["round"])

    def total(self, column: str) -> float | None:
        """The sum of `steps`, `bytes` or `energy_j` over all rounds; None for a run that is older than the column."""
        return self.columns[column].sum().item() if column in self.columns else None

    def kpi(self, column: str) -> Kpi:
        """The loss or the KPI of that name."""
        for each in (LOSS, *self.kpis):
            if each.name == column:
                return each
        names = ", ".join(["loss", *(kpi.name for kpi in self.kpis)])
        raise InputError(f"the column must be one of {names}, got {column!r}")

    @property
    def leading(self) -> Kpi:
        """The KPI that is shown where there is room for one; the loss where there is none."""
        return leading(self.kpis)

    def min_loss(self, at_s: float = np.inf) -> float:
        """L_min(t): the least loss of the models there were until then, the initial one included.

        Args:
            at_s: t in seconds of virtual time; by default the run's end.
        """
        losses = self.columns["loss"][self.columns["end_s"] <= at_s * (1 + TIME_ROUNDING)]
        return _least([self.initial["loss"], *losses])

    def best_round(self) -> int:
        """How many rounds led to the model with the least loss; none if that is the initial one."""
        losses = np.append(self.initial["loss"], self.columns["loss"])
        return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))

    def final(self, column: str) -> float:
        """The last model's loss or KPI; the initial model's if there was no round."""
        return float(self.columns[column][-1]) if len(self) else self.initial[column]

    def best(self, kpi: str) -> float:
        """The best value of this KPI over all models, the initial one included."""
        sign = -1.0 if self.kpi(kpi).more_is_better else 1.0
        return sign * _least([sign * self.initial[kpi], *(sign * self.columns[kpi])])

    def time_to(self, column: str, target: float) -> float | None:
        """Seconds of virtual time until the loss or a KPI was as good as this; None if it never was.

        Args:
            column: `loss` or a KPI's name.
            target: At most this loss; at least this KPI, or at most, where less is better.
        """
        more_is_better = self.kpi(column).more_is_better
        times = np.append(0.0, self.columns["end_s"])
        values = np.append(self.initial[column], self.columns[column])
        reached = values >= target if more_is_better else values <= target
        return float(times[np.argmax(reached)]) if reached.any() else None

    @property
    def _size(self) -> str:
        ends_s = float(self.columns["end_s"][-1]) if len(self) else 0.0
        uploads = counted(int(self.columns["uploads"].sum()), "upload")
        return f"{counted(len(self), 'round')} in {ends_s:.0f} s, {uploads}"

    def _columns(self) -> Mapping[str, NDArray[Any]]:
        return self.columns

    def _brief(self) -> str:
        scores = dict.fromkeys(("loss", self.leading.name))
        told = ", ".join(f"{name} {self.initial[name]:.4g} → {self.final(name):.4g}" for name in scores)
        return f"{self._size}: {told}"

    def _sheet(self) -> Sheet:
        rows = [
            (kpi.title, *(f"{value:.4f}" for value in (self.initial[kpi.name], self.final(kpi.name), self._best(kpi))))
            for kpi in (LOSS, *self.kpis)
        ]
        return Sheet(self._size, rows, ("", "at the start", "at the end", "best"))

    def _best(self, kpi: Kpi) -> float:
        return self.min_loss() if kpi == LOSS else self.best(kpi.name)


def own_columns(kpis: Iterable[Kpi]) -> list[str]:
    """Those on a station's own samples."""
    return [f"{OWN}{name}" for name in (LOSS.name, *(kpi.name for kpi in kpis))]


def _least(values: Sequence[float]) -> float:
    """Of those that are numbers; none if there is none."""
    known = [value for value in values if not np.isnan(value)]
    return float(min(known)) if known else float("nan")


def stations_of(run: Mapping[str, Any]) -> list[str]:
    """The names of the stations that a run.json tells; none of a run on one section."""
    return [str(each["name"]) for each in run.get("stations") or ()]


def kpis_of(run: Mapping[str, Any]) -> list[Kpi]:
    """The KPIs that a run.json tells; older runs have names and directions only."""
    labels = run.get("kpi_labels") or {}
    return [
        Kpi(
            name,
            str(labels.get(name, {}).get("label", "")),
            str(labels.get(name, {}).get("unit", "")),
            bool(more_is_better),
            bool(labels.get(name, {}).get("leads", False)),
        )
        for name, more_is_better in run["kpis"].items()
    ]
