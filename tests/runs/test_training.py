"""Runs in folders: what they hold, and that nothing that interrupts them changes their bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, read_history, train
from mobfl.learning.task import Integers, SgdTerms
from mobfl.learning.weights import Weights
from mobfl.runs.folder import locked
from mobfl.runs.history import COLUMNS, History, Row
from mobfl.runs.training import check_settings
from mobfl.runs.verdict import verdict
from places import TESTS

ROAD = Scenario.from_dict({"training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 300.0}})
PLAN = (10, 6.0)
SAME = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")


def job(step_s: float = 0.0, **values: object) -> Job:
    return Job(CountingTask(by_batches=True, step_s=step_s), ROAD.with_values(values), PLAN, seed=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    train(job(), out)
    return out


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_run_folder_holds_what_is_agreed(whole: Path) -> None:
    assert sorted(file.name for file in whole.iterdir()) == sorted([*SAME, "timing.json"])
    run = json.loads((whole / "run.json").read_text())
    assert run["status"] == "done"
    assert run["scenario"]["training"]["duration_s"] == 300.0
    assert (run["plan"], run["seed"], run["task"]) == (
        {"policy": "rounds", "local_steps": 10, "round_s": 6.0},
        3,
        "counting",
    )
    assert {"numpy", "mobfl", "python"} <= run["versions"].keys()
    table = pq.read_table(whole / "rounds.parquet")
    assert table.column_names == [
        "round", "start_s", "end_s", "local_steps", "present", "uploads", "rejected", "loss", "count",
        "steps", "bytes", "energy_j",
    ]  # fmt: skip
    assert table["round"].to_pylist() == list(range(50))
    assert pq.ParquetFile(whole / "rounds.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_best_model_is_the_one_with_the_least_loss(whole: Path) -> None:
    history = read_history(whole)
    best, last = (float(load_file(whole / f"{name}.safetensors")["w"][0]) for name in ("best", "last"))
    assert last == history.final("count")
    assert abs(40 - best) == history.min_loss() == json.loads((whole / "run.json").read_text())["results"]["min_loss"]
    assert abs(40 - last) > abs(40 - best)  # the count goes past 40, so the two differ


class Diverging(CountingTask):
    """Right until a model has counted to 30; beyond, nothing is finite, and a KPI that looks at it would be perfect."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        scores = super().evaluate(model)
        return scores if scores["count"] < 30 else {"loss": float("nan"), "count": 0.0}


def test_a_run_that_diverges_says_so_and_keeps_the_best_finite_model(tmp_path: Path) -> None:
    history = train(Job(Diverging(), ROAD, PLAN, seed=3), tmp_path / "run")
    best, last = (float(load_file(tmp_path / "run" / f"{name}.safetensors")["w"][0]) for name in ("best", "last"))
    assert best < 30
    assert last < 30  # what cannot be evaluated is taken back
    assert abs(40 - best) == history.min_loss()
    broken = np.flatnonzero(np.isnan(history.columns["loss"]))
    (sentence,) = json.loads((tmp_path / "run" / "run.json").read_text())["results"]["notices"]
    assert sentence.startswith(f"The models of {len(broken)} rounds ({broken[0]}, {broken[1]}, ")
    assert "training.learning_rate" in sentence


class NeverSound(CountingTask):
    def evaluate(self, model: Weights) -> dict[str, float]:
        return {**super().evaluate(model), "loss": float("nan")}


def test_a_run_without_any_finite_model_says_so(tmp_path: Path) -> None:
    (sentence,) = verdict(train(Job(NeverSound(), ROAD, PLAN, seed=3), tmp_path / "run"))
    assert sentence.startswith("The model has diverged: from round 0 on its loss is not finite")


