"""Processes that end with us: on Ctrl-C, on an exception, and if we are killed."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 5.0


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Called in a child: the kernel ends it by this signal when its parent is gone, however that went."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def start(
    command: Sequence[str], environment: Mapping[str, str], log: Path, stdin: int | None = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """A process in a group of its own, which writes what it says into a file and dies with us.

    One that reads from a pipe sees for itself when we are gone, and is left the time to tidy up.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=dict(environment), stdin=stdin, stdout=output, stderr=output,
            start_new_session=True, preexec_fn=None if stdin == subprocess.PIPE else die_with_parent,
        )  # fmt: skip


def end(processes: Sequence[subprocess.Popen[bytes]], patience_s: float = _PATIENCE_S) -> None:
    """Asks the processes and all that they started to end, and makes them if they do not."""
    for process in processes:
        signal_group(process.pid, signal.SIGTERM)
    until = time.monotonic() + patience_s
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(until - time.monotonic(), 0.1))
        signal_group(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()


def carrying(mark: str) -> list[int]:
    """Processes with this text in their environment: what was started by what we started, however detached."""
    found = list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def kill_carrying(mark: str, number: int = signal.SIGKILL) -> None:
    for process in carrying(mark):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def end_carrying(mark: str, patience_s: float = _PATIENCE_S) -> None:
    """Asks them to end, and makes those that do not."""
    kill_carrying(mark, signal.SIGTERM)
    until = time.monotonic() + patience_s
    while carrying(mark) and time.monotonic() < until:
        time.sleep(0.1)
    kill_carrying(mark)


def signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def free_port() -> int:
    """One that nobody listens at right now, chosen by the system."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_line(pipe: IO[bytes], text: str) -> None:
    pipe.write(text.encode() + b"\n")
    pipe.flush()
