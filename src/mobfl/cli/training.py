"""`mobfl train`."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import (
    INFEASIBLE,
    console,
    json_option,
    load,
    need,
    parse_plan,
    plot_option,
    read_trace,
    scenes_option,
    section_option,
    seed_option,
    takes_scenario,
    trace_option,
    working,
)
from mobfl.errors import InputError
from mobfl.planner import plan as best_plan
from mobfl.plans import Plan
from mobfl.scenario import parse_setting

if TYPE_CHECKING:
    from mobfl.history import History, Row


@click.command()
@click.argument("task")
@takes_scenario
@click.option("--plan", "wanted", default="mobfl", metavar="H,T", help="The plan; by default the planner's (mobfl).")
@click.option("--data", type=click.Path(path_type=Path), metavar="PATH", help="A data set; by default generated data.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="An option of the task; may be repeated.")
@trace_option
@section_option
@seed_option
@click.option("--backend", default="auto", show_default=True, metavar="NAME", help="auto, fused or torch.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="cpu or cuda.")
@click.option("--workers", type=int, metavar="N", help="Threads; by default one per core. The result is the same.")
@click.option("--target", "targets", metavar="KPI=VALUE", multiple=True, help="Tell when the loss or a KPI got there.")
@click.option(
    "--checkpoint", "checkpoint_s", default=30.0, show_default=True, metavar="S", help="Seconds between checkpoints."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="RUN", help="The run's folder.")
@json_option
@plot_option
@scenes_option
@click.pass_context
def train(
    context: click.Context,
    task: str,
    scenario: str,
    settings: tuple[str, ...],
    wanted: str,
    data: Path | None,
    options: tuple[str, ...],
    trace: Path | None,
    section: str | None,
    seed: int,
    backend: str,
    device: str,
    workers: int | None,
    targets: tuple[str, ...],
    checkpoint_s: float,
    resume: bool,
    out: Path,
    as_json: bool,
    plot: Path | None,
    scenes: Path | None,
) -> None:
    """Train TASK (beams or trajectories) with the vehicles that pass, and write the run into a folder.

    Without --data the samples are generated. The run can be interrupted at any time; the same command with --resume
    goes on, to the same bytes.
    """
    need("training", "train", "safetensors")
    if backend == "torch" or device != "cpu":
        need("the backend torch", "torch", "torch")
    from mobfl.history import check_target
    from mobfl.report import print_training
    from mobfl.tasks.catalogue import build_task
    from mobfl.training import Job, check_job, check_settings
    from mobfl.training import train as run

    cores = workers if workers is not None else len(os.sched_getaffinity(0))
    check_settings(out, resume, cores, checkpoint_s)
    road, goals = load(scenario, settings), [_parse_target(target) for target in targets]
    chosen = dict(parse_setting(option, "--option", "KEY=VALUE") for option in options)
    crossings = read_trace(trace, section)
    plan = best_plan(road, crossings) if wanted == "mobfl" else parse_plan(wanted)
    if isinstance(plan, Plan) and plan.reason is not None:
        click.echo(f"No plan is possible: {plan.reason}", err=True)
        context.exit(INFEASIBLE)
    with working("preparing data") as progress:
        made = build_task(task, chosen, _found(data), road.training.loss_scale, backend, device, progress)
    for name, _ in goals:
        check_target(name, made.kpis)
    if scenes is not None and not hasattr(made, "forecasts"):
        raise InputError(f"--scenes draws what trajectories predicts, got the task {task}")
    job = Job(made, road, plan, seed, crossings, None if trace is None else trace.name)
    with _following(check_job(job), made.kpis) as follow:
        history = run(job, out, resume=resume, workers=cores, checkpoint_s=checkpoint_s, progress=follow)
    _draw(made, history, out, plot, scenes)
    if as_json:
        from mobfl.run_folder import read_run

        times = {f"{name}={value:g}": history.time_to(name, value) for name, value in goals}
        click.echo(json.dumps({**read_run(out)["results"], "time_to_s": times}, indent=2))
    else:
        print_training(console(), history, made.baselines, goals, out)


def _draw(task: Any, history: "History", out: Path, plot: Path | None, scenes: Path | None) -> None:
    if plot is not None:
        from mobfl.figures import draw_history

        draw_history(history, plot)
    if scenes is not None:
        from mobfl.figures import draw_forecasts
        from mobfl.run_folder import BEST, read_model

        draw_forecasts(task.forecasts(read_model(out / BEST, task.initial_weights(0)).weights), scenes)


def _found(data: Path | None) -> Path | None:
    """Where the data are: as given, or below $MOBFL_DATA."""
    below = os.environ.get("MOBFL_DATA")
    if data is None or data.exists() or data.is_absolute() or not below:
        return data
    return Path(below) / data


def _parse_target(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        target = float(value)
    except ValueError:
        target = math.nan
    if not math.isfinite(target):
        raise InputError(f"--target must be NAME=NUMBER, got {text!r}")
    return name.strip(), target


@contextmanager
def _following(rounds: int, kpis: Any) -> Iterator[Callable[["Row"], None]]:
    """A progress bar on a terminal with round, virtual time, loss, the last KPI and the time left."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    kpi = list(kpis)[-1]
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("starting (the first run compiles for half a minute)", total=rounds)

        def follow(row: "Row") -> None:
            text = f"round {row['round'] + 1}/{rounds}  {row['end_s']:.0f} s  loss {row['loss']:.4g}"
            bar.update(shown, completed=row["round"] + 1, description=f"{text}  {kpi} {row[kpi]:.4g} ")

        yield follow
