"""The runs below a folder: what each was, and what came of it so far."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mobfl import theory
from mobfl.errors import InputError
from mobfl.experiments.folder import RUNS
from mobfl.runs.folder import RUN, read_history, read_run, read_status, read_timing, seen
from mobfl.runs.history import History
from mobfl.scenario import Scenario
from mobfl.servers.names import plan_name

TABLES = ("road", "traffic", "link", "compute", "training")
PARTS = ("rule", "local", "codec")  # which runs of before did not name
# Runs that agree in these differ by their seeds only.
_IDENTITY = ("task", "plan", "rule", "local", "codec", "trace", "scenario", "data", "parts")


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
        text = json.dumps([self.description.get(key) for key in _IDENTITY], sort_keys=True)
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
        description, plan, history = self.description, self.description["plan"], self.history
        return {
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
            "data": description["data"].get("data"),
            "trace": None if description["trace"] is None else description["trace"]["file"],
            "rounds": len(history),
            "uploads": int(history.columns["uploads"].sum()),
            "rejected": int(history.columns["rejected"].sum()),
            "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
            "min_loss": history.min_loss(),
            "last_loss": history.final("loss"),
            **{f"best_{kpi.name}": history.best(kpi.name) for kpi in history.kpis},
            **{f"last_{kpi.name}": history.final(kpi.name) for kpi in history.kpis},
            "wall_s": read_timing(self.folder).get("wall_s"),
            "identity": self.identity,
            **{table: _plain(description["scenario"][table]) for table in TABLES},
            "classes": max(1, len(description["scenario"].get("fleet", ()))),
        }


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """With a range as its least and most number, for a column has one type; without measured samples."""
    plain = {key: value for key, value in table.items() if key != "step_samples"}
    if "samples_per_vehicle" in plain:
        given = plain.pop("samples_per_vehicle")
        ends = given if isinstance(given, list | tuple) else (given, given)
        plain |= {"least_samples": ends[0], "most_samples": ends[1]}
    return plain


def find_runs(folder: str | Path) -> tuple[list[Run], list[str]]:
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
            run = read_one(place, name)
            run.row()
            runs.append(run)
        except InputError as error:
            state = read_status(place)
            broken.append(f"{place} failed: {state.reason}" if state.status == "failed" else str(error))
        except (KeyError, TypeError, AttributeError) as error:
            broken.append(f"{place / RUN} must describe a run, got {error!r}")
    return runs, broken


def read_one(folder: Path, name: str) -> Run:
    return Run(folder, name, read_run(folder))


def run_places(folder: Path) -> dict[Path, str]:
    """The runs' places below the folder, without the `runs` of every sweep where that leaves no doubt."""
    places = sorted(file.parent for file in folder.rglob(RUN))
    parts = {place: place.relative_to(folder).parts or (place.name,) for place in places}
    short = {place: "/".join(part for part in parts[place] if part != RUNS) for place in places}
    often = Counter(short.values())
    return {place: name if often[name] == 1 else "/".join(parts[place]) for place, name in short.items()}
