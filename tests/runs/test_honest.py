"""Honest vehicles do not notice the guards that are on by default: the same bits as the plain mean, on every task."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, Task, TaskRequest, build_task
from mobfl.learning.heldout import Soundness
from mobfl.learning.weights import Weights
from mobfl.runs.job import check_job
from stories import run

ROAD = Scenario.from_dict(
    {
        "traffic": {"arrivals_per_s": 0.3},
        "training": {"samples_per_vehicle": 24, "batch_size": 8, "duration_s": 90.0, "learning_rate": 0.05},
    }
)
OPTIONS = {
    "beams": {"training_samples": 200, "validation_samples": 20},
    "images": {"width": 4, "training_samples": 400, "validation_samples": 40},
    "trajectories": {"width": 4, "training_samples": 40, "validation_samples": 4},
}
PLAIN = {"3,6": "mean", "fedasync:3": "fedasync", "fedbuff:3,buffer=3": "fedbuff"}


@cache
def task_of(name: str) -> Task:
    return build_task(name, TaskRequest(OPTIONS[name]))


RUNS = [
    *((name, split, plan) for name in ("beams", "images") for split in ("random", "dirichlet") for plan in PLAIN),
    ("beams", "place", "3,6"),
    pytest.param("trajectories", "manoeuvre", "3,6", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "split", "plan"), RUNS)
def test_an_honest_run_passes_the_guards_bit_for_bit(name: str, split: str, plan: str) -> None:
    road = ROAD.with_values({"training.split": split, "training.duration_s": 36.0 if name == "trajectories" else 90.0})
    guarded, plain = (Job(task_of(name), road, plan, 5, rule=rule) for rule in (None, PLAIN[plan]))
    assert "clip" in guarded.describe()["rule"]
    assert guarded.describe()["plan"] == plain.describe()["plan"]
    one, other = run(guarded), run(plain)
    assert sum(each.row["uploads"] for each in one) > 6
    assert [each.row for each in one] == [each.row for each in other]
    assert as_bytes(one[-1].checkpoint.model) == as_bytes(other[-1].checkpoint.model)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_loss_on_all_held_out_samples_is_the_evaluations(name: str) -> None:
    task: Any = task_of(name)
    model = task.initial_weights(2)
    assert task.heldout_loss(model, 10**6) == pytest.approx(task.evaluate(model)["loss"], rel=1e-5)
    some = task.heldout_loss(model, 3)
    assert some == task.heldout_loss(model, 3) != task.heldout_loss(model, 10**6)
    spoilt = {key: values * np.float32(1e30) for key, values in model.items()}
    assert not Soundness.of(task, 2).holds(spoilt)
    assert Soundness.of(task, 2).holds(model)


def test_a_rule_that_looks_at_held_out_samples_needs_a_task_that_has_them() -> None:
    with pytest.raises(InputError, match=r"rule heldout.* needs a task with the method heldout_loss, which the task"):
        check_job(Job(CountingTask(), ROAD, "3,6", 5, rule="heldout"))


def as_bytes(model: Weights) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in model.items()}
