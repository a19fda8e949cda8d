"""Vehicles as processes, forked from one that has Flower loaded: that takes a second, and is not done again.

Each is a process of its own, so that whatever becomes of it becomes of nobody else.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mobfl.deploy.local.processes import die_with_parent, signal_group
from mobfl.deploy.vehicle.driving import drive
from mobfl.deploy.vehicle.settings import Vehicle
from mobfl.errors import InputError

LEFT, REFUSED, CRASHED = 0, 2, 1  # how a vehicle's process ends
_PATIENCE_S = 8.0  # two calls that nobody answers, and more


def let_out(vehicle: Vehicle, log: Path | None = None) -> int:
    """The process of a vehicle that is under way, and leads a group; what it says goes into a file, or where ours goes.

    To be called where there is one thread only, as a fork takes no other along.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        with suppress(PermissionError, ProcessLookupError):  # it has done so itself, or is gone
            os.setpgid(process, process)
        return process
    status = CRASHED
    try:
        os.setpgid(0, 0)
        die_with_parent(signal.SIGTERM)  # and leaves as it should
        if log is not None:
            _speak_into(log)
        status = _driven(vehicle)
    finally:
        sys.stderr.flush()
        os._exit(status)


def _driven(vehicle: Vehicle) -> int:
    try:
        drive(vehicle, _say)
    except InputError as error:
        _say(str(error))
        return REFUSED
    except Exception:
        traceback.print_exc()
        return CRASHED
    return LEFT


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads it any more
        print(line, file=sys.stderr, flush=True)


def _speak_into(log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    silence = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, silence), (1, output), (2, output)):
        os.dup2(source, descriptor)


def ended(processes: Iterable[int]) -> dict[int, int]:
    """Which of these vehicles have ended, and how: a status as above, or below 0 a signal."""
    found = dict[int, int]()
    for process in processes:
        known, status = os.waitpid(process, os.WNOHANG)
        if known:
            found[process] = os.waitstatus_to_exitcode(status)
    return found


def take_off(processes: Iterable[int]) -> None:
    """Tells all of them to leave, and makes those that have not soon."""
    there = set(processes)
    for process in there:
        signal_group(process, signal.SIGTERM)
    until = time.monotonic() + _PATIENCE_S
    while there and time.monotonic() < until:
        there -= ended(there).keys()
        time.sleep(0.02)
    for process in there:
        signal_group(process, signal.SIGKILL)
        os.waitpid(process, 0)
