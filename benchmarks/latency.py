"""How long messages take, with Flower's own node as it is (`flower-supernode`) and with `mobfl vehicle`.

Started by `python benchmarks/deploy.py --messages 100`; all is real, on this machine and without encryption. Also two
Flower apps that SuperLink starts: `latency:app` measures messages, `latency:hasty_station` is the base station as it
was with Flower's own nodes, which looked for nodes as often as for answers.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import tomli_w
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.superlink.grid import http_grid

from mobfl import Scenario
from mobfl.deploy.events import Event, read_events
from mobfl.deploy.flower_app import write_app, write_connection
from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import flower_command, flower_environment, listens, submit
from mobfl.deploy.messages import TrainingOrder, order_message, pack_model
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station import round_loop, server_app

STOCK, OURS = "flower-supernode", "mobfl vehicle"
PARAMETERS = 7462  # as many as the smaller Lidar2D has
_PATIENCE_S, _POLL_S, _BLOCK = 60.0, 0.05, 25
_JOINED = r"(?:SuperNode ID:|as node) (\d+)"

# ---- the app at the base station that measures round trips -----------------------------------------------------------

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Messages without work to the one node that is there, at random moments; how long each took, into a file.

    Parts of an answer that are not there yet are asked for again after a second, as Flower does it, or sooner.
    """
    again_s = float(context.run_config["again_s"])
    http_grid.pull_objects = partial(pull_objects, initial_backoff=again_s)  # type: ignore[attr-defined]
    count, out, draw = int(context.run_config["count"]), Path(str(context.run_config["out"])), random.Random(1)
    packed, took_s = pack_model({"w": np.ones(PARAMETERS, np.float32)}), list[float]()
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(_POLL_S)
    for number in range(count + 1):  # Flower's node gets the app with the first one
        took_s.append(_round_trip_s(grid, nodes[0], str(context.run_id), number, packed))
        time.sleep(draw.uniform(0.0, 3.0))
    out.with_suffix(".part").write_text(json.dumps(took_s[1:]))
    out.with_suffix(".part").rename(out)


def _round_trip_s(grid: Grid, node: int, run: str, number: int, packed: object) -> float:
    began, now = time.monotonic(), time.time()
    order = TrainingOrder(run, number, 0, 0, 1.0, now, now + _PATIENCE_S)
    ids = list(grid.push_messages([order_message(node, packed, order, _PATIENCE_S)]))  # type: ignore[arg-type]
    while True:
        for answer in grid.pull_messages(ids):
            assert answer.has_content(), answer.error  # a node that fails is not fast
            assert answer.content.array_records["model"]["weights"].data, "the model must come back"
            return time.monotonic() - began
        assert time.monotonic() - began < _PATIENCE_S
        time.sleep(_POLL_S)


hasty_station = ServerApp()


@hasty_station.main()
def hasty_main(grid: Grid, context: Context) -> None:
    assert round_loop.NODES_S > round_loop.POLL_S, "the base station must look for nodes less often by itself"
    round_loop.NODES_S = 0.0
    server_app.app(grid, context)


# ---- machines --------------------------------------------------------------------------------------------------------


