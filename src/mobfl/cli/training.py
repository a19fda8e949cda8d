"""`mobfl train`."""

import json
from collections.abc import Sequence
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
    find_traffic,
    json_option,
    load,
    local_option,
    longest_stay_option,
    need,
    parse_target,
    plan_option,
    planning,
    plot_option,
    rule_option,
    scenes_option,
    section_option,
    seed_option,
    takes_scenario,
    trace_option,
    traffic_option,
    workers_option,
    working,
)
from mobfl.errors import InputError, counted
from mobfl.scenario import parse_setting

if TYPE_CHECKING:
    from mobfl.runs.history import History
    from mobfl.runs.job import Job

Goals = Sequence[tuple[str, float]]


class _Asked(NamedTuple):
    """What the command line says, by the names of its parameters."""

    task: str
    scenario: str
    settings: tuple[str, ...]
    wanted: str
    data: Path | None
    options: tuple[str, ...]
    rule: str | None
    local: str | None
    codec: str | None
    trace: Path | None
    section: str | None
    longest_stay_s: float | None
    traffic: str | None
    seed: int
    backend: str
    device: str
    workers: int | None
    targets: tuple[str, ...]
    checkpoint_s: float
    resume: bool
    out: Path
    as_json: bool
    plot: Path | None
    scenes: Path | None


def _known_task(_: click.Context, __: click.Parameter, task: str) -> str:
    """Says at once that a name is none of ours; one of somebody's own is looked at when it is its turn."""
    from mobfl.tasks.catalogue import TASKS

    name = TASKS.parse(task).name
    if ":" not in name:
        TASKS.find(name)
    return task


@click.command()
@click.argument(
    "task",
    callback=_known_task,
    is_eager=True,  # a mistake in the first word is told first
    shell_complete=completing("mobfl.tasks.catalogue:TASKS"),
)
@takes_scenario
@plan_option
@rule_option
@local_option
@codec_option
@data_option
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="An option of the task; may be repeated.")
@trace_option
@section_option
@longest_stay_option
@traffic_option
@seed_option
@backend_option
@device_option
@workers_option
@click.option("--target", "targets", metavar="KPI=VALUE", multiple=True, help="Tell when the loss or a KPI got there.")
@click.option(
    "--checkpoint", "checkpoint_s", default=30.0, show_default=True, metavar="S", help="Seconds between checkpoints."
)
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="RUN", help="The run's folder.")
@json_option
@plot_option
@scenes_option
def train(**given: Any) -> None:
    """Train TASK with the vehicles that pass, and write the run into a folder.

    TASK is beams, trajectories, images, or MODULE:OBJECT of your own; `mobfl parts` lists all that can be exchanged.

    Without --data the samples are generated. The run can be interrupted at any time; the same command with --resume
    goes on, to the same bytes.
    """
    asked = _Asked(**given)
    need("training", "train", "safetensors")
    if asked.backend == "torch" or asked.device != "cpu":
        need("the backend torch", "torch", "torch")
    goals = [parse_target(target) for target in asked.targets]
    from mobfl.cli.compiling import compiling_told

    with compiling_told():
        job = _build_job(asked)
        _check_wishes(asked, goals, job.task)
        _plan(job)
        history = _run(asked, job)
    _draw(asked, job.task, history)
    _report(asked, goals, job, history)


