"""A run on disk: written so that it can be cut off at any moment and goes on from its last checkpoint.

run.json           what is computed, and how far it is
rounds.parquet     one row per round
best.safetensors   the model with the least loss, last.safetensors the latest one with all that is needed to go on
timing.json        wall-clock times: the only file that may differ between equal runs
"""

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mobfl.errors import InputError
from mobfl.files.atomic import PART, remove_parts, replaced
from mobfl.files.json import plain, read_json, write_json
from mobfl.files.regular import check_regular
from mobfl.learning.task import Kpi
from mobfl.runs import sources
from mobfl.runs.history import (
    COLUMNS,
    MORE,
    OF_CLOUD,
    STATION,
    WHOLE,
    History,
    kpis_of,
    own_columns,
    stations_of,
)
from mobfl.scenario import CLOUD

RUN, ROUNDS, BEST, LAST, TIMING = "run.json", "rounds.parquet", "best.safetensors", "last.safetensors", "timing.json"
FILES = (RUN, ROUNDS, BEST, LAST, TIMING)
_LIBRARIES = ("mobfl", "numpy", "numba", "pyarrow", "safetensors", "torch")
MOST_ROUNDS = 10_000_000
_LOOKS, _LOOK_S = 10, 0.02
# These tell how far a run is; the rest must be the same for it to go on.
_PROGRESS = ("initial", "status", "reason", "results")


def versions() -> dict[str, str]:
    """Of Python, of what computes, and `code`: the state of mobfl's own sources."""
    return {**_versions(), "code": sources.code()}


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile. The lock ends with the process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not _takes_lock(descriptor, _LOOKS):
            raise InputError(f"out {folder} must not be in use, got a run that another process is training")
        remove_parts(folder)
        yield
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether a process is writing into the folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _takes_lock(descriptor, 1)
    finally:
        os.close(descriptor)


def _takes_lock(descriptor: int, looks: int) -> bool:
    """Looks several times, since who only asks whether there is a lock holds it for an instant."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not on this system: no lock
        return True
    for left in reversed(range(looks)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if left:
                time.sleep(_LOOK_S)
    return False


# A deployment writes these before its run begins; killed by then, the same command begins again.
_BEFORE_A_RUN = ("logs", "events.jsonl")


def is_free(folder: Path) -> bool:
    """Whether a run can begin here: nothing is there but what was left by one that never began."""
    if not folder.is_dir():
        return not folder.exists()
    return all(file.suffix == PART or file.name in _BEFORE_A_RUN for file in folder.iterdir())


def make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"out {folder} cannot be made: {error.strerror}") from None


def write_run(folder: Path, run: Mapping[str, Any]) -> None:
    write_json(folder / RUN, run)


def write_timing(folder: Path, timing: Mapping[str, Any]) -> None:
    write_json(folder / TIMING, timing)


def read_run(folder: Path, kpis: Iterable[str] | None = None) -> dict[str, Any]:
    """What run.json says; with the KPIs that it must know, if given."""
    run, file = read_json(folder / RUN, "a run's folder"), folder / RUN
    if not {"initial", "kpis", "status"} <= run.keys():
        raise InputError(f"{file} must describe a run, got something else")
    for key, (kind, rule) in _KINDS.items():
        if key in run and not isinstance(run[key], kind):
            raise InputError(f"{file}: {key} must be {rule}, got {run[key]!r:.60}")
    if run["status"] not in STATUSES:
        raise InputError(f"{file}: status must be one of {', '.join(STATUSES)}, got {run['status']!r:.60}")
    scores, wanted = run["initial"], ["loss", *(run["kpis"] if kpis is None else kpis)]
    if not all(isinstance(scores.get(name), float) for name in wanted):
        raise InputError(f"{file}: initial must have the numbers {', '.join(wanted)}, got {scores!r:.200}")
    return run


_TABLE, _MAYBE_TABLE = (dict, "a table"), (dict | NoneType, "a table or null")
_TEXT, _MAYBE_TEXT = (str, "a text"), (str | NoneType, "a text or null")
# What a run.json must hold where it has such a key.
_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("plan", "scenario", "data", "versions", "kpis", "baselines", "initial"), _TABLE),
    **dict.fromkeys(("trace", "results", "kpi_labels"), _MAYBE_TABLE),
    **dict.fromkeys(("task", "status"), _TEXT),
    **dict.fromkeys(("rule", "local", "codec", "reason"), _MAYBE_TEXT),
    "seed": (int, "a whole number"),
    "stations": (list, "a list"),
}


STATUSES = ("waiting", "running", "interrupted", "failed", "done")


@dataclass(frozen=True)
class Status:
    """How far a run is, whatever else can be read of it; one that has not begun is waiting."""

    status: str
    reason: str | None
    virtual_s: float


def read_status(folder: Path) -> Status:
    stored = _legible(folder / RUN)
    status, reason, results = stored.get("status"), stored.get("reason"), stored.get("results")
    virtual_s = results.get("virtual_s") if isinstance(results, dict) else 0.0
    known = isinstance(virtual_s, float) and math.isfinite(virtual_s)
    return Status(
        seen(status, folder) if isinstance(status, str) and status in STATUSES else "waiting",
        reason if isinstance(reason, str) else None,
        float(virtual_s or 0.0) if known else 0.0,
    )


def seen(status: str, folder: Path) -> str:
    """A run whose process was killed says for ever that it is running."""
    return "interrupted" if status == "running" and not is_locked(folder) else status


def write_failure(folder: Path, reason: str) -> None:
    """Says that a run has failed, beside what it knew of itself."""
    write_run(folder, _legible(folder / RUN) | {"status": "failed", "reason": reason})


def read_timing(folder: Path) -> dict[str, Any]:
    """Wall-clock times so far; nothing that cannot be read is worth stopping for."""
    timing = _legible(folder / TIMING)
    return timing if isinstance(timing.get("wall_s"), float) else {}


def legible_run(folder: Path) -> dict[str, Any]:
    """What can be read of its run.json."""
    return _legible(folder / RUN)


def has_begun(folder: Path) -> bool:
    """Whether there is something to resume, sound or not; one that failed before its first round has left nothing."""
    there = [name for name in FILES if os.path.lexists(folder / name)]
    failed_early = there == [RUN] and (run := legible_run(folder)).get("status") == "failed" and "initial" not in run
    return bool(there) and not failed_early


def check_files(folder: Path) -> None:
    for file in (folder / name for name in FILES):
        if file.is_dir():
            raise InputError(f"{file} must be a file, got a folder")


def _legible(file: Path) -> dict[str, Any]:
    """What can be read of it."""
    try:
        return read_json(file, "a run's folder")
    except InputError:
        return {}


def read_history(folder: str | Path) -> History:
    """The rounds that were written so far.

    Args:
        folder: A run's, finished or not.
    """
    folder = Path(folder)
    run = read_run(folder)
    kpis, stations = kpis_of(run), stations_of(run)
    return History.of_rows(run["initial"], read_rows(folder, kpis, stations), kpis, stations)


class OtherRunError(InputError):
    """The folder holds a run, but of other settings."""


def settings_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """All but how far it is."""
    return {key: value for key, value in run.items() if key not in _PROGRESS}


def identity(run: Mapping[str, Any]) -> str:
    """A digest of all settings: the same for a run and for what resumes it."""
    return hashlib.sha256(json.dumps(plain(settings_of(run)), sort_keys=True).encode()).hexdigest()


def check_same(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises a line for every setting in which a run on disk differs from what is asked for."""
    old, new = (_flat(settings_of(run)) for run in (stored, wanted))
    differing = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if differing:
        raise OtherRunError(
            f"{key} must be as in the run to be resumed ({old.get(key)!r}), got {new.get(key)!r}" for key in differing
        )


