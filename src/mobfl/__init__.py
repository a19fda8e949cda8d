"""mobfl: federated learning on vehicles that are only passing by."""

from typing import TYPE_CHECKING, Any

from mobfl import theory
from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.planner import algorithm_1, best_round_s, plan, plan_many
from mobfl.plans import Plan, Plans, TracePlan
from mobfl.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings
    from mobfl.mobility.recorded import read_crossings
    from mobfl.simulation import Simulation, simulate

__version__ = "0.1.0"
__all__ = [
    "Crossings",
    "InputError",
    "MissingExtraError",
    "MobflError",
    "Plan",
    "Plans",
    "Scenario",
    "Simulation",
    "TracePlan",
    "algorithm_1",
    "best_round_s",
    "load_scenario",
    "plan",
    "plan_many",
    "read_crossings",
    "simulate",
    "theory",
]

# Loaded when first asked for: they bring Numba, which planning does without.
_LATER = {
    "Crossings": "mobfl.mobility.crossings",
    "Simulation": "mobfl.simulation",
    "read_crossings": "mobfl.mobility.recorded",
    "simulate": "mobfl.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mobfl' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_LATER[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise MissingExtraError("simulation", "simulate") from None
