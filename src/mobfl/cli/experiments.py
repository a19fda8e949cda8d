"""`mobfl sweep`, `mobfl reproduce`, `mobfl report` and `mobfl results`."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import FAILED, console, cores, json_option, need, parse_target, workers_option, working
from mobfl.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from mobfl.sweep import Planned, State
    from mobfl.sweep_file import Sweep

_MARKS = {"done": "green", "running": "bold", "failed": "red", "interrupted": "yellow", "waiting": "dim"}
_SHOWN = 20  # runs in the live table
_WIDEST = 10_000  # characters of a table


def _runs_sweep(command: Callable[..., Any]) -> Callable[..., Any]:
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


@click.command()
@click.argument("sweep", metavar="SWEEP")
@click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Where the sweep's data sets are.")
@_runs_sweep
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

    The same command goes on where it was stopped; finished runs are never repeated. Data sets that the sweep names are
    looked for as they are written, and below --data or $MOBFL_DATA.
    """
    _need_experiments()
    from mobfl.sweep import states
    from mobfl.sweep_file import load_sweep

    wanted = load_sweep(sweep, _data_folder(data))
    runs = _prepared(wanted)
    came = states(out, runs) if only_list else _run(wanted, runs, out, workers, ray, checkpoint_s)
    _say(came, as_json)
    _end(context, came)


@click.command()
@click.option("--quick", is_flag=True, help="A coarse grid on generated data: ten minutes on two cores.")
@click.option(
    "--sweep",
    "names",
    multiple=True,
    metavar="SWEEP",
    help="Instead of the paper's: a file or a packaged sweep; may be repeated.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Real data; without it, generated ones."
)
@_runs_sweep
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

    With --quick in ten minutes; otherwise with the paper's settings, for hours. The same command goes on where it was
    stopped, and `mobfl report` shows what there is meanwhile.
    """
    _need_experiments()
    from mobfl.sweep_file import joined, load_sweep

    chosen = names or (("quick",) if quick else ("beams",))
    folder = _data_folder(data)
    wanted = joined([load_sweep(name, folder, generated=folder is None) for name in chosen])
    came = _run(wanted, _prepared(wanted), out, workers, ray, checkpoint_s)
    page = _write_page(out, f"mobfl reproduce{' --quick' if quick else ''}")
    _say(came, as_json)
    click.echo(f"The report is {page}.", err=as_json)
    _end(context, came)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> None:
    """Write the page report.html of a sweep's FOLDER, finished or not, and its figures."""
    _need_experiments()
    click.echo(f"The report is {_write_page(folder, f'mobfl report {folder.name}')}.")


def _need_experiments() -> None:
    for module in ("joblib", "duckdb", "jinja2", "matplotlib"):
        need("experiments", "experiments", module)
    need("training", "train", "safetensors")


def _data_folder(data: Path | None) -> Path | None:
    given = data or os.environ.get("MOBFL_DATA")
    if given is not None and not Path(given).is_dir():
        raise InputError(f"--data must be a folder that holds data sets, got {str(given)!r}")
    return None if given is None else Path(given)


def _prepared(wanted: "Sweep") -> list["Planned"]:
    from mobfl.sweep import name_runs

    if wanted.hopeless:
        click.echo(f"{wanted.hopeless} plans of the grid are left out: no vehicle could upload in time", err=True)
    with working("preparing", len(wanted.requests)) as progress:
        return name_runs(wanted, progress)


def _run(
    wanted: "Sweep", runs: Sequence["Planned"], out: Path, workers: int | None, ray: str | None, checkpoint_s: float
) -> dict[str, "State"]:
    from mobfl.sweep import run_sweep

    with _live_table() as watch:
        return run_sweep(
            wanted, out, runs=runs, workers=cores(workers), ray=ray, checkpoint_s=checkpoint_s, watch=watch
        )


def _write_page(folder: Path, command: str) -> Path:
    from mobfl.report_page import write_report
    from mobfl.studies import read_studies
    from mobfl.sweep import read_title

    with _stages() as progress:
        return write_report(read_studies(folder), folder, read_title(folder), command, progress)


@contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """What is being done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("writing the report") as status:
        yield lambda text: status.update(text)


def _end(context: click.Context, came: Mapping[str, "State"]) -> None:
    if any(state.status == "failed" for state in came.values()):
        context.exit(FAILED)


def _say(came: Mapping[str, "State"], as_json: bool) -> None:
    if as_json:
        rows = [{"run": name, "status": state.status, "reason": state.reason} for name, state in came.items()]
        click.echo(json.dumps(rows, indent=2))
        return
    counts = Counter(state.status for state in came.values())
    click.echo(", ".join(f"{counts[status]} {status}" for status in _MARKS if counts[status]))
    for name, state in came.items():
        if state.status == "failed":
            click.echo(f"{name}: {state.reason}")


@contextmanager
def _live_table() -> Iterator[Callable[[Mapping[str, "State"]], None]]:
    """On a terminal: how many runs are done, running and failed, how far they are, and the time left."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live

    began, first = time.monotonic(), list[float]()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def watch(came: Mapping[str, "State"]) -> None:
            share = sum(state.share for state in came.values()) / len(came)
            first.append(share)
            live.update(_table(came, _left(time.monotonic() - began, share, first[0])), refresh=True)

        yield watch


