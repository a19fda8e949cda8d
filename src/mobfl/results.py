"""What came of many runs, as two tables that DuckDB queries over the runs' own files.

runs      a row per run: run, task, policy, local_steps, round_s, objective (g), seed, status, min_loss, …, and the
          scenario's tables, so that SQL says training.loss_scale = 'paper'
rounds    a row per round of every run, as in rounds.parquet
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from mobfl import theory
from mobfl.atomic import replaced
from mobfl.errors import InputError, MissingExtraError
from mobfl.history import COLUMNS, History
from mobfl.run_folder import ROUNDS, RUN, read_history, read_run, read_status, read_timing
from mobfl.scenario import Scenario
from mobfl.sweep import RUNS

TABLES = ("road", "traffic", "link", "compute", "training")
_EXPORTS = (".csv", ".parquet")


@dataclass(frozen=True)
class Run:
    """One run on disk."""

    folder: Path
    name: str
    description: Mapping[str, Any]

    @property
    def scenario(self) -> Scenario:
        return Scenario.from_dict(self.description["scenario"])

    @property
    def history(self) -> History:
        return read_history(self.folder)

    @property
    def objective(self) -> float | None:
        """g of the run's H and T on its road; None where there are no rounds of one length."""
        plan = self.description["plan"]
        if plan.get("policy", "rounds") != "rounds" or self.description["trace"] is not None:
            return None
        return float(theory.objective(self.scenario, plan["local_steps"], plan["round_s"]))

    def row(self) -> dict[str, Any]:
        told, plan = self.description, self.description["plan"]
        return {
            "run": self.name,
            "task": told["task"],
            "policy": plan.get("policy", "rounds"),
            "local_steps": plan["local_steps"],
            "round_s": plan["round_s"],
            "objective": self.objective,
            "seed": told["seed"],
            "status": told["status"],
            "reason": told["reason"],
            "data": told["data"].get("data"),
            "initial_loss": told["initial"]["loss"],
            "wall_s": read_timing(self.folder).get("wall_s"),
            "file": str(self.folder / ROUNDS),
            **{table: _plain(told["scenario"][table]) for table in TABLES},
        }


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """With a range as its least and most number, for a column has one type."""
    plain = dict(table)
    if "samples_per_vehicle" in plain:
        given = plain.pop("samples_per_vehicle")
        ends = given if isinstance(given, list | tuple) else (given, given)
        plain |= {"least_samples": ends[0], "most_samples": ends[1]}
    return plain


def find_runs(folder: str | Path) -> tuple[list[Run], list[str]]:
    """The runs anywhere below a folder, by name, and a sentence for each that cannot be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"results must be in a folder, got {str(folder)!r}")
    runs, broken = list[Run](), list[str]()
    for file in sorted(folder.rglob(RUN)):
        place = file.parent
        try:
            run = Run(place, _name(place, folder), read_run(place))
            run.row()
            runs.append(run)
        except InputError as error:
            told = read_status(place)
            broken.append(f"{place} failed: {told['reason']}" if told["status"] == "failed" else str(error))
        except (KeyError, TypeError, AttributeError) as error:
            broken.append(f"{file} must describe a run, got {error!r}")
    return runs, broken


def _name(place: Path, folder: Path) -> str:
    """The run's place below the folder, without the `runs` of every sweep."""
    return "/".join(part for part in place.relative_to(folder).parts if part != RUNS) or place.name


