"""mobfl: federated learning on vehicles that are only passing by."""

from typing import TYPE_CHECKING, Any

from mobfl.errors import EXTRAS, InfeasibleError, InputError, MissingExtraError, MobflError, PartError

if TYPE_CHECKING:
    from mobfl import theory
    from mobfl.deploy.hindsight import Hindsight, PlayedPlan, in_hindsight
    from mobfl.deploy.recorded import RecordedDeployment, read_deployment
    from mobfl.experiments.results import Results
    from mobfl.experiments.runs import find_runs
    from mobfl.experiments.sweep import run_sweep
    from mobfl.experiments.sweep_file import load_sweep
    from mobfl.learning.codecs import Codec
    from mobfl.learning.local import LocalTraining
    from mobfl.learning.rules import Rule, State
    from mobfl.learning.task import Kpi, Pool, SgdTerms, Task, TaskRequest
    from mobfl.learning.torch_task import TorchTask
    from mobfl.learning.uploads import Upload
    from mobfl.learning.weights import Weights
    from mobfl.mobility.crossings import Crossings
    from mobfl.mobility.networks import Network, NetworkEdge, read_network
    from mobfl.mobility.recorded import read_crossings, read_stations
    from mobfl.mobility.sources import TrafficSource
    from mobfl.mobility.tracks import Tracks
    from mobfl.planning.anytime import plan_anytime
    from mobfl.planning.at_least import LeastUploads
    from mobfl.planning.over_day import DayPlans, SpanPlan, plan_over_day
    from mobfl.planning.planner import algorithm_1, best_round_s, plan, plan_many
    from mobfl.planning.plans import (
        AnytimePlan,
        GuaranteedPlan,
        Plan,
        Plans,
        SimulatedAnytimePlan,
        SimulatedPlan,
        TracePlan,
    )
    from mobfl.planning.radio import plan_quickly
    from mobfl.planning.sites import ChosenSite, SiteChoice, choose_sites
    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.orders import AsManyAsFit, Order, Policy
    from mobfl.rounds.planned import plan_by_simulation
    from mobfl.rounds.rows import Rounds
    from mobfl.rounds.simulation import Simulation
    from mobfl.runs.folder import read_history
    from mobfl.runs.history import History
    from mobfl.runs.job import Job
    from mobfl.runs.training import train
    from mobfl.scenario import Scenario, load_scenario
    from mobfl.servers.choice import PlanRequest
    from mobfl.servers.selections import Candidate, RoundAhead, Selection
    from mobfl.servers.simulated import simulate
    from mobfl.servers.site import Site
    from mobfl.servers.steps import Contribution, Effort, Schedule, ServerStep
    from mobfl.tasks.catalogue import build_task

__version__ = "0.1.0"

