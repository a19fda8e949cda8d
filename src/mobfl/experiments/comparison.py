"""Algorithms against a baseline on the same vehicles: seed by seed, so that what a seed brings for all cancels out.

Times are compared by their ratios: the mean of log(baseline's time / its own) over the seeds that both have, with
Student's 95 % interval, and back through the exponential. Scores are compared by their differences in the same way. A
time that ends without the target counts as T_A; the ratio is then a bound, and says on which side. Where neither got
there, the pair says nothing and is left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mobfl.experiments.analysis import best_until
from mobfl.experiments.studies import Labelled, Study
from mobfl.experiments.targets import Comparison, Target, way
from mobfl.learning.task import LOSS
from mobfl.rounds.estimates import Estimate
from mobfl.runs.history import History

_LEVEL = 0.95
SPENT = ("bytes", "energy_j")  # columns that newer runs have
Runs = Mapping[int, Labelled]
"""The runs of one algorithm by their seeds."""


@dataclass(frozen=True)
class TimeTo:
    """How long it took to a target: how many runs got there, the mean with the others as T_A, and how much faster.

    `faster` is the baseline's time over its own, `bound` is "≥" or "≤" where a time that was cut off makes it one, "~"
    where both kinds are among its pairs.
    """

    target: Target
    value: float
    reached: int
    runs: int
    mean_s: float
    faster: Estimate
    bound: str
    pairs: int


@dataclass(frozen=True)
class Score:
    """The mean of a score over the runs, and by how much it is above the baseline's."""

    name: str
    mean: float
    above: Estimate


@dataclass(frozen=True)
class Row:
    """An algorithm in one study."""

    label: str
    runs: int
    times: tuple[TimeTo, ...]
    scores: tuple[Score, ...]


def paired(differences: ArrayLike) -> Estimate:
    """The mean of these differences with Student's 95 % interval; infinite for a single one.

    nan where there is none, or where one is not finite: a run that diverged is not passed over.
    """
    values = np.asarray(differences, np.float64)
    if not len(values) or not np.isfinite(values).all():
        return Estimate(math.nan, math.nan, math.nan)
    mean = float(values.mean())
    if len(values) == 1:
        return Estimate(mean, -math.inf, math.inf)
    from scipy.special import stdtrit

    reach = float(stdtrit(len(values) - 1, (1 + _LEVEL) / 2) * values.std(ddof=1) / math.sqrt(len(values)))
    return Estimate(mean, mean - reach, mean + reach)


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> Estimate:
    """The geometric mean of the pairs' ratios with its interval; pairs with a zero, or with no end, say nothing."""
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    known = (above > 0) & (below > 0) & ~(np.isinf(above) & np.isinf(below))
    found = paired(np.log(above[known] / below[known]))
    with np.errstate(over="ignore"):  # of two pairs that differ much
        return Estimate(*np.exp([found.value, found.low, found.high]).tolist())


