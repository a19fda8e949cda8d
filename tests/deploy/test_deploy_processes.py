"""Deployment with real processes on loopback: nodes that die, lie and dawdle, and a server that is killed.

Events are judged by what happened, not by when: machines that run tests are slow and busy.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from deployed_road import deployment
from loopback import Loopback, loopback
from mobfl import Crossings, Scenario, load_scenario, read_history
from mobfl.deploy.events import read_events
from mobfl.deploy.local.deployment import deploy_locally
from mobfl.deploy.local.fleet import visits_of
from mobfl.deploy.local.processes import carrying
from mobfl.deploy.settings import Deployment
from mobfl.deploy.vehicle.trainer import Trainer
from mobfl.learning.rules import merge, rule_named
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.mobility.recorded import write_crossings
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.job import training_site
from mobfl.theory import Delays
from places import TESTS

# Delays next to nothing: vehicles answer as soon as they can.
ROAD = Scenario.from_dict(
    {
        "link": {"download_s": 0.001, "upload_s": 0.001},
        "compute": {"min_step_s": 0.001, "extra_step_s": 0.0},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 80.0},
    }
)

PATHS = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])  # where the task is found


def replayed(settings: Deployment) -> Weights:
    """The model that the uploads in the events make, averaged round by round without any server."""
    trainer = Trainer.of(settings)
    model, uploaded = trainer.reference, defaultdict[int, list[Any]](list)
    for event in read_events(Path(settings.out)):
        if event["kind"] == "uploaded":
            uploaded[event["round"]].append(event)
    for _, events in sorted(uploaded.items()):
        uploads = list[Upload]()
        for event in events:
            wish = {"vehicle": event["vehicle"], "attempt": event["attempt"], "local_steps": 10, "learning_rate": 0.1}
            told, upload = trainer.answer(wish, model)
            uploads.append(Upload(trainer.turns.codec.decode(upload, model), told["samples"]))
        _, model, _ = merge(rule_named("mean"), {}, model, uploads)
    return model


SMALL = {
    "training.samples_per_vehicle": [20, 40],
    "training.batch_size": 8,
    "training.duration_s": 48.0,
    "training.loss_scale": "sample",
}


def assert_right_model(settings: Deployment) -> None:
    np.testing.assert_allclose(
        load_file(Path(settings.out) / "last.safetensors")["w"], replayed(settings)["w"], rtol=1e-6
    )


LIES = {
    "nan": {"w": np.array([np.nan], np.float32)},
    "shape": {"w": np.ones(2, np.float32)},
    "names": {"v": np.ones(1, np.float32)},
    "large": {"w": np.ones(1000, np.float32)},
}
KILLED = ("dies downloading", "dies training", "dies uploading")
GOOD = ("good", "better", "best")


def test_a_road_full_of_trouble(tmp_path: Path) -> None:
    """Eleven vehicles join in the same second. All but three are trouble, and only their own uploads are lost."""
    machines: list[Loopback] = []
    dead = threading.Event()

    def say(vehicle: str, told: dict[str, Any], weights: Weights) -> tuple[dict[str, Any], Weights]:
        if vehicle == KILLED[0]:
            dead.wait(120)  # on quiet cores it would answer before anybody could kill it
        elif vehicle == "dies training":
            machines[0].kill(vehicle)
        elif vehicle == "dies uploading":
            threading.Timer(0.2, machines[0].kill, [vehicle]).start()
        elif vehicle == "dawdles":
            time.sleep(120)
        elif vehicle == "garbage":
            told = {"samples": "many", "delay_s": 0.0}
        return told, LIES.get(vehicle, weights)

    settings = deployment(ROAD, tmp_path / "run", "10,40", scale=1.0)
    with loopback(settings, tmp_path, say) as road:
        machines.append(road)
        road.start_server(lead_s=0.0)
        road.until("the first round begins", lambda: road.count("started"))
        everybody = (*GOOD, *LIES, *KILLED, "dawdles", "garbage")
        for vehicle in everybody:
            road.fleet.let_out(vehicle)
        road.until("one of them is there", lambda: road.count("began", node=road.node_of(KILLED[0]) or "nobody"))
        road.kill(KILLED[0])
        dead.set()
        road.until("two rounds end", lambda: road.count("ended") == 2)
        road.until("the run is done", lambda: json.loads((road.out / "run.json").read_text())["status"] == "done")
        nodes = {road.node_of(vehicle): vehicle for vehicle in everybody}
    events = read_events(tmp_path / "run")
    happened = defaultdict[str, list[str]](list)
    for event in events:
        if "node" in event:
            happened[nodes[event["node"]]].append(event["kind"])
    assert set(happened) == set(everybody)  # every node is in the rows
    for vehicle in GOOD:
        assert happened[vehicle].count("uploaded") == 2, happened
    reasons = {nodes[event["node"]]: event["reason"] for event in events if event["kind"] == "rejected"}
    assert reasons == {"nan": "not finite", "shape": "wrong shape", "names": "another model", "large": "too large"}
    for vehicle in KILLED[:2]:
        assert "uploaded" not in happened[vehicle]
    assert "failed" in happened["garbage"]
    assert "uploaded" not in happened["dawdles"]
    rejected = read_history(tmp_path / "run").columns["rejected"]
    assert rejected.tolist() == [sum(e["kind"] == "rejected" and e["round"] == k for e in events) for k in (0, 1)]
    assert_right_model(settings)


@pytest.mark.slow
def test_a_server_that_is_killed_in_every_stage_goes_on(tmp_path: Path) -> None:
    """While vehicles download, train, after their uploads, after averaging; at last the whole SuperLink."""
    asked = threading.Event()

    def say(_: str, told: dict[str, Any], weights: Weights) -> tuple[dict[str, Any], Weights]:
        asked.set()
        return told, weights

    road_s = ROAD.with_values({"training.duration_s": 60.0})
    settings = deployment(road_s, tmp_path / "run", "10,20", scale=1.0)
    with loopback(settings, tmp_path, say) as road:
        for vehicle in ("one", "two"):
            road.fleet.let_out(vehicle)
        road.until("both are registered", lambda: road.node_of("one") and road.node_of("two"))
        stages = {
            "downloading": lambda: road.count("began") >= 1,
            "training": asked.is_set,
            "uploaded": lambda: road.count("uploaded") >= 1,
            "averaged": lambda: road.count("ended") >= 1,
        }
        for number, (stage, reached) in enumerate(stages.items(), 1):
            road.start_server(lead_s=0.0)
            road.until("the server starts", lambda number=number: road.count("started") == number)
            asked.clear()
            road.until(stage, reached)
            road.kill_server()
        road.kill_superlink()
        road.start_superlink()
        road.start_server(lead_s=0.0)
        road.until("the run is done", lambda: json.loads((road.out / "run.json").read_text())["status"] == "done")
        told = list(road.see())
    starts = [number for number, event in enumerate(told) if event["kind"] == "started"]
    assert len(starts) == 5
    for number in starts:  # a round that was not averaged begins again, one that was does not
        assert told[number]["round"] == sum(event["kind"] == "ended" for event in told[:number])
    assert [event["round"] for event in read_events(tmp_path / "run") if event["kind"] == "ended"] == [0, 1, 2]
    assert read_history(tmp_path / "run").columns["uploads"].sum() >= 4
    assert_right_model(settings)


@pytest.mark.slow
def test_on_the_same_crossings_the_same_vehicles_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who uploads in which round is as in simulation, but for events nearer to their deadline than the jitter."""
    monkeypatch.setenv("PYTHONPATH", PATHS)
    road, scale, (h, t) = load_scenario("paper").with_values(SMALL), 3.0, (10, 12.0)
    enter = np.array([-20.0, -3.0, 1.0, 6.5, 9.0, 17.0, 22.0, 30.0, 33.5, 49.0])
    crossings = Crossings(np.array(list("abcdefghij")), enter, enter + 20.0)  # all of it is known from 0 to 49 s
    write_crossings(crossings, tmp_path / "crossings.parquet")
    settings = deployment(road, tmp_path / "run", f"{h},{t}", scale=scale, trace=str(tmp_path / "crossings.parquet"))
    site = training_site(road, settings.seed, crossings)
    visits, left_out = visits_of(site, most=9)
    assert left_out == 0
    deploy_locally(settings, visits, workers=1)

    until_s = site.start_s + site.duration_s
    blocks = simulate_rounds(
        site.traffic, FixedPlan(h, t), Delays.of(road), settings.seed, start_s=site.start_s, until_s=until_s
    )
    rounds = joined(list(blocks))
    rows, transfer_s = rounds.vehicles, road.link.download_s + road.link.upload_s
    assert rows is not None
    vehicle = [str(rows.names[i]) for i in rows.vehicle]  # type: ignore[index]
    done_s = rows.begin_s + transfer_s + rows.compute_s
    landed_s = {(e["round"], e["vehicle"]): e["at_s"] for e in read_events(tmp_path / "run") if e["kind"] == "uploaded"}
    pairs = list(zip(rows.round.tolist(), vehicle, done_s.tolist(), rows.end_s.tolist(), strict=True))
    last = int(read_history(tmp_path / "run").columns["round"][-1])
    pairs = [pair for pair in pairs if pair[0] <= last]
    jitter_s = max(abs(landed_s[number, name] - done) for number, name, done, _ in pairs if (number, name) in landed_s)
    clear = [pair for pair in pairs if abs(pair[3] - pair[2]) > jitter_s]
    assert len(clear) > len(pairs) / 2, f"a jitter of {jitter_s:.2f} s on the road leaves too little to compare"
    assert {pair[:2]: pair[:2] in landed_s for pair in clear} == {pair[:2]: pair[2] <= pair[3] for pair in clear}
    assert_right_model(settings)


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)),
        signal.SIGKILL,
    ],
)
def test_nothing_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    mark = f"MOBFL_MARK_{uuid.uuid4().hex}"
    command = [
        sys.executable, "-m", "mobfl", "deploy", "--local", "--task", "deployed_road:counting_task", "--scale", "1",
        "--set", "training.samples_per_vehicle=40", "--set", "training.batch_size=8",
        "--set", "traffic.arrivals_per_s=0.2", "--plan", "10,8", "--vehicles", "3", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, mark: "1", "PYTHONPATH": PATHS, "TMPDIR": str(tmp_path / "temporary")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 240
        while not any(event["kind"] == "ended" for event in read_events(tmp_path / "run")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert len(carrying(mark)) > 5  # SuperLink, its helpers, the server, the trainer, the garage, vehicles
        if number == signal.SIGKILL:  # nor do helpers of SuperLink that hang
            for each in carrying(mark):
                if b"--runtime-api-address" in Path(f"/proc/{each}/cmdline").read_bytes():
                    os.kill(each, signal.SIGSTOP)
        process.send_signal(number)
        process.wait(30)
        deadline = time.monotonic() + 15
        while carrying(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert carrying(mark) == []
    finally:
        for each in carrying(mark):
            os.kill(each, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"
        assert list((tmp_path / "temporary").iterdir()) == []
