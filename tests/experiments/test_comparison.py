"""Algorithms against a baseline: numbers by hand, and intervals that hold what they promise."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mobfl.experiments.arena_table import arena_table
from mobfl.experiments.comparison import Contest, paired, ratio
from mobfl.experiments.predictors import fields_of
from mobfl.experiments.runs import Run
from mobfl.experiments.studies import Labelled, Study
from mobfl.experiments.targets import Comparison, Target
from mobfl.learning.task import Kpi
from mobfl.runs.history import History

KPI = Kpi("score", leads=True)


def labelled(
    label: str, seed: int, losses: Sequence[float], every_s: float, rate: float = 0.1, kpis: Sequence[Kpi] = (KPI,)
) -> Labelled:
    """A run of 100 s that begins at loss 10; its score is 10 − loss, and every round takes 5 bytes."""
    rows = [
        {"round": k, "start_s": k * every_s, "end_s": (k + 1) * every_s, "local_steps": 3, "present": 1, "uploads": 1,
         "rejected": 0, "loss": loss, "score": 10 - loss}
        for k, loss in enumerate(losses)
    ]  # fmt: skip
    history = History.of_rows({"loss": 10.0, "score": 0.0}, rows, kpis)
    history = History(history.initial, {**history.columns, "bytes": np.full(len(rows), 5.0)}, history.kpis)
    scenario = {"training": {"duration_s": 100.0, "learning_rate": rate}}
    plan = {"policy": "rounds", "local_steps": len(label), "round_s": every_s, "objective": 1.0}
    told = {"task": "t", "seed": seed, "plan": plan, "scenario": scenario, "data": {}, "trace": None}
    run = Run(Path(label), f"{label}-{seed}", told)
    run.__dict__["history"] = history
    return Labelled(label, run)


STUDY = Study(
    "by hand",
    (
        labelled("base", 1, [8, 6, 4, 2], 10),
        labelled("base", 2, [9, 6, 6, 2], 10),
        labelled("fast", 1, [6, 2], 10),
        labelled("fast", 2, [7, 5], 10),
        labelled("fast", 3, [2, 2], 10),  # whom nobody can be paired with
        labelled("late", 1, [9, 9, 9, 9], 10),
        labelled("late", 2, [9, 9, 9, 6], 10),
    ),
)
CONTEST = Contest(STUDY, Comparison.of("base", ["50%", "loss=5"]))


def test_targets_are_shares_of_the_baselines_own_way() -> None:
    """From 10 to 2 in the mean, so half of the way is 6."""
    assert [value for _, value in CONTEST.targets] == [6.0, 5.0]
    assert [str(Target.parse(text)) for text in ("80%", "score=25%", " loss = 1.7")] == [
        "loss=80%", "score=25%", "loss=1.7"]  # fmt: skip
    assert Target.parse("score=25%").value([STUDY.runs[0].history]) == 2.0


def test_times_to_targets_by_hand() -> None:
    base, fast, late = CONTEST.rows
    half, five = fast.times
    assert (base.times[0].mean_s, base.times[0].faster.value) == (20.0, 1.0)
    assert (half.reached, half.runs, half.pairs) == (3, 3, 2)
    assert half.mean_s == pytest.approx((10 + 20 + 10) / 3)
    assert half.faster.value == pytest.approx(math.sqrt(2 * 1))  # 20/10 and 20/20
    reach = 12.7062047 * np.std(np.log([2, 1]), ddof=1) / math.sqrt(2)
    assert half.faster.high == pytest.approx(math.sqrt(2) * math.exp(reach))
    assert half.bound == ""
    assert five.faster.value == pytest.approx(math.sqrt(30 / 20 * 40 / 20))
    slow = late.times[0]
    assert (slow.reached, slow.mean_s, slow.bound) == (1, 70.0, "≤")
    assert slow.faster.value == pytest.approx(math.sqrt(20 / 100 * 20 / 40))
    never = Contest(STUDY, Comparison.of("base", ["loss=1"])).rows[1].times[0]
    assert (never.reached, never.mean_s, never.pairs) == (0, 100.0, 0)
    assert math.isnan(never.faster.value)
    assert Contest(STUDY, Comparison.of("late", ["loss=5"])).rows[1].times[0].bound == "≥"


def test_scores_and_costs_by_hand() -> None:
    _, fast, late = CONTEST.rows
    assert [score.name for score in fast.scores] == ["min_loss", "last_score", "best_score"]
    assert late.scores[0].mean == 7.5
    assert late.scores[0].above.value == pytest.approx((9 - 2 + 6 - 2) / 2)
    target, value = CONTEST.targets[0]
    spent = CONTEST.spent("bytes", target, value)
    assert spent["base"][0] == pytest.approx(10 / 0.5)  # two rounds for half of the way
    assert spent["fast"][1].value == pytest.approx(math.sqrt((5 / 0.5) / 20 * (10 / 0.625) / 20))
    assert spent["late"][0] == pytest.approx((20 / 0.125 + 20 / 0.5) / 2)
    assert CONTEST.spent("energy_j", target, value) == {}


def test_a_baseline_that_learns_nothing_makes_no_progress_to_pay_for() -> None:
    nothing = Study("by hand", (labelled("base", 1, [10, 11], 10), labelled("fast", 1, [6, 2], 10)))
    contest = Contest(nothing, Comparison.of("base", ["50%"]))
    spent = contest.spent("bytes", *contest.targets[0])
    assert [mean for mean, _ in spent.values()] == [math.inf, math.inf]
    assert all(math.isnan(times.value) for _, times in spent.values())


def test_a_task_without_kpis_and_without_the_targets_column_has_its_losses_in_the_table() -> None:
    runs = [labelled(name, 1, losses, 10, kpis=()) for name, losses in (("base", [8, 6]), ("fast", [6, 7]))]
    study = Study("by hand", tuple(runs))
    for targets, words in (["loss=5"], {"loss=5"}), (["score=5"], {None}):
        rows = arena_table([study], Comparison.of("base", targets)).to_pylist()
        assert {row.get("target") for row in rows} == words
        assert [(row["kpi"], row["min_loss"], row["last_loss"]) for row in rows] == [("loss", 6, 6), ("loss", 6, 7)]


def test_what_predicts_is_judged_on_runs_of_one_training_and_on_each_once() -> None:
    steeper = [labelled("steeper", 1, [5, 3], 10, rate=0.2)]
    again = Study("again", (STUDY.runs[0], STUDY.runs[1], *steeper))
    (field,) = fields_of([Contest(each, Comparison.of("base", ["50%"])) for each in (STUDY, again)])
    assert [(each.study, each.label) for each in field.entrants] == [
        ("by hand", "base"), ("by hand", "fast"), ("by hand", "late")]  # fmt: skip


def test_a_study_without_the_baseline_compares_nothing() -> None:
    assert Contest(STUDY, Comparison.of("nobody")).rows == []


def test_one_pair_or_none_is_no_evidence() -> None:
    assert paired([0.5]).low == -math.inf
    assert ratio([2.0], [1.0]).high == math.inf
    assert math.isnan(paired([]).value)
    assert math.isnan(ratio([0.0], [0.0]).value)


@pytest.mark.parametrize(
    ("noise", "low", "high"),
    [
        ("normal", 0.943, 0.957),
        ("gamma", 0.93, 0.97),  # skewed as times are
        ("rounds", 0.93, 0.97),  # times come in whole rounds
    ],
)
def test_intervals_hold_the_true_ratio_at_their_rate(noise: str, low: float, high: float) -> None:
    """Five seeds, each with an effect that both share; 10,000 contests. Exact for normal logarithms, near it else.

    The standard error of a coverage of 0.95 is 0.0022.
    """
    draw = np.random.default_rng(20261118)
    shape, truth = (10_000, 5), 1.4
    common = np.exp(0.4 * draw.standard_normal(shape))
    if noise == "normal":
        own, theirs = (np.exp(0.2 * draw.standard_normal(shape)) for _ in range(2))
    else:
        own, theirs = (draw.gamma(20.0, 1 / 20.0, shape) for _ in range(2))
    base, mine = 300 * truth * common * theirs, 300 * common * own
    if noise == "rounds":
        base, mine = np.ceil(base / 11.8) * 11.8, np.ceil(mine / 10.1) * 10.1
    logs = np.log(base / mine)
    found = [paired(row) for row in logs]
    held = np.mean([each.low <= math.log(truth) <= each.high for each in found])
    assert low <= held <= high
