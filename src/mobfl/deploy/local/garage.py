"""The garage: a process that has Flower's node loaded and lets vehicles out, each a SuperNode in processes of its own.

Loading Flower takes a second of processor time, for a node and again for every message that it gets. Forked from here
nothing is loaded twice: a vehicle is Flower's own node and executor, and the executor forks the app where it would
start a new Python. So two cores hold many vehicles. Orders come as lines of JSON:
`{"start": NAME, "arguments": […], "runtime": ADDRESS, "log": FILE}` and `{"signal": NUMBER, "vehicle": NAME}`.
When nobody is left to give orders, all vehicles end.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.supercore.cli.flower_superexec import flower_superexec
from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor
from flwr.supercore.superexec.executor.types import ExecutionSpec, LaunchResult
from flwr.supernode import main as _preloaded  # noqa: F401
from flwr.supernode.cli.flower_supernode import flower_supernode
from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

import mobfl.deploy.vehicle.client_app  # noqa: F401
from mobfl.deploy.guard import guard
from mobfl.deploy.local.processes import die_with_parent, signal_group

_PATIENCE_S = 3.0


class Garage:
    def __init__(self) -> None:
        self._vehicles = dict[str, int]()  # their nodes, each of which leads a group

    def obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self._vehicles[order["start"]] = _let_out(order["arguments"], order["runtime"], Path(order["log"]))
        elif order["vehicle"] in self._vehicles:
            signal_group(self._vehicles[order["vehicle"]], int(order["signal"]))

    def tidy(self) -> None:
        """Forgets those that have ended; what belonged to them ends too."""
        for ended in _ended():
            for name in [name for name, node in self._vehicles.items() if node == ended]:
                signal_group(ended, signal.SIGKILL)
                del self._vehicles[name]

    def close(self) -> None:
        for node in self._vehicles.values():
            signal_group(node, signal.SIGTERM)
        until = time.monotonic() + _PATIENCE_S
        while self._vehicles and time.monotonic() < until:
            self.tidy()
            time.sleep(0.05)
        for node in self._vehicles.values():
            signal_group(node, signal.SIGKILL)


def _ended() -> list[int]:
    """Children that have ended since the last look."""
    found = list[int]()
    with suppress(ChildProcessError):  # there are none
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            found.append(ended)
    return found


def _let_out(arguments: list[str], runtime: str, log: Path) -> int:
    """A stock node that leaves execution to others, and the executor beside it; returns the node's process."""
    node = _fork(flower_supernode, ["flower-supernode", *arguments, "--isolation", "process"], log, group=0)
    words = ["flower-superexec", "--insecure", "--runtime-api-address", runtime, "--parent-pid", str(node)]
    _fork(_forking_superexec, words, log, group=node)
    return node


def _forking_superexec() -> None:
    """Flower's executor in a process of its own, whose way to start an app is changed there."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the apps
    SubprocessExecutor.launch = _launch  # type: ignore[assignment,method-assign]
    flower_superexec()


def _launch(_: SubprocessExecutor, spec: ExecutionSpec) -> LaunchResult:
    words = ["flwr-clientapp", "--runtime-api-address", spec.runtime_api_address, "--token", spec.token, "--insecure"]
    _fork(flwr_clientapp, [*words, "--parent-pid", str(os.getpid())], log=None, group=None)
    return LaunchResult.accepted()


def _fork(run: Callable[[], None], words: list[str], log: Path | None, group: int | None) -> int:
    """Runs one of Flower's commands in a child, with a group of its own (0), another's, or ours (None)."""
    process = os.fork()
    if process:
        if group is not None:
            with suppress(PermissionError, ProcessLookupError):  # it has done so itself, or is gone
                os.setpgid(process, group or process)
        return process
    status = 1
    try:
        if group is not None:
            os.setpgid(0, group)
        die_with_parent()
        if log is not None:
            _speak_into(log)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.argv = words
        run()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    finally:
        os._exit(status)


def _speak_into(log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    silence = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, silence), (1, output), (2, output)):
        os.dup2(source, descriptor)


def main() -> None:
    guard()
    garage, waiting = Garage(), b""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            ready, _, _ = select.select([0], [], [], 0.2)
            garage.tidy()
            if not ready:
                continue
            received = os.read(0, 1 << 16)
            if not received:  # whoever gave orders is gone
                return
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                garage.obey(json.loads(line))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        garage.close()


if __name__ == "__main__":
    main()
