"""`mobfl station`."""

import ipaddress
from pathlib import Path

import click

from mobfl.cli.options import need, warn_who_reaches
from mobfl.errors import InputError

_PORTS = range(1, 65536)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--name", "names", multiple=True, help="What vehicles call this machine, or its address; may be repeated."
)
@click.option(
    "--listen", default="127.0.0.1:8443", show_default=True, metavar="ADDRESS:PORT",
    help="Where vehicles come in; 0.0.0.0:8443 on all networks.",
)  # fmt: skip
def station(folder: Path, names: tuple[str, ...], listen: str) -> None:
    """Open a base station to vehicles: a SuperLink that only you can reach, and nginx before it.

    FOLDER holds all that it needs. Certificates are made there once; vehicles need its `ca.crt`. It stays alive, and
    Ctrl-C or SIGTERM close it; opened again, it knows its vehicles.
    """
    where = _address(listen)
    need("deployment", "flower", "flwr")
    from mobfl.deploy.gateway import keep_open

    warn_who_reaches("mobfl station")
    keep_open(folder, names, where, lambda line: click.echo(line, err=True))


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    try:
        address, number = ipaddress.ip_address(host.strip("[]")), int(port)
    except ValueError:
        number = 0
    if number not in _PORTS:
        raise InputError(f"--listen must be ADDRESS:PORT, such as 0.0.0.0:8443, got {listen}")
    return str(address), number
