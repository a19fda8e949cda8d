"""The command `mobfl`. Exit status: 0 done, 1 failed, 2 wrong input, 3 infeasible plan, 130 interrupted."""

import io
import os
import sys
import traceback

import click

import mobfl
from mobfl.cli.deployment import deploy, trainer
from mobfl.cli.flags import FlagWording
from mobfl.cli.options import FAILED, INFEASIBLE, INTERRUPTED, WRONG_INPUT
from mobfl.cli.page import app
from mobfl.cli.parts import parts
from mobfl.cli.planning import plan, scenarios
from mobfl.cli.results import results
from mobfl.cli.simulation import simulate, traffic
from mobfl.cli.station import station
from mobfl.cli.sweeps import report, reproduce, sweep
from mobfl.cli.training import train
from mobfl.errors import InfeasibleError, InputError, MobflError


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
    trainer,
    station,
    sweep,
    results,
    report,
    reproduce,
    traffic,
    scenarios,
    parts,
    app,
):
    cli.add_command(command)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no λ still gets its answer
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
        # Nobody reads on (a pipe that ends), or there is no room: whatever is left cannot be written either.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        if not isinstance(error, BrokenPipeError):
            click.echo(f"the result could not be written: {error.strerror or error}", err=True)
        status = FAILED
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    sys.exit(status)
