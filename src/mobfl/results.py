"""What came of many runs, as two tables for SQL, which DuckDB answers.

runs      a row per run: run, task, plan, policy, local_steps, round_s, objective (g), seed, status, min_loss, the KPIs,
          and the scenario's tables, so that SQL says training.loss_scale = 'paper'
rounds    a row per round of every run, as in rounds.parquet
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from mobfl import theory
from mobfl.atomic import replaced
from mobfl.errors import InputError, MissingExtraError
from mobfl.history import COLUMNS, WHOLE, History
from mobfl.plan_names import plan_name
from mobfl.run_folder import RUN, read_history, read_run, read_status, read_timing
from mobfl.scenario import Scenario
from mobfl.sweep_folder import RUNS

TABLES = ("road", "traffic", "link", "compute", "training")
_EXPORTS = (".csv", ".parquet")
# Runs that agree in these differ by their seeds only.
_IDENTITY = ("task", "plan", "trace", "scenario", "data")


@dataclass(frozen=True)
class Run:
    """One run on disk."""

    folder: Path
    name: str
    description: Mapping[str, Any]

    @property
    def scenario(self) -> Scenario:
        return Scenario.from_dict(self.description["scenario"])

    @cached_property
    def history(self) -> History:
        return read_history(self.folder)

    @property
    def identity(self) -> str:
        """The same for runs that differ by their seeds only."""
        text = json.dumps([self.description[key] for key in _IDENTITY], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def plan(self) -> str:
        return plan_name(self.description["plan"])

    @property
    def objective(self) -> float | None:
        """g of the run's H and T on its road; None where there are no rounds of one H and T, or no Poisson traffic."""
        plan, training = self.description["plan"], self.scenario.training
        if plan["policy"] != "rounds" or self.description["trace"] is not None or training.falling_to < 1:
            return None
        return float(theory.objective(self.scenario, plan["local_steps"], plan["round_s"]))

    def row(self) -> dict[str, Any]:
        told, plan, history = self.description, self.description["plan"], self.history
        return {
            "run": self.name,
            "task": told["task"],
            "plan": self.plan,
            "policy": plan["policy"],
            "local_steps": plan["local_steps"],
            "round_s": plan["round_s"],
            "objective": self.objective,
            "seed": told["seed"],
            "status": told["status"],
            "reason": told["reason"],
            "data": told["data"].get("data"),
            "trace": None if told["trace"] is None else told["trace"]["file"],
            "rounds": len(history),
            "uploads": int(history.columns["uploads"].sum()),
            "rejected": int(history.columns["rejected"].sum()),
            "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
            "min_loss": history.min_loss(),
            "last_loss": history.final("loss"),
            **{f"best_{kpi}": history.best(kpi) for kpi in history.kpis},
            **{f"last_{kpi}": history.final(kpi) for kpi in history.kpis},
            "wall_s": read_timing(self.folder).get("wall_s"),
            "identity": self.identity,
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
    for place, name in _names(folder).items():
        try:
            run = read_one(place, name)
            run.row()
            runs.append(run)
        except InputError as error:
            told = read_status(place)
            broken.append(f"{place} failed: {told.reason}" if told.status == "failed" else str(error))
        except (KeyError, TypeError, AttributeError) as error:
            broken.append(f"{place / RUN} must describe a run, got {error!r}")
    return runs, broken


def read_one(folder: Path, name: str) -> Run:
    return Run(folder, name, read_run(folder))


def _names(folder: Path) -> dict[Path, str]:
    """The runs' places below the folder, without the `runs` of every sweep where that leaves no doubt."""
    places = sorted(file.parent for file in folder.rglob(RUN))
    parts = {place: place.relative_to(folder).parts or (place.name,) for place in places}
    short = {place: "/".join(part for part in parts[place] if part != RUNS) for place in places}
    often = Counter(short.values())
    return {place: name if often[name] == 1 else "/".join(parts[place]) for place, name in short.items()}


class Results:
    """The runs as tables. What a query may do ends at these: it reads and writes no files."""

    def __init__(self, runs: Sequence[Run]) -> None:
        if not runs:
            raise InputError("results must hold at least one run, got none")
        self.runs = runs
        self.kpis = {kpi: more for run in runs for kpi, more in run.history.kpis.items()}
        self._database = duckdb.connect()
        for name, table in (("runs", pa.Table.from_pylist(_aligned(runs))), ("rounds", _rounds(runs))):
            self._database.register("source", table)
            self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self._database.unregister("source")
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")

    def query(self, sql: str) -> pa.Table:
        try:
            answer = self._database.sql(sql)
            if answer is None:
                raise InputError(f"the query must be a SELECT, got {sql!r}")
            return answer.to_arrow_table()
        except duckdb.Error as error:
            raise InputError(f"the query must be SQL over runs and rounds, got {_first_line(error)}") from None

    def select(self, where: str | None = None, sort: str | None = None) -> pa.Table:
        """The runs for which a condition holds."""
        return self.query(f"SELECT * FROM runs {_condition(where)} ORDER BY {sort or 'run'}")

    def compare(self, metric: str, where: str | None = None) -> pa.Table:
        """A row per plan and setting: the metric's mean, least and most over the seeds of finished runs."""
        same = ("task", "plan", "policy", "local_steps", "round_s", "objective", "data", "trace", *TABLES)
        return self.query(
            f"""SELECT {", ".join(f"any_value({name}) AS {name}" for name in same)}, count(DISTINCT seed) AS seeds,
                       avg({metric}) AS mean, min({metric}) AS least, max({metric}) AS most
            FROM (SELECT * FROM runs {_condition(where)}) WHERE status = 'done' GROUP BY identity ORDER BY task, mean"""
        )

    def times_to(self, column: str, target: float) -> dict[str, float | None]:
        """By run: virtual seconds until its loss or KPI was as good as the target; None if it never was."""
        if column != "loss" and column not in self.kpis:
            raise InputError(f"--target must name one of {', '.join(['loss', *self.kpis])}, got {column!r}")
        known = {run.name: run.history for run in self.runs if column == "loss" or column in run.history.kpis}
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
    except pa.ArrowException as error:
        raise InputError(f"--export {str(file)!r} must be a format that can hold the result: {error}") from None


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
