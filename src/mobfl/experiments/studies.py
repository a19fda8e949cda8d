"""The studies of a sweep: runs that are looked at together, and what they say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mobfl import theory
from mobfl.errors import InputError
from mobfl.experiments.analysis import Point, Regret, best_until, proxy_spearman, regret, spans_plane
from mobfl.experiments.folder import RUNS, Entry, read_sweep
from mobfl.experiments.replay import Advance, Replay
from mobfl.experiments.runs import PARTS, Run, read_sound
from mobfl.learning.task import LOSS, Kpi
from mobfl.rounds.estimates import BatchMeans, Estimate
from mobfl.runs.folder import read_status
from mobfl.runs.history import History
from mobfl.scenario import Scenario

_LEAST_PLANS = 4  # below, there is no order to correlate
LEAST_ROUNDS = 50  # for an interval of their mean


@dataclass(frozen=True)
class Labelled:
    """A finished run, and what its study calls it."""

    label: str
    run: Run
    plan: str = ""  # these two as they were asked for, where that is known
    rule: str = ""

    @property
    def history(self) -> History:
        return self.run.history

    @property
    def seed(self) -> int:
        return int(self.run.description["seed"])

    @cached_property
    def effective(self) -> Advance | str:
        """How far its model moved, in effective local steps, or why that is not known."""
        try:
            return Replay.of(self.run, self.plan, self.rule).effective_steps()
        except InputError as error:
            return str(error)

    @cached_property
    def promised(self) -> float | None:
        """g of rounds of one H and T, v of anytime rounds, on Poisson traffic; else None."""
        plan, told = self.run.description["plan"], self.run.description
        if plan["policy"] != "anytime" or told["trace"] is not None or plan.get("knows") not in theory.KNOWLEDGE:
            return self.run.objective
        return float(theory.anytime_objective(self.run.scenario, plan["round_s"], plan["knows"]))

    @property
    def setting(self) -> tuple[Any, ...]:
        """What g knows nothing of, or is not comparable across: all but plan and seed."""
        description = self.run.description
        parts = (description.get(part) for part in PARTS)
        return description["scenario"], description["data"], self.run.traffic, *parts, self.run.code


@dataclass(frozen=True)
class Study:
    """Finished runs of one task, how many more there will be, and why some failed."""

    title: str
    runs: tuple[Labelled, ...]
    waiting: int = 0
    failures: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        return str(self.runs[0].run.description["task"])

    @property
    def scenario(self) -> Scenario:
        return self.runs[0].run.scenario

    @property
    def kpi(self) -> Kpi:
        """The task's KPI that leads; the loss where it has none."""
        return self.runs[0].history.leading

    @property
    def columns(self) -> list[Kpi]:
        """What runs are judged by: the loss, and the KPI that leads."""
        return [LOSS] if self.kpi == LOSS else [LOSS, self.kpi]

    @cached_property
    def points(self) -> list[Point]:
        """The runs of plans in the first run's setting: what g can be compared on."""
        found = list[Point]()
        for name, each in self._named:
            plan, g = each.run.description["plan"], each.run.objective
            if g is not None and each.setting == self.runs[0].setting:
                found.append(Point(plan["local_steps"], plan["round_s"], each.seed, g, each.history, name))
        return found

    @property
    def is_grid(self) -> bool:
        """Whether all of it are plans across the (H, T) plane."""
        plans = {(point.local_steps, point.round_s) for point in self.points}
        return (
            len(self.points) == len(self.runs) and len(plans) >= _LEAST_PLANS and spans_plane(*zip(*plans, strict=True))
        )

    @cached_property
    def groups(self) -> dict[str, list[History]]:
        """The histories by name, in the order of the sweep; those of one name differ by their seeds only."""
        groups = dict[str, list[History]]()
        for name, each in self._named:
            groups.setdefault(name, []).append(each.history)
        return groups

    @cached_property
    def by_name(self) -> dict[str, dict[int, Labelled]]:
        """The runs by name and seed, in the order of the sweep."""
        found = dict[str, dict[int, Labelled]]()
        for name, each in self._named:
            found.setdefault(name, {})[each.seed] = each
        return found

    @cached_property
    def _named(self) -> list[tuple[str, Labelled]]:
        """The runs by their labels, and by their plans too where a label says too little."""
        kinds = dict[str, set[str]]()
        for each in self.runs:
            kinds.setdefault(each.label, set()).add(each.run.identity)
        return [
            (
                each.label
                if len(kinds[each.label]) == 1
                else f"{each.label} ({each.run.plan}, {each.run.identity[:4]})",
                each,
            )
            for each in self.runs
        ]

    def correlations(self) -> dict[str, Estimate]:
        """Spearman of g with what was reached, for the loss and the KPIs."""
        return {kpi.name: proxy_spearman(self.points, kpi.name) for kpi in (LOSS, *self.runs[0].history.kpis)}

    def regrets(self) -> dict[str, Regret]:
        return {kpi.name: regret(self.points, kpi.name) for kpi in self.columns}

    def target(self) -> float:
        """What the first label's worst run reached in half of the time: a loss that a sensible plan gets to."""
        first = next(iter(self.groups.values()))
        return max(float(best_until(each, "loss", self.scenario.training.duration_s / 2)) for each in first)

    def times_to(self, target: float) -> dict[str, list[float | None]]:
        """Virtual seconds until the loss was at the target, by label."""
        return {label: [each.time_to("loss", target) for each in group] for label, group in self.groups.items()}


