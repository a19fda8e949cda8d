"""The runs and sweeps of one folder as rows, read again when their files change. Nothing outside the folder is read."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mobfl import theory
from mobfl.app.commands import runs_again
from mobfl.app.deployments import Deployment
from mobfl.deploy.events import EVENTS
from mobfl.errors import InputError
from mobfl.experiments.analysis import best_until
from mobfl.experiments.folder import RUNS, SWEEP, Entry, StoredSweep, read_sweep
from mobfl.experiments.runs import TABLES, Run, read_sound, run_places
from mobfl.files.json import plain
from mobfl.learning.task import Kpi
from mobfl.planning.planner import plan as plan_of
from mobfl.runs.folder import ROUNDS, RUN, TIMING, is_locked, read_status
from mobfl.runs.history import History
from mobfl.scenario import CLOUD, Scenario

_MOST_LOOK_S = 2.0  # after which the rest is left for the next look
_MOST_POINTS = 1000  # of a curve: more than a screen has columns
_SAME_ROUND = 5e-4  # T is written with four digits or more
_MOST_STEPS = 20_000
_MOST_FOLLOWED = 8  # deployments
# What the runs of one figure must have in common: all but plan and seed.
_SETTING = ("task", "scenario", "data", "trace")

# What of a run's row the page shows.
_KEPT = (
    "task", "plan", "policy", "local_steps", "round_s", "objective", "seed", "reason", "rounds", "uploads", "virtual_s",
    "min_loss", "rule", "local", "codec",
)  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A run as it was when its files had this stamp."""

    stamp: tuple[Any, ...]
    row: Row
    place: Path


class RunsFolder:
    """Looks through the folder each time it is asked, and reads only what has changed."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"runs must be a folder, got {str(folder)!r}")
        self._root = folder.resolve()
        self._seen = dict[str, Seen]()
        self._deployments = dict[Path, Deployment]()
        self._reading = threading.Lock()
        self.more = False

    def look(self) -> Mapping[str, Seen]:
        """All runs by name, those that have not begun after the others.

        If reading takes long `more` is set, and those that are missing come with the next look.
        """
        with self._reading:
            until = time.monotonic() + _MOST_LOOK_S
            entries = self._entries()
            places = {place: name for place, name in run_places(self._root).items() if self._is_inside(place)}
            found = dict[str, Seen]()
            for place, name in places.items():
                if name in self._seen or time.monotonic() < until:
                    found[name] = self._see(place, name, entries.get(place))
            self.more = len(found) < len(places)
            for place, entry in entries.items():
                if place not in places and entry.run not in found:
                    found[entry.run] = Seen((), _row(entry.run, entry, "waiting"), place)
            self._seen = found
            return found

    def curve(self, name: str, column: str) -> Row:
        """A run's loss or KPI over virtual time, as it was after each round and at its best so far."""
        (_, place), *_ = self._places([name])
        history = _one_model(read_sound(place, name).history)
        times = np.append(0.0, history.columns["end_s"])
        best = best_until(history, column, times)  # which checks the column
        values = np.append(history.initial[column], history.columns[column])
        shown = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).round().astype(int))
        return plain({"time_s": times[shown].tolist(), "now": values[shown].tolist(), "best": best[shown].tolist()})

    def again(self, names: Sequence[str]) -> Row:
        """The commands that train these runs, and the TOML of a sweep of them."""
        entries = self._entries()
        return plain(runs_again([(read_sound(place, name), entries.get(place)) for name, place in self._places(names)]))

    def deployment(self, name: str) -> Row:
        """A deployment as it is now."""
        (_, place), *_ = self._places([name])
        if not self._leads_inside(place / EVENTS):
            raise InputError(f"{EVENTS} must be in the folder, got a link that leads out of it")
        return plain(self._followed(place).look())

    def _followed(self, place: Path) -> Deployment:
        """Those that were asked for last are remembered, with what was read of them."""
        with self._reading:
            found = self._deployments.pop(place, None) or Deployment(place)
            self._deployments[place] = found
            while len(self._deployments) > _MOST_FOLLOWED:
                del self._deployments[next(iter(self._deployments))]
            return found

    def _places(self, names: Sequence[str]) -> Iterator[tuple[str, Path]]:
        """Where runs of the folder are; one that is not there, or has not begun, is refused."""
        for name in names:
            seen = self._seen.get(name) or self.look().get(name)
            if seen is None or not seen.stamp:
                raise InputError(f"run must be one of the folder's, got {name!r}")
            if odd := _odd_file(seen.place):
                raise InputError(odd)
            yield name, seen.place

    def _see(self, place: Path, name: str, entry: Entry | None) -> Seen:
        stamp = (_stamp(place / RUN), _stamp(place / ROUNDS), entry, is_locked(place))
        before = self._seen.get(name)
        if before is not None and before.stamp == stamp:
            return before
        odd = _odd_file(place)
        row = _read_row(place, name, entry) if odd is None else _row(name, entry, "unreadable", reason=odd)
        return Seen(stamp, row, place)

    def _entries(self) -> dict[Path, Entry]:
        """What the sweeps call their runs; a run of several studies by the first."""
        found = dict[Path, Entry]()
        for file in sorted(self._root.rglob(SWEEP)):
            if self._leads_inside(file) and file.is_file():
                for entry in _readable(file.parent).entries:
                    found.setdefault(file.parent / RUNS / entry.run, entry)
        return {place: entry for place, entry in found.items() if self._leads_inside(place)}

    def _is_inside(self, place: Path) -> bool:
        return all(self._leads_inside(file) for file in (place, place / RUN, place / ROUNDS))

    def _leads_inside(self, file: Path) -> bool:
        """Whether it is in the folder once links are followed."""
        try:
            return file.resolve().is_relative_to(self._root)
        except (OSError, RuntimeError, ValueError):  # a circle of links, a name that no file can have
            return False


