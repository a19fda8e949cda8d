"""One bad upload must not end a run: what is not sound is not adopted, or taken back, and training goes on."""

import hashlib
import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fake_task import CountingTask
from mobfl import Crossings, Job, Scenario, Task, train
from mobfl.learning.local.sgd import Sgd
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.runs.history import Row
from mobfl.tasks.beams.generated import generated_samples
from mobfl.tasks.beams.task import BeamTask
from stories import BUSY, STEADY

# Before adoption ------------------------------------------------------------------------------------------------------

# Five vehicles that stay, each of which uploads in every round of 5 s.
FIVE = Crossings.sorted(
    ["first", *(f"v{k}" for k in range(5)), "last"], [-1.0, *([0.0] * 5), 61.0], [0.0, *([60.0] * 5), 62.0]
)
ROAD = STEADY.with_values({"training.duration_s": 40.0, "training.samples_per_vehicle": 40})


@cache
def beams() -> BeamTask:
    return BeamTask(generated_samples(0, 120, 40, "auto"))


def digest(batches: Integers) -> str:
    return hashlib.sha256(np.ascontiguousarray(batches).tobytes()).hexdigest()


class Watched:
    """SGD that remembers who trained on what."""

    seen: list[str] = []  # noqa: RUF012

    def train(self, task: Task, model: Weights, batches: Integers, learning_rate: float) -> Weights:
        self.seen.append(digest(batches))
        return Sgd(0.0).train(task, model, batches, learning_rate)


class BadOnce:
    """SGD, and once, on these batches, what somebody hostile or broken sends: finite and of the right shapes."""

    def __init__(self, on: str, how: str) -> None:
        self.on, self.how = on, how

    def train(self, task: Task, model: Weights, batches: Integers, learning_rate: float) -> Weights:
        new = Sgd(0.0).train(task, model, batches, learning_rate)
        return {name: self._spoilt(name, values) for name, values in new.items()} if digest(batches) == self.on else new

    def _spoilt(self, name: str, values: np.ndarray) -> np.ndarray:
        if self.how == "times 1000":
            return values * np.float32(1000)
        noise = 1e3 * np.random.default_rng(len(name)).standard_normal(values.shape).astype(np.float32)
        return np.abs(values + noise) if name.endswith("running_var") else values + noise


@cache
def third_rounds_first_batches() -> str:
    Watched.seen.clear()
    train_in_memory(Job(beams(), ROAD, (3, 5.0), 7, FIVE, local=Watched()))
    return Watched.seen[10]


def train_in_memory(job: Job, workers: int = 1) -> list[Row]:
    from stories import run

    return [each.row for each in run(job, workers)]


@pytest.mark.parametrize("how", ["times 1000", "noise"])
@pytest.mark.parametrize("rule", [None, "mean", "median", "mean+momentum:beta=0.5"])
def test_one_upload_of_forty_is_spoilt_and_the_others_are_learnt_from(rule: str | None, how: str) -> None:
    job = Job(beams(), ROAD, (3, 5.0), 7, FIVE, rule=rule, local=BadOnce(third_rounds_first_batches(), how))
    rows = train_in_memory(job)
    assert [row["uploads"] for row in rows] == [5] * 8
    assert [row["rejected"] for row in rows[:2] + rows[3:]] == [0] * 7  # all honest ones but those of its own round
    assert all(math.isfinite(row["loss"]) for row in rows)
    assert rows[-1]["loss"] < rows[1]["loss"]
    assert train_in_memory(job, workers=4) == rows


def test_what_spoils_the_model_leaves_the_rule_as_it_was(tmp_path: Path) -> None:
    """The round counts as one without uploads: momentum has not moved."""
    spoilt = Job(
        beams(),
        ROAD,
        (3, 5.0),
        7,
        FIVE,
        rule="mean+momentum",
        local=BadOnce(third_rounds_first_batches(), "times 1000"),
    )
    history = train(spoilt, tmp_path / "run")
    assert history.columns["rejected"].tolist() == [0, 0, 5, 0, 0, 0, 0, 0]
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    assert results["rejections"] == {"spoilt the model": 5}
    assert history.columns["loss"][2] == history.columns["loss"][1]


# After the full evaluation --------------------------------------------------------------------------------------------

SHORT = BUSY.with_values({"training.duration_s": 66.0})
PLANS: dict[str, tuple[object, Scenario]] = {
    "rounds": ((10, 6.0), SHORT),
    "wait-for-all": ("wait-for-all:10", SHORT),
    "fedasync": ("fedasync:10", SHORT),
    "fedbuff": ("fedbuff:10,buffer=3", SHORT),
    "averaged": ((10, 6.0), SHORT.with_values({"training.average_s": 30.0})),
    "averaged buffer": ("fedbuff:10,buffer=3", SHORT.with_values({"training.average_s": 30.0})),
}
FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")


