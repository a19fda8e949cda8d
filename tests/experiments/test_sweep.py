"""Sweeps: what a TOML asks for, and that nothing that stops a sweep changes its bytes."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from command import mobfl
from mobfl.errors import InputError
from mobfl.experiments.folder import RUNS, STOP, read_sweep
from mobfl.experiments.runs import find_runs
from mobfl.experiments.sweep import name_runs, run_sweep, states, stays_left_out
from mobfl.experiments.sweep_file import Sweep, joined, load_sweep, packaged_sweeps, sweep_from_dict
from mobfl.runs import sources
from mobfl.runs.folder import locked
from mobfl.runs.training import train
from places import ROOT
from small_sweep import SMALL, as_toml, small_block

PATIENCE_S = 1800.0  # a sweep takes long on busy cores


def block(**values: Any) -> dict[str, Any]:
    return {"runs": [small_block(**{"plans": ["3,5.0"]} | values)]}


def same_bytes(one: Path, other: Path) -> None:
    files, others = (
        {file.relative_to(out): file.read_bytes() for file in (out / RUNS).rglob("*") if file.is_file()}
        for out in (one, other)
    )
    assert files.keys() == others.keys()
    assert [name for name in files if name.name != "timing.json" and files[name] != others[name]] == []


# ---- what is asked for ------------------------------------------------------------------------------


def test_a_block_is_the_product_of_its_lists_and_seeds_vary_slowest() -> None:
    asked = block(
        plans=["mobfl"],
        local_steps=[3, 6],
        round_s=[4, 6.5],
        seeds=[7, 8],
        vary={"training.learning_rate": [0.1, 0.2]},
    )
    requests = sweep_from_dict(asked).requests
    assert len(requests) == 2 * 2 * 5
    assert [request.seed for request in requests] == [7] * 10 + [8] * 10
    assert [request.plan for request in requests[:5]] == ["mobfl", "3,4.0", "3,6.5", "6,4.0", "6,6.5"]
    assert {request.scenario.training.learning_rate for request in requests[:5]} == {0.1}
    assert requests[0].label == "mobfl, training.learning_rate=0.1"
    assert requests[0].scenario.training.duration_s == 40


def test_plans_of_a_grid_in_which_nobody_could_upload_are_left_out_and_counted() -> None:
    sweep = sweep_from_dict(block(plans=[], local_steps=[5, 50], round_s=[4.0, 20.0]))
    assert [request.plan for request in sweep.requests] == ["5,4.0", "5,20.0", "50,20.0"]
    assert sweep.hopeless == 1
    two_links = block(
        plans=["5,4.0"], local_steps=[50], round_s=[4.0], vary={"link.upload_s": [1.0, 1.5]}, seeds=[1, 2]
    )
    assert sweep_from_dict(two_links).hopeless == 2


def test_what_two_blocks_ask_for_is_asked_once() -> None:
    twice = {"runs": block()["runs"] * 2}
    assert len(sweep_from_dict(twice).requests) == 1


def test_a_city_may_be_swept_over_when_its_cloud_averages(tmp_path: Path) -> None:
    asked = block(scenarios=["corridor"], plans=["3,5.0"], vary={"cloud.every_rounds": [1, 3]})
    run_sweep(sweep_from_dict(asked), tmp_path)
    runs, broken = find_runs(tmp_path)
    assert not broken
    assert len({planned.name for planned in name_runs(sweep_from_dict(asked))}) == len(runs) == 2
    averages = {run.scenario.cloud.every_rounds: len(run.history.of_station("cloud")) for run in runs}
    assert averages == {1: 7, 3: 2}  # of eight rounds; the last average is there only after the training has ended


def test_long_stays_are_left_out_of_a_trace_and_counted(tmp_path: Path) -> None:
    rows = [f"{i},{10 * i},{10 * i + (900 if i % 10 == 0 else 20)}" for i in range(100)]
    (tmp_path / "trace.csv").write_text("\n".join(["vehicle,enter_s,leave_s", *rows]))
    sweep = sweep_from_dict(block(trace=str(tmp_path / "trace.csv"), longest_stay_s=60, plans=["5,4", "5,8"]))
    (told,) = stays_left_out(sweep)
    assert told.endswith("trace.csv: 10 of 100 stays are longer than 60 s and left out")
    assert stays_left_out(sweep_from_dict(block())) == []


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "sweep: runs"),
        ({"runs": []}, "sweep: runs"),
        (block(plans=[]), "must have plans, entries or a grid"),
        (block(local_steps=[3]), "both local_steps and round_s, got no round_s"),
        (block(seed=[3]), "did you mean seeds?"),
        (block(seeds=[]), "sweep: runs.0.seeds"),
        (block(vary={"training.learning_rate": []}), "got none for training.learning_rate"),
        (block(set={"training.learning_rat": 1}), "did you mean training.learning_rate?"),
        (block(scenarios=["nowhere"]), "scenario 'nowhere' must be a file"),
        (block(section="edge:1"), "section must come with a trace, got 'edge:1' alone"),
        (block(longest_stay_s=60), "longest_stay_s must come with a trace, got 60 alone"),
        (block(plans=[], local_steps=[80], round_s=[5.0]), "in which a vehicle can upload in time, got 1 without"),
    ],
)
def test_a_wrong_sweep_is_told_what_is_wrong(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("?", r"\?").replace(".", r"\.")):
        sweep_from_dict(asked)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (block(tasks=["nothing"]), "task must be one of"),
        (block(options={"modell": 1}), "did you mean model"),
        (block(plans=["x,y"]), "plan"),
        (block(seeds=[-1]), "seed must be >= 0"),
        (block(data="nothere.npz"), "nothere"),
        (block(plans=["90,best"]), "beams, plan 90,best, seed 0: no plan is possible: H = 90"),
        (block(plans=["fedbuff"]), "beams, plan fedbuff, seed 0: training.duration_s must be"),
        (block(options={"model": date(2026, 1, 1)}), "model must be one of"),
    ],
)
def test_what_only_the_task_knows_is_told_before_anything_runs(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        name_runs(sweep_from_dict(asked))


def test_packaged_sweeps_are_sound() -> None:
    for name in packaged_sweeps():
        sweep = load_sweep(name, generated=True)
        assert sweep.requests
        assert sweep.title
        assert all(request.data is None for request in sweep.requests)
    assert len(joined([load_sweep("quick"), load_sweep("quick")]).requests) == 2 * len(load_sweep("quick").requests)


def test_data_are_looked_for_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "set.npz").touch()
    found = sweep_from_dict(block(data="set.npz"), data=tmp_path).requests[0].data
    assert found == tmp_path / "set.npz"
    assert sweep_from_dict(block(data="set.npz"), data=tmp_path, generated=True).requests[0].data is None


# ---- names ------------------------------------------------------------------------------------------


def test_a_name_changes_with_whatever_the_result_depends_on_and_with_nothing_else() -> None:
    def name(**values: Any) -> str:
        return name_runs(sweep_from_dict(block(**values)))[0].name

    base = name()
    others = [
        name(plans=["3,5.5"]),
        name(seeds=[1]),
        name(set=small_block()["set"] | {"training.learning_rate": 0.2}),
        name(set=small_block()["set"] | {"traffic.arrivals_per_s": 0.2}),
        name(options=SMALL["options"] | {"data_seed": 1}),
    ]
    assert len({base, *others}) == 6
    assert name(study="another", label="another") == base
    assert name(plans=["3,5"]) == name(plans=["3.0,5.000"]) == base
    assert name(plans=["fedasync"]) == name(plans=["fedasync:best"])


# ---- running ----------------------------------------------------------------------------------------


def test_finished_runs_are_not_repeated_and_a_changed_setting_runs_again(tmp_path: Path) -> None:
    sweep = sweep_from_dict(block(seeds=[0, 1]))
    runs = name_runs(sweep)
    assert {state.status for state in states(tmp_path, runs).values()} == {"waiting"}
    came = run_sweep(sweep, tmp_path, runs=runs)
    assert [(state.status, state.share) for state in came.values()] == [("done", 1.0)] * 2
    files = {run.name: (tmp_path / RUNS / run.name / "rounds.parquet").stat().st_mtime_ns for run in runs}
    longer = sweep_from_dict(block(seeds=[0, 1, 2]))
    run_sweep(longer, tmp_path)
    assert len(list((tmp_path / RUNS).iterdir())) == 3
    for name, written in files.items():
        assert (tmp_path / RUNS / name / "rounds.parquet").stat().st_mtime_ns == written
    assert [entry.label for entry in read_sweep(tmp_path).entries] == ["3,5.0"] * 3


def test_runs_of_another_state_of_the_code_are_not_taken_for_this_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, notices = sweep_from_dict(block()), list[str]()
    with monkeypatch.context() as before:
        before.setattr(sources, "code", lambda: "0123456789ab")
        (old,) = run_sweep(sweep, tmp_path, notice=notices.append)
        run_sweep(sweep, tmp_path, notice=notices.append)
    assert notices == []
    files = {file: file.read_bytes() for file in (tmp_path / RUNS / old).iterdir()}
    (new,) = run_sweep(sweep, tmp_path, notice=notices.append)
    assert new != old
    (told,) = notices
    assert f"1 run in {tmp_path / RUNS} was made by another state of mobfl's code" in told
    assert {file: file.read_bytes() for file in (tmp_path / RUNS / old).iterdir()} == files
    runs, _ = find_runs(tmp_path)
    assert {run.name: run.code for run in runs} == {old: "0123456789ab", new: sources.code()}
    assert len({run.identity for run in runs}) == 2  # so that they are not two seeds of one setting
    shown = mobfl("results", str(tmp_path), cwd=tmp_path).stdout
    assert "code" in shown
    assert "0123456789ab" in shown
    shutil.rmtree(tmp_path / RUNS / old)
    assert "code" not in mobfl("results", str(tmp_path), cwd=tmp_path).stdout


def test_a_failing_run_is_recorded_the_others_go_on_and_the_next_sweep_tries_it_again(tmp_path: Path) -> None:
    sweep = sweep_from_dict(block(seeds=[0, 1]))
    runs = name_runs(sweep)
    broken = tmp_path / RUNS / runs[0].name
    broken.mkdir(parents=True)
    (broken / "something.else").touch()
    came = run_sweep(sweep, tmp_path, runs=runs)
    assert [state.status for state in came.values()] == ["failed", "done"]
    assert "must be a new or empty folder" in str(came[runs[0].name].reason)
    (broken / "something.else").unlink()
    assert {state.status for state in run_sweep(sweep, tmp_path, runs=runs).values()} == {"done"}


def test_a_run_that_somebody_else_trains_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mobfl.experiments.sweep._is_free_soon.__defaults__", (0.1,))
    sweep = sweep_from_dict(block(seeds=[0, 1]))
    runs = name_runs(sweep)
    (tmp_path / RUNS / runs[0].name).mkdir(parents=True)
    with locked(tmp_path / RUNS / runs[0].name):
        came = run_sweep(sweep, tmp_path, runs=runs)
    assert [state.status for state in came.values()] == ["waiting", "done"]


def test_odd_run_files_do_not_disturb_the_watcher(tmp_path: Path) -> None:
    runs = name_runs(sweep_from_dict(block()))
    for content in ("{", "[]", '{"status": "sleeping"}', '{"status": "running", "results": [1]}'):
        (tmp_path / RUNS / runs[0].name).mkdir(parents=True, exist_ok=True)
        (tmp_path / RUNS / runs[0].name / "run.json").write_text(content)
        assert states(tmp_path, runs)[runs[0].name].status in ("waiting", "interrupted")


def test_workers_do_not_change_the_bytes_and_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    sweep = sweep_from_dict(block(seeds=[0, 1, 2]))
    seen = list[str]()

    def watch(came: Any) -> None:
        seen.extend(state.status for state in came.values())
        with pytest.raises(InputError, match="must not be in use"):
            run_sweep(sweep, tmp_path / "two")

    run_sweep(sweep, tmp_path / "one")
    run_sweep(sweep, tmp_path / "two", workers=2, progress=watch)
    assert "done" in seen
    same_bytes(tmp_path / "one", tmp_path / "two")


# ---- what stops a sweep -----------------------------------------------------------------------------


class Killable:
    """The sweep as a process of its own."""

    def __init__(self, folder: Path, duration_s: int = 200) -> None:
        self.file = folder / "sweep.toml"
        plans = {"plans": ["mobfl"], "local_steps": [3, 6], "round_s": [4.0, 6.0], "seeds": [0, 1]}
        self.file.write_text(as_toml(small_block(duration_s, **plans)))
        self.command = [sys.executable, "-m", "mobfl", "sweep", str(self.file), "--workers", "2", "--checkpoint", "0"]

    def start(self, out: Path) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*self.command, "--out", str(out)], start_new_session=True)

    def finish(self, out: Path) -> None:
        assert self.start(out).wait(timeout=PATIENCE_S) == 0


def workers_of(sweep: "subprocess.Popen[bytes]") -> list[int]:
    found = list[int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            command = (process / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue
        if parent == sweep.pid and b"loky" in command and b"resource_tracker" not in command:
            found.append(int(process.name))
    return found


def wait_for_rows(out: Path, sweep: "subprocess.Popen[bytes]") -> None:
    """Until some run that is not finished has a checkpoint."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends and sweep.poll() is None:
        for file in out.glob(f"{RUNS}/*/run.json"):
            if json.loads(file.read_text())["status"] == "running" and (file.parent / "last.safetensors").exists():
                return
        time.sleep(0.02)


