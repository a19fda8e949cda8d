"""SIGTERM and SIGHUP are Ctrl-C: what was computed is saved, the status is 130, and nobody sees a traceback."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_task import CountingTask
from mobfl import Job, find_runs, train
from mobfl.app.runs import RunsFolder
from mobfl.runs.folder import locked, read_status
from mobfl.runs.history import Row
from page_server import page_server
from places import ROOT, TESTS
from stories import BUSY

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
each_signal = pytest.mark.parametrize("number", SIGNALS)
# The others go the same way, and are tried with the marathons.
one_signal = pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.slow) for each in SIGNALS if each != signal.SIGTERM)],
)
PATIENCE_S = 600.0  # with processes on busy cores
FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")
TRAINING = (
    "train", "signal_task:interrupted", "--plan", "10,6", "--set", "training.samples_per_vehicle=40",
    "--set", "training.batch_size=8", "--set", "training.duration_s=600", "--set", "traffic.arrivals_per_s=0.3",
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "temporary").mkdir()
    return tmp_path


def started(place: Path, *arguments: str, paths: tuple[Path, ...] = (), **settings: Any) -> "subprocess.Popen[str]":
    path = os.pathsep.join(str(each) for each in (*paths, TESTS, ROOT / "src"))
    places = {"TMPDIR": str(place / "temporary"), "MOBFL_TEST_DIARY": str(place / "diary")}
    environment = os.environ | {"PYTHONPATH": path, **places, **settings.pop("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    return subprocess.Popen([sys.executable, "-m", "mobfl", *arguments], env=environment, **pipes)


def wait_for(there: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    ends = time.monotonic() + PATIENCE_S
    while not there():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < ends
        time.sleep(0.02)


def wait_until_it_has_passed(what: str, times: int, process: "subprocess.Popen[str]", place: Path) -> None:
    diary = place / "diary"
    wait_for(lambda: diary.exists() and diary.read_text().count(what) >= times, process)


def assert_ended_well(process: "subprocess.Popen[str]", place: Path) -> None:
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said.strip()) == (130, "")
    assert list((place / "temporary").iterdir()) == []


def stored(out: Path) -> Any:
    return json.loads((out / "run.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nobody interrupted."""
    place = tmp_path_factory.mktemp("undisturbed")
    started(place, *TRAINING, "--option", "step_s=0.02", "--out", str(place / "run")).communicate(timeout=PATIENCE_S)
    assert stored(place / "run")["status"] == "done"
    return place / "run"


@each_signal
def test_a_training_is_saved_and_resumes_to_the_same_bytes(place: Path, number: signal.Signals, whole: Path) -> None:
    process = started(place, *TRAINING, "--option", "step_s=0.02", "--out", str(place / "run"))
    wait_until_it_has_passed("evaluating", 3, process, place)  # at the start, and after two rounds
    process.send_signal(number)
    assert_ended_well(process, place)
    assert stored(place / "run")["status"] == "interrupted"
    assert stored(place / "run")["results"]["rounds"] > 0  # of which no checkpoint knew
    again = started(place, *TRAINING, "--option", "step_s=0.02", "--out", str(place / "run"), "--resume")
    again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0
    for name in FILES:
        assert (place / "run" / name).read_bytes() == (whole / name).read_bytes(), name


IMPORTING = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["click", "numpy", "pydantic", "mobfl.cli.training", "pyarrow", "mobfl.runs.loop"])
@one_signal
def test_while_it_imports(place: Path, number: signal.Signals, module: str) -> None:
    """From mobfl's own first line on; before that Python itself starts."""
    (place / "sitecustomize.py").write_text(IMPORTING.format(module=module, number=int(number)))
    process = started(place, *TRAINING, "--out", str(place / "run"), paths=(place,))
    assert_ended_well(process, place)
    assert not (place / "run").exists()


@pytest.mark.parametrize("at", ["building", "evaluating", "training"])
@one_signal
def test_before_the_first_round_there_is_nothing_to_wait_for(place: Path, number: signal.Signals, at: str) -> None:
    process = started(place, *TRAINING, "--out", str(place / "run"), env={"MOBFL_TEST_SIGNAL": f"{at}:{number}"})
    assert_ended_well(process, place)
    if at == "training":
        assert (stored(place / "run")["status"], stored(place / "run")["results"]["rounds"]) == ("interrupted", 0)
    more = ("--resume",) if at == "training" else ()  # else nothing had begun
    again = started(place, *TRAINING, "--out", str(place / "run"), *more)
    again.communicate(timeout=PATIENCE_S)
    assert (again.returncode, stored(place / "run")["status"]) == (0, "done")


def test_a_second_signal_does_not_wait_for_the_round(place: Path) -> None:
    process = started(place, *TRAINING, "--option", "step_s=1000.0", "--workers", "2", "--out", str(place / "run"))
    wait_until_it_has_passed("training", 1, process, place)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    process.send_signal(signal.SIGHUP)
    assert_ended_well(process, place)


