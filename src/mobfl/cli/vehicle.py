"""`mobfl vehicle`."""

import socket
import sys
from contextlib import suppress
from pathlib import Path

import click

from mobfl.cli.options import WRONG_INPUT, cores, data_option, find_data, need, workers_option
from mobfl.errors import InputError


@click.command()
@click.argument("app", type=click.Path(path_type=Path), required=False)
@click.option("--superlink", required=True, metavar="HOST:PORT", help="The base station's SuperLink.")
@click.option("--name", default=socket.gethostname, metavar="NAME", help="The vehicle's; by default this machine's.")
@click.option("--root-certificates", metavar="FILE", help="Who vouches for the SuperLink; else as this system has it.")
@click.option(
    "--key", "--auth-supernode-private-key", "key", metavar="FILE", help="The private key that the SuperLink knows."
)
@click.option("--insecure", is_flag=True, help="Without encryption, for tests on one machine.")
@click.option("--trainer", metavar="SOCKET", help="A trainer that runs already, instead of one for APP.")
@data_option
@workers_option
def vehicle(
    app: Path | None,
    superlink: str,
    name: str,
    root_certificates: str | None,
    key: str | None,
    insecure: bool,
    trainer: str | None,
    data: Path | None,
    workers: int | None,
) -> None:
    """Take part as a vehicle; APP is what `mobfl deploy --app` wrote.

    Joins the base station's SuperLink as soon as it can be reached, trains on what is asked for, and leaves on SIGTERM,
    SIGINT (Ctrl-C) or SIGHUP. Only what is installed here is run, nothing that comes over the network.
    """
    need("deployment", "flower", "flwr")
    need("deployment", "flower", "safetensors")
    from mobfl.deploy.settings import Deployment
    from mobfl.deploy.vehicle.on_the_road import keep_on_the_road, with_own_trainer
    from mobfl.deploy.vehicle.settings import Vehicle

    if (app is None) == (trainer is None):
        raise InputError("mobfl vehicle must be given either APP or --trainer SOCKET")
    own = Vehicle(name, superlink, trainer or "", insecure, root_certificates, key)
    if app is None:
        welcome = keep_on_the_road(own, _say)
    else:
        Deployment.of_app(app)  # which says what is wrong with it before anything is started
        welcome = with_own_trainer(own, _trainer_arguments(app, data, cores(workers)), _say)
    if not welcome:
        sys.exit(WRONG_INPUT)


def _trainer_arguments(app: Path, data: Path | None, workers: int) -> list[str]:
    here = find_data(data)
    return [str(app), "--workers", str(workers), *(["--data", str(here)] if here is not None else [])]


def _say(line: str) -> None:
    with suppress(OSError):  # a terminal that was closed does not keep a vehicle from leaving
        click.echo(line, err=True)
