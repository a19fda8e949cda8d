"""`mobfl results`."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import console, json_option, need, parse_target
from mobfl.errors import InputError, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from mobfl.experiments.results import Results
    from mobfl.experiments.runs import Run

_WIDEST = 10_000  # characters of a table


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--where", metavar="SQL", help='Only runs for which this holds: "seed = 1 and min_loss < 2".')
@click.option("--sort", metavar="COLUMN", help='By default the run\'s name; "min_loss desc" works too.')
@click.option("--columns", metavar="A,B,…", help="Which columns to print.")
@click.option("--compare", metavar="METRIC", help="A row per plan: the metric's mean ± sd and range over seeds.")
@click.option("--target", metavar="KPI=VALUE", help="When the loss or a KPI got there, in virtual seconds.")
@click.option(
    "--effective", is_flag=True, help="Add how many local steps each model moved by, found without training it."
)
@click.option("--sql", metavar="QUERY", help="A query of your own over the tables runs, rounds and stations.")
@click.option(
    "--export", "file", type=click.Path(path_type=Path), metavar="FILE", help="Write a CSV, Parquet or .tex file."
)
@click.option("--tensorboard", type=click.Path(path_type=Path), metavar="FOLDER", help="Export curves for TensorBoard.")
@json_option
def results(
    folder: Path,
    where: str | None,
    sort: str | None,
    columns: str | None,
    compare: str | None,
    target: str | None,
    effective: bool,
    sql: str | None,
    file: Path | None,
    tensorboard: Path | None,
    as_json: bool,
) -> None:
    """List, filter, compare and export the runs anywhere below FOLDER."""
    need("results of many runs", "experiments", "duckdb")
    from mobfl.experiments.results import Results, check_export, export, export_tensorboard
    from mobfl.experiments.runs import find_runs

    if file is not None:
        check_export(file)
    if effective and (compare is not None or sql is not None):
        raise InputError("--effective goes with a list of runs, got --compare or --sql")
    _check_together({"--compare": compare, "--target": target, "--sql": sql}, where, sort)
    runs, broken = find_runs(folder)
    for line in broken:
        click.echo(line, err=True)
    found = Results(runs)
    table = _table(found, where, sort, compare, target, sql)
    if effective:
        table = _with_effective(table, runs)
    if tensorboard is not None:
        kept = set(found.select(where)["run"].to_pylist())
        export_tensorboard((run for run in runs if run.name in kept), tensorboard)
    if columns is not None:
        table = _chosen(table.flatten(), [name.strip() for name in columns.split(",")])
    everything = columns is not None or sql is not None
    if file is not None:
        export(_for_paper(table, everything) if file.suffix.lower() == ".tex" else table, file)
    _print(table, as_json, everything)


def _for_paper(table: "pa.Table", everything: bool) -> "pa.Table":
    """What a page has room for: the columns that are printed."""
    flat = table.flatten()
    rows = flat.to_pylist()
    return flat if everything else flat.select([name for name in flat.column_names if _telling(name, rows)])


def _check_together(ways: Mapping[str, str | None], where: str | None, sort: str | None) -> None:
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise InputError("only one of --compare, --target and --sql can be given")
    if where is not None and "--sql" in given:
        raise InputError("--where must be in the query itself with --sql")
    if sort is not None and given and given != ["--target"]:
        raise InputError(f"--sort goes with a list of runs, got {given[0]}")


def _table(
    found: "Results", where: str | None, sort: str | None, compare: str | None, target: str | None, sql: str | None
) -> "pa.Table":
    if sql is not None:
        return found.query(sql)
    if compare is not None:
        return found.compare(compare, where)
    table = found.select(where, sort)
    return table if target is None else _with_times(table, found.times_to(*parse_target(target)))


def _with_times(table: "pa.Table", times: Mapping[str, float | None]) -> "pa.Table":
    import pyarrow as pa

    column = [times.get(run) for run in table["run"].to_pylist()]
    return table.append_column("time_s", pa.array(column, pa.float64()))


def _with_effective(table: "pa.Table", runs: Sequence["Run"]) -> "pa.Table":
    """Null where traffic was recorded or the rule is not linear in the uploads."""
    import pyarrow as pa

    from mobfl.experiments.studies import Labelled

    found = {run.name: Labelled("", run).effective for run in runs}
    moved = {name: None if isinstance(each, str) else each.total for name, each in found.items()}
    column = [moved[name] for name in table["run"].to_pylist()]
    return table.append_column("effective_steps", pa.array(column, pa.float64()))


def _chosen(table: "pa.Table", columns: Sequence[str]) -> "pa.Table":
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"--columns must name columns, got {name!r}; there are {', '.join(table.column_names)}")
    return table.select(columns)


def _print(table: "pa.Table", as_json: bool, everything: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from mobfl.experiments.latex import spread_cell, with_spread
    from mobfl.files.json import plain

    if as_json:
        click.echo(json.dumps(plain(table.to_pylist()), indent=2, default=_as_number))
        return

    flat = table.flatten()
    rows = flat.to_pylist()
    telling = flat.column_names if everything else [name for name in flat.column_names if _telling(name, rows)]
    names = with_spread(telling)
    shown = Table(box=None)
    for name in names:
        numeric = any(isinstance(row.get(name, 0.0), int | float) for row in rows)
        shown.add_column(name, justify="right" if numeric else "left", no_wrap=name == "run")
    for row in rows:
        shown.add_row(*(escape(spread_cell(row, name) or _cell(row[name])) for name in names))
    screen = console()
    if not screen.is_terminal:  # a file or another program wants all of it
        screen.width = screen.measure(shown, options=screen.options.update_width(_WIDEST)).maximum
    screen.print(shown)
    screen.print(counted(len(rows), "row"), style="dim")


def _as_number(value: Any) -> Any:
    """What JSON does not know: DuckDB's sums of whole numbers, dates."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else str(value)


_ALWAYS = {
    "run",
    "task",
    "plan",
    "objective",
    "seed",
    "seeds",
    "status",
    "min_loss",
    "mean",
    "least",
    "most",
    "time_s",
    "effective_steps",
}


def _telling(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Settings, and the state of the code, are shown where they differ."""
    if name == "sd":  # of a single seed there is none, which is worth seeing
        return True
    if name in _ALWAYS or name.startswith("best_"):
        return any(row[name] is not None for row in rows)
    return ("." in name or name == "code") and len({repr(row[name]) for row in rows}) > 1


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
