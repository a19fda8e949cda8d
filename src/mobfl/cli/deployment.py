"""`mobfl deploy` and `mobfl trainer`."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mobfl.cli.completion import completing
from mobfl.cli.options import (
    backend_option,
    codec_option,
    console,
    cores,
    data_option,
    device_option,
    find_data,
    json_option,
    load,
    longest_stay_option,
    need,
    plan_option,
    plot_option,
    rule_option,
    section_option,
    seed_option,
    takes_scenario,
    trace_if_given,
    trace_option,
    warn_who_reaches,
    workers_option,
)
from mobfl.errors import InputError
from mobfl.scenario import Scenario, parse_setting

if TYPE_CHECKING:
    from mobfl.deploy.local.board import Board
    from mobfl.deploy.local.fleet import Visit
    from mobfl.deploy.settings import Deployment
    from mobfl.mobility.crossings import Crossings

_CROSSINGS = "crossings.parquet"
_VEHICLES_PER_CORE = 8
_REDRAW_S = 0.25


class _Asked(NamedTuple):
    """What the command line says, by the names of its parameters."""

    scenario: str
    settings: tuple[str, ...]
    local: bool
    app: Path | None
    task: str
    options: tuple[str, ...]
    wanted: str
    rule: str | None
    local_training: str | None
    codec: str | None
    data: Path | None
    backend: str
    device: str
    trace: Path | None
    section: str | None
    longest_stay_s: float | None
    vehicles: int | None
    scale: float | None
    seed: int
    workers: int | None
    resume: bool
    out: Path
    as_json: bool
    plot: Path | None


@click.command()
@takes_scenario
@click.option("--local", is_flag=True, help="On this machine: vehicles are processes that come and go.")
@click.option("--app", type=click.Path(path_type=Path), metavar="FOLDER", help="Write the app for many machines.")
@click.option(
    "--task",
    default="beams",
    show_default=True,
    shell_complete=completing("mobfl.tasks.catalogue:TASKS"),
    help="A task's name, or MODULE:OBJECT of your own.",
)
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="An option of the task; may be repeated.")
@plan_option
@rule_option
@click.option(
    "--local-training",
    metavar="NAME",
    shell_complete=completing("mobfl.learning.local:LOCALS"),
    help="How vehicles train (`mobfl train --local`); by default sgd.",
)
@codec_option
@data_option
@backend_option
@device_option
@trace_option
@section_option
@longest_stay_option
@click.option("--vehicles", type=int, metavar="N", help="Most vehicles at a time; by default 8 per core.")
@click.option("--scale", type=float, metavar="X", help="Wall-clock seconds per second of road; else what is needed.")
@seed_option
@workers_option
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="RUN", help="The run's folder.")
@json_option
@plot_option
def deploy(**given: Any) -> None:
    """Run the rounds on real Flower nodes, in wall-clock time.

    With --local, a SuperLink and a SuperNode per vehicle are started here, as vehicles enter and leave; Ctrl-C ends
    them all, and the same command with --resume goes on. With --app, write the app that `flwr run` takes.
    """
    asked = _Asked(**given)
    need("deployment", "flower", "flwr")
    need("deployment", "flower", "safetensors")
    _check(asked)
    scenario = load(asked.scenario, asked.settings)
    if scenario.is_city:
        raise InputError(
            "mobfl deploy runs one base station, got a scenario that lists its stations: deploy each with a scenario of"
            " its own"
        )
    if asked.app is not None:
        _write_app(asked, asked.app, scenario)
    else:
        _run_here(asked, scenario)


def _check(asked: _Asked) -> None:
    from mobfl.runs.training import check_settings

    if asked.local == (asked.app is not None):
        raise InputError("mobfl deploy must be given either --local or --app FOLDER")
    if asked.app is not None and asked.trace is not None:
        raise InputError("--trace goes with --local, got --app")
    if asked.vehicles is not None and asked.vehicles < 1:
        raise InputError(f"--vehicles must be >= 1, got {asked.vehicles}")
    if asked.app is None:
        check_settings(asked.out, asked.resume, cores(asked.workers), 0.0)


def _deployment(asked: _Asked, scenario: Scenario, **more: Any) -> "Deployment":
    from mobfl.deploy.settings import Deployment

    data = find_data(asked.data)
    options = dict(parse_setting(option, "--option", "KEY=VALUE") for option in asked.options)
    return Deployment(
        scenario.to_dict(), str(asked.out.absolute()), asked.task, options,
        None if data is None else str(data.absolute()),
        asked.backend, asked.device, asked.wanted, asked.seed, scale=asked.scale, resume=asked.resume,
        rule=asked.rule, local=asked.local_training, codec=asked.codec, home=str(Path.cwd()), **more,
    )  # fmt: skip


def _write_app(asked: _Asked, folder: Path, scenario: Scenario) -> None:
    from mobfl.deploy.flower_app import write_app

    _check_rounds(asked, scenario, None)
    write_app(folder, _deployment(asked, scenario))
    click.echo(f"{folder} is ready for: flwr run {folder}")


def _check_rounds(asked: _Asked, scenario: Scenario, crossings: "Crossings | None") -> None:
    from mobfl.deploy.settings import refuse_along
    from mobfl.servers.names import server_of
    from mobfl.servers.rounds import deployable, knowable

    if not scenario.by_sizes:  # else task and codec decide how long transfers take
        server = server_of(asked.wanted, asked.rule, scenario, crossings)
        knowable(deployable(server.schedule), asked.local)
        refuse_along(server.rule)


def _run_here(asked: _Asked, scenario: Scenario) -> None:
    from mobfl.deploy.local.deployment import deploy_locally

    warn_who_reaches("mobfl deploy --local")
    crossings = trace_if_given(asked.trace, asked.section, asked.longest_stay_s)
    _check_rounds(asked, scenario, crossings)
    click.echo("Starting …", err=True)
    most = asked.vehicles or _VEHICLES_PER_CORE * cores(None)
    deployment = _deployment(asked, scenario, impose=True, trace=_kept(asked.out, crossings), vehicles=most)
    visits = _visits(asked, scenario, crossings, most)
    with _following() as follow:
        deploy_locally(deployment, visits, cores(asked.workers), follow)
    _report(asked)


def _kept(out: Path, crossings: "Crossings | None") -> str | None:
    """The crossings as the server will read them."""
    if crossings is None:
        return None
    from mobfl.mobility.recorded import write_crossings
    from mobfl.runs import folder as run_folder

    run_folder.make(out)
    write_crossings(crossings, out / _CROSSINGS)
    return str((out / _CROSSINGS).absolute())


def _visits(asked: _Asked, scenario: Scenario, crossings: "Crossings | None", most: int) -> "list[Visit]":
    from mobfl.deploy.local.fleet import visits_of
    from mobfl.runs.job import training_site

    visits, left_out = visits_of(training_site(scenario, asked.seed, crossings), most)
    if left_out:
        click.echo(
            f"{left_out} of {left_out + len(visits)} vehicles cannot take part: at most --vehicles {most} at a time",
            err=True,
        )
    return visits


def _report(asked: _Asked) -> None:
    from mobfl.cli.tables.runs import print_training
    from mobfl.runs.folder import read_history, read_run

    run, history = read_run(asked.out), read_history(asked.out)
    if asked.plot is not None:
        from mobfl.figures import draw_history

        draw_history(history, asked.plot)
    if asked.as_json:
        click.echo(json.dumps({**run["results"], "deployment": run["deployment"]}, indent=2))
    else:
        results = run["results"]
        told = (results["notices"], asked.out, results.get("privacy"))
        print_training(console(), history, run["baselines"], [], *told)


@contextmanager
def _following() -> Iterator[Callable[["Board"], None]]:
    """What it is doing, on stderr: a live table on a terminal, a line per stage elsewhere."""
    if not sys.stderr.isatty():
        yield _telling_stages()
        return
    from rich.console import Console
    from rich.live import Live

    from mobfl.cli.tables.runs import deployment_table

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        shown, stage = 0.0, ""

        def follow(board: "Board") -> None:
            nonlocal shown, stage
            if time.monotonic() - shown >= _REDRAW_S or board.stage != stage:
                shown, stage = time.monotonic(), board.stage
                live.update(deployment_table(board), refresh=True)

        yield follow


def _telling_stages() -> Callable[["Board"], None]:
    told = ""

    def tell(board: "Board") -> None:
        nonlocal told
        if board.stage != told:
            told = board.stage
            click.echo(f"{told[0].upper()}{told[1:]} …", err=True)

    return tell


@click.command()
@click.argument("app", type=click.Path(path_type=Path))
@click.option("--socket", "path", type=click.Path(path_type=Path), required=True, help="Where the vehicle's node asks.")
@data_option
@workers_option
def trainer(app: Path, path: Path, data: Path | None, workers: int | None) -> None:
    """Take the local steps for a vehicle's Flower node, which asks at a socket; APP is what `mobfl deploy --app` wrote.

    It stays alive between rounds, and holds the task and its data.
    """
    need("deployment", "flower", "safetensors")
    from mobfl.deploy.settings import Deployment
    from mobfl.deploy.vehicle.trainer import Trainer, TrainerServer

    deployment, here = Deployment.of_app(app), find_data(data)
    taught = Trainer.of(deployment if here is None else replace(deployment, data=str(here.absolute())))
    taught.warm_up()
    with TrainerServer(taught, path, cores(workers)) as server:
        server.serve_forever()
