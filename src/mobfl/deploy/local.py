"""A deployment on one machine: a SuperLink, a trainer, and a SuperNode for every vehicle for as long as it crosses."""

import heapq
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mobfl import run_folder
from mobfl.deploy import processes
from mobfl.deploy.board import Board, EventTail
from mobfl.deploy.clock import WallClock
from mobfl.deploy.flower_app import CONNECTION, ENVIRONMENT, write_app, write_connection
from mobfl.deploy.settings import Deployment
from mobfl.errors import MobflError
from mobfl.servers.site import Site

LEAD_S = 4.0  # from when the server is ready to the first round: time to let those in who are there then
_START_S = 0.4  # from letting a vehicle out to when the server sees it
_LOOK_S = 0.02
_PATIENCE_S = 300.0  # the first start may compile
_PROBE = "probe"
_ODD = r"[^A-Za-z0-9]"


class DeploymentError(MobflError):
    """Something that was started has ended by itself."""


@dataclass(frozen=True, order=True)
class Visit:
    """One vehicle on the road, on the traffic's clock."""

    enter_s: float
    leave_s: float
    name: str
    key: int


def visits_of(site: Site, most: int) -> tuple[list[Visit], int]:
    """Who comes during the training, and how many cannot take part since `most` are there already."""
    end_s, visits, left_out = site.start_s + site.duration_s, list[Visit](), 0
    leaving, seen = list[float](), Counter[str]()  # when those leave who are there, and names so far
    for block in site.traffic:
        columns = zip(block.vehicle, block.keys.tolist(), block.enter_s.tolist(), block.leave_s.tolist(), strict=True)
        for vehicle, key, enter_s, leave_s in columns:
            if enter_s >= end_s:
                return visits, left_out
            if leave_s <= site.start_s:
                continue
            while leaving and leaving[0] <= enter_s:
                heapq.heappop(leaving)
            if len(leaving) == most:
                left_out += 1
                continue
            heapq.heappush(leaving, leave_s)
            visits.append(Visit(enter_s, leave_s, _name(str(vehicle), seen), key))
    return visits, left_out


def _name(vehicle: str, seen: Counter[str]) -> str:
    """Fit for files and Flower's configuration, and another one on every visit."""
    name = re.sub(_ODD, "_", vehicle)[:40]
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}.{seen[name]}"


class Fleet:
    """Lets vehicles out of the garage as they enter, and takes them off the road as they leave."""

    def __init__(self, visits: list[Visit], superlink: str, trainer: Path, logs: Path, garage: subprocess.Popen[bytes]):
        self._coming, self._there = sorted(visits, reverse=True), list[tuple[float, str]]()
        self._superlink, self._trainer, self._logs, self._garage = superlink, trainer, logs, garage

    def move(self, clock: WallClock) -> None:
        """To where everybody is by now; who has gone by while nobody looked is not let out."""
        now_s, start_s = clock.now_s(), _START_S / clock.scale
        while self._coming and self._coming[-1].enter_s - start_s <= now_s:
            visit = self._coming.pop()
            if visit.leave_s > now_s:
                self.let_out(visit.name, str(visit.key))
                heapq.heappush(self._there, (visit.leave_s, visit.name))
        while self._there and self._there[0][0] <= now_s:
            self.take_off(heapq.heappop(self._there)[1])

    def let_out(self, name: str, key: str = "") -> None:
        """A stock SuperNode, with the arguments that a person would give it."""
        config, port = f'vehicle="{name}" key="{key}" trainer="{self._trainer}"', str(processes.free_port())
        arguments = ["--insecure", "--superlink", self._superlink, "--port", port, "--node-config", config]
        log = str(self._logs / f"vehicle-{name}.log")
        self._tell({"start": name, "arguments": arguments, "runtime": f"127.0.0.1:{port}", "log": log})

    def take_off(self, name: str, number: int = signal.SIGTERM) -> None:
        self._tell({"signal": int(number), "vehicle": name})

    def _tell(self, order: dict[str, object]) -> None:
        if self._garage.stdin is None:
            raise ValueError("the garage takes its orders from a pipe")
        processes.write_line(self._garage.stdin, json.dumps(order))


@dataclass(frozen=True)
class _Started:
    """What runs beside the vehicles."""

    superlink: subprocess.Popen[bytes]
    trainer: subprocess.Popen[bytes]
    garage: subprocess.Popen[bytes]
    fleet: Fleet
    logs: Path

    def check(self) -> None:
        for name in ("superlink", "trainer", "garage"):
            if getattr(self, name).poll() is not None:
                raise DeploymentError(_last_words(name, self.logs / f"{name}.log"))


