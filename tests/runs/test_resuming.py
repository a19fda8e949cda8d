"""Runs of every server resume to the same bytes, with all that their rules remember."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fake_task import CountingTask
from mobfl import InputError, Job, SgdTerms, train
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.runs.history import Row
from stories import BUSY


class SpoiltByBatch(CountingTask):
    """Some batches give a NaN, whoever computes them when."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        new = super().local_steps(model, batches, terms)
        return {"w": new["w"] * np.nan} if batches.sum() % 3 == 0 else new


JOBS = {
    **{
        plan.partition(":")[0]: Job(CountingTask(by_batches=True), BUSY, plan, 3)
        for plan in ("wait-for-all:10", "fedasync:10", "fedbuff:10,buffer=3", "stay-aware:2", "selected:10,6,by=bandit")
    },
    "remembering": Job(
        CountingTask(by_batches=True), BUSY, "fedbuff:10,buffer=3", 3, rule="clip:times=1+fedbuff+momentum"
    ),
    "adam": Job(CountingTask(by_batches=True), BUSY, (10, 6.0), 3, rule="adam:rate=0.5", codec="half"),
    "spoilt": Job(SpoiltByBatch(by_batches=True), BUSY, "fedasync:10", 3),
    "averaged": Job(CountingTask(by_batches=True), BUSY.with_values({"training.average_s": 30.0}), (10, 6.0), 3),
    "both": Job(
        CountingTask(by_batches=True),
        BUSY.with_values({"training.average_s": 30.0, "training.decay_to": 0.1}),
        "fedbuff:10,buffer=3",
        3,
    ),
    "falling": Job(CountingTask(by_batches=True), BUSY.with_values({"training.falling_to": 0.2}), (10, 6.0), 3),
}
FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")
each_job = pytest.mark.parametrize("name", JOBS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name, job in JOBS.items():
        train(job, folder / name)
    return folder


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


def stop_at(number: int):  # type: ignore[no-untyped-def]
    def stop(row: Row) -> None:
        if row["round"] == number:
            raise Stop(number)

    return stop


@each_job
def test_two_workers_write_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    train(JOBS[name], tmp_path / "run", workers=2)
    assert_same_bytes(whole / name, tmp_path / "run")


@each_job
def test_cut_off_twice_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    for at, resume in ((4, False), (9, True)):
        with pytest.raises(Stop):
            train(JOBS[name], out, resume=resume, progress=stop_at(at))
        kept = [tensor for tensor in load_file(out / "last.safetensors") if tensor.startswith("version/")]
        assert bool(kept) == (name not in ("wait-for-all", "falling", "adam", "selected"))
    train(JOBS[name], out, resume=True, workers=2)
    assert_same_bytes(whole / name, out)
    assert list(load_file(out / "last.safetensors")) == ["w"]  # nothing that was only needed to go on


@pytest.mark.parametrize("dies_at", [*FILES, "timing.json"])
@pytest.mark.parametrize("last_checkpoint", [False, True])
def test_a_checkpoint_cut_in_half_resumes_to_the_same_bytes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str, last_checkpoint: bool
) -> None:
    """As kill -9 may cut it, in the middle of a run and in the checkpoint that ends it."""
    from mobfl.files import json as json_files
    from mobfl.runs import checkpoint
    from mobfl.runs import folder as run_folder

    rounds = json.loads((whole / "both" / "run.json").read_text())["results"]["rounds"]
    real, rows = run_folder.replaced, list[Row]()

    def dying(file: Path):  # type: ignore[no-untyped-def]
        if file.name == dies_at and len(rows) >= (rounds if last_checkpoint else 5):
            raise Stop(file.name)
        return real(file)

    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "replaced", dying)
        patched.setattr(checkpoint, "replaced", dying)
        patched.setattr(json_files, "replaced", dying)
        with pytest.raises(Stop):
            train(JOBS["both"], tmp_path / "run", checkpoint_s=1e9 if last_checkpoint else 0.0, progress=rows.append)
    train(JOBS["both"], tmp_path / "run", resume=True)
    assert_same_bytes(whole / "both", tmp_path / "run")


def test_rejections_are_counted_across_an_interruption(whole: Path) -> None:
    results = json.loads((whole / "spoilt" / "run.json").read_text())["results"]
    assert results["rejections"]["not finite"] > 2
    assert results["rounds_with_uploads"] == results["rounds"] - results["rejections"]["not finite"]


def test_a_state_without_a_version_that_is_needed_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(JOBS["fedasync"], tmp_path / "run", progress=stop_at(4))
    last = tmp_path / "run" / "last.safetensors"
    state = json.dumps({"rounds": 5, "rejections": {}})
    save_file({"w": load_file(last)["w"]}, last, metadata={"mobfl": state})
    with pytest.raises(InputError, match=r"the last model must come with version \d+, on which a vehicle trains"):
        train(JOBS["fedasync"], tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("wait-for-all", {"policy": "wait-for-all", "local_steps": 10, "round_s": None}),
        (
            "fedasync",
            {"policy": "fedasync", "local_steps": 10, "round_s": None, "mixing": 0.6, "staleness_power": 0.5},
        ),
        ("fedbuff", {"policy": "fedbuff", "local_steps": 10, "round_s": None, "buffer": 3, "server_rate": 1.0}),
        ("falling", {"policy": "rounds", "local_steps": 10, "round_s": 6.0}),
    ],
)
def test_a_run_says_which_policy_it_followed(whole: Path, name: str, written: dict[str, object]) -> None:
    assert json.loads((whole / name / "run.json").read_text())["plan"] == written


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        ("wait-for-all:10", "training.duration_s must be at least as long as its first round takes, got 4"),
        ("fedasync:10", "training.duration_s must be at least as long as its first upload takes, got 4"),
        ("fedbuff:10", "training.duration_s must be at least as long as its first 10 uploads take, got 4"),
    ],
)
def test_a_training_too_short_for_a_step_leaves_nothing_behind(tmp_path: Path, plan: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        train(Job(CountingTask(), BUSY.with_values({"training.duration_s": 4.0}), plan), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_another_server_is_another_run(whole: Path, tmp_path: Path) -> None:
    for file in (whole / "fedasync").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"plan.mixing must be as in the run to be resumed \(0.6\), got 0.5"):
        train(replace(JOBS["fedasync"], plan="fedasync:10,mixing=0.5"), tmp_path, resume=True)
