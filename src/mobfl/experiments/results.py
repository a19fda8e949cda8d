"""What came of many runs, as tables for SQL, which DuckDB answers.

runs      a row per run: run, task, plan, policy, local_steps, round_s, objective (g), seed, status, min_loss, the KPIs,
          and the scenario's tables, so that SQL says training.loss_scale = 'paper'
rounds    a row per round of every run, as in rounds.parquet
stations  a row per station of every run in a city, and for the cloud: what its last model scores, on all data and on
          the station's own
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from mobfl.display import Displayed, Sheet, Tabular, as_pandas, shortened
from mobfl.errors import InputError, MissingExtraError, counted
from mobfl.experiments.latex import booktabs
from mobfl.experiments.runs import PARTS, TABLES, Run, find_runs
from mobfl.files.atomic import replaced
from mobfl.runs.folder import written
from mobfl.runs.history import COLUMNS, WHOLE

if TYPE_CHECKING:
    import pandas as pd

_EXPORTS = (".csv", ".parquet", ".tex")


class Results(Displayed, Tabular):
    """The runs as tables for SQL, `runs`, `rounds` and `stations`. A query reads these alone, and writes no files.

    Args:
        runs: As `find_runs` gives them, or the folder they are in; at least one.

    Attributes:
        broken: A sentence for each run of the folder that cannot be read.
    """

    def __init__(self, runs: Sequence[Run] | str | os.PathLike[str]) -> None:
        self.broken = list[str]()
        if isinstance(runs, str | os.PathLike):
            runs, self.broken = find_runs(runs)
        if not runs:
            raise InputError("results must hold at least one run, got none")
        self.runs = runs
        self.kpis = {kpi.name: kpi for run in runs for kpi in run.history.kpis}
        self._database = duckdb.connect()
        tables = {"runs": pa.Table.from_pylist(_aligned(runs)), "rounds": _rounds(runs), "stations": _stations(runs)}
        for name, table in tables.items():
            self._database.register("source", table)
            self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self._database.unregister("source")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def to_arrow(self) -> pa.Table:
        """The table `runs`, with the scenario's values as columns such as training.loss_scale."""
        return self.select().flatten()

    def to_pandas(self) -> "pd.DataFrame":
        """The table `runs` as a data frame of pandas."""
        return as_pandas(self.to_arrow())

    def _brief(self) -> str:
        done = sum(run.description["status"] == "done" for run in self.runs)
        return f"{counted(len(self.runs), 'run')}, {done} done, of {', '.join(sorted(self._tasks))}"

    @property
    def _tasks(self) -> set[str]:
        return {str(run.description["task"]) for run in self.runs}

    def _sheet(self) -> Sheet:
        names = ["run", "task", "plan", "seed", "status", "rounds", "uploads", "min_loss"]
        names += [f"best_{kpi}" for kpi in self.kpis]
        table = self.select().select(names).to_pylist()
        rows = shortened(len(table), lambda place: [_said(table[place][name]) for name in names])
        return Sheet(counted(len(table), "run"), rows, names, self.broken)

    def query(self, sql: str) -> pa.Table:
        """The answer to a query in DuckDB's SQL.

        Args:
            sql: A SELECT over `runs` and `rounds`.
        """
        try:
            answer = self._database.sql(sql)
            if answer is None:
                raise InputError(f"the query must be a SELECT, got {sql!r}")
            return answer.to_arrow_table()
        except duckdb.Error as error:
            raise InputError(f"the query must be SQL over runs and rounds, got {_first_line(error)}") from None

    def select(self, where: str | None = None, sort: str | None = None) -> pa.Table:
        """The runs for which a condition holds, a row each.

        Args:
            where: In SQL, such as `seed = 1 AND training.loss_scale = 'paper'`; by default all.
            sort: Columns in SQL, such as `min_loss DESC`; by default the run's name.
        """
        return self.query(f"SELECT * FROM runs {_condition(where)} ORDER BY {sort or 'run'}")

    def compare(self, metric: str, where: str | None = None) -> pa.Table:
        """A row per plan and setting, the best first: the metric's mean, spread (sd), least and most over seeds.

        Finished runs only. Less is better, save for KPIs of which more is.

        Args:
            metric: A column of `runs`, such as `min_loss`.
            where: Which runs, as in `select`.
        """
        rising = [name for name, kpi in self.kpis.items() if kpi.more_is_better]
        more_is_better = {"objective", *(f"{which}_{name}" for name in rising for which in ("best", "last"))}
        order = "DESC" if metric.strip().lower() in more_is_better else "ASC"
        same = ("task", "plan", "policy", *PARTS, "local_steps", "round_s", "objective", "data", "trace", *TABLES)
        return self.query(
            f"""SELECT {", ".join(f"any_value({name}) AS {name}" for name in same)}, count(DISTINCT seed) AS seeds,
                       avg({metric}) AS mean, stddev_samp({metric}) AS sd, min({metric}) AS least,
                       max({metric}) AS most
            FROM (SELECT * FROM runs {_condition(where)}) WHERE status = 'done'
            GROUP BY identity ORDER BY task, coalesce(isnan(mean), true), mean {order}"""
        )

    def times_to(self, column: str, target: float) -> dict[str, float | None]:
        """By run: virtual seconds until its loss or KPI was as good as the target; None if it never was.

        Args:
            column: `loss` or a KPI's name.
            target: At most this loss; at least this KPI, or at most, where less is better.
        """
        if column != "loss" and column not in self.kpis:
            raise InputError(f"the target must name one of {', '.join(['loss', *self.kpis])}, got {column!r}")
        known = {run.name: run.history for run in self.runs if column == "loss" or column in run.history.columns}
        return {name: history.time_to(column, target) for name, history in known.items()}