def _flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = dict[str, Any]()
    for key, value in plain(tables).items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def write_rows(folder: Path, history: History) -> None:
    table = pa.table(written(history))
    with replaced(folder / ROUNDS) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def written(history: History) -> dict[str, pa.Array]:
    """The columns as files have them: a row's station by its name, and the cloud by its own."""
    columns = {name: pa.array(values) for name, values in history.columns.items()}
    if STATION in columns:
        places = history.columns[STATION].tolist()
        columns[STATION] = pa.array([CLOUD if at < 0 else history.stations[at] for at in places], pa.string())
    return columns


def read_rows(folder: Path, kpis: Iterable[Kpi], stations: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Of its columns those that a run has, as the numbers that they must be; a city's stations by their places."""
    kpis = list(kpis)
    file, names = folder / ROUNDS, (*COLUMNS, *(kpi.name for kpi in kpis))
    try:
        check_regular(file)
        # By its name: a Python file would be let go by one of Arrow's threads, which aborts a program that is ending.
        with pq.ParquetFile(file) as stored:
            there = stored.schema_arrow.names
            more = [name for name in (*MORE, *own_columns(kpis)) if name in there]
            place = [STATION] if stations else []
            _check_rows(file, stored, [*names, *more], place)
            rows = stored.read(list(dict.fromkeys([*names, *place, *more])))
    except FileNotFoundError:
        return []
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise InputError(f"{file} must be a table of rounds, got {error}") from None
    if empty := [name for name in rows.column_names if rows[name].null_count]:
        raise InputError(f"{file} must have a number in every row, got none in column {empty[0]}")
    if STATION in rows.column_names:
        rows = rows.set_column(rows.column_names.index(STATION), STATION, _places(file, rows[STATION], stations))
    return rows.to_pylist()


def _places(file: Path, names: pa.ChunkedArray, stations: Sequence[str]) -> pa.Array:
    places = {name: place for place, name in enumerate(stations)} | {CLOUD: OF_CLOUD}
    found = [places.get(name) for name in names.to_pylist()]
    if None in found:
        unknown = names[found.index(None)].as_py()
        raise InputError(f"{file} must have stations of the run in column {STATION}, got {unknown!r}")
    return pa.array(found, pa.int64())


def _check_rows(file: Path, stored: pq.ParquetFile, names: Sequence[str], place: Sequence[str]) -> None:
    """Before anything is read: a small file may claim a table that no memory holds."""
    kinds = dict(zip(stored.schema_arrow.names, stored.schema_arrow.types, strict=True))
    if missing := [name for name in (*names, *place) if name not in kinds]:
        raise InputError(f"{file} must have the columns of a run, got none named {missing[0]}")
    if STATION in kinds and not pa.types.is_string(kinds[STATION]):
        raise InputError(f"{file} must have names in column {STATION}, got {kinds[STATION]}")
    if stored.metadata.num_rows > MOST_ROUNDS:
        raise InputError(f"{file} must have at most {MOST_ROUNDS} rounds, got {stored.metadata.num_rows}")
    for name in names:
        fits = pa.types.is_signed_integer(kinds[name]) or (name not in WHOLE and pa.types.is_floating(kinds[name]))
        if not fits:
            rule = "whole numbers" if name in WHOLE else "numbers"
            raise InputError(f"{file} must have {rule} in column {name}, got {kinds[name]}")