class Lost(CountingTask):
    """Its loss only rises."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        scores = super().evaluate(model)
        return {**scores, "loss": 40.0 + scores["count"]}


def test_a_run_without_an_upload_or_without_success_says_so(tmp_path: Path) -> None:
    quiet = Job(CountingTask(), ROAD.with_values({"traffic.arrivals_per_s": 1e-9}), PLAN)
    assert verdict(train(quiet, tmp_path / "quiet"))[0].startswith("Nothing was learnt: no vehicle uploaded in time.")
    spoilt = Job(Spoilt(), ROAD, PLAN)
    assert "uploads were rejected" in verdict(train(spoilt, tmp_path / "spoilt"))[0]
    lost = verdict(train(Job(Lost(), ROAD, PLAN), tmp_path / "lost"))
    assert lost[0].startswith("The model is no better than it was at the start: its loss never fell below 40.")
    assert verdict(train(job(), tmp_path / "good")) == []


def test_a_run_that_ends_where_it_began_says_so_even_if_it_was_better_in_between() -> None:
    def learnt(*losses: float) -> list[str]:
        rows = [
            dict.fromkeys(COLUMNS, 1) | {"end_s": float(k), "loss": loss, "rejected": 0}
            for k, loss in enumerate(losses)
        ]
        return verdict(History.of_rows({"loss": 2.0}, rows, ()))

    (sentence,) = learnt(1.5, 1.9, 2.0)
    assert sentence.startswith(
        "The model ended no better than it began: its loss fell from 2 to 1.5 and rose to 2 again."
    )
    assert learnt(1.5, 2.5, 1.99) == []


class Spoilt(CountingTask):
    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return {"w": np.full(1, np.nan, np.float32)}


def test_models_are_readable_like_any_file_of_the_user(whole: Path) -> None:
    modes = {(whole / name).stat().st_mode & 0o777 for name in SAME}
    assert len(modes) == 1


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


@pytest.mark.parametrize("at", [0, 1, 17, 48])
def test_ctrl_c_saves_and_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path, at: int) -> None:
    def interrupt(row: Row) -> None:
        if row["round"] == at:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(job(), tmp_path / "run", progress=interrupt)
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (stored["status"], stored["results"]["rounds"]) == ("interrupted", at + 1)
    train(job(), str(tmp_path / "run"), resume=True, workers=2)
    assert_same_bytes(whole, tmp_path / "run")


def test_a_second_ctrl_c_ends_it_at_once(whole: Path, tmp_path: Path) -> None:
    def interrupt(row: Row) -> None:
        if row["round"] == 20:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(job(), tmp_path / "run", progress=interrupt)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["results"]["rounds"] == 0  # the last checkpoint
    train(job(), tmp_path / "run", resume=True)
    assert_same_bytes(whole, tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("at", [0, 17, 49])
def test_a_failure_is_recorded_and_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path, at: int) -> None:
    def fail(row: Row) -> None:
        if row["round"] == at:
            raise Stop("enough")

    with pytest.raises(Stop):
        train(job(), tmp_path / "run", progress=fail)
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (stored["status"], stored["reason"]) == ("failed", "enough")
    train(job(), tmp_path / "run", resume=True, workers=2)
    assert_same_bytes(whole, tmp_path / "run")


def test_resuming_a_finished_run_changes_nothing(whole: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in whole.iterdir()}
    history = train(job(), whole, resume=True)
    assert len(history) == 50
    assert {file: file.stat().st_mtime_ns for file in whole.iterdir()} == before


@pytest.mark.parametrize(
    "dies_at", ["rounds.parquet", "best.safetensors", "last.safetensors", "run.json", "timing.json"]
)
def test_a_checkpoint_cut_in_half_resumes_to_the_same_bytes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    """As kill -9 may cut it: files written before it are newer than the rest."""
    from mobfl.files import json as json_files
    from mobfl.runs import checkpoint
    from mobfl.runs import folder as run_folder

    real, rows = run_folder.replaced, list[Row]()

    def dying(file: Path):  # type: ignore[no-untyped-def]
        if file.name == dies_at and len(rows) >= 20:
            raise Stop(file.name)
        return real(file)

    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "replaced", dying)
        patched.setattr(checkpoint, "replaced", dying)
        patched.setattr(json_files, "replaced", dying)
        with pytest.raises(Stop):
            train(job(), tmp_path / "run", checkpoint_s=0.0, progress=rows.append)
    train(job(), tmp_path / "run", resume=True)
    assert_same_bytes(whole, tmp_path / "run")


def test_killed_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep)\n"
        "from pathlib import Path; from mobfl import train; from test_training import job\n"
        "train(job(step_s=0.05), Path(sys.argv[2]), workers=2, checkpoint_s=0.2)\n"
    )
    out = tmp_path / "run"
    here = os.pathsep.join([str(TESTS), str(Path(__file__).parent)])
    for rounds in (5, 12, 20):
        command = code if rounds == 5 else code.replace("workers=2", "workers=2, resume=True")
        process = subprocess.Popen([sys.executable, "-c", command, here, str(out)])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (
            (out / "rounds.parquet").exists() and pq.read_metadata(out / "rounds.parquet").num_rows >= rounds
        ):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert json.loads((out / "run.json").read_text())["status"] == "running"
    (out / ".rounds.parquet.4711.part").write_bytes(b"cut off")
    train(job(), out, resume=True)
    assert_same_bytes(whole, out)
    assert len(list(out.iterdir())) == 5  # nothing half-written is left


@pytest.mark.parametrize("plan", ["24,1e-9", "anytime:1e-9", "early:10,1e-9", "selected:10,1e-300"])
def test_rounds_that_would_never_end_are_refused(tmp_path: Path, plan: str) -> None:
    with pytest.raises(InputError, match=r"plan must have at most 1e\+07 rounds in .* s, got rounds of 1e-"):
        train(Job(CountingTask(), ROAD, plan, 3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (job(**{"training.learning_rate": 0.2}), "scenario.training.learning_rate must be as in the run"),
        (Job(CountingTask(by_batches=True), ROAD, (11, 6.0), 3), "plan.local_steps must be as"),
        (Job(CountingTask(by_batches=True), ROAD, PLAN, 4), r"seed must be as in the run to be resumed \(3\), got 4"),
        (Job(CountingTask(by_batches=False), ROAD, PLAN, 3), "data.by_batches must be as in the run"),
    ],
)
def test_another_run_cannot_be_resumed_into_this_one(whole: Path, other: Job, line: str) -> None:
    with pytest.raises(InputError, match=line):
        train(other, whole, resume=True)


def test_folders_that_cannot_take_a_run(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be a new or empty folder, got a run, which can be resumed"):
        train(job(), whole)
    with pytest.raises(InputError, match=r"must hold a run to resume, got none"):
        train(job(), tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(InputError, match=r"must be a new or empty folder, got something else"):
        train(job(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_deployment_that_was_killed_before_its_run_began_begins_again(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "superlink.log").write_text("it starts")
    (tmp_path / "events.jsonl").write_text("")
    check_settings(tmp_path, resume=False, workers=1, checkpoint_s=0.0)
    (tmp_path / "mine.txt").write_text("somebody's")
    with pytest.raises(InputError, match=r"must be a new or empty folder, got something else"):
        check_settings(tmp_path, resume=False, workers=1, checkpoint_s=0.0)


@pytest.mark.parametrize("name", SAME)
def test_damaged_files_of_a_run_get_a_sentence(whole: Path, tmp_path: Path, name: str) -> None:
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_bytes((whole / name).read_bytes()[:50])
    with pytest.raises(InputError, match=name):
        train(job(), tmp_path, resume=True)


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run"), pytest.raises(InputError, match="another process"):
        train(job(), tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", '{"initial": {}, "kpis": {"count": true}, "status": "running"}'),
        ("run.json", "[]"),
        ("rounds.parquet", None),
        ("last.safetensors", None),
    ],
)
def test_files_of_another_kind_get_a_sentence(whole: Path, tmp_path: Path, name: str, content: str | None) -> None:
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if content is not None:
        (tmp_path / name).write_text(content)
    elif name == "rounds.parquet":
        pq.write_table(pq.read_table(whole / name).drop_columns(["loss"]), tmp_path / name)
    else:
        state = json.dumps({"rounds": 3, "rejections": {}})
        save_file({"v": np.zeros(3, np.float32)}, tmp_path / name, metadata={"mobfl": state})
    with pytest.raises(InputError, match=name):
        train(job(), tmp_path, resume=True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"wall_s": "long"}'])
def test_a_damaged_timing_file_stops_nobody(whole: Path, tmp_path: Path, content: str) -> None:
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "timing.json").write_text(content)
    assert len(train(job(), tmp_path, resume=True)) == 50


def test_a_run_resumes_on_the_same_traffic_only(tmp_path: Path) -> None:
    from dataclasses import replace

    from mobfl import Crossings

    enter = np.arange(60) * 5.0
    one = replace(job(), crossings=Crossings(np.arange(60), enter, enter + 20.0), trace="t.csv")
    other = replace(one, crossings=Crossings(np.arange(60), enter, enter + 19.0))
    train(one, tmp_path / "run")
    with pytest.raises(InputError, match=r"trace.fingerprint must be as in the run to be resumed"):
        train(other, tmp_path / "run", resume=True)


def test_a_run_that_died_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    run = json.loads((whole / "run.json").read_text()) | {"status": "running"}
    (tmp_path / "run.json").write_text(json.dumps(run))
    train(job(), tmp_path, resume=True)
    assert_same_bytes(whole, tmp_path)


def test_a_plan_of_the_planner_is_a_plan(tmp_path: Path) -> None:
    from mobfl import plan

    best = plan(ROAD)
    history = train(Job(CountingTask(), ROAD, best), tmp_path / "run")
    assert set(history.columns["local_steps"]) == {24}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["plan"]["objective"] == best.objective


@pytest.mark.parametrize("plan", [(3.5, 6.0), (0, 6.0), (3, -6.0), (3, float("nan"))])
def test_a_plan_must_be_one(tmp_path: Path, plan: tuple[int, float]) -> None:
    with pytest.raises(InputError, match="plan must have a whole H >= 1 and T > 0"):
        train(Job(CountingTask(), ROAD, plan), tmp_path / "run")


def test_a_job_without_a_round_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training.duration_s must be at least one round of 6 s, got 5"):
        train(job(**{"training.duration_s": 5.0}), tmp_path / "run")
    with pytest.raises(InputError, match=r"training.samples_per_vehicle must be <= the 50 training samples, got 64"):
        train(job(**{"training.samples_per_vehicle": 64}), tmp_path / "run")
    with pytest.raises(InputError, match=r"seed must be >= 0, got -1"):
        train(Job(CountingTask(), ROAD, PLAN, -1), tmp_path / "run")
    assert not list(tmp_path.iterdir())