def _said(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _condition(where: str | None) -> str:
    return f"WHERE ({where}\n)" if where else ""  # on a line of its own: a comment may end the condition


def _aligned(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Rows with the same columns in the same order, though tasks have KPIs of their own."""
    rows = [run.row() for run in runs]
    names = dict.fromkeys(name for row in rows for name in row)
    last = ("wall_s", "identity", *TABLES)
    order = [*(name for name in names if name not in last), *last]
    return [{name: row.get(name) for name in order} for row in rows]


def _rounds(runs: Sequence[Run]) -> pa.Table:
    kinds = {name: pa.int64() if name in WHOLE else pa.float64() for name in COLUMNS}
    empty = pa.table({name: pa.array([], kind) for name, kind in {"run": pa.string(), **kinds}.items()})
    tables = [
        pa.table({"run": pa.array([run.name] * len(run.history), pa.string()), **written(run.history)}) for run in runs
    ]
    return pa.concat_tables([empty, *tables], promote_options="default")


def _stations(runs: Sequence[Run]) -> pa.Table:
    rows = [row for run in runs for row in run.stations()]
    names = dict.fromkeys(name for row in rows for name in row)
    empty = pa.table({name: pa.array([], pa.string()) for name in ("run", "station")})
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows]) if rows else empty


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def check_export(file: Path, option: str = "export") -> None:
    if file.suffix.lower() not in _EXPORTS:
        raise InputError(f"{option} must end in one of {', '.join(_EXPORTS)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise InputError(f"{option} must be in a folder that is there, got {str(file)!r}")


def export(table: pa.Table, file: Path) -> None:
    """A CSV has the scenario's tables as columns such as training.loss_scale; a Parquet file keeps them nested.

    A .tex file is a `tabular` for LaTeX's booktabs.
    """
    check_export(file)
    try:
        with replaced(file) as temporary:
            if file.suffix.lower() == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, temporary, compression="zstd")
            elif file.suffix.lower() == ".tex":
                temporary.write_text(booktabs(table), encoding="utf-8")
            else:
                import pyarrow.csv as csv

                csv.write_csv(table.flatten(), temporary)
    except OSError as error:
        raise InputError(f"export {str(file)!r} cannot be written: {error.strerror}") from None
    except pa.ArrowException as error:
        raise InputError(f"export {str(file)!r} must be a format that can hold the result: {error}") from None


def export_tensorboard(runs: Iterable[Run], folder: Path) -> None:
    """One TensorBoard run each: loss, KPIs and uploads over virtual seconds."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError("an export for TensorBoard", "tensorboard") from None
    for run in runs:
        history = run.history
        with SummaryWriter(str(folder / run.name)) as writer:
            writer.add_text("run", f"```\n{json.dumps(dict(run.description), indent=2)}\n```")
            steps = history.columns["end_s"].round().astype(int).tolist()
            for name in ("loss", *(kpi.name for kpi in history.kpis), "uploads"):
                for step, value in zip(steps, history.columns[name].tolist(), strict=True):
                    writer.add_scalar(name, value, step)
