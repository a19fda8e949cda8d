"""Deployments that are killed at any moment go on: no row lost or doubled, and the model is what the uploads make."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_deploy_processes import PATHS, ROAD, assert_right_model
from test_deployed_rounds import ROAD as STORY_ROAD
from test_deployed_rounds import SCALE, deployed

from deployed_road import deployment
from loopback import loopback
from mobfl import read_history
from mobfl.deploy.events import EVENTS, read_events
from mobfl.deploy.local.processes import carrying

KNOWN = ("round", "start_s", "end_s", "local_steps", "present", "uploads", "rejected")


def killed_server(out: Path, plan: str, after: int | None = None, wait_s: float = 0.0) -> bool:
    """A server in a process of its own, over a grid of its own, which is killed after a while; whether it was.

    It is killed so long after it has added so many lines to its log, however busy the machine is.
    """
    resume, before = (out / "run.json").exists(), _lines(out)
    child = os.fork()
    if not child:
        status = 1
        try:
            deployed(deployment(STORY_ROAD, out, plan, scale=SCALE, resume=resume))
            status = 0
        finally:
            os._exit(status)
    while after is None or _lines(out) < before + after:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return False
        time.sleep(0.002)
    time.sleep(wait_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def assert_goes_on(folder: Path, plan: str, kills: int, seed: int) -> None:
    """To the same rows and the same bytes as if nothing had happened."""
    deployed(deployment(STORY_ROAD, folder / "whole", plan, scale=SCALE))
    lines, draw = _lines(folder / "whole"), random.Random(seed)
    for _ in range(kills):
        assert killed_server(folder / "killed", plan, draw.randrange(lines // kills), draw.uniform(0.0, 0.03))
    assert not killed_server(folder / "killed", plan)
    whole, killed = (read_history(folder / out).columns for out in ("whole", "killed"))
    for column in KNOWN:
        assert killed[column].tolist() == whole[column].tolist(), column
    bytes_of = [(folder / out / "last.safetensors").read_bytes() for out in ("whole", "killed")]
    assert bytes_of[0] == bytes_of[1]
    ended = [event["round"] for event in read_events(folder / "killed") if event["kind"] == "ended"]
    assert ended == whole["round"].tolist()


def _lines(run: Path) -> int:
    file = run / EVENTS
    return file.read_bytes().count(b"\n") if file.exists() else 0


def _status(run: Path) -> str:
    return str(json.loads((run / "run.json").read_text())["status"])


def test_a_server_that_is_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    assert_goes_on(tmp_path, "10,6", kills=4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("plan", "seed"), [("10,6", 2), ("adaptive:every_s=20,evidence=2", 3)])
def test_a_server_that_is_killed_ten_times_goes_on(tmp_path: Path, plan: str, seed: int) -> None:
    assert_goes_on(tmp_path, plan, kills=10, seed=seed)


@pytest.mark.slow
def test_server_apps_and_superlinks_that_are_killed_at_random_go_on(tmp_path: Path) -> None:
    """Real processes: four server apps and two SuperLinks, each after some seconds, in any order."""
    draw, starts = random.Random(5), 0
    settings = deployment(ROAD.with_values({"training.duration_s": 120.0}), tmp_path / "run", "10,15", scale=1.0)
    with loopback(settings, tmp_path) as road:
        for vehicle in ("one", "two"):
            road.fleet.let_out(vehicle)
        road.until("both are registered", lambda: road.node_of("one") and road.node_of("two"))
        for victim in draw.sample(["server"] * 4 + ["superlink"] * 2, 6):
            starts += 1
            road.start_server(lead_s=0.0)
            road.until("the server starts", lambda starts=starts: road.count("started") >= starts)
            time.sleep(draw.uniform(0.0, 20.0))
            if victim == "superlink":
                road.kill_superlink()
                road.start_superlink()
            else:
                road.kill_server()
        road.start_server(lead_s=0.0)
        road.until("the run is done", lambda: _status(road.out) == "done", patience_s=600.0)
    rounds = [event["round"] for event in read_events(tmp_path / "run") if event["kind"] == "ended"]
    assert rounds == list(range(8)) == read_history(tmp_path / "run").columns["round"].tolist()
    assert_right_model(settings)


@pytest.mark.slow
def test_a_command_that_is_killed_at_random_goes_on(tmp_path: Path) -> None:
    """`mobfl deploy --local`, killed four times; nothing outlives it, and with --resume it comes to its end."""
    draw, mark = random.Random(7), f"MOBFL_KILLED={tmp_path}"
    command = [
        sys.executable, "-m", "mobfl", "deploy", "--local", "--task", "deployed_road:counting_task", "--scale", "1",
        "--set", "training.samples_per_vehicle=40", "--set", "training.batch_size=8",
        "--set", "training.duration_s=80", "--plan", "5,8", "--vehicles", "2", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    name, value = mark.split("=")
    environment = {**os.environ, name: value, "PYTHONPATH": PATHS}
    for _ in range(4):
        words = [*command, "--resume"] if (tmp_path / "run" / "run.json").exists() else command
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(draw.uniform(5.0, 60.0))
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while carrying(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert carrying(mark) == []
    resume = ["--resume"] if (tmp_path / "run" / "run.json").exists() else []
    subprocess.run([*command, *resume], env=environment, check=True, capture_output=True, timeout=900)
    rounds = [event["round"] for event in read_events(tmp_path / "run") if event["kind"] == "ended"]
    assert rounds == list(range(10)) == read_history(tmp_path / "run").columns["round"].tolist()
