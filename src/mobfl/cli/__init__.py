"""The command `mobfl`. Exit status: 0 done, 1 failed, 2 wrong input, 3 infeasible plan, 130 interrupted."""

import _thread
import io
import os
import signal
import sys
import threading
import traceback
from typing import Any, TextIO

import click

import mobfl
from mobfl.cli.arena import arena
from mobfl.cli.deployment import deploy, trainer
from mobfl.cli.flags import FlagWording
from mobfl.cli.options import FAILED, INFEASIBLE, WRONG_INPUT
from mobfl.cli.page import app
from mobfl.cli.parts import parts
from mobfl.cli.planning import plan, scenarios
from mobfl.cli.radio import radio
from mobfl.cli.replay import replay
from mobfl.cli.results import results
from mobfl.cli.simulation import simulate
from mobfl.cli.sites import sections, sites
from mobfl.cli.station import station
from mobfl.cli.sweeps import report, reproduce, sweep
from mobfl.cli.traffic import traffic
from mobfl.cli.training import train
from mobfl.cli.vehicle import vehicle
from mobfl.errors import InfeasibleError, InputError, MobflError
from mobfl.interrupts import INTERRUPTED, deaf_from_now_on, handled, interrupt, leave

_LAST_WORDS_S = 1.0


@click.group(cls=FlagWording, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mobfl.__version__, prog_name="mobfl")
@click.option("--verbose", is_flag=True, help="Show the traceback of what failed, such as a part of your own.")
def cli(verbose: bool) -> None:
    """Federated learning on vehicles that are only passing by."""


for command in (
    plan,
    simulate,
    train,
    deploy,
    vehicle,
    trainer,
    station,
    replay,
    sweep,
    arena,
    results,
    report,
    reproduce,
    traffic,
    sections,
    sites,
    radio,
    scenarios,
    parts,
    app,
):
    cli.add_command(command)


def main() -> None:
    sys.stderr = _stderr_that_may_be_gone()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no λ still gets its answer
    sys.unraisablehook = _interrupted_again
    try:
        with handled(interrupt):
            status = _status()
    except KeyboardInterrupt:  # as it was about to end
        status = INTERRUPTED
    if status == INTERRUPTED:  # threads that still compute are not waited for
        deaf_from_now_on()
        _forget_the_interruption()
        at_last = threading.Timer(_LAST_WORDS_S, leave)
        at_last.daemon = True
        at_last.start()
    sys.exit(status)


def _forget_the_interruption() -> None:
    """Where it came in code that was given as text, as dataclasses are made, Python would end by SIGINT after all."""
    exec("")  # which begins with forgetting it


def _status() -> int:
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = WRONG_INPUT
    except InputError as error:
        click.echo(str(error), err=True)
        status = WRONG_INPUT
    except InfeasibleError as error:
        click.echo(str(error), err=True)
        status = INFEASIBLE
    except MobflError as error:
        if "--verbose" in sys.argv:
            traceback.print_exception(error)
        click.echo(str(error), err=True)
        status = FAILED
    except OSError as error:
        _write_no_more()
        if not isinstance(error, BrokenPipeError):
            click.echo(f"the result could not be written: {error.strerror or error}", err=True)
        status = FAILED
    except (click.Abort, KeyboardInterrupt):
        _write_no_more()
        status = INTERRUPTED
    except SystemError as error:  # so Python names a signal that came as a compiled function returned
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        _write_no_more()
        status = INTERRUPTED
    return status


def _write_no_more() -> None:
    """Nobody reads on (a pipe that ends, a terminal that was closed), or there is no room."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


class _Unheard(io.FileIO):
    """What is said to nobody is no error."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def _stderr_that_may_be_gone() -> TextIO:
    """A terminal may be closed while we work: a progress bar that cannot be drawn must not make a run fail."""
    given = sys.stderr
    try:
        raw = _Unheard(given.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):  # there is none, or not of the system's
        return given
    return io.TextIOWrapper(io.BufferedWriter(raw), given.encoding, "replace", line_buffering=True, write_through=True)


def _interrupted_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """A signal that came where nothing can be raised, such as in a finaliser, comes again a moment later."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(0.05, _thread.interrupt_main, (signal.SIGTERM,))
    again.daemon = True
    again.start()
