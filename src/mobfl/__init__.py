"""mobfl: federated learning on vehicles that are only passing by."""

from mobfl import theory
from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.planner import algorithm_1, best_round_s, plan, plan_many
from mobfl.plans import Plan, Plans
from mobfl.scenario import Scenario, load_scenario

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "MissingExtraError",
    "MobflError",
    "Plan",
    "Plans",
    "Scenario",
    "algorithm_1",
    "best_round_s",
    "load_scenario",
    "plan",
    "plan_many",
    "theory",
]
