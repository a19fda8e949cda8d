"""Machines on one road: network namespaces of this kernel, each with a link of its own and its own /srv."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

STATION, NETWORK = "10.77.0.1", "10.77.0"
_ENTER = """
mount --bind "$1" /srv
mount --bind "$2" /etc/hosts
cd /srv
exec bash -euo pipefail -c "$3"
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass(frozen=True)
class Machine:
    """A host that runs what a person would type there, and writes down what it says."""

    name: str
    network: str  # its namespace
    road: str  # the namespace where all links meet
    srv: Path
    hosts: Path
    said: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _enter(self, commands: str) -> list[str]:
        there = ["ip", "netns", "exec", self.network, "unshare", "--mount"]
        return [*there, "bash", "-euc", _ENTER, self.name, str(self.srv), str(self.hosts), commands]

    def run(self, commands: str, patience_s: float = 180.0) -> tuple[int, str]:
        """The exit status, and all that was said."""
        done = subprocess.run(
            self._enter(commands), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=patience_s,
        )  # fmt: skip
        return done.returncode, done.stdout

    def start(self, commands: str) -> subprocess.Popen[bytes]:
        with self.said.open("ab") as said:
            process = subprocess.Popen(
                self._enter(commands), stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )
        self.running.append(process)
        return process

    def end(self) -> list[int]:
        """Tells what runs in the foreground to end, and returns the exit statuses."""
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGTERM)
        return [process.wait(60) for process in self.running]

    def link(self, state: str) -> None:
        _ip("-n", self.network, "link", "set", "eth0", state)

    def narrow(self, rate: str) -> None:
        """The link's rate, both ways."""
        bucket = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
        for network, device in ((self.network, "eth0"), (self.road, self.name)):
            subprocess.run(["tc", "-n", network, "qdisc", "add", "dev", device, *bucket], check=True)

    def text(self) -> str:
        return self.said.read_text(errors="replace") if self.said.exists() else ""


@contextmanager
def machines(*names: str) -> Iterator[list[Machine]]:
    """The first is `station.example`. All that runs there ends with the block."""
    road = f"mobfl-{os.getpid()}"
    networks = [f"{road}-{name}" for name in names]
    with tempfile.TemporaryDirectory(prefix="mobfl-machines-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{STATION} station.example\n")
        try:
            _ip("netns", "add", road)
            _ip("-n", road, "link", "add", "switch", "type", "bridge")
            _ip("-n", road, "link", "set", "switch", "up")
            yield [
                _plugged(name, network, road, place, folder)
                for place, (name, network) in enumerate(zip(names, networks, strict=True), 1)
            ]
        finally:
            for network in (*networks, road):
                _clear(network)


def _plugged(name: str, network: str, road: str, place: int, folder: Path) -> Machine:
    (folder / name).mkdir()
    _ip("netns", "add", network)
    _ip("-n", network, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", road)
    _ip("-n", road, "link", "set", name, "master", "switch", "up")
    _ip("-n", network, "address", "add", f"{NETWORK}.{place}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _ip("-n", network, "link", "set", device, "up")
    return Machine(name, network, road, folder / name, folder / "hosts", folder / f"{name}.said")


def _clear(network: str) -> None:
    there = subprocess.run(["ip", "netns", "pids", network], capture_output=True, text=True, check=False)
    for process in there.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(process), SIGKILL)
    subprocess.run(["ip", "netns", "delete", network], check=False, capture_output=True)


def until(what: str, happened: Callable[[], Any], tell: Callable[[], str], patience_s: float = 300.0) -> None:
    deadline = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {patience_s:g} s; {tell()}")
        time.sleep(0.2)
