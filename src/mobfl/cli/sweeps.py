"""`mobfl sweep`, `mobfl reproduce` and `mobfl report`."""

import importlib.util
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.completion import complete_sweep
from mobfl.cli.following import MARKS, followed, preparing, stages
from mobfl.cli.options import FAILED, cores, json_option, look_options, need, workers_option
from mobfl.errors import InputError, counted

if TYPE_CHECKING:
    from mobfl.experiments.sweep import Planned, State
    from mobfl.experiments.sweep_file import Sweep


def runs_sweep(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds what every command has that trains many runs."""
    for decorate in (
        json_option,
        click.option(
            "--checkpoint",
            "checkpoint_s",
            default=30.0,
            show_default=True,
            metavar="S",
            help="Seconds between checkpoints.",
        ),
        click.option("--ray", metavar="ADDRESS", help="Run on this Ray cluster (auto: the one that runs here)."),
        workers_option,
    ):
        command = decorate(command)
    return command


def _table_file(_: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None:
        need_experiments()
        from mobfl.experiments.results import check_export

        check_export(file, parameter.opts[0])
    return file


table_option = click.option(
    "--table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=_table_file,
    help="Write how runs compare with the baseline as CSV, Parquet or .tex.",
)


@click.command()
@click.argument("sweep", metavar="SWEEP", shell_complete=complete_sweep)
@click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Where the sweep's data sets are.")
@runs_sweep
@click.option("--list", "only_list", is_flag=True, help="Say what would run, and how far it is.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Where the runs go.")
@click.pass_context
def sweep(
    context: click.Context,
    sweep: str,
    data: Path | None,
    workers: int | None,
    ray: str | None,
    checkpoint_s: float,
    as_json: bool,
    only_list: bool,
    out: Path,
) -> None:
    """Train every run of SWEEP, a TOML file or the name of a packaged sweep.

    The same command continues where it was stopped; finished runs are never repeated. Data sets that the sweep names
    are looked for as they are written, and below --data or $MOBFL_DATA.
    """
    need_experiments()
    from mobfl.experiments.sweep import states
    from mobfl.experiments.sweep_file import load_sweep

    below = os.environ.get("MOBFL_DATA")
    wanted = load_sweep(sweep, checked_folder(data or (Path(below) if below else None)))
    runs = prepared(wanted)
    run_states = states(out, runs) if only_list else run_all(wanted, runs, out, workers, ray, checkpoint_s)
    say(run_states, as_json, every_run=only_list)
    if not only_list:
        end(context, run_states)


@click.command()
@click.option("--quick", is_flag=True, help="A coarse grid on generated data: a few minutes on two cores.")
@click.option(
    "--sweep",
    "names",
    multiple=True,
    metavar="SWEEP",
    shell_complete=complete_sweep,
    help="Instead of the paper's: a file or a packaged sweep; may be repeated.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Real data; without it, generated data."
)
@runs_sweep
@look_options
@click.option("--out", type=click.Path(path_type=Path), default="out/reproduce", show_default=True, metavar="FOLDER")
@click.pass_context
def reproduce(
    context: click.Context,
    quick: bool,
    names: tuple[str, ...],
    data: Path | None,
    workers: int | None,
    ray: str | None,
    checkpoint_s: float,
    as_json: bool,
    out: Path,
) -> None:
    """Do the paper's experiments and write one page, report.html, with figures, tables and where each number is from.

    With --quick in a few minutes; otherwise with the paper's settings, for hours. The same command continues where it
    was stopped, and `mobfl report` shows what there is meanwhile.
    """
    need_experiments()
    from mobfl.experiments.sweep_file import joined, load_sweep

    folder = checked_folder(data)
    chosen = names or (("quick",) if quick else _both_tasks(folder))
    wanted = joined([load_sweep(name, folder, generated=folder is None) for name in chosen])
    run_states = run_all(wanted, prepared(wanted), out, workers, ray, checkpoint_s)
    page = write_page(out)
    say(run_states, as_json)
    click.echo(f"The report is {page}.", err=as_json)
    end(context, run_states)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@table_option
@look_options
def report(folder: Path, table: Path | None) -> None:
    """Write the page report.html of the runs in FOLDER, and its figures.

    FOLDER is a sweep's, finished or not, or any that has runs below it: these are shown by task and setting.
    """
    need_experiments()
    click.echo(f"The report is {write_page(folder, table)}.")


def _both_tasks(data: Path | None) -> tuple[str, ...]:
    """The paper's two, or only beams with the reason said."""
    if importlib.util.find_spec("torch") is None:
        reason = "they need the extra 'torch': pip install 'mobfl[torch]'"
    elif data is not None and not (data / "argoverse1" / "train").is_dir():
        reason = f"{data / 'argoverse1'} has no folder train"
    else:
        return "beams", "trajectories"
    click.echo(f"trajectories are left out: {reason}", err=True)
    return ("beams",)


def need_experiments() -> None:
    for module in ("joblib", "duckdb", "jinja2", "matplotlib"):
        need("experiments", "experiments", module)
    need("training", "train", "safetensors")


def checked_folder(data: Path | None) -> Path | None:
    if data is not None and not data.is_dir():
        raise InputError(f"--data must be a folder that holds data sets, got {str(data)!r}")
    return data


def prepared(wanted: "Sweep") -> list["Planned"]:
    from mobfl.experiments.sweep import name_runs, stays_left_out

    if wanted.hopeless:
        left_out = f"{counted(wanted.hopeless, 'plan')} of the grid {'is' if wanted.hopeless == 1 else 'are'} left out"
        click.echo(f"{left_out}: no vehicle could upload in time", err=True)
    with preparing(len(wanted.requests)) as progress:
        runs = name_runs(wanted, progress)
    for sentence in stays_left_out(wanted):
        click.echo(sentence, err=True)
    return runs


def run_all(
    wanted: "Sweep",
    runs: Sequence["Planned"],
    out: Path,
    workers: int | None,
    ray: str | None,
    checkpoint_s: float,
    add: bool = False,
) -> dict[str, "State"]:
    from mobfl.experiments.pool import ALL
    from mobfl.experiments.sweep import run_sweep

    count = ALL if workers is None and ray is not None else cores(workers)
    notices = list[str]()
    with followed(runs, out, count) as watch:
        came = run_sweep(
            wanted, out, runs=runs, workers=count, ray=ray, checkpoint_s=checkpoint_s, add=add, progress=watch,
            notice=notices.append,
        )  # fmt: skip
    for sentence in notices:
        click.echo(sentence, err=True)
    return came


def write_page(folder: Path, table: Path | None = None) -> Path:
    """The report of a sweep's folder, and the table of its comparison in a file, if that is wanted."""
    from mobfl.experiments.any_folder import studies_below
    from mobfl.experiments.arena_table import arena_table
    from mobfl.experiments.folder import SWEEP, read_sweep
    from mobfl.experiments.results import export
    from mobfl.experiments.targets import NO_COMPARISON
    from mobfl.reports.page import write_report

    studies, broken = studies_below(folder)
    for sentence in broken:
        click.echo(sentence, err=True)
    stored = read_sweep(folder) if (folder / SWEEP).exists() else None
    title, comparison = (f"Runs in {folder.resolve().name}", NO_COMPARISON)
    if stored is not None:
        title, comparison = stored.title, stored.comparison
    if table is not None:
        export(arena_table(studies, comparison), table)
    with stages() as progress:
        command = shlex.join(["mobfl", *sys.argv[1:]])
        return write_report(studies, folder, title, command, progress, comparison)


def end(context: click.Context, run_states: Mapping[str, "State"]) -> None:
    if any(state.status != "done" for state in run_states.values()):
        context.exit(FAILED)


def say(run_states: Mapping[str, "State"], as_json: bool, every_run: bool = False) -> None:
    if as_json:
        rows = [{"run": name, "status": state.status, "reason": state.reason} for name, state in run_states.items()]
        click.echo(json.dumps(rows, indent=2))
        return
    counts = Counter(state.status for state in run_states.values())
    click.echo(", ".join(f"{counts[status]} {status}" for status in MARKS if counts[status]))
    for name, state in run_states.items():
        if every_run or state.status != "done":
            click.echo(f"{name}: {state.status}" + (f", {state.reason}" if state.reason else ""))