def read_studies(out: Path) -> list[Study]:
    """The studies in a sweep's folder, in order, one task each; those without a finished run are left out."""
    found = dict[tuple[str, str], list[Entry]]()
    for entry in read_sweep(out).entries:
        found.setdefault((entry.study, entry.task), []).append(entry)
    tasks = {study: sum(title == study for title, _ in found) for study, _ in found}
    studies = [
        _study(out, title if tasks[title] == 1 else f"{title}: {task}", entries)
        for (title, task), entries in found.items()
    ]
    return [study for study in studies if study.runs]


def _study(out: Path, title: str, entries: Sequence[Entry]) -> Study:
    runs, waiting, failures = list[Labelled](), 0, list[str]()
    for entry in entries:
        folder = out / RUNS / entry.run
        state = read_status(folder)
        if state.status == "done":
            try:
                runs.append(Labelled(entry.label, read_sound(folder, entry.run), entry.plan, entry.rule))
            except InputError as error:
                failures.append(f"{entry.label} ({entry.run}): {error}")
        elif state.status == "failed":
            failures.append(f"{entry.label} ({entry.run}): {state.reason}")
        else:
            waiting += 1
    return Study(title, tuple(runs), waiting, tuple(failures))


def uploads_of(runs: Iterable[Labelled]) -> list[tuple[str, float, Estimate]]:
    """By plan with enough rounds: Theorem 1's uploads per round, and the runs' own mean with its interval.

    Runs of one plan and seed meet the same traffic, whatever they learn: the longest of them counts.
    """
    by_plan = dict[tuple[int, float, str], dict[int, Labelled]]()
    for each in runs:
        plan, scenario = each.run.description["plan"], each.run.description["scenario"]
        if each.run.objective is None:
            continue
        road = str({table: values for table, values in scenario.items() if table != "training"})
        same = by_plan.setdefault((plan["local_steps"], plan["round_s"], road), {})
        if each.seed not in same or len(each.history) > len(same[each.seed].history):
            same[each.seed] = each
    roads = list(dict.fromkeys(road for _, _, road in by_plan))
    measured = [
        (f"H = {h}, T = {t:.4g} s" + (f", road {1 + roads.index(road)}" if len(roads) > 1 else ""), h, t, same)
        for (h, t, road), same in sorted(by_plan.items())
    ]
    return [_uploads(*row) for row in measured if sum(len(each.history) for each in row[3].values()) >= LEAST_ROUNDS]


def _uploads(name: str, h: int, t: float, runs: Mapping[int, Labelled]) -> tuple[str, float, Estimate]:
    scenario = next(iter(runs.values())).run.scenario
    means = BatchMeans(1, 1 + int(2 * scenario.dwell_s / t))
    for each in runs.values():
        means.add(each.history.columns["uploads"][np.newaxis].astype(float))
    return name, float(theory.expected_uploads(scenario, h, t)), means.estimate(lambda mean: mean[0])


def sources(studies: Sequence[Study]) -> list[Mapping[str, object]]:
    """The data and traces that the runs were trained on, each once."""
    descriptions = [each.run.description for study in studies for each in study.runs]
    records = [each["data"] | ({} if each["trace"] is None else {"trace": each["trace"]}) for each in descriptions]
    return list({str(record): record for record in records}.values())


def differing(study: Study) -> list[str]:
    """The scenario's keys in which the runs of a study differ."""
    settings = [each.run.scenario.to_dict() for each in study.runs]
    tables = [{name: values for name, values in each.items() if name != "fleet"} for each in settings]
    keys = dict.fromkeys((table, key) for each in tables for table, values in each.items() for key in values)
    fleets = len({repr(each.get("fleet")) for each in settings}) > 1
    found = [f"{t}.{k}" for t, k in keys if len({repr(each.get(t, {}).get(k)) for each in tables}) > 1]
    return [*found, *(["fleet"] if fleets else [])]
