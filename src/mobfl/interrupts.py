"""Signals that ask a program to end: Ctrl-C, SIGTERM (Slurm, docker, systemd), SIGHUP (a terminal that was closed).

They all mean the same: save and leave. What is ignored stays ignored, as nohup wants it, and whoever has a handler of
their own keeps it. Handlers belong to the main thread; elsewhere nothing is changed.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130  # the exit status, whichever of them it was

Handler = Callable[[int, Any], object]
_ours = list[Handler]()  # those that are installed, the latest last


@contextmanager
def handled(handler: Handler, numbers: Sequence[int] = SIGNALS) -> Iterator[None]:
    """The handler takes the place of what a signal does by default, or of one of ours."""
    before = _installed(handler, numbers)
    try:
        yield
    finally:
        _ours.remove(handler)
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _installed(handler: Handler, numbers: Sequence[int]) -> dict[int, Any]:
    """What was there before."""
    replaceable = (signal.SIG_DFL, signal.default_int_handler, *_ours)
    _ours.append(handler)
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in numbers}
    return {number: signal.signal(number, handler) for number, there in before.items() if there in replaceable}


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def leave(*_: object) -> None:
    """At once: nothing is closed, nothing is said."""
    os._exit(INTERRUPTED)


def leave_at_once_from_now_on() -> None:
    """For a process of our own, before it has begun anything that would have to be closed."""
    _installed(leave, SIGNALS)


def deaf_from_now_on() -> None:
    """For a process that ends: Python lets go of its handlers before its end, and a signal would kill it there."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, *_ours):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whoever tidies up is not interrupted in it."""
    with handled(lambda *_: None):
        yield


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Tells whether there was a signal; the second one interrupts.

    For what an exception in its middle would harm: compiled code, or saving.
    """
    noted = False

    def note(*_: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    with handled(note):
        yield lambda: noted


def keep_from_children() -> None:
    """In a thread: the processes that it starts do not see the signals. A terminal's Ctrl-C goes to all of them."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