def test_a_signal_after_pythons_handlers_are_gone_changes_nothing() -> None:
    """They go before modules do: on busy cores a second signal came then, and killed."""
    program = (
        "import os, signal, mobfl.cli as cli\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid()):\n"
        "        kill(pid, 1)\n"
        "late, cli._status = Late(), lambda: cli.INTERRUPTED\n"
        "cli.main()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S, check=False).returncode == 130


RETURNING = """
import mobfl.cli

def main(**_):
    raise SystemError("a compiled function returned a result with an exception set") from KeyboardInterrupt()
mobfl.cli.cli.main = main
mobfl.cli.main()
"""


def test_a_signal_as_a_compiled_function_returns() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([sys.executable, "-c", RETURNING], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_nohup_stays_deaf_to_a_closed_terminal(place: Path) -> None:
    def ignoring() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = started(
        place, *TRAINING, "--option", "step_s=0.01", "--out", str(place / "run"), preexec_fn=ignoring
    )  # fmt: skip
    wait_for((place / "run" / "last.safetensors").exists, process)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stored(place / "run")["status"]) == (0, "done")


def test_a_terminal_that_is_closed(place: Path) -> None:
    """Its progress bar can no longer be drawn, and what is said goes nowhere."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm", "PYTHONPATH": os.pathsep.join([str(TESTS), str(ROOT / "src")])}

    def in_a_terminal() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = started(
        place, *TRAINING, "--option", "step_s=0.02", "--out", str(place / "run"), env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=in_a_terminal,
    )  # fmt: skip
    os.close(theirs)
    wait_until_it_has_passed("evaluating", 3, process, place)
    shown = b""
    while not (b"starting" in shown or b"round" in shown):  # at its end, reading would raise
        shown += os.read(ours, 1 << 16)
    os.close(ours)
    assert process.wait(timeout=PATIENCE_S) == 130
    assert stored(place / "run")["status"] == "interrupted"
    assert stored(place / "run")["results"]["rounds"] > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_page_ends_too(number: signal.Signals) -> None:
    with page_server() as server:
        server.process.send_signal(number)
        assert server.process.wait(timeout=20) == 130
        assert server.process.stderr is not None
        assert server.process.stderr.read().strip() == ""


def test_handlers_of_ones_own_are_left_alone(tmp_path: Path) -> None:
    heard = list[int]()

    def mine(number: int, _: object) -> None:
        heard.append(number)

    def send(row: Row) -> None:
        if row["round"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, mine)
    try:
        train(Job(CountingTask(), BUSY, (10, 6.0)), tmp_path / "run", progress=send)
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (signal.getsignal(signal.SIGHUP), before) == (signal.SIG_DFL, signal.SIG_DFL)
    assert stored(tmp_path / "run")["status"] == "done"


def test_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    rows = list[Row]()
    with pytest.raises(KeyboardInterrupt):
        train(Job(CountingTask(), BUSY, (10, 6.0)), tmp_path / "run", progress=rows.append, stop=lambda: len(rows) == 4)
    assert (stored(tmp_path / "run")["status"], stored(tmp_path / "run")["results"]["rounds"]) == ("interrupted", 4)


def test_a_run_that_was_killed_is_shown_as_interrupted(place: Path) -> None:
    out = place / "runs" / "run"
    process = started(place, *TRAINING, "--option", "step_s=0.05", "--out", str(out))
    wait_for((out / "last.safetensors").exists, process)
    page = RunsFolder(place / "runs")

    def statuses() -> list[str]:
        return [
            read_status(out).status,
            find_runs(place / "runs")[0][0].row()["status"],
            page.look()["run"].row["status"],
        ]

    assert statuses() == ["running"] * 3
    process.kill()
    process.communicate()
    assert stored(out)["status"] == "running"
    assert statuses() == ["interrupted"] * 3


def test_who_asks_whether_a_run_is_in_use_does_not_stop_one_that_begins(tmp_path: Path) -> None:
    import threading

    def ask() -> None:
        while not over.is_set():
            read_status(tmp_path)

    (tmp_path / "run.json").write_text('{"status": "running"}')
    over = threading.Event()
    asking = [threading.Thread(target=ask) for _ in range(2)]
    for each in asking:
        each.start()
    try:
        for _ in range(50):
            with locked(tmp_path):
                pass
    finally:
        over.set()
        for each in asking:
            each.join()


@pytest.mark.slow
def test_fifty_kills_of_a_training_leave_the_same_bytes(place: Path) -> None:
    """At random moments, in the middle of checkpoints too: there is one after every round."""
    draw = random.Random(0)
    training = (*TRAINING, "--option", "step_s=0.01", "--set", "training.duration_s=3000", "--checkpoint", "0")
    whole = started(place, *training, "--out", str(place / "whole"))
    whole.communicate(timeout=PATIENCE_S)
    kills = 0
    while kills < 50:
        more = ("--resume",) if (place / "run" / "run.json").exists() else ()
        process = started(place, *training, "--out", str(place / "run"), *more)
        for _ in range(draw.randrange(1, 8)):  # checkpoints: the first is that with which it goes on
            before = stamp(place / "run")
            while process.poll() is None and stamp(place / "run") == before:
                time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.05))
        if process.poll() is not None:
            break  # it was done before all kills
        process.send_signal(draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        process.communicate(timeout=PATIENCE_S)
        kills += 1
    assert kills >= 45
    process = started(place, *training, "--out", str(place / "run"), "--resume")
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    for name in FILES:
        assert (place / "run" / name).read_bytes() == (place / "whole" / name).read_bytes(), name


def stamp(out: Path) -> int | None:
    last = out / "last.safetensors"
    return last.stat().st_mtime_ns if last.exists() else None
