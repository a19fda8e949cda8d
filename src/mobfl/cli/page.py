"""`mobfl app`."""

import os
from pathlib import Path

import click

from mobfl.cli.options import need
from mobfl.errors import InputError

TOKEN_VARIABLE = "MOBFL_TOKEN"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Who may come; by default only this computer.")
@click.option("--port", default=8000, show_default=True, help="1 to 65535.")
@click.option("--runs", type=click.Path(path_type=Path), metavar="FOLDER", help="Runs and sweeps to look at, live.")
@click.option("--no-browser", is_flag=True, help="Only print the page's address, open no browser.")
@click.option(
    "--token",
    metavar="TEXT",
    help=f"A token of your own. Others on this computer see commands: the variable {TOKEN_VARIABLE} is safer.",
)
@click.option("--no-token", is_flag=True, help="Let everybody in who can reach the port.")
def app(host: str, port: int, runs: Path | None, no_browser: bool, token: str | None, no_token: bool) -> None:
    """Plan a road, watch its rounds and follow runs in a web page, until Ctrl-C."""
    for module in ("starlette", "uvicorn", "numba", "safetensors"):
        need("the page", "app", module)
    from mobfl.app.runs import RunsFolder
    from mobfl.app.serving import address_of, listen, serve

    needed = _token(token, no_token)
    if runs is not None:
        RunsFolder(runs)  # which checks it
    bound, address = listen(host, port), address_of(host, port, needed)
    click.echo(f"The page is at {address} (Ctrl-C ends it).")
    local = host in ("127.0.0.1", "localhost", "::1")
    if no_token:
        who = "Every user of this computer" if local else "Everybody on the network"
        click.echo(f"{who} can see the page and your runs: there is no token.", err=True)
    elif not local:
        click.echo("Others on the network can reach it too, and read what it sends: it is not encrypted.", err=True)
    serve(bound, host, needed, runs, None if no_browser else address)


def _token(given: str | None, no_token: bool) -> str | None:
    """The one that was given, or a new one; None if nobody needs any."""
    from mobfl.app.token import checked, new_token

    if no_token:
        if given is not None:
            raise InputError("token must not be given with --no-token")
        return None
    if given is not None:
        return checked(given)
    stored = os.environ.get(TOKEN_VARIABLE)
    return checked(stored, TOKEN_VARIABLE) if stored else new_token()
