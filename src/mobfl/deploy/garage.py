"""The garage: a process that has Flower's node loaded and lets vehicles out, each a SuperNode in a process of its own.

A fresh SuperNode takes seconds to load; one that is forked is on the road in a fraction of one. Orders come as lines of
JSON: `{"start": NAME, "arguments": […], "log": FILE}` and `{"signal": NUMBER, "vehicle": NAME}`. When nobody is left
to give orders, all vehicles end.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.supernode import main as _preloaded  # noqa: F401
from flwr.supernode.cli.flower_supernode import flower_supernode

from mobfl.deploy.processes import die_with_parent, signal_group

_PATIENCE_S = 3.0


class Garage:
    def __init__(self) -> None:
        self._vehicles = dict[str, int]()  # their processes, which lead groups

    def obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self._vehicles[order["start"]] = _fork(order["arguments"], Path(order["log"]))
        elif order["vehicle"] in self._vehicles:
            signal_group(self._vehicles[order["vehicle"]], int(order["signal"]))

    def tidy(self) -> None:
        """Forgets those that have ended; what they had started ends too."""
        for name, process in list(self._vehicles.items()):
            if os.waitpid(process, os.WNOHANG)[0]:
                signal_group(process, signal.SIGKILL)
                del self._vehicles[name]

    def close(self) -> None:
        for process in self._vehicles.values():
            signal_group(process, signal.SIGTERM)
        until = time.monotonic() + _PATIENCE_S
        while self._vehicles and time.monotonic() < until:
            self.tidy()
            time.sleep(0.05)
        for process in self._vehicles.values():
            signal_group(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)


def _fork(arguments: list[str], log: Path) -> int:
    process = os.fork()
    if process:
        with suppress(PermissionError):  # it may have done so itself
            os.setpgid(process, process)
        return process
    os.setpgid(0, 0)
    die_with_parent()
    _speak_into(log)
    sys.argv = ["flower-supernode", *arguments]
    status = 1
    try:
        flower_supernode()
        status = 0
    finally:
        os._exit(status)
    return 0


def _speak_into(log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    silence = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, silence), (1, output), (2, output)):
        os.dup2(source, descriptor)


def main() -> None:
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
