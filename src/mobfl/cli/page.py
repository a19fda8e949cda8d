"""`mobfl app`."""

from pathlib import Path

import click

from mobfl.cli.options import need


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Who may come: by default only this computer.")
@click.option("--port", default=8000, show_default=True, help="1 to 65535.")
@click.option("--runs", type=click.Path(path_type=Path), metavar="FOLDER", help="Runs and sweeps to look at, live.")
@click.option("--no-browser", is_flag=True, help="Only say where the page is.")
def app(host: str, port: int, runs: Path | None, no_browser: bool) -> None:
    """Plan a road, watch its rounds and follow runs in a web page, until Ctrl-C."""
    for module in ("starlette", "uvicorn", "numba", "safetensors"):
        need("the page", "app", module)
    from mobfl.app.runs import RunsFolder
    from mobfl.app.serving import address_of, listen, serve

    if runs is not None:
        RunsFolder(runs)  # which checks it
    bound, address = listen(host, port), address_of(host, port)
    click.echo(f"The page is at {address} (Ctrl-C ends it).")
    if host not in ("127.0.0.1", "localhost", "::1"):
        click.echo("Others on the network can reach it too: there is no password.", err=True)
    serve(bound, host, runs, None if no_browser else address)