@dataclass
class Machines:
    """A SuperLink, and vehicles of either kind."""

    folder: Path
    port: int = field(default_factory=processes.free_port)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        write_connection(self.folder / "flower", f"127.0.0.1:{self.port}")
        self.environment = flower_environment(self.folder / "flower")
        here = str(Path(__file__).parent)
        self.environment["PYTHONPATH"] = os.pathsep.join([here, self.environment.get("PYTHONPATH", "")])
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        self.superlink = self.start("superlink", flower_command("flower-superlink"), "--insecure", *address)
        until(lambda: listens(self.port))

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        self.running.append(processes.start(command, self.environment, self.folder / f"{name}.log"))
        return self.running[-1]

    def trainer(self, app: Path) -> None:
        words = ("trainer", str(app), "--socket", str(self.folder / "trainer"), "--workers", "1")
        self.start("trainer", sys.executable, "-m", "mobfl", *words)
        until((self.folder / "trainer").exists, 300.0)

    def vehicle(self, kind: str, name: str) -> subprocess.Popen[bytes]:
        """As the guide says to start it; returns when the SuperLink has it."""
        link, trainer = f"127.0.0.1:{self.port}", self.folder / "trainer"
        if kind == STOCK:
            config = ("--node-config", f'vehicle="{name}" trainer="{trainer}"', "--port", str(processes.free_port()))
            words = [flower_command("flower-supernode"), *config]
        else:
            words = [sys.executable, "-m", "mobfl", "vehicle", "--name", name, "--trainer", str(trainer)]
        started, log = self.start(name, *words, "--insecure", "--superlink", link), self.folder / f"{name}.log"
        until(lambda: re.search(_JOINED, log.read_text(errors="replace")))
        return started

    def end(self, *which: subprocess.Popen[bytes]) -> None:
        processes.end(list(which))
        self.running = [each for each in self.running if each not in which]

    def superlink_cpu_s(self) -> float:
        return _cpu_s(self.superlink.pid)


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def machines() -> Iterator[Machines]:
    with tempfile.TemporaryDirectory(prefix="mobfl-benchmark-") as folder:
        there = Machines(Path(folder))
        try:
            yield there
        finally:
            processes.end(there.running)
            processes.kill_carrying(f"FLWR_HOME={folder}")