def _left(elapsed_s: float, share: float, at_first: float) -> str:
    if share <= at_first:
        return "time left not known yet"
    seconds = round(elapsed_s * (1 - share) / (share - at_first))
    return f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


def _table(came: Mapping[str, "State"], left: str) -> "Table":
    from rich.table import Table

    counts = Counter(state.status for state in came.values())
    title = ", ".join(f"{counts[status]} {status}" for status in ("done", "running", "failed", "waiting"))
    table = Table(box=None, title=f"{title}; {left}", title_justify="left")
    for column in ("run", "", ""):
        table.add_column(column)
    order = sorted(
        came.items(), key=lambda item: ("running", "failed", "interrupted", "waiting", "done").index(item[1].status)
    )
    for name, state in order[:_SHOWN]:
        mark = _MARKS[state.status]
        table.add_row(name, f"[{mark}]{state.status}[/]", f"{state.share:.0%}")
    if len(order) > _SHOWN:
        table.add_row(f"and {len(order) - _SHOWN} more", "", "")
    return table


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--where", metavar="SQL", help='Only runs for which this holds: "seed = 1 and min_loss < 2".')
@click.option("--sort", metavar="COLUMN", help='By default the run\'s name; "min_loss desc" works too.')
@click.option("--columns", metavar="A,B,…", help="Which columns to print.")
@click.option("--compare", metavar="METRIC", help="A row per plan: the metric's mean and range over seeds.")
@click.option("--target", metavar="KPI=VALUE", help="When the loss or a KPI got there, in virtual seconds.")
@click.option("--sql", metavar="QUERY", help="A query of your own over the tables runs and rounds.")
@click.option("--export", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write a CSV or Parquet file.")
@click.option("--tensorboard", type=click.Path(path_type=Path), metavar="FOLDER", help="Export curves for TensorBoard.")
@json_option
def results(
    folder: Path,
    where: str | None,
    sort: str | None,
    columns: str | None,
    compare: str | None,
    target: str | None,
    sql: str | None,
    file: Path | None,
    tensorboard: Path | None,
    as_json: bool,
) -> None:
    """List, filter, compare and export the runs anywhere below FOLDER."""
    need("results of many runs", "experiments", "duckdb")
    from mobfl.results import Results, check_export, export, export_tensorboard, find_runs

    if file is not None:
        check_export(file)
    if sum(way is not None for way in (compare, target, sql)) > 1:
        raise InputError("only one of --compare, --target and --sql can be given")
    runs, broken = find_runs(folder)
    for line in broken:
        click.echo(line, err=True)
    came = Results(runs)
    if sql is not None:
        table = came.query(sql)
    elif compare is not None:
        table = came.compare(compare, where)
    else:
        table = came.select(where, sort)
        if target is not None:
            table = _with_times(table, came.times_to(*parse_target(target)))
    if columns is not None:
        table = _chosen(table.flatten(), [name.strip() for name in columns.split(",")])
    if tensorboard is not None:
        kept = set(table["run"].to_pylist()) if "run" in table.column_names else {run.name for run in runs}
        export_tensorboard((run for run in runs if run.name in kept), tensorboard)
    if file is not None:
        export(table, file)
    if as_json:
        click.echo(json.dumps(table.to_pylist(), indent=2, default=str))
    else:
        _print(table, columns is not None or sql is not None)


def _with_times(table: "pa.Table", times: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    by_run = dict(zip(times["run"].to_pylist(), times["time_s"].to_pylist(), strict=True))
    return table.append_column("time_s", pa.array([by_run[run] for run in table["run"].to_pylist()], pa.float64()))


def _chosen(table: "pa.Table", columns: Sequence[str]) -> "pa.Table":
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"--columns must name columns, got {name!r}; there are {', '.join(table.column_names)}")
    return table.select(columns)


def _print(table: "pa.Table", everything: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    flat = table.flatten()
    rows = flat.to_pylist()
    names = flat.column_names if everything else [name for name in flat.column_names if _telling(name, rows)]
    shown = Table(box=None)
    for name in names:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        shown.add_column(name, justify="right" if numeric else "left", no_wrap=name == "run")
    for row in rows:
        shown.add_row(*(escape(_cell(row[name])) for name in names))
    screen = console()
    if not screen.is_terminal:  # a file or another program wants all of it
        screen.width = screen.measure(shown, options=screen.options.update_width(_WIDEST)).maximum
    screen.print(shown)
    screen.print(f"{len(rows)} rows", style="dim")


_ALWAYS = (
    "run",
    "task",
    "policy",
    "local_steps",
    "round_s",
    "objective",
    "seed",
    "seeds",
    "status",
    "min_loss",
    "mean",
    "least",
    "most",
    "time_s",
)


def _telling(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Settings are shown where they differ."""
    if name in _ALWAYS or name.startswith("best_"):
        return any(row[name] is not None for row in rows)
    return "." in name and len({repr(row[name]) for row in rows}) > 1


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
