"""`mobfl replay`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mobfl.cli.completion import completing
from mobfl.cli.options import console, json_option, need, seed_option, working
from mobfl.errors import InputError, counted

if TYPE_CHECKING:
    from mobfl.deploy.recorded import RecordedDeployment


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--plan",
    "wanted",
    metavar="NAME",
    multiple=True,
    shell_complete=completing("mobfl.servers.names:SCHEDULES"),
    help="H,T, mobfl, anytime:8, adaptive or another plan with rounds; may be repeated. By default mobfl and anytime.",
)
@click.option("--draws", default=200, show_default=True, metavar="N", help="How often each plan is replayed.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trace, .csv or .parquet, and the scenario with measured delays beside it, FILE.scenario.toml.",
)
@seed_option
@json_option
def replay(run: Path, wanted: tuple[str, ...], draws: int, out: Path | None, seed: int, as_json: bool) -> None:
    """Say what other plans would have done on a past deployment.

    RUN is the folder that `mobfl deploy` wrote. Its events tell who was there from when to when and how long attempts
    took. On the same vehicles, with delays as they were measured, each --plan is replayed many times, and so are the
    rounds as they were: what happened should lie among these. With --out and no --plan, only write the trace.
    """
    need("replaying a deployment", "simulate", "numba")
    need("replaying a deployment", "simulate", "pyarrow")
    from mobfl.deploy.hindsight import DEFAULT_PLANS, in_hindsight
    from mobfl.deploy.recorded import read_deployment
    from mobfl.mobility.recorded import check_crossings_file

    if out is not None:
        check_crossings_file(out)
        if as_json and not wanted:
            raise InputError("--json goes with plans that are replayed, got --out without --plan")
    recorded = read_deployment(run)
    if out is not None:
        _write(recorded, out)
        if not wanted:
            click.echo(
                f"{counted(len(recorded.crossings), 'crossing')} in {out}, measured delays in {_scenario_file(out)}"
            )
            return
    names = wanted or DEFAULT_PLANS
    with working("replaying", 1 + len(names)) as progress:
        result = in_hindsight(recorded, names, draws, seed, progress)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
        return
    from mobfl.cli.tables.hindsight import print_hindsight

    print_hindsight(console(), result, str(run))


def _scenario_file(out: Path) -> Path:
    return out.with_name(f"{out.stem}.scenario.toml")


def _write(recorded: "RecordedDeployment", out: Path) -> None:
    from mobfl.files.atomic import replaced
    from mobfl.mobility.recorded import write_crossings

    write_crossings(recorded.crossings, out)
    with replaced(_scenario_file(out)) as file:
        file.write_text(recorded.scenario.to_toml(), encoding="utf-8")
