"""How much a plan loses when it is not followed exactly, or the traffic is not what it was made for."""

from dataclasses import dataclass

from mobfl import theory
from mobfl.planning.planner import plan
from mobfl.planning.plans import Plan
from mobfl.scenario import Scenario

OFF_BY = 0.2


@dataclass(frozen=True)
class Sensitivity:
    """The share of g lost when `name` is 20 % (H: at least one step) too small or large; None where that cannot be."""

    name: str
    loss_below: float | None
    loss_above: float | None


def sensitivity(scenario: Scenario, best: Plan) -> list[Sensitivity]:
    """The loss of a feasible plan when T, H, λ or v is off.

    T and H: against the plan itself. λ and v: the plan is kept while the road has another λ or v, against
    the plan that would have been best there.
    """
    h, t, _ = best.numbers

    def loss_of(local_steps: int, round_s: float) -> float | None:
        return _loss(scenario, local_steps, round_s, best)

    def regret(key: str, factor: float) -> float | None:
        road = scenario.with_values({key: scenario.value(key) * factor})
        return _loss(road, h, t, plan(road))

    below, above = 1 - OFF_BY, 1 + OFF_BY
    return [
        Sensitivity("round_s", loss_of(h, below * t), loss_of(h, above * t)),
        Sensitivity(
            "local_steps",
            loss_of(min(h - 1, round(below * h)), t) if h > 1 else None,
            loss_of(max(h + 1, round(above * h)), t),
        ),
        *(
            Sensitivity(key, regret(key, below), regret(key, above))
            for key in ("traffic.arrivals_per_s", "traffic.speed_mps")
        ),
    ]


def _loss(scenario: Scenario, local_steps: int, round_s: float, best: Plan) -> float | None:
    if best.objective is None:
        return None
    return max(0.0, 1 - float(theory.objective(scenario, local_steps, round_s)) / best.objective)
