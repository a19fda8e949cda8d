"""The comparison as one table for files: a row per study, algorithm and target."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mobfl.errors import InputError
from mobfl.experiments.comparison import SPENT, Contest, Row, TimeTo, contests_of
from mobfl.experiments.predictors import MEASURES, mean_steps_until
from mobfl.experiments.studies import Study
from mobfl.experiments.targets import Comparison
from mobfl.learning.task import LOSS
from mobfl.rounds.estimates import Estimate

_STEPS = ("effective_steps_per_s", "objective", "delivered_steps_per_s", "worth_per_s")  # as MEASURES


def arena_table(studies: Sequence[Study], comparison: Comparison) -> pa.Table:
    """Times to targets, scores, steps and costs of every algorithm, with 95 % intervals against the baseline."""
    rows = [row for contest in contests_of(studies, comparison) for row in _rows(contest)]
    if not rows:
        raise InputError("a table must have a finished run of the baseline to compare with, got none")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def _rows(contest: Contest) -> list[dict[str, Any]]:
    return [
        {
            "task": contest.study.task,
            "study": contest.study.title,
            "label": row.label,
            "runs": row.runs,
            **(_time(time) if time else {}),
            **_scores(contest, row),
            **_steps(contest, row.label),
            **(_spent(contest, row.label, time) if time else {}),
        }
        for row in contest.rows
        for time in row.times or (None,)  # a task may have none of the columns that targets are of
    ]


def _time(time: TimeTo) -> dict[str, Any]:
    told = {"target": str(time.target), "value": time.value, "reached": time.reached, "mean_s": time.mean_s}
    return {**told, **_estimate("faster", time.faster), "bound": time.bound, "pairs": time.pairs}


def _scores(contest: Contest, row: Row) -> dict[str, Any]:
    """Of the loss and the KPI that leads, whatever its name, so that tasks share columns."""
    kpi = contest.study.kpi.name
    told: dict[str, Any] = {"kpi": kpi}
    names = {} if kpi == LOSS.name else {f"{which}_{kpi}": f"{which}_kpi" for which in ("last", "best")}
    for score in row.scores:
        name = names.get(score.name, score.name)
        told |= {name: score.mean, **_estimate(f"{name}_above", score.above)}
    return told


def _steps(contest: Contest, label: str) -> dict[str, Any]:
    duration_s = contest.study.scenario.training.duration_s
    measured = mean_steps_until(contest.study.by_name[label].values(), duration_s)
    return {column: measured[name] / duration_s for column, name in zip(_STEPS, MEASURES, strict=True)}


def _spent(contest: Contest, label: str, time: TimeTo) -> dict[str, Any]:
    told = dict[str, Any]()
    for column in SPENT:
        if found := contest.spent(column, time.target, time.value):
            mean, times = found[label]
            told |= {f"{column}_per_way": mean, **_estimate(f"{column}_times", times)}
    return told


def _estimate(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