def deploy_locally(
    deployment: Deployment,
    visits: list[Visit],
    workers: int,
    watch: Callable[[Board], None] = lambda _: None,
) -> None:
    """Runs the deployment to its end in real processes; Ctrl-C and SIGTERM end them all, and it can be resumed."""
    out = Path(deployment.out).absolute()
    run_folder.make(out)
    deployment = replace(deployment, out=str(out), lead_s=LEAD_S)
    tail, board = EventTail(out), Board()
    with _interrupted_by_sigterm(), tempfile.TemporaryDirectory(prefix="mobfl-") as folder:
        try:
            with _started(deployment, visits, workers, Path(folder), out / "logs") as started:
                _follow(started, out, tail, board, watch)
        except KeyboardInterrupt:
            _mark_interrupted(out)
            raise


def _follow(started: _Started, out: Path, tail: EventTail, board: Board, watch: Callable[[Board], None]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not _finished(board, out):
        for event in tail.new():
            board.add(event)
            if event["kind"] == "measured":
                started.fleet.take_off(_PROBE)
        if board.clock is not None:
            started.fleet.move(board.clock)
        elif time.monotonic() > until:
            raise DeploymentError(f"the server did not begin within {_PATIENCE_S:g} s: see {started.logs}")
        started.check()
        watch(board)
        time.sleep(_LOOK_S)


def _finished(board: Board, out: Path) -> bool:
    """Raises if the server ended without having finished."""
    if board.reason is not None:
        raise DeploymentError(f"the server broke: {board.reason}")
    if board.clock is None or run_folder.is_locked(out):
        return False
    if run_folder.read_status(out).status != "done":
        raise DeploymentError(f"the server has ended by itself: --resume goes on with {out}")
    return True


@contextmanager
def _started(deployment: Deployment, visits: list[Visit], workers: int, folder: Path, logs: Path) -> Iterator[_Started]:
    logs.mkdir(exist_ok=True)
    app, home, trainer_socket = folder / "app", folder / "flower", folder / "trainer"
    write_app(app, deployment)
    port = processes.free_port()
    superlink = f"127.0.0.1:{port}"
    write_connection(home, superlink)
    environment = flower_environment(home)
    running = list[subprocess.Popen[bytes]]()

    def start(name: str, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        running.append(processes.start(command, environment, logs / f"{name}.log", stdin))
        return running[-1]

    try:
        garage = start("garage", sys.executable, "-m", "mobfl.deploy.garage", stdin=subprocess.PIPE)
        address = ("--host", "127.0.0.1", "--port", str(port))
        link = start("superlink", flower_command("flower-superlink"), "--insecure", *address)
        words = ("trainer", str(app), "--socket", str(trainer_socket), "--workers", str(workers))
        trainer = start("trainer", sys.executable, "-m", "mobfl", *words)
        fleet = Fleet(visits, superlink, trainer_socket, logs, garage)
        started = _Started(link, trainer, garage, fleet, logs)
        _wait_for(started, lambda: listens(port) and trainer_socket.exists())
        if deployment.measures:
            fleet.let_out(_PROBE)
        submit(app, environment)
        yield started
    finally:
        with _undisturbed():
            processes.end(running)
            processes.kill_carrying(f"FLWR_HOME={home}")  # SuperLink detaches what it starts


def submit(app: Path, environment: dict[str, str]) -> None:
    """`flwr run`, which hands the app to the SuperLink."""
    command = [flower_command("flwr"), "run", str(app), CONNECTION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeploymentError(f"flwr run failed: {(done.stderr or done.stdout).strip()[-500:]}")


def flower_environment(home: Path) -> dict[str, str]:
    """Flower's commands start one another by name, so they must be found where this Python is."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(home), "PATH": path}


def flower_command(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _wait_for(started: _Started, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not ready():
        started.check()
        if time.monotonic() > until:
            raise DeploymentError(f"SuperLink or trainer were not ready within {_PATIENCE_S:g} s: see {started.logs}")
        time.sleep(_LOOK_S)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _last_words(name: str, log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"the {name} has ended by itself: {lines[-1] if lines else 'without a word'} (see {log})"


def _mark_interrupted(out: Path) -> None:
    """The server was ended between two checkpoints and could not say so itself."""
    if run_folder.read_status(out).status == "running":
        run_folder.write_run(out, run_folder.read_run(out) | {"status": "interrupted"})


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not leave processes behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
