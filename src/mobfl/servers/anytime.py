"""Anytime rounds: a vehicle is told the round's end with the model and takes as many local steps as fit before it.

They are rounds of a policy that orders `AsManyAsFit`; here they get their name, their T and what vehicles know.
"""

from typing import Any

from mobfl import theory
from mobfl.errors import InfeasibleError, InputError
from mobfl.planning.trace import assumed_of
from mobfl.rounds.orders import AsManyAsFit, FixedPlan
from mobfl.scenario import MOST, Scenario
from mobfl.servers.choice import PlanRequest
from mobfl.servers.rounds import BY_STEPS, PlannedRounds
from mobfl.theory import Knows


def anytime(request: PlanRequest, round_s: float | None = None, knows: Knows = "nothing", error: float = 0.0) -> Any:
    """Rounds of T seconds in which every vehicle takes as many steps as it can.

    As `--plan anytime:8,knows=leaving,error=0.1` asks for them; without T, with the best one.
    """
    asked = AsManyAsFit(knows, mean_stay_s(request), error)
    if round_s is not None and not 0 < round_s <= MOST:
        raise InputError(f"plan anytime must have T > 0 s and <= {MOST:g} s, got {round_s:g}")
    plan = FixedPlan(asked, best_anytime_round_s(request, knows) if round_s is None else float(round_s))
    assumed = assumed_of(knows, request.crossings)
    told = asked.describe() | ({"assumed": assumed} if assumed else {})
    description = {"policy": "anytime", "local_steps": None, "round_s": plan.round_s, **told}
    return PlannedRounds(plan, description, BY_STEPS)


def needs_tracks(plan: str, scenario: Scenario) -> bool:
    """Whether it matters where vehicles are: their rates follow from it, or when they expect to leave."""
    return scenario.radio is not None or predicts(plan)


def predicts(plan: str) -> bool:
    """Whether vehicles of this plan predict their leaving from where they are."""
    return "knows=predicted" in plan.replace(" ", "")


def best_anytime_round_s(request: PlanRequest, knows: Knows) -> float:
    best = request.best_anytime(knows)
    if best.round_s is None:
        raise InfeasibleError(best.reason or "")
    return best.round_s


def mean_stay_s(request: PlanRequest) -> float:
    if request.crossings is not None:
        return float(request.crossings.stays_s.mean())
    return theory.mean_stay_s(request.scenario)