def _build_job(asked: _Asked) -> "Job":
    """What can be checked at once is checked before any data are prepared."""
    from mobfl.learning.task import TaskRequest
    from mobfl.runs.job import Job
    from mobfl.runs.training import check_settings
    from mobfl.servers.anytime import needs_tracks
    from mobfl.servers.names import server_of
    from mobfl.tasks.catalogue import build_task

    check_settings(asked.out, asked.resume, cores(asked.workers), asked.checkpoint_s)
    scenario = load(asked.scenario, asked.settings)
    options = dict(parse_setting(option, "--option", "KEY=VALUE") for option in asked.options)
    where = asked.traffic, asked.trace, asked.section, asked.longest_stay_s
    crossings, trace = find_traffic(*where, scenario, asked.seed, needs_tracks(asked.wanted, scenario))
    # Else task and codec decide how long transfers take, or there are several plans.
    if not (scenario.by_sizes or scenario.is_city or isinstance(crossings, dict)):
        server_of(asked.wanted, asked.rule, scenario, crossings)  # which says at once if no plan is possible
    with working("preparing data") as progress:
        request = TaskRequest(
            options, find_data(asked.data), scenario.training.loss_scale, asked.backend, asked.device,
            cores(asked.workers), progress,
        )  # fmt: skip
        task = build_task(asked.task, request)
    _tell_damaged(getattr(task, "damaged", ()))
    return Job(task, scenario, asked.wanted, asked.seed, crossings, trace, asked.rule, asked.local, asked.codec)


def _tell_damaged(sequences: Sequence[str]) -> None:
    for sentence in sequences:
        click.echo(sentence, err=True)
    if sequences:
        left_out = "is" if len(sequences) == 1 else "are"
        click.echo(f"{counted(len(sequences), 'damaged sequence')} {left_out} left out", err=True)


def _check_wishes(asked: _Asked, goals: Goals, task: Any) -> None:
    from mobfl.runs.task_check import check_task

    check_task(task, asked.seed)
    known = ["loss", *(kpi.name for kpi in task.kpis)]
    for name, _ in goals:
        if name not in known:
            raise InputError(f"--target must name one of {', '.join(known)}, got {name!r}")
    if asked.scenes is not None and not hasattr(task, "forecasts"):
        raise InputError(f"--scenes draws what trajectories predicts, got the task {asked.task}")


def _plan(job: "Job") -> None:
    """Where a radio or sizes decide how long transfers take, it is planned only now."""
    with planning():
        for station in job.stations:
            station.server  # noqa: B018, made once


def _run(asked: _Asked, job: "Job") -> "History":
    from mobfl.runs.training import train as run

    return run(
        job, asked.out, resume=asked.resume, workers=cores(asked.workers), checkpoint_s=asked.checkpoint_s,
        progress=True,
    )  # fmt: skip


def _draw(asked: _Asked, task: Any, history: "History") -> None:
    if asked.plot is not None and history.stations:
        from mobfl.figures import draw_stations
        from mobfl.runs.folder import read_run

        told = read_run(asked.out)["stations"]
        draw_stations([{**each, **each["plan"]} for each in told], asked.plot, history)
    elif asked.plot is not None:
        from mobfl.figures import draw_history

        draw_history(history, asked.plot)
    if asked.scenes is not None:
        from mobfl.figures import draw_forecasts
        from mobfl.runs.checkpoint import read_checkpoint
        from mobfl.runs.folder import BEST

        best = read_checkpoint(asked.out / BEST, task.initial_weights(0)).model
        draw_forecasts(task.forecasts(best), asked.scenes)


def _report(asked: _Asked, goals: Goals, job: "Job", history: "History") -> None:
    from mobfl.cli.tables.runs import print_class_shares, print_training
    from mobfl.cli.tables.stations import print_stations
    from mobfl.runs.by_class import shares_by_class
    from mobfl.runs.folder import read_run

    by_classes = len(job.scenario.classes) > 1 and not job.scenario.is_city
    shares = shares_by_class(job, len(history)) if by_classes else []
    results = read_run(asked.out)["results"]
    if not asked.as_json:
        last = (results["notices"], asked.out, results.get("privacy"))
        print_training(console(), history, job.task.baselines, goals, *last)
        if shares:
            print_class_shares(console(), shares)
        if history.stations:
            print_stations(console(), results["stations"], history.leading)
        return
    times = {f"{name}={value:g}": history.time_to(name, value) for name, value in goals}
    told = {**results, "time_to_s": times}
    by_class = {"classes": [each.to_dict() for each in shares]} if shares else {}
    click.echo(json.dumps(told | by_class, indent=2))
