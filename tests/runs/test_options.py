"""Options that mend: a falling learning rate, an averaged model, local steps that fall."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Crossings, InputError, Job, Scenario, SgdTerms, best_round_s, plan, train
from mobfl.learning.rates import learning_rate
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.policies.falling import FallingSteps
from mobfl.servers.names import AnyPlan
from mobfl.servers.steps import server_steps
from stories import BUSY, STEADY, STORY, run, story


class RateTask(CountingTask):
    """Notes the learning rates."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        self.rates.append(terms.learning_rate)
        return super().local_steps(model, batches, terms)


@pytest.mark.parametrize(
    ("plan", "at_s"),
    [
        ((3, 5.0), [0.0, 5.0, 5.0]),  # whoever comes later still has its round's rate
        ("fedasync:3", [0.5, 3.1, 4.0, 5.7, 6.6, 9.2]),
        ("wait-for-all:3", [0.5, 3.1, 5.7, 5.7, 8.3]),
    ],
)
def test_the_learning_rate_falls_along_a_cosine_of_when_the_model_was_got(plan: Any, at_s: list[float]) -> None:
    scenario, task = STEADY.with_values({"training.decay_to": 0.2}), RateTask()
    run(Job(task, scenario, plan, 7, STORY))
    assert task.rates == pytest.approx([0.1 * (0.6 + 0.4 * math.cos(math.pi * t / 15)) for t in at_s])


def test_the_cosine_from_one_end_to_the_other() -> None:
    training = STEADY.with_values({"training.decay_to": 0.2}).training
    assert [learning_rate(training, share) for share in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 0.06, 0.02])
    assert {learning_rate(STEADY.training, share) for share in (0.0, 0.3, 1.0)} == {0.1}


def test_an_average_over_time_is_served_and_training_goes_on_from_the_plain_model() -> None:
    scenario, task = STEADY.with_values({"training.average_s": 10.0}), CountingTask()
    learnt = run(Job(task, scenario, (3, 5.0), 7, STORY))
    keep, served, expected = math.exp(-0.5), 0.0, []
    for plain in (3.0, 6.0, 6.0):  # the last round has no upload, and the average still moves
        served = keep * served + (1 - keep) * plain
        expected.append(served)
    assert [each.row["count"] for each in learnt] == pytest.approx(expected, rel=1e-6)
    assert [float(each.checkpoint.model["w"][0]) for each in learnt] == pytest.approx(expected, rel=1e-6)
    assert [{k: v["w"].tolist() for k, v in each.checkpoint.versions.items()} for each in learnt] == [
        {1: [3.0]},
        {2: [6.0]},
        {3: [6.0]},
    ]


def test_an_average_counts_the_time_in_which_nobody_was_there() -> None:
    """Waiting for all begins at 0.5 s: the first step ends 3.1 s after the training's beginning."""
    learnt = story("wait-for-all:3", STEADY.with_values({"training.average_s": 10.0}))
    assert learnt[0].row["count"] == pytest.approx(3.0 * (1 - math.exp(-0.31)), rel=1e-6)


def test_an_average_that_has_not_moved_is_not_evaluated_again() -> None:
    nobody = STEADY.with_values({"training.average_s": 10.0, "traffic.participation": 1e-9})
    task = CountingTask()
    learnt = run(Job(task, nobody, (3, 5.0), 7, STORY))
    assert (len(learnt), len(task.evaluated)) == (3, 1)


def falling_rows(scenario: Scenario, chosen: AnyPlan, traffic: Crossings | None = None) -> list[tuple[int, float]]:
    job = Job(CountingTask(), scenario, chosen, crossings=traffic)
    return [(step.local_steps, step.start_s) for step in server_steps(job.server.schedule, job.site)]


def expected_rows(h: int, to: float, duration_s: float, round_s: dict[int, float] | float) -> list[tuple[int, float]]:
    """Round after round, each with the H of its start."""
    rows, now = list[tuple[int, float]](), 0.0
    while True:
        steps = max(1, math.floor(h * (1 - (1 - to) * now / duration_s) + 0.5))
        length = round_s if isinstance(round_s, float) else round_s[steps]
        if now + length > duration_s * (1 + 1e-9):
            return rows
        rows.append((steps, pytest.approx(now, abs=1e-9)))
        now += length


@pytest.mark.parametrize("to", [0.25, 0.01])
def test_local_steps_fall_and_the_planner_chooses_t_again(to: float) -> None:
    scenario = BUSY.with_values({"training.falling_to": to, "training.duration_s": 2000.0})
    best = plan(scenario)
    h, t, _ = best.numbers
    lengths = {each: float(best_round_s(scenario, each)) for each in range(1, h + 1)}
    rows = falling_rows(scenario, best)
    assert rows == expected_rows(h, to, 2000.0, lengths)
    assert rows[-1][0] == pytest.approx(max(1, h * to), abs=1)
    kept = falling_rows(scenario, (h, t))
    assert kept == expected_rows(h, to, 2000.0, t)
    assert kept != rows


def test_on_recorded_traffic_t_stays_while_h_falls() -> None:
    enter = 1e5 + np.arange(300) * 4.0
    traffic = Crossings(np.arange(300), enter, enter + 20.0)
    scenario = BUSY.with_values({"training.falling_to": 0.5, "training.duration_s": 900.0})
    best = plan(scenario, traffic)
    h, t, _ = best.numbers
    assert falling_rows(scenario, best, traffic) == expected_rows(h, 0.5, 900.0, t)


def test_an_order_lasts_for_as_long_as_h_stays_the_same() -> None:
    policy = FallingSteps(4, 0.5, 100.0, 80.0, lambda h: 2.0 * h)
    order = policy.next_order(None)
    assert (order.local_steps, order.round_s, order.rounds) == (4, 8.0, 3)  # 4 until 20 s: from 0, 8 and 16
    assert [policy.steps_at(t) for t in (0.0, 20.0, 20.1, 60.0, 60.1, 80.0, 999.0)] == [4, 4, 3, 3, 2, 2, 2]


@pytest.mark.parametrize(
    ("plan", "name"), [("wait-for-all", "wait-for-all"), ("fedbuff", "async"), ("adaptive", "adaptive")]
)
def test_h_falls_only_with_planned_rounds(tmp_path: Path, plan: str, name: str) -> None:
    job = Job(CountingTask(), BUSY.with_values({"training.falling_to": 0.5}), plan)
    with pytest.raises(InputError, match=f"training.falling_to must be 1 for {name}, got 0.5"):
        train(job, tmp_path / "run")
