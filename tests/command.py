"""The command `mobfl` as a shell sees it: a process with arguments, folder and environment, which prints and ends.

Starting Python and importing libraries takes longer than most commands do. So a process that has imported them
waits beside the tests and forks itself for every command. What is imported when, and what a signal meets while that
goes on, is for tests that start Python themselves (`cli/test_signals.py`, `test_shape.py`, `test_docs.py`).
"""

import atexit
import functools
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

_LIBRARIES = ("mobfl.cli", "mobfl.rounds.anytime", "mobfl.runs.training", "mobfl.mobility.recorded", "scipy.optimize")
_ASKED_FOR = {
    "trajectories": ("torch",),
    "images": ("torch",),
    "--plot": ("matplotlib.figure", "matplotlib.style", "matplotlib.backends.backend_agg"),
}
_READ_BY_PYTHON = ("PYTHON", "NUMBA_", "OMP_")  # at its start, which was long ago


def mobfl(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `mobfl` with these arguments prints, and its exit status; below zero: the signal that ended it."""
    assert not any(name.startswith(_READ_BY_PYTHON) for name in environment), environment
    place = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "environment": os.environ | environment}
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        status = _ask(place, [printed.fileno(), said.fileno()])
        texts = [_text(file) for file in (printed, said)]
    return subprocess.CompletedProcess(["mobfl", *arguments], status, *texts)


def but_compiling(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on stderr, without the two that say that kernels are compiled, which depend on earlier commands."""
    return [line for line in done.stderr.splitlines() if not line.startswith(("compiling the", "compiled for"))]


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode())


def _ask(place: dict[str, Any], files: list[int]) -> int:
    server = _server()
    socket.send_fds(server, [json.dumps(place).encode()], files)
    answer = server.recv(100)
    assert answer, "the process that forks commands is gone"
    return int(answer)


@functools.cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
    )  # fmt: skip
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _forked(requests: socket.socket) -> bool:
    """Forks for every request: True in a process that is to be `mobfl`, False at the end of all requests."""
    while True:
        asked, files, *_ = socket.recv_fds(requests, 1 << 20, 2)
        if not asked:
            return False
        place = json.loads(asked)
        _import(library for word in place["arguments"] for library in _ASKED_FOR.get(word, ()))
        child = os.fork()
        if child == 0:
            requests.close()
            _become(place, files)
            return True
        for file in files:
            os.close(file)
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _import(libraries: Iterable[str]) -> None:
    for library in libraries:
        import_module(library)
    gc.freeze()  # else every process would take apart at its end what it has inherited


def _become(place: dict[str, Any], files: list[int]) -> None:
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(place["cwd"])
    os.environ.clear()
    os.environ.update(place["environment"])
    sys.argv = ["mobfl", *place["arguments"]]
    sys.path[0] = place["cwd"]


if __name__ == "__main__":
    _import(_LIBRARIES)
    if _forked(socket.socket(fileno=int(sys.argv[1]))):
        from mobfl.__main__ import main

        main()
