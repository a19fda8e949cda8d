"""A deployment on one machine: a SuperLink, a trainer, and a SuperNode for every vehicle for as long as it crosses."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mobfl.deploy.flower_app import CONNECTION, ENVIRONMENT, write_app, write_connection
from mobfl.deploy.local import processes
from mobfl.deploy.local.board import Board, EventTail
from mobfl.deploy.local.fleet import Fleet, Visit
from mobfl.deploy.settings import Deployment
from mobfl.errors import MobflError
from mobfl.interrupts import handled, interrupt, undisturbed
from mobfl.runs import folder as run_folder

LEAD_S = 4.0  # from when the server is ready to the first round: time to let those in who are there then
_LOOK_S = 0.02
_PATIENCE_S = 300.0  # the first start may compile
_PROBE = "probe"


class DeploymentError(MobflError):
    """Something that was started has ended by itself."""


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
                raise DeploymentError(last_words(name, self.logs / f"{name}.log"))


def deploy_locally(
    deployment: Deployment,
    visits: list[Visit],
    workers: int,
    watch: Callable[[Board], None] = lambda _: None,
) -> None:
    """Runs the deployment to its end in real processes; Ctrl-C, SIGTERM, SIGHUP end them all, and it can be resumed."""
    out = Path(deployment.out).absolute()
    run_folder.make(out)
    deployment = replace(deployment, out=str(out), lead_s=LEAD_S)
    tail, board = EventTail(out), Board()

    def say(stage: str) -> None:
        board.stage = stage
        watch(board)

    with handled(interrupt), tempfile.TemporaryDirectory(prefix="mobfl-") as folder:
        try:
            with _started(deployment, visits, workers, Path(folder), out / "logs", say) as started:
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
def _started(
    deployment: Deployment,
    visits: list[Visit],
    workers: int,
    folder: Path,
    logs: Path,
    say: Callable[[str], None],
) -> Iterator[_Started]:
    say("starting SuperLink, trainer and garage")
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
        garage = start("garage", sys.executable, "-m", "mobfl.deploy.local.garage", stdin=subprocess.PIPE)
        address = ("--host", "127.0.0.1", "--port", str(port))
        link = start("superlink", sys.executable, "-m", "mobfl.deploy.superlink", "--insecure", *address)
        words = ("trainer", str(app), "--socket", str(trainer_socket), "--workers", str(workers))
        trainer = start("trainer", sys.executable, "-m", "mobfl", *words)
        fleet = Fleet(visits, superlink, trainer_socket, logs, garage)
        started = _Started(link, trainer, garage, fleet, logs)
        say("waiting until they are ready, which takes longer where something is compiled")
        _wait_for(started, lambda: listens(port) and trainer_socket.exists())
        if deployment.measures:
            fleet.let_out(_PROBE)
        say("handing the app to the SuperLink")
        submit(app, environment)
        say("waiting for the server, which loads the task and its data")
        yield started
    finally:
        with undisturbed():  # a second Ctrl-C does not leave processes behind
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


def listens(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=0.2).close()
    except OSError:
        return False
    return True


def last_words(name: str, log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"the {name} has ended by itself: {lines[-1] if lines else 'without a word'} (see {log})"


def _mark_interrupted(out: Path) -> None:
    """The server was ended between two checkpoints and could not say so itself."""
    if run_folder.read_status(out).status in ("running", "interrupted"):
        run_folder.write_run(out, run_folder.read_run(out) | {"status": "interrupted"})
