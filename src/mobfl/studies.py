"""The studies of a sweep: runs that are looked at together, and what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mobfl import theory
from mobfl.analysis import Point, Regret, best_until, proxy_spearman, regret
from mobfl.errors import InputError
from mobfl.estimates import BatchMeans, Estimate
from mobfl.history import History
from mobfl.results import Run
from mobfl.run_folder import read_run
from mobfl.scenario import Scenario
from mobfl.sweep import RUNS, read_sweep

_LEAST_PLANS = 4  # below, there is no order to correlate
_LEAST_ROUNDS = 50


@dataclass(frozen=True)
class Labelled:
    """A finished run, and what its study calls it."""

    label: str
    run: Run

    @cached_property
    def history(self) -> History:
        return self.run.history

    @property
    def seed(self) -> int:
        return int(self.run.description["seed"])


@dataclass(frozen=True)
class Study:
    """Runs of one task; `waiting` more are not finished."""

    title: str
    runs: tuple[Labelled, ...]
    waiting: int

    @property
    def task(self) -> str:
        return str(self.runs[0].run.description["task"])

    @property
    def scenario(self) -> Scenario:
        return self.runs[0].run.scenario

    @property
    def kpi(self) -> str:
        """The KPI of the paper: top-10 accuracy, minADE of six."""
        kpis = self.runs[0].history.kpis
        return next(name for name in ("top_10", "min_ade_6", *kpis) if name in kpis)

    @cached_property
    def points(self) -> list[Point]:
        """The runs of plans on the study's own road: what g can be compared on."""
        return [
            Point(plan["local_steps"], plan["round_s"], each.seed, each.run.objective, each.history, each.label)
            for each in self.runs
            if (plan := each.run.description["plan"])
            and each.run.objective is not None
            and each.run.description["scenario"] == self.runs[0].run.description["scenario"]
        ]

    @property
    def is_grid(self) -> bool:
        return len({(point.local_steps, point.round_s) for point in self.points}) >= _LEAST_PLANS

    @property
    def groups(self) -> dict[str, list[History]]:
        """The histories by label, in the order of the sweep."""
        groups = dict[str, list[History]]()
        for each in self.runs:
            groups.setdefault(each.label, []).append(each.history)
        return groups

    def correlations(self) -> dict[str, Estimate]:
        """Spearman of g with what was reached, for the loss and the KPIs."""
        return {column: proxy_spearman(self.points, column) for column in ("loss", *self.runs[0].history.kpis)}

    def regrets(self) -> dict[str, Regret]:
        return {column: regret(self.points, column) for column in ("loss", self.kpi)}

    def target(self) -> float:
        """What the first label's worst run reached in half of the time: a loss that a sensible plan gets to."""
        first = next(iter(self.groups.values()))
        return max(float(best_until(each, "loss", self.scenario.training.duration_s / 2)) for each in first)

    def times_to(self, target: float) -> dict[str, list[float | None]]:
        """Virtual seconds until the loss was at the target, by label."""
        return {label: [each.time_to("loss", target) for each in group] for label, group in self.groups.items()}


def read_studies(out: Path) -> list[Study]:
    """The studies in a sweep's folder, in order, each with its finished runs; those without any are left out."""
    finished, waiting = dict[str, list[Labelled]](), dict[str, int]()
    for entry in read_sweep(out):
        run = _finished(out / RUNS / entry.run)
        if run is None:
            waiting[entry.study] = waiting.get(entry.study, 0) + 1
        else:
            finished.setdefault(entry.study, []).append(Labelled(entry.label, run))
    return [Study(title, tuple(runs), waiting.get(title, 0)) for title, runs in finished.items()]


def _finished(folder: Path) -> Run | None:
    try:
        description = read_run(folder)
    except InputError:
        return None
    return Run(folder, folder.name, description) if description["status"] == "done" else None


def uploads_of(runs: Sequence[Labelled]) -> list[tuple[str, float, Estimate]]:
    """By plan with enough rounds: Theorem 1's uploads per round, and the runs' own mean with its interval."""
    by_plan = dict[tuple[int, float], dict[int, Labelled]]()
    for each in runs:
        plan = each.run.description["plan"]
        if each.run.objective is not None:
            # Runs of one plan and seed meet the same traffic, whatever they learn: they count once.
            by_plan.setdefault((plan["local_steps"], plan["round_s"]), {})[each.seed] = each
    measured = (_uploads(h, t, list(chosen.values())) for (h, t), chosen in sorted(by_plan.items()))
    return [each for each in measured if each is not None]


def _uploads(h: int, t: float, runs: Sequence[Labelled]) -> tuple[str, float, Estimate] | None:
    """None where there are too few rounds for an interval."""
    if sum(len(each.history) for each in runs) < _LEAST_ROUNDS:
        return None
    scenario = runs[0].run.scenario
    means = BatchMeans(1, 1 + int(2 * scenario.dwell_s / t))
    for each in runs:
        means.add(each.history.columns["uploads"][np.newaxis].astype(float))
    expected = float(theory.expected_uploads(scenario, h, t))
    return f"H = {h}, T = {t:.4g} s", expected, means.estimate(lambda mean: mean[0])


def sources(studies: Sequence[Study]) -> list[Mapping[str, object]]:
    """The data that the runs were trained on, each once."""
    found = {
        str(each.run.description["data"]): each.run.description["data"] for study in studies for each in study.runs
    }
    return list(found.values())