class Results:
    """The runs as tables. What a query may do ends at these: it reads and writes no files."""

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise InputError("results must hold at least one run, got none")
        self.runs = runs
        self.kpis = _kpis(runs)
        self._database = duckdb.connect()
        self._database.register("described", pa.Table.from_pylist([run.row() for run in runs]))
        self._load_rounds()
        self._load_runs()
        self._database.unregister("described")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def _load_rounds(self) -> None:
        columns = dict.fromkeys((*COLUMNS, *self.kpis), "DOUBLE")
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        source = f"SELECT '' AS run, {empty} WHERE false"
        if files := [str(run.folder / ROUNDS) for run in self.runs if (run.folder / ROUNDS).exists()]:
            listed = ", ".join(_text(file) for file in files)
            source += (
                " UNION ALL BY NAME SELECT described.run, rows.* EXCLUDE (filename) FROM"
                f" read_parquet([{listed}], union_by_name = true, filename = true) AS rows"
                " JOIN described ON rows.filename = described.file"
            )
        self._database.execute(f"CREATE TABLE rounds AS {source}")

    def _load_runs(self) -> None:
        scores = ", ".join(
            f"{'max' if more else 'min'}({kpi}) FILTER (NOT isnan({kpi})) AS best_{kpi},"
            f" arg_max({kpi}, round) AS last_{kpi}"
            for kpi, more in self.kpis.items()
        )
        tables = ", ".join(TABLES)
        self._database.execute(
            f"""CREATE TABLE runs AS
            SELECT described.* EXCLUDE ({tables}, file, initial_loss, wall_s), came.* EXCLUDE (run, least),
                   least(initial_loss, came.least) AS min_loss, wall_s, {tables}
            FROM described LEFT JOIN (
                SELECT run, count(*) AS rounds, sum(uploads)::BIGINT AS uploads, sum(rejected)::BIGINT AS rejected,
                       max(end_s) AS virtual_s, min(loss) FILTER (NOT isnan(loss)) AS least,
                       arg_max(loss, round) AS last_loss, {scores}
                FROM rounds GROUP BY run
            ) AS came USING (run) ORDER BY described.run"""
        )

    def query(self, sql: str) -> pa.Table:
        try:
            return self._database.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise InputError(f"the query must be SQL over runs and rounds, got {_first_line(error)}") from None

    def select(self, where: str | None = None, sort: str | None = None) -> pa.Table:
        """The runs for which a condition holds."""
        condition = f"WHERE {where}" if where else ""
        return self.query(f"SELECT * FROM runs {condition} ORDER BY {sort or 'run'}")

    def compare(self, metric: str, where: str | None = None) -> pa.Table:
        """A row per plan and setting: the metric's mean, least and most over the seeds of finished runs."""
        condition = f"AND ({where})" if where else ""
        settings = ", ".join(TABLES)
        return self.query(
            f"""SELECT task, policy, local_steps, round_s, objective, count(*) AS seeds, avg({metric}) AS mean,
                       min({metric}) AS least, max({metric}) AS most, {settings}
            FROM runs WHERE status = 'done' {condition}
            GROUP BY task, policy, local_steps, round_s, objective, data, {settings} ORDER BY task, mean"""
        )

    def times_to(self, column: str, target: float) -> pa.Table:
        """Virtual seconds until each run's loss or KPI was as good as the target; null if it never was."""
        if column != "loss" and column not in self.kpis:
            raise InputError(f"--target must name one of {', '.join(['loss', *self.kpis])}, got {column!r}")
        sign = ">=" if self.kpis.get(column, False) else "<="
        return self.query(
            f"""SELECT run, min(end_s) FILTER (NOT isnan({column}) AND {column} {sign} {target!r}) AS time_s
            FROM runs LEFT JOIN rounds USING (run) GROUP BY run ORDER BY run"""
        )


def _kpis(runs: Iterable[Run]) -> dict[str, bool]:
    found = dict[str, bool]()
    for run in runs:
        for kpi, more in run.description["kpis"].items():
            if not kpi.isidentifier():
                raise InputError(f"{run.folder / RUN}: a KPI must be named like a variable, got {kpi!r}")
            found[kpi] = bool(more)
    return found


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def check_export(file: Path) -> None:
    if file.suffix.lower() not in _EXPORTS:
        raise InputError(f"--export must end in one of {', '.join(_EXPORTS)}, got {str(file)!r}")


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
        raise InputError(f"--export {str(file)!r} cannot be written: {error.strerror}") from None


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
            for name in ("loss", *history.kpis, "uploads"):
                for step, value in zip(steps, history.columns[name].tolist(), strict=True):
                    writer.add_scalar(name, value, step)