def stop_at_random(killable: Killable, out: Path, draw: random.Random, worker: bool) -> bool:
    """Whether there was still something to stop."""
    sweep = killable.start(out)
    wait_for_rows(out, sweep)
    time.sleep(draw.uniform(0, 0.5))
    if worker and (workers := workers_of(sweep)):
        os.kill(draw.choice(workers), signal.SIGKILL)
        time.sleep(draw.uniform(0, 1.5))
    running = sweep.poll() is None
    sweep.kill()
    sweep.wait()
    return running


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Killable, Path]:
    folder = tmp_path_factory.mktemp("sweep")
    killable = Killable(folder)
    killable.finish(folder / "whole")
    return killable, folder / "whole"


def test_kill_9_of_the_sweep_and_of_a_worker_leaves_the_same_bytes(
    undisturbed: tuple[Killable, Path], tmp_path: Path
) -> None:
    killable, whole = undisturbed
    for seed, worker in enumerate((False, True)):
        stop_at_random(killable, tmp_path, random.Random(seed), worker)
    killable.finish(tmp_path)
    same_bytes(whole, tmp_path)


def test_a_sweep_survives_a_worker_that_dies(undisturbed: tuple[Killable, Path], tmp_path: Path) -> None:
    killable, whole = undisturbed
    sweep = killable.start(tmp_path)
    wait_for_rows(tmp_path, sweep)
    victims = workers_of(sweep)
    assert victims
    os.kill(victims[0], signal.SIGKILL)
    assert sweep.wait(timeout=PATIENCE_S) == 0
    same_bytes(whole, tmp_path)


