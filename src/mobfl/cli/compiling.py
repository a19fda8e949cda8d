"""Says once that a task's kernels are being compiled, and in the end for how long: a first run would be silent."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from numba.core import event

_TRAINING = re.compile(r"mobfl\.tasks\.\w+\.fused\b")  # what takes longest; the rest is not worth a line


class _Listener(event.Listener):
    """Adds up the time of what is compiled from one outermost function to the next; Numba compiles one at a time."""

    def __init__(self) -> None:
        self.seconds, self.told = 0.0, False
        self._depth, self._begun = 0, 0.0

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._begun = time.monotonic()
        if not self.told and _TRAINING.match(event.data["dispatcher"].py_func.__module__):
            self.told = True
            click.echo("compiling the task's kernels, which later runs find compiled …", err=True)

    def on_end(self, event: Any) -> None:  # noqa: ARG002, for Numba passes it by name
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.monotonic() - self._begun


@contextmanager
def compiling_told() -> Iterator[None]:
    """On stderr, also when piped; nothing where all was compiled before."""
    listener = _Listener()
    with event.install_listener("numba:compile", listener):
        yield
    if listener.told:
        click.echo(f"compiled for {listener.seconds:.0f} s", err=True)