def _one_model(history: History) -> History:
    """Of a city the cloud's, or where it has none the first station's: those of all stations would make no curve."""
    if not history.stations:
        return history
    above = history.of_station(CLOUD)
    return above if len(above) else history.of_station(history.stations[0])


def _readable(folder: Path) -> StoredSweep:
    try:
        return read_sweep(folder)
    except InputError:
        return StoredSweep("", 0, ())


def _odd_file(place: Path) -> str | None:
    """What is wrong where a run's file is a pipe or a device, for which one would wait for ever."""
    odd = [name for name in (RUN, ROUNDS, TIMING) if (place / name).exists() and not (place / name).is_file()]
    return f"{odd[0]} must be a file, got something else" if odd else None


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _read_row(place: Path, name: str, entry: Entry | None) -> Row:
    """What the page shows of a run; of one that cannot be read, why."""
    try:
        return _told(read_sound(place, name), entry)
    except InputError as error:
        before = read_status(place)  # it may have failed before there was anything else to tell
        if before.status == "failed":
            return _row(name, entry, "failed", reason=before.reason)
        return _row(name, entry, "unreadable", reason=str(error))


def _told(run: Run, entry: Entry | None) -> Row:
    row, kpis, scenario = run.row(), run.history.kpis, run.scenario.to_dict()
    return _row(
        run.name,
        entry,
        row["status"],
        **{key: row[key] for key in _KEPT},
        group=row["identity"],
        own=_is_mobfls(run),
        deployed="deployment" in run.description,
        duration_s=run.scenario.training.duration_s,
        notices=_notices(run.description),
        kpis={kpi.name: _kpi(kpi, row[f"best_{kpi.name}"]) for kpi in kpis},
        setting=_setting(run.description),
        tables={table: scenario[table] for table in (*TABLES, "fleet") if table in scenario},
    )


def _is_mobfls(run: Run) -> bool:
    """Whether its H and T are those of MOB-FL's plan for its road, as far as a plan is usually written."""
    if run.objective is None or run.scenario.radio is not None:
        return False
    best, plan = _best(json.dumps(run.description["scenario"])), run.description["plan"]
    if best is None:
        return False
    return plan["local_steps"] == best[0] and abs(plan["round_s"] - best[1]) <= _SAME_ROUND * best[1]


@lru_cache(maxsize=256)
def _best(tables: str) -> tuple[int, float] | None:
    """MOB-FL's H and T for a scenario; None where there is no plan, or it would take long."""
    scenario = Scenario.from_dict(json.loads(tables))
    if theory.max_local_steps(scenario) > _MOST_STEPS:
        return None
    best = plan_of(scenario)
    return None if best.reason is not None else best.numbers[:2]


def _notices(description: Mapping[str, Any]) -> list[str]:
    """What a person should read of the run; runs of before say nothing."""
    results = description.get("results")
    told = results.get("notices") if isinstance(results, dict) else None
    return [str(each) for each in told] if isinstance(told, list) else []


def _kpi(kpi: Kpi, best: float) -> Row:
    return {"label": kpi.title, "best": best, "more_is_better": kpi.more_is_better, "leads": kpi.leads}


def _row(name: str, entry: Entry | None, status: str, **values: Any) -> Row:
    label = None if entry is None else {"study": entry.study, "label": entry.label, "task": entry.task}
    return plain({"run": name, "status": status, **(label or {}), **values})


def _setting(description: Mapping[str, Any]) -> str:
    text = json.dumps([description[key] for key in _SETTING], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