def test_a_run_that_kills_its_workers_is_recorded_and_harms_no_other(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, mobfl.experiments.sweep as sweep\n"
        "real = sweep.train\n"
        "def train(job, *args, **settings):\n"
        "    return os.kill(os.getpid(), 9) if job.seed == 1 else real(job, *args, **settings)\n"
        "sweep.train = train\n"
    )
    file = tmp_path / "sweep.toml"
    file.write_text(as_toml(small_block(plans=["mobfl", "3,4.0", "3,6.0"], seeds=[0, 1, 2])))
    command = [
        sys.executable,
        "-m",
        "mobfl",
        "sweep",
        str(file),
        "--workers",
        "2",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    came = json.loads(done.stdout)
    assert done.returncode == 1
    assert [run["status"] for run in came] == ["done"] * 3 + ["failed"] * 3 + ["done"] * 3
    assert all("its worker died 3 times" in run["reason"] for run in came[3:6])


def assert_gone(processes: list[int]) -> None:
    """A worker looks twice a second whether its sweep is still there."""
    ends = time.monotonic() + 20
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < ends
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("number", "everybody"),
    [
        (signal.SIGTERM, False),
        pytest.param(signal.SIGINT, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_every_run_and_the_same_command_goes_on(
    undisturbed: tuple[Killable, Path], tmp_path: Path, number: signal.Signals, everybody: bool
) -> None:
    """Slurm and a terminal signal the workers too, docker the sweep alone."""
    killable, whole = undisturbed
    killable.command[-1] = "30"  # no checkpoint but that of the signal
    sweep = killable.start(tmp_path)
    wait_for_rows(tmp_path, sweep)
    workers = workers_of(sweep)
    time.sleep(0.3)
    (os.killpg if everybody else os.kill)(sweep.pid, number)
    assert sweep.wait(timeout=PATIENCE_S) == 130
    stored = [json.loads(file.read_text()) for file in tmp_path.glob(f"{RUNS}/*/run.json")]
    assert "interrupted" in {run["status"] for run in stored} <= {"interrupted", "done"}
    assert any(run["results"]["rounds"] for run in stored if run["status"] == "interrupted")
    assert_gone(workers)
    assert not (tmp_path / STOP).exists()
    killable.command[-1] = "0"
    killable.finish(tmp_path)
    same_bytes(whole, tmp_path)


def wait_for_handlers(process: "subprocess.Popen[str]") -> None:
    """Until mobfl's first line has run: what Python itself does with a signal before that is not ours."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends and process.poll() is None:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        if int(status.get("SigCgt", "0"), 16) >> (signal.SIGHUP - 1) & 1:  # the last that mobfl takes
            return
        time.sleep(0.005)
    raise AssertionError("mobfl never began to catch signals")


HOW_FAR = re.compile(r"preparing the runs|training \d+ runs|\d+ of \d+: \S+ |\d+ runs? under way")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after_s", [0.5, 2.5, *(pytest.param(each, marks=pytest.mark.slow) for each in (1.5, 3.5))])
def test_a_signal_while_a_sweep_starts_is_no_traceback(
    undisturbed: tuple[Killable, Path], tmp_path: Path, number: signal.Signals, after_s: float
) -> None:
    """Also where it meets workers that still import."""
    killable, _ = undisturbed
    command = [*killable.command, "--out", str(tmp_path)]
    sweep = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    wait_for_handlers(sweep)
    time.sleep(after_s)
    os.killpg(sweep.pid, number)
    _, said = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode in (130, 0)
    assert [line for line in said.splitlines() if line and not HOW_FAR.match(line)] == []


@pytest.mark.slow
def test_fifty_kills_leave_the_same_bytes(tmp_path: Path) -> None:
    """At random, of the sweep or of a worker; together with fifty of a training these are a hundred."""
    killable = Killable(tmp_path, duration_s=6000)
    killable.finish(tmp_path / "whole")
    kills = sum(stop_at_random(killable, tmp_path / "cut", random.Random(k), worker=k % 2 == 1) for k in range(50))
    assert kills >= 45  # the last may come when all is done
    killable.finish(tmp_path / "cut")
    same_bytes(tmp_path / "whole", tmp_path / "cut")
    assert list((tmp_path / "cut" / RUNS).glob("*.damaged-*")) == []  # a kill damages nothing


@pytest.mark.slow
def test_a_ray_cluster_gives_the_same_bytes(
    undisturbed: tuple[Killable, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    killable, whole = undisturbed
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else its workers starve on a busy machine
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=None)
    try:
        address = ray.get_runtime_context().gcs_address
        command = [*killable.command, "--ray", address, "--out", str(tmp_path)]
        assert subprocess.run(command, timeout=PATIENCE_S, check=False).returncode == 0
    finally:
        ray.shutdown()
    same_bytes(whole, tmp_path)


# ---- damage -----------------------------------------------------------------------------------------

DAMAGES = {
    "an empty run.json": lambda run: (run / "run.json").write_bytes(b""),
    "no run.json": lambda run: (run / "run.json").unlink(),
    "another seed": lambda run: (run / "run.json").write_text(
        (run / "run.json").read_text().replace('"seed": 0', '"seed": 9')
    ),
    "a cut last": lambda run: os.truncate(run / "last.safetensors", 500),
    "no last": lambda run: (run / "last.safetensors").unlink(),
    "cut rounds": lambda run: os.truncate(run / "rounds.parquet", 500),
    "no best": lambda run: (run / "best.safetensors").unlink(),
    "a folder named rounds.parquet": lambda run: [
        (run / "rounds.parquet").unlink(),
        (run / "rounds.parquet").mkdir(),
    ],
    "a FIFO named run.json": lambda run: [(run / "run.json").unlink(), os.mkfifo(run / "run.json")],
    "a file instead of the folder": lambda run: [shutil.rmtree(run), run.write_text("no run")],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    run_sweep(sweep_from_dict(block(seeds=[0, 1])), out)
    return out


def interrupt_after(rounds: int, sweep: Sweep, out: Path) -> None:
    """The first run; the second has not begun."""
    rows = list[Any]()

    def stopped(*given: Any, **more: Any) -> Any:
        return train(*given, **more | {"progress": rows.append, "stop": lambda: len(rows) == rounds})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mobfl.experiments.sweep.train", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(sweep, out)


QUICK = ("an empty run.json", "a cut last", "cut rounds", "a file instead of the folder")


@pytest.mark.parametrize(
    "damage", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in DAMAGES]
)
@pytest.mark.parametrize("done", [True, False])
def test_a_damaged_run_is_set_aside_and_computed_again(finished: Path, tmp_path: Path, damage: str, done: bool) -> None:
    sweep, out = sweep_from_dict(block(seeds=[0, 1])), tmp_path / "out"
    names = [run.name for run in name_runs(sweep)]
    if done:
        shutil.copytree(finished, out)
    else:
        interrupt_after(3, sweep, out)
    DAMAGES[damage](out / RUNS / names[0])
    notices = list[str]()
    came = run_sweep(sweep, out, notice=notices.append)
    assert {state.status for state in came.values()} == {"done"}
    for name in names:
        for file in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
            assert (out / RUNS / name / file).read_bytes() == (finished / RUNS / name / file).read_bytes(), file
    healed = not done and damage in ("an empty run.json", "no run.json", "another seed", "cut rounds", "no best")
    healed |= not done and damage == "a FIFO named run.json"
    aside = [] if healed else [f"{names[0]}.damaged-1"]
    assert [place.name for place in (out / RUNS).glob("*.damaged-?")] == aside
    assert [line.startswith(f"{name} was set aside") for name, line in zip(aside, notices, strict=True)] == [
        True
    ] * len(aside)
    assert [run.name for run in find_runs(out)[0]] == sorted(names)
    assert find_runs(out)[1] == []
    assert run_sweep(sweep, out, notice=notices.append) == came
    assert len(notices) == len(aside)
