"""What came of many runs, as two tables for SQL, which DuckDB answers.

runs      a row per run: run, task, plan, policy, local_steps, round_s, objective (g), seed, status, min_loss, the KPIs,
          and the scenario's tables, so that SQL says training.loss_scale = 'paper'
rounds    a row per round of every run, as in rounds.parquet
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from mobfl.errors import InputError, MissingExtraError
from mobfl.experiments.runs import PARTS, TABLES, Run
from mobfl.files.atomic import replaced
from mobfl.runs.history import COLUMNS, WHOLE

_EXPORTS = (".csv", ".parquet")


class Results:
    """The runs as two tables for SQL, `runs` and `rounds`. A query reads these alone, and writes no files.

    Args:
        runs: As `find_runs` gives them; at least one.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise InputError("results must hold at least one run, got none")
        self.runs = runs
        self.kpis = {kpi.name: kpi for run in runs for kpi in run.history.kpis}
        self._database = duckdb.connect()
        for name, table in (("runs", pa.Table.from_pylist(_aligned(runs))), ("rounds", _rounds(runs))):
            self._database.register("source", table)
            self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self._database.unregister("source")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

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
        """A row per plan and setting: the metric's mean, least and most over the seeds of finished runs.

        Args:
            metric: A column of `runs`, such as `min_loss`.
            where: Which runs, as in `select`.
        """
        same = ("task", "plan", "policy", *PARTS, "local_steps", "round_s", "objective", "data", "trace", *TABLES)
        return self.query(
            f"""SELECT {", ".join(f"any_value({name}) AS {name}" for name in same)}, count(DISTINCT seed) AS seeds,
                       avg({metric}) AS mean, min({metric}) AS least, max({metric}) AS most
            FROM (SELECT * FROM runs {_condition(where)}) WHERE status = 'done' GROUP BY identity ORDER BY task, mean"""
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
        pa.table({"run": pa.array([run.name] * len(run.history), pa.string()), **run.history.columns}) for run in runs
    ]
    return pa.concat_tables([empty, *tables], promote_options="default")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def check_export(file: Path, option: str = "export") -> None:
    if file.suffix.lower() not in _EXPORTS:
        raise InputError(f"{option} must end in one of {', '.join(_EXPORTS)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise InputError(f"{option} must be in a folder that is there, got {str(file)!r}")


def export(table: pa.Table, file: Path) -> None:
    """A CSV has the scenario's tables as columns such as training.loss_scale; a Parquet file keeps them nested."""
    check_export(file)
    try:
        with replaced(file) as temporary:
            if file.suffix.lower() == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, temporary, compression="zstd")
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