def until(happened: Callable[[], object], patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


# ---- round trips -----------------------------------------------------------------------------------------------------


def round_trips(count: int) -> dict[str, list[float]]:
    """So many of each kind, in blocks that alternate; every block has a vehicle and a run of its own."""
    took_s: dict[str, list[float]] = {STOCK: [], OURS: []}
    with machines() as there:
        for block in range(-(-count // _BLOCK)):
            for kind in (STOCK, OURS):
                some = min(_BLOCK, count - block * _BLOCK)
                took_s[kind] += _block(there, kind, block, some)
    assert {len(each) for each in took_s.values()} == {count}
    return took_s


def _block(there: Machines, kind: str, block: int, count: int) -> list[float]:
    name = f"{kind.split('-')[0].replace(' ', '-')}-{block}"
    folder, out = there.folder / f"app-{name}", there.folder / f"{name}.json"
    folder.mkdir()
    components = {"serverapp": "latency:app", "clientapp": "mobfl.deploy.vehicle.client_app:app"}
    config = {"count": count, "out": str(out), "again_s": 1.0 if kind == STOCK else 0.05}
    told = {"publisher": "mobfl", "components": components, "config": config}
    project = {"name": "latency", "version": "1.0.0", "license": "Apache-2.0", "description": "", "dependencies": []}
    (folder / "pyproject.toml").write_text(tomli_w.dumps({"project": project, "tool": {"flwr": {"app": told}}}))
    vehicle = there.vehicle(kind, name)
    submit(folder, there.environment)
    until(out.exists, 120.0 + 30.0 * count)
    there.end(vehicle)
    return list(json.loads(out.read_text()))


# ---- rounds ----------------------------------------------------------------------------------------------------------


def _road(round_s: float, duration_s: float, out: Path) -> Deployment:
    road = Scenario.from_dict(
        {
            "link": {"download_s": 0.001, "upload_s": 0.001},
            "compute": {"min_step_s": 0.001, "extra_step_s": 0.0},
            "training": {"duration_s": duration_s, "samples_per_vehicle": 64, "batch_size": 64},
        }
    )
    return Deployment(road.to_dict(), str(out), plan=f"1,{round_s:g}", scale=1.0, impose=True)


@contextmanager
def _rounds(kind: str, round_s: float, duration_s: float) -> Iterator[tuple[Machines, Callable[[], list[Event]]]]:
    """Machines with a trainer whose base station has begun its first round, and what is seen of it."""
    with machines() as there:
        out = there.folder / "run"
        write_app(there.folder / "app", _road(round_s, duration_s, out))
        if kind == STOCK:
            project = there.folder / "app" / "pyproject.toml"
            project.write_text(
                project.read_text().replace("mobfl.deploy.station.server_app:app", "latency:hasty_station")
            )
        there.trainer(there.folder / "app")
        submit(there.folder / "app", there.environment)
        until(lambda: any(event["kind"] == "started" for event in read_events(out)), 300.0)
        yield there, lambda: read_events(out)


def superlink_cpu(kind: str, nodes: int, round_s: float = 20.0, rounds: int = 3) -> float:
    """Seconds of processor time that the SuperLink takes in a minute of rounds in which all these nodes upload."""
    with _rounds(kind, round_s, 1000 * round_s) as (there, events):
        for number in range(nodes):
            there.vehicle(kind, f"v{number}")
        begun = len([event for event in events() if event["kind"] == "ended"])
        until(lambda: _ended(events) > begun, 3 * round_s)
        before_s, began = there.superlink_cpu_s(), time.monotonic()
        until(lambda: _ended(events) > begun + rounds, (rounds + 2) * round_s)
        spent_s, lasted_s = there.superlink_cpu_s() - before_s, time.monotonic() - began
        uploads = [event["uploads"] for event in events() if event["kind"] == "ended"][begun + 1 :]
        assert nodes == 0 or min(uploads[:rounds]) >= nodes / 2, f"of {nodes} nodes uploaded only {uploads}"
    return spent_s / lasted_s * 60.0


def _ended(events: Callable[[], list[Event]]) -> int:
    return sum(event["kind"] == "ended" for event in events())


def least_round_s(kind: str, candidates_s: list[float], stay_s: float = 20.0, visits: int = 4) -> float:
    """The shortest of these T in which each of a few vehicles, there for so long one after the other, uploads."""
    for round_s in candidates_s:
        if _all_take_part(kind, round_s, stay_s, visits):
            return round_s
    return float("nan")


def _all_take_part(kind: str, round_s: float, stay_s: float, visits: int) -> bool:
    with _rounds(kind, round_s, 10_000.0) as (there, events):
        for number in range(visits):
            vehicle = there.vehicle(kind, f"v{number}")  # whose stay begins when the SuperLink has it
            time.sleep(stay_s)
            vehicle.send_signal(signal.SIGTERM)
            vehicle.wait(30)
            there.end(vehicle)
        uploaded = {event["vehicle"] for event in events() if event["kind"] == "uploaded"}
    print(f"{kind}, T = {round_s:g} s: {len(uploaded)} of {visits} uploaded", file=sys.stderr, flush=True)
    return len(uploaded) == visits


# ---- the table -------------------------------------------------------------------------------------------------------


def tell(count: int, nodes: list[int], candidates_s: list[float]) -> None:
    """All of it, as rows for the guide, each as soon as it is known."""
    print(f"| | `{STOCK}` | `{OURS}` |\n|---|---|---|", flush=True)
    if count:
        took_s = round_trips(count)
        told = [f"{np.median(took_s[kind]):.2f} s, {max(took_s[kind]):.2f} s" for kind in (STOCK, OURS)]
        _row(f"round trip of a message without work, {count} messages: median, longest", told)
    if candidates_s:
        told = [f"{least_round_s(kind, candidates_s):g} s" for kind in (STOCK, OURS)]
        _row("least T in which vehicles that stay 20 s take part", told)
    for n in nodes:
        told = [f"{superlink_cpu(kind, n) / n:.2f} s" for kind in (STOCK, OURS)]
        _row(f"SuperLink's processor time per node and minute, {n} nodes, rounds of 20 s", told)
    if nodes:
        told = [f"{superlink_cpu(kind, 0):.2f} s" for kind in (STOCK, OURS)]
        _row("its processor time per minute without any node", told)


def _row(name: str, told: list[str]) -> None:
    print(f"| {name} | {told[0]} | {told[1]} |", flush=True)
