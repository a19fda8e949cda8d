"""What a run tells of its vehicles' privacy: who counts as one vehicle, after a resume, with any number of workers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fake_task import CountingTask
from mobfl import Job, Scenario, SgdTerms, train
from mobfl.learning.accounting import epsilon
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.servers.steps import server_steps
from stories import BUSY, STEADY, crossings

RULE = "private:uploads=2,clip=5,noise=0.8"
FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")


def trained(out: Path, plan: Any = (3, 3.0), scenario: Scenario = STEADY, **more: Any) -> dict[str, Any]:
    train(Job(CountingTask(by_batches=True), scenario, plan, 7, rule=RULE, **more), out)
    return json.loads((out / "run.json").read_text())["results"]


def test_a_vehicle_that_returns_is_the_same_vehicle(tmp_path: Path) -> None:
    """T = 3 s: a uploads in the rounds that begin at 0 and 9, b in the one at 3, c in those at 9 and 12 (once each)."""
    rows = [("a", 0.0, 3.0), ("b", 3.0, 6.0), ("a", 9.0, 12.0), ("c", 9.0, 15.0)]
    told = trained(tmp_path / "back", crossings=crossings(*rows))["privacy"]
    assert (told["most_rounds"], told["vehicles"]) == (2, 3)
    assert told["epsilon"] == pytest.approx(epsilon(0.8, 2, 1e-5))
    others = [(f"{name}{place}", *times) for place, (name, *times) in enumerate(rows[:3])]
    strangers = trained(tmp_path / "strangers", crossings=crossings(*others))["privacy"]
    assert (strangers["most_rounds"], strangers["vehicles"]) == (1, 3)


def test_two_uploads_of_one_vehicle_in_one_round_weigh_four(tmp_path: Path) -> None:
    rows = [("a", 0.0, 4.0), ("a", 5.0, 9.0)]
    told = trained(tmp_path / "run", (3, 10.0), crossings=crossings(*rows))["privacy"]
    assert (told["most_rounds"], told["composed_rounds"]) == (1, 4)
    assert told["epsilon"] == pytest.approx(epsilon(0.8, 4, 1e-5))


@pytest.mark.parametrize("plan", ["10,6", "wait-for-all:10", "adaptive", "async:10,uploads=3"])
def test_every_schedule_is_accounted_for(tmp_path: Path, plan: str) -> None:
    """Counted once more from the schedule's own steps."""
    told = trained(tmp_path / "run", plan, BUSY)["privacy"]
    job = Job(CountingTask(by_batches=True), BUSY, plan, 7, rule=RULE)
    steps = [[int(upload.key) for upload in step.uploads] for step in server_steps(job.server.schedule, job.site)]
    vehicles = {key for step in steps for key in step}
    joined = {vehicle: sum(vehicle in step for step in steps) for vehicle in vehicles}
    composed = {vehicle: sum(step.count(vehicle) ** 2 for step in steps) for vehicle in vehicles}
    assert (told["vehicles"], told["most_rounds"]) == (len(vehicles), max(joined.values()))
    assert told["composed_rounds"] == max(composed.values())
    assert told["epsilon"] == pytest.approx(epsilon(0.8, told["composed_rounds"], 1e-5))


class AlwaysBroken(CountingTask):
    """Every upload is rejected."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return {"w": super().local_steps(model, batches, terms)["w"] * np.nan}


def test_rounds_whose_uploads_are_all_rejected_are_noised_and_counted(tmp_path: Path) -> None:
    """Broken vehicles and vehicles that have learnt nothing lead to the same model, and to the same ε."""
    for name, task in (("broken", AlwaysBroken()), ("still", StandingStill())):
        train(Job(task, BUSY, (10, 6.0), 7, rule=RULE), tmp_path / name)
    broken, still = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("broken", "still"))
    assert broken["results"]["rejections"]["not finite"] > 20
    assert broken["results"]["privacy"] == still["results"]["privacy"]
    models = [load_file(tmp_path / name / "last.safetensors")["w"].tobytes() for name in ("broken", "still")]
    assert models[0] == models[1] != np.zeros(1, np.float32).tobytes()


class StandingStill(CountingTask):
    """No upload changes anything."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        super().local_steps(model, batches, terms)
        return {"w": model["w"].copy()}


def test_same_bytes_with_any_number_of_workers_and_after_a_resume(tmp_path: Path) -> None:
    job = Job(CountingTask(by_batches=True), BUSY, (10, 6.0), 7, rule=f"{RULE}+momentum:beta=0.5")

    class Stop(Exception):  # noqa: N818
        pass

    def stop(row: Any) -> None:
        if row["round"] == 12:
            raise Stop

    train(job, tmp_path / "one")
    train(job, tmp_path / "three", workers=3)
    with pytest.raises(Stop):
        train(job, tmp_path / "resumed", checkpoint_s=0, progress=stop)
    train(job, tmp_path / "resumed", resume=True)
    for name in FILES:
        whole = (tmp_path / "one" / name).read_bytes()
        assert (tmp_path / "three" / name).read_bytes() == whole, name
        assert (tmp_path / "resumed" / name).read_bytes() == whole, name


def test_a_run_without_privacy_says_nothing_of_it(tmp_path: Path) -> None:
    train(Job(CountingTask(), BUSY, (10, 6.0), 7), tmp_path / "run")
    assert "privacy" not in json.loads((tmp_path / "run" / "run.json").read_text())["results"]
