"""`mobfl results`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import console, json_option, need, parse_target
from mobfl.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from mobfl.results import Results

_WIDEST = 10_000  # characters of a table


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
    table = _table(Results(runs), where, sort, compare, target, sql)
    if columns is not None:
        table = _chosen(table.flatten(), [name.strip() for name in columns.split(",")])
    if tensorboard is not None:
        kept = set(table["run"].to_pylist()) if "run" in table.column_names else {run.name for run in runs}
        export_tensorboard((run for run in runs if run.name in kept), tensorboard)
    if file is not None:
        export(table, file)
    _print(table, as_json, everything=columns is not None or sql is not None)


def _table(
    came: "Results", where: str | None, sort: str | None, compare: str | None, target: str | None, sql: str | None
) -> "pa.Table":
    if sql is not None:
        return came.query(sql)
    if compare is not None:
        return came.compare(compare, where)
    table = came.select(where, sort)
    return table if target is None else _with_times(table, came.times_to(*parse_target(target)))


def _with_times(table: "pa.Table", times: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    by_run = dict(zip(times["run"].to_pylist(), times["time_s"].to_pylist(), strict=True))
    return table.append_column("time_s", pa.array([by_run[run] for run in table["run"].to_pylist()], pa.float64()))


def _chosen(table: "pa.Table", columns: Sequence[str]) -> "pa.Table":
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"--columns must name columns, got {name!r}; there are {', '.join(table.column_names)}")
    return table.select(columns)


def _print(table: "pa.Table", as_json: bool, everything: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from mobfl.run_folder import plain

    if as_json:
        click.echo(json.dumps(plain(table.to_pylist()), indent=2, default=str))
        return

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