# Loaded when first asked for: planning does without Numba, and a signal does not meet a command that still imports.
_LATER = {
    "AnytimePlan": "mobfl.planning.plans",
    "AnytimeSimulation": "mobfl.rounds.anytime",
    "AsManyAsFit": "mobfl.rounds.orders",
    "Candidate": "mobfl.servers.selections",
    "ChosenSite": "mobfl.planning.sites",
    "Codec": "mobfl.learning.codecs",
    "Contribution": "mobfl.servers.steps",
    "Crossings": "mobfl.mobility.crossings",
    "DayPlans": "mobfl.planning.over_day",
    "Effort": "mobfl.servers.steps",
    "GuaranteedPlan": "mobfl.planning.plans",
    "Hindsight": "mobfl.deploy.hindsight",
    "History": "mobfl.runs.history",
    "Job": "mobfl.runs.job",
    "Kpi": "mobfl.learning.task",
    "LeastUploads": "mobfl.planning.at_least",
    "LocalTraining": "mobfl.learning.local",
    "Network": "mobfl.mobility.networks",
    "NetworkEdge": "mobfl.mobility.networks",
    "Order": "mobfl.rounds.orders",
    "Plan": "mobfl.planning.plans",
    "PlanRequest": "mobfl.servers.choice",
    "Plans": "mobfl.planning.plans",
    "PlayedPlan": "mobfl.deploy.hindsight",
    "Policy": "mobfl.rounds.orders",
    "Pool": "mobfl.learning.task",
    "RecordedDeployment": "mobfl.deploy.recorded",
    "Results": "mobfl.experiments.results",
    "RoundAhead": "mobfl.servers.selections",
    "Rounds": "mobfl.rounds.rows",
    "Rule": "mobfl.learning.rules",
    "Scenario": "mobfl.scenario",
    "Schedule": "mobfl.servers.steps",
    "Selection": "mobfl.servers.selections",
    "ServerStep": "mobfl.servers.steps",
    "SgdTerms": "mobfl.learning.task",
    "SimulatedAnytimePlan": "mobfl.planning.plans",
    "SimulatedPlan": "mobfl.planning.plans",
    "Simulation": "mobfl.rounds.simulation",
    "Site": "mobfl.servers.site",
    "SiteChoice": "mobfl.planning.sites",
    "SpanPlan": "mobfl.planning.over_day",
    "State": "mobfl.learning.rules",
    "Task": "mobfl.learning.task",
    "TaskRequest": "mobfl.learning.task",
    "TorchTask": "mobfl.learning.torch_task",
    "TracePlan": "mobfl.planning.plans",
    "Tracks": "mobfl.mobility.tracks",
    "TrafficSource": "mobfl.mobility.sources",
    "Upload": "mobfl.learning.uploads",
    "Weights": "mobfl.learning.weights",
    "algorithm_1": "mobfl.planning.planner",
    "best_round_s": "mobfl.planning.planner",
    "build_task": "mobfl.tasks.catalogue",
    "choose_sites": "mobfl.planning.sites",
    "find_runs": "mobfl.experiments.runs",
    "in_hindsight": "mobfl.deploy.hindsight",
    "load_scenario": "mobfl.scenario",
    "load_sweep": "mobfl.experiments.sweep_file",
    "plan": "mobfl.planning.planner",
    "plan_anytime": "mobfl.planning.anytime",
    "plan_by_simulation": "mobfl.rounds.planned",
    "plan_many": "mobfl.planning.planner",
    "plan_over_day": "mobfl.planning.over_day",
    "plan_quickly": "mobfl.planning.radio",
    "read_crossings": "mobfl.mobility.recorded",
    "read_deployment": "mobfl.deploy.recorded",
    "read_history": "mobfl.runs.folder",
    "read_network": "mobfl.mobility.networks",
    "read_stations": "mobfl.mobility.recorded",
    "run_sweep": "mobfl.experiments.sweep",
    "simulate": "mobfl.servers.simulated",
    "theory": "mobfl.theory",
    "train": "mobfl.runs.training",
}
__all__ = [
    "AnytimePlan",
    "AnytimeSimulation",
    "AsManyAsFit",
    "Candidate",
    "ChosenSite",
    "Codec",
    "Contribution",
    "Crossings",
    "DayPlans",
    "Effort",
    "GuaranteedPlan",
    "Hindsight",
    "History",
    "InfeasibleError",
    "InputError",
    "Job",
    "Kpi",
    "LeastUploads",
    "LocalTraining",
    "MissingExtraError",
    "MobflError",
    "Network",
    "NetworkEdge",
    "Order",
    "PartError",
    "Plan",
    "PlanRequest",
    "Plans",
    "PlayedPlan",
    "Policy",
    "Pool",
    "RecordedDeployment",
    "Results",
    "RoundAhead",
    "Rounds",
    "Rule",
    "Scenario",
    "Schedule",
    "Selection",
    "ServerStep",
    "SgdTerms",
    "SimulatedAnytimePlan",
    "SimulatedPlan",
    "Simulation",
    "Site",
    "SiteChoice",
    "SpanPlan",
    "State",
    "Task",
    "TaskRequest",
    "TorchTask",
    "TracePlan",
    "Tracks",
    "TrafficSource",
    "Upload",
    "Weights",
    "algorithm_1",
    "best_round_s",
    "build_task",
    "choose_sites",
    "find_runs",
    "in_hindsight",
    "load_scenario",
    "load_sweep",
    "plan",
    "plan_anytime",
    "plan_by_simulation",
    "plan_many",
    "plan_over_day",
    "plan_quickly",
    "read_crossings",
    "read_deployment",
    "read_history",
    "read_network",
    "read_stations",
    "run_sweep",
    "simulate",
    "theory",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'mobfl' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_LATER[name])
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError(*EXTRAS[error.name]) from None
    return module if module.__name__ == f"mobfl.{name}" else getattr(module, name)
