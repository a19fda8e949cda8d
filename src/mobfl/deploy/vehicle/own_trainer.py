"""A trainer that belongs to one vehicle: started with it, started again if it crashes, ended with it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mobfl.deploy.local import processes
from mobfl.errors import MobflError

_LOOK_S = 0.05
_APART_S = 5.0  # between two starts


class TrainerEndedError(MobflError):
    """A trainer that did not even begin."""


class OwnTrainer:
    """`mobfl trainer` with these arguments, in a process that ends with ours. What it says goes where ours goes."""

    def __init__(self, arguments: Sequence[str], socket: Path, say: Callable[[str], None]) -> None:
        self._command = [sys.executable, "-m", "mobfl", "trainer", *arguments, "--socket", str(socket)]
        self._socket, self._say = socket, say
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started = time.monotonic()
        return subprocess.Popen(
            self._command,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the vehicle, which ends it
            preexec_fn=processes.die_with_parent,
        )

    def wait(self) -> None:
        """Until it answers; the first start may compile for a minute."""
        while not self._socket.exists():
            if (status := self._process.poll()) is not None:
                raise TrainerEndedError(f"the trainer has ended before it began, with status {status}")
            time.sleep(_LOOK_S)

    def mend(self) -> None:
        """Starts it again if it has crashed. An order that comes in between is answered with that."""
        status = self._process.poll()
        if status is not None and time.monotonic() - self._started > _APART_S:
            self._say(f"the trainer has ended by itself, with status {status}: starting it again")
            self._process = self._start()

    def close(self) -> None:
        processes.end([self._process])
