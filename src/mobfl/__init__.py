"""mobfl: federated learning on vehicles that are only passing by."""

from typing import TYPE_CHECKING, Any

from mobfl import theory
from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.planning.planner import algorithm_1, best_round_s, plan, plan_many
from mobfl.planning.plans import Plan, Plans, TracePlan
from mobfl.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from mobfl.experiments.results import Results
    from mobfl.experiments.runs import find_runs
    from mobfl.experiments.sweep import run_sweep
    from mobfl.experiments.sweep_file import load_sweep
    from mobfl.mobility.crossings import Crossings
    from mobfl.mobility.recorded import read_crossings
    from mobfl.rounds.simulation import Simulation, simulate
    from mobfl.runs.folder import read_history
    from mobfl.runs.history import History
    from mobfl.runs.training import Job, train
    from mobfl.tasks.catalogue import build_task

__version__ = "0.1.0"
__all__ = [
    "Crossings",
    "History",
    "InputError",
    "Job",
    "MissingExtraError",
    "MobflError",
    "Plan",
    "Plans",
    "Results",
    "Scenario",
    "Simulation",
    "TracePlan",
    "algorithm_1",
    "best_round_s",
    "build_task",
    "find_runs",
    "load_scenario",
    "load_sweep",
    "plan",
    "plan_many",
    "read_crossings",
    "read_history",
    "run_sweep",
    "simulate",
    "theory",
    "train",
]

# Loaded when first asked for: they bring Numba and more, which planning does without.
_LATER = {
    "Crossings": "mobfl.mobility.crossings",
    "History": "mobfl.runs.history",
    "Job": "mobfl.runs.training",
    "Results": "mobfl.experiments.results",
    "Simulation": "mobfl.rounds.simulation",
    "build_task": "mobfl.tasks.catalogue",
    "find_runs": "mobfl.experiments.runs",
    "load_sweep": "mobfl.experiments.sweep_file",
    "read_crossings": "mobfl.mobility.recorded",
    "read_history": "mobfl.runs.folder",
    "run_sweep": "mobfl.experiments.sweep",
    "simulate": "mobfl.rounds.simulation",
    "train": "mobfl.runs.training",
}
_EXTRAS = {
    "numba": ("simulation", "simulate"),
    "pyarrow": ("simulation", "simulate"),
    "safetensors": ("training", "train"),
    "duckdb": ("results of many runs", "experiments"),
    "joblib": ("a sweep", "experiments"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mobfl' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_LATER[name]), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise MissingExtraError(*_EXTRAS[error.name]) from None