@dataclass(frozen=True)
class Contest:
    """A study's algorithms, and the one that all are compared with."""

    study: Study
    comparison: Comparison

    @cached_property
    def baseline(self) -> Runs:
        return self.study.by_name.get(self.comparison.baseline, {})

    @property
    def targets(self) -> list[tuple[Target, float]]:
        """With their values; those whose column the task has not are left out."""
        histories = [each.history for each in self.baseline.values()]
        known = [LOSS.name, *(kpi.name for kpi in histories[0].kpis)] if histories else []
        return [(each, each.value(histories)) for each in self.comparison.targets if each.column in known]

    @cached_property
    def rows(self) -> list[Row]:
        """In the sweep's order, the baseline first; none where the baseline has no finished run."""
        if not self.baseline:
            return []
        names = [self.comparison.baseline, *(name for name in self.study.by_name if name != self.comparison.baseline)]
        return [self._row(name, self.study.by_name[name]) for name in names]

    def _row(self, label: str, runs: Runs) -> Row:
        times = tuple(self._time(target, value, runs) for target, value in self.targets)
        return Row(label, len(runs), times, tuple(self._scores(runs)))

    def _time(self, target: Target, value: float, runs: Runs) -> TimeTo:
        own, theirs = (
            {seed: _time_s(each, target, value) for seed, each in of.items()} for of in (runs, self.baseline)
        )
        pairs = [(own[seed], theirs[seed]) for seed in own if seed in theirs]
        telling = [(mine, base) for mine, base in pairs if mine[1] or base[1]]
        faster = ratio([base[0] for _, base in telling], [mine[0] for mine, _ in telling])
        reached = [time for time, is_reached in own.values() if is_reached]
        mean_s = float(np.mean([time for time, _ in own.values()]))
        return TimeTo(target, value, len(reached), len(own), mean_s, faster, _bound(telling), len(telling))

    def _scores(self, runs: Runs) -> list[Score]:
        kpi = self.study.kpi.name
        found = [self._score("min_loss", runs, History.min_loss)]
        if kpi != LOSS.name:
            found.append(self._score(f"last_{kpi}", runs, lambda history: history.final(kpi)))
            found.append(self._score(f"best_{kpi}", runs, lambda history: history.best(kpi)))
        else:
            found.append(self._score("last_loss", runs, lambda history: history.final(kpi)))
        return found

    def _score(self, name: str, runs: Runs, score: Any) -> Score:
        own, theirs = ({seed: score(each.history) for seed, each in of.items()} for of in (runs, self.baseline))
        differences = [own[seed] - theirs[seed] for seed in own if seed in theirs]
        return Score(name, float(np.mean(list(own.values()))), paired(differences))

    def spent(self, column: str, target: Target, value: float) -> dict[str, tuple[float, Estimate]]:
        """By label: what was spent per progress until the target, and how many times the baseline's that is.

        Progress is the share of the baseline's own way in this column's target; a run that did not get there is
        judged by all that it has spent and reached. Empty where runs have no such column.
        """
        every = [each for runs in self.study.by_name.values() for each in runs.values()]
        if not self.baseline or not all(column in each.history.columns for each in every):
            return {}
        whole = way([each.history for each in self.baseline.values()], target.column)
        costs = {
            name: {seed: _cost(each.history, column, target, value, whole) for seed, each in runs.items()}
            for name, runs in self.study.by_name.items()
        }
        base = costs[self.comparison.baseline]
        return {
            name: (
                float(np.mean(list(own.values()))),
                ratio([own[seed] for seed in own if seed in base], [base[seed] for seed in own if seed in base]),
            )
            for name, own in costs.items()
        }


def contests_of(studies: Sequence[Study], comparison: Comparison) -> list[Contest]:
    """The studies in which the baseline has a finished run."""
    found = [Contest(study, comparison) for study in studies if comparison.baseline]
    return [each for each in found if each.baseline]


def _time_s(each: Labelled, target: Target, value: float) -> tuple[float, bool]:
    """T_A and False where the target was not reached."""
    found = each.history.time_to(target.column, value)
    return (each.run.scenario.training.duration_s, False) if found is None else (found, True)


def _bound(pairs: Sequence[tuple[tuple[float, bool], tuple[float, bool]]]) -> str:
    own_cut, base_cut = any(not mine[1] for mine, _ in pairs), any(not base[1] for _, base in pairs)
    return {(False, False): "", (True, False): "≤", (False, True): "≥", (True, True): "~"}[own_cut, base_cut]


def _cost(history: History, column: str, target: Target, value: float, whole: tuple[float, float]) -> float:
    at_s = history.time_to(target.column, value)
    until = math.inf if at_s is None else at_s
    spent = float(history.columns[column][history.columns["end_s"] <= until].sum())
    first, best = whole
    if first == best:  # the baseline learnt nothing
        return math.inf
    progress = (float(best_until(history, target.column, until)) - history.initial[target.column]) / (best - first)
    return spent / progress if progress > 0 else math.inf
