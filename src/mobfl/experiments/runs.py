"""The runs below a folder: what each was, and what came of it so far."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

from mobfl import theory
from mobfl.errors import InputError
from mobfl.experiments.folder import RUNS, is_set_aside
from mobfl.files.json import plain
from mobfl.runs.by_station import by_station
from mobfl.runs.folder import RUN, read_history, read_run, read_status, read_timing, seen
from mobfl.runs.history import History
from mobfl.scenario import Scenario
from mobfl.servers.names import plan_name

TABLES = ("road", "traffic", "link", "compute", "training")
PARTS = ("rule", "local", "codec")  # which runs of before did not name
# Runs that agree in these differ by their seeds only.
_IDENTITY = ("task", "plan", "rule", "local", "codec", "trace", "scenario", "data", "parts", "code")


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
        """The same for runs that differ by their seeds only; a key that is newer than a run has its default there."""
        scenario = plain(self.scenario.to_dict())
        told = {**self.description, "scenario": scenario, "code": self.code, "trace": self.traffic}
        text = json.dumps([told.get(key) for key in _IDENTITY], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def traffic(self) -> dict[str, Any] | None:
        """The trace, without the fingerprint where every seed has its own; None for Poisson traffic."""
        trace = self.description["trace"]
        return {"file": trace["file"]} if trace is not None and trace.get("drawn") else trace

    @property
    def code(self) -> str | None:
        """The state of the sources that made it; runs of before do not tell."""
        return self.description.get("versions", {}).get("code")

    @property
    def notices(self) -> list[str]:
        """What went wrong in it, in sentences; a run of before these were kept has none."""
        return list((self.description.get("results") or {}).get("notices", ()))

    @property
    def plan(self) -> str:
        return plan_name(self.description["plan"])

    @property
    def objective(self) -> float | None:
        """g of the run's H and T on its road; None where there are no rounds of one H and T, or no formula of g."""
        plan, scenario = self.description["plan"], self.scenario
        if plan["policy"] != "rounds" or self.description["trace"] is not None:
            return None
        if scenario.training.falling_to < 1 or scenario.radio is not None:
            return None
        return float(theory.objective(scenario, plan["local_steps"], plan["round_s"]))

    def row(self) -> dict[str, Any]:
        """What a table of runs says of it; raises where a file of it says what no run does."""
        description, plan, history = self.description, self.description["plan"], self.history
        on_roads = history.of_vehicles
        scenario = self.scenario.to_dict()  # which has checked it
        row = {
            "run": self.name,
            "task": description["task"],
            "plan": self.plan,
            "policy": plan["policy"],
            **{part: description.get(part) for part in PARTS},
            "local_steps": plan["local_steps"],
            "round_s": plan["round_s"],
            "objective": self.objective,
            "seed": description["seed"],
            "status": seen(description["status"], self.folder),
            "reason": description["reason"],
            "data": _text(description["data"].get("data")),
            "trace": None if description["trace"] is None else description["trace"]["file"],
            "rounds": len(history),
            "uploads": int(on_roads.columns["uploads"].sum()),
            "rejected": int(on_roads.columns["rejected"].sum()),
            "bytes": on_roads.total("bytes"),
            "energy_j": on_roads.total("energy_j"),
            "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
            "min_loss": history.min_loss(),
            "last_loss": history.final("loss"),
            **{f"best_{kpi.name}": history.best(kpi.name) for kpi in history.kpis},
            **{f"last_{kpi.name}": history.final(kpi.name) for kpi in history.kpis},
            "wall_s": read_timing(self.folder).get("wall_s"),
            "identity": self.identity,
            "code": self.code,
            **{table: _plain(scenario[table]) for table in TABLES},
            "classes": max(1, len(scenario.get("fleet", ()))),
            "stations": max(1, len(history.stations)),
        }
        _check(row, [kpi.name for kpi in history.kpis])
        return row

    def stations(self) -> list[dict[str, Any]]:
        """A row for every station of a city, and for the cloud."""
        told = []
        for each in by_station(self.history) if self.history.stations else ():
            scores = {f"last_{name}": value for name, value in each["final"].items()}
            own = {f"last_own_{name}": value for name, value in each.get("final_own", {}).items()}
            counts = {name: each[name] for name in ("rounds", "uploads", "min_loss")}
            told.append({"run": self.name, "station": each["name"], **counts, **scores, **own})
        return told


def _text(value: Any) -> str | None:
    """What a task of somebody's own calls its data may be anything."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


_MAYBE_TEXT, _MAYBE_WHOLE, _MAYBE_NUMBER = str | NoneType, int | NoneType, int | float | NoneType
# What columns hold; a table of many runs has one type for each.
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("run", "task", "plan", "policy", "status"), str),
    **dict.fromkeys((*PARTS, "reason", "data", "trace", "code"), _MAYBE_TEXT),
    **dict.fromkeys(("local_steps", "seed"), _MAYBE_WHOLE),
    **dict.fromkeys(("round_s", "objective", "wall_s"), _MAYBE_NUMBER),
}


def _check(row: Mapping[str, Any], kpis: Sequence[str]) -> None:
    for name, kind in _KINDS.items():
        value = row[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r:.60}")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"{name} is too large")
    "".join([*kpis, *(value for value in row.values() if isinstance(value, str))]).encode()  # half a character raises


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """With a range as its least and most number, for a column has one type; without measured samples."""
    plain = {key: value for key, value in table.items() if key != "step_samples"}
    if "samples_per_vehicle" in plain:
        given = plain.pop("samples_per_vehicle")
        ends = given if isinstance(given, list | tuple) else (given, given)
        plain |= {"least_samples": ends[0], "most_samples": ends[1]}
    return plain


def find_runs(folder: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """The runs anywhere below a folder, by name, and a sentence for each that cannot be read.

    Args:
        folder: A run's own, a sweep's, or one above many.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"results must be in a folder, got {str(folder)!r}")
    runs, broken = list[Run](), list[str]()
    for place, name in run_places(folder).items():
        try:
            runs.append(read_sound(place, name))
        except InputError as error:
            state = read_status(place)  # it may have failed before there was anything else to tell
            broken.append(f"{place} failed: {state.reason}" if state.status == "failed" else str(error))
    return runs, broken


def read_sound(folder: Path, name: str) -> Run:
    """The run, if all that a table says of it can be read."""
    try:
        run = Run(folder, name, read_run(folder))
        run.row()
    except InputError:
        raise
    except Exception as error:  # whatever a file that is not ours does to us
        raise InputError(_printable(f"{folder / RUN} must describe a run, got {error!r:.200}")) from None
    return run


def _printable(name: str) -> str:
    """A folder's name may be any bytes."""
    return name.encode(errors="replace").decode()


def run_places(folder: Path) -> dict[Path, str]:
    """The runs' places below the folder, without the `runs` of every sweep where that leaves no doubt."""
    found = (file.parent for file in folder.rglob(RUN))
    places = sorted(place for place in found if not is_set_aside(place.relative_to(folder)))
    parts = {place: place.relative_to(folder).parts or (place.name,) for place in places}
    short = {place: "/".join(part for part in parts[place] if part != RUNS) for place in places}
    often = Counter(short.values())
    return {place: _printable(name if often[name] == 1 else "/".join(parts[place])) for place, name in short.items()}