class NanAt(CountingTask):
    """Counts; but the full evaluation of models with these counts is no number."""

    def __init__(self, *counts: float) -> None:
        super().__init__(by_batches=True)
        self.counts = counts

    def evaluate(self, model: Weights) -> dict[str, float]:
        scores = super().evaluate(model)
        return {**scores, "loss": math.nan} if scores["count"] in self.counts else scores


def job_of(plan: str, *spoilt: int) -> Job:
    """The job in which the models after these rounds of an undisturbed run are not sound."""
    wanted, road = PLANS[plan]
    clean = Job(NanAt(), road, wanted, 3, rule=None)  # type: ignore[arg-type]
    return replace(clean, task=NanAt(*(train_in_memory(clean)[k]["count"] for k in spoilt)))


@pytest.mark.parametrize("plan", PLANS)
def test_a_model_that_turns_out_bad_is_taken_back(tmp_path: Path, plan: str) -> None:
    job = job_of(plan, 4)
    history = train(job, tmp_path / "run")
    clean = train_in_memory(replace(job, task=NanAt()))
    losses, rejected = history.columns["loss"], history.columns["rejected"]
    assert losses[:4].tolist() == [row["loss"] for row in clean[:4]]
    assert np.isnan(losses[4])
    assert np.isfinite(np.delete(losses, 4)).all()
    assert history.columns["uploads"].tolist() == [row["uploads"] for row in clean]
    if "fed" not in str(job.plan):  # all vehicles of the next round were given it
        assert (losses[5], rejected[5]) == (losses[3], history.columns["uploads"][5])
        assert rejected.sum() == rejected[5]
    assert losses[-1] != losses[3]  # it goes on
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    assert results["taken_back"] == [4]
    assert results["rejections"] == {"of a model that was taken back": int(rejected.sum())}
    (notice,) = [each for each in results["notices"] if "taken back" in each]
    assert notice.startswith("The model of round 4 had a loss that is not finite and was taken back")


@pytest.mark.parametrize("plan", PLANS)
def test_what_was_taken_back_is_the_same_for_any_workers_and_after_any_interruption(tmp_path: Path, plan: str) -> None:
    job = job_of(plan, 4, 7)
    rounds = len(train(job, tmp_path / "whole"))
    assert rounds > 7
    assert json.loads((tmp_path / "whole" / "run.json").read_text())["results"]["taken_back"]
    for workers in (2, 4):
        train(job, tmp_path / f"{workers}", workers=workers)
        assert_same_bytes(tmp_path / "whole", tmp_path / f"{workers}")
    for at in {3, 4, 5, 7, min(8, rounds - 1)}:  # before, at and after a model that is taken back
        out = tmp_path / f"cut at {at}"
        with pytest.raises(InterruptedError):
            train(job, out, progress=stop_at(at), checkpoint_s=0.0)
        train(job, out, resume=True, workers=1 + at % 2)
        assert_same_bytes(tmp_path / "whole", out)


def stop_at(number: int):  # type: ignore[no-untyped-def]
    def stop(row: Row) -> None:
        if row["round"] == number:
            raise InterruptedError(number)

    return stop


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_the_way_back_is_kept_only_while_it_is_needed(tmp_path: Path) -> None:
    job = job_of("rounds", 4)
    for at, kept in ((3, False), (4, True), (5, False)):
        with pytest.raises(InterruptedError):
            train(job, tmp_path / str(at), progress=stop_at(at))
        names = list(load_file(tmp_path / str(at) / "last.safetensors"))
        assert any(name.startswith("sound/") for name in names) == kept, names


def test_a_run_ends_on_a_sound_model(tmp_path: Path) -> None:
    """The last model has nobody after it: the one before is what is left."""
    last = len(train_in_memory(job_of("rounds"))) - 1
    job = job_of("rounds", last)
    history = train(job, tmp_path / "run")
    assert np.isnan(history.final("loss"))
    served = load_file(tmp_path / "run" / "last.safetensors")
    assert list(served) == ["w"]
    assert abs(40 - float(served["w"][0])) == history.columns["loss"][-2]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["results"]["taken_back"] == [last]


class NeverSound(CountingTask):
    def evaluate(self, model: Weights) -> dict[str, float]:
        return {**super().evaluate(model), "loss": math.nan}


def test_without_a_sound_model_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    history = train(Job(NeverSound(), SHORT, (10, 6.0), 3), tmp_path / "run")
    assert history.final("count") > 20
    assert "taken_back" not in json.loads((tmp_path / "run" / "run.json").read_text())["results"]
