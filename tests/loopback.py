"""A SuperLink, vehicles and their trainer on this machine, for tests with real processes; bounded in time."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mobfl.deploy.events import Event
from mobfl.deploy.flower_app import write_app, write_connection
from mobfl.deploy.local import processes
from mobfl.deploy.local.board import EventTail
from mobfl.deploy.local.deployment import flower_command, flower_environment, listens, submit
from mobfl.deploy.local.fleet import Fleet
from mobfl.deploy.settings import Deployment
from mobfl.deploy.vehicle.trainer import Trainer, TrainerServer
from mobfl.learning.weights import Weights

# How a vehicle answers, by its name: of what the trainer would have said, what it says instead.
Answers = Callable[[str, dict[str, Any], Weights], tuple[dict[str, Any], Weights]]


class LateError(AssertionError):
    """Something did not happen within its time."""


class Loopback:
    """What a test can do to the machines, and what it sees of them."""

    remembers = True  # whether the SuperLink has a database

    def __init__(self, deployment: Deployment, folder: Path, say: Answers) -> None:
        self.deployment, self.out, self._folder = deployment, Path(deployment.out), folder
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.out.mkdir(exist_ok=True)
        self.port = processes.free_port()
        write_connection(folder / "flower", f"127.0.0.1:{self.port}")
        here = str(Path(__file__).parent)
        self.environment = flower_environment(folder / "flower")
        self.environment["PYTHONPATH"] = os.pathsep.join([here, self.environment.get("PYTHONPATH", "")])
        self._running = list[subprocess.Popen[bytes]]()
        self._tail, self.events = EventTail(self.out), list[Event]()
        self._starts = 0
        garage = self._start("garage", sys.executable, "-m", "mobfl.deploy.local.garage", stdin=subprocess.PIPE)
        self.fleet = Fleet([], f"127.0.0.1:{self.port}", folder / "trainer", self.logs, garage)
        self.trainer = _Telling(Trainer.of(deployment), folder / "trainer", say)
        threading.Thread(target=self.trainer.serve_forever, daemon=True).start()
        self.start_superlink()

    def _start(self, name: str, *command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        self._running.append(processes.start(command, self.environment, self.logs / f"{name}.log", stdin))
        return self._running[-1]

    def start_superlink(self) -> None:
        """With a database, so that it knows its nodes again when it was killed."""
        command = [flower_command("flower-superlink"), "--insecure", "--host", "127.0.0.1", "--port", str(self.port)]
        database = ["--database", str(self._folder / "superlink.db")] if self.remembers else []
        self.superlink = self._start("superlink", *command, *database)
        self.until("the SuperLink listens", lambda: listens(self.port))

    def start_server(self, **changed: Any) -> None:
        self._starts += 1
        app = self._folder / f"app-{self._starts}"
        write_app(app, replace(self.deployment, resume=self._starts > 1, **changed))
        submit(app, self.environment)

    def kill_server(self) -> None:
        """The app alone: SuperLink and vehicles stay."""
        for process in self._apps("flwr-serverapp"):
            os.kill(process, signal.SIGKILL)

    def kill_superlink(self) -> None:
        """And all that it has started."""
        os.killpg(self.superlink.pid, signal.SIGKILL)
        self.superlink.wait()
        self.kill_server()

    def _apps(self, name: str) -> list[int]:
        ours = processes.carrying(f"FLWR_HOME={self._folder}")
        return [process for process in ours if name in _command(process)]

    def kill(self, vehicle: str) -> None:
        self.fleet.take_off(vehicle, signal.SIGKILL)

    def node_of(self, vehicle: str) -> str:
        """As its own log says; empty as long as it is not registered."""
        log = self.logs / f"vehicle-{vehicle}.log"
        found = re.findall(r"as node (\d+)", log.read_text(errors="replace")) if log.exists() else []
        return found[-1] if found else ""

    def see(self) -> list[Event]:
        self.events += self._tail.new()
        return self.events

    def count(self, kind: str, **fields: Any) -> int:
        return sum(
            event["kind"] == kind and all(event.get(name) == value for name, value in fields.items())
            for event in self.see()
        )

    def until(self, what: str, happened: Callable[[], Any], patience_s: float = 240.0) -> None:
        deadline = time.monotonic() + patience_s
        while not happened():
            broke = [event for event in self.see() if event["kind"] == "broke"]
            if broke or time.monotonic() > deadline:
                logs = {log.name: log.read_text(errors="replace")[-1500:] for log in self.logs.iterdir()}
                raise LateError(f"{what}: not within {patience_s:g} s; {broke}; {self.events[-20:]}; {logs}")
            time.sleep(0.05)

    def close(self) -> None:
        self.trainer.shutdown()
        self.trainer.server_close()
        processes.end(self._running)
        processes.kill_carrying(f"FLWR_HOME={self._folder}")


class ForgetfulLoopback(Loopback):
    """As `mobfl deploy --local` starts it."""

    remembers = False


class _Telling(TrainerServer):
    """A trainer whose vehicles may lie."""

    def __init__(self, trainer: Trainer, path: Path, say: Answers) -> None:
        super().__init__(trainer, path, workers=8)
        self._say = say

    def answer(self, wish: dict[str, Any], model: Weights) -> tuple[dict[str, Any], bytes]:
        told, upload = super().answer(wish, model)
        if not upload:  # it sits out
            return told, upload
        codec = self.trainer.turns.codec
        said, weights = self._say(wish["vehicle"], told, codec.decode(upload, model))
        return said, codec.encode(weights, model)


@contextmanager
def loopback(
    deployment: Deployment, folder: Path, say: Answers = lambda _, *said: said, kind: type[Loopback] | None = None
) -> Iterator[Loopback]:
    machines = (kind or Loopback)(deployment, folder, say)
    try:
        yield machines
    finally:
        machines.close()


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:  # it has just ended
        return ""
