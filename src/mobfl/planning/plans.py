"""What planning returns: H and T with what they promise, for one road or many, or why there is no plan."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.theory import Conditions, Knows

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """H and T with what they promise; without a feasible plan the numbers are None and `reason` says why."""

    status: str
    local_steps: int | None = None
    round_s: float | None = None
    objective: float | None = None
    expected_uploads: float | None = None
    valid_round_prob: float | None = None
    reason: str | None = None
    objective_error: float | None = None  # by which share of g a better plan might be better; None: by none

    @classmethod
    def at(cls, scenario: theory.AnyRoad, local_steps: int, round_s: float) -> "Plan":
        """What this H and T promise on this road, best or not."""
        uploads, valid, objective = theory.promise(scenario, local_steps, round_s)
        return cls("ok", int(local_steps), float(round_s), float(objective), float(uploads), float(valid))

    @property
    def numbers(self) -> tuple[int, float, float]:
        """H, T and g, for those who have seen that there is a plan."""
        if self.local_steps is None or self.round_s is None or self.objective is None:
            raise ValueError(f"there is no plan: {self.reason}")
        return self.local_steps, self.round_s, self.objective

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        if self.objective_error is None:
            del told["objective_error"]
        return told


@dataclass(frozen=True)
class Plans:
    """Plans for many roads, as arrays; where none is feasible H is 0 and the rest NaN. A row is a `Plan`."""

    local_steps: Counts
    round_s: Array
    objective: Array
    expected_uploads: Array
    valid_round_prob: Array
    roads: Conditions

    @property
    def status(self) -> NDArray[np.str_]:
        return np.where(self.local_steps > 0, "ok", "infeasible")

    def __len__(self) -> int:
        return len(self.local_steps)

    def __getitem__(self, row: int) -> Plan:
        road = self.roads.take(row)
        if not self.local_steps[row]:
            return no_plan(road)
        return Plan.at(road, self.local_steps[row], self.round_s[row])


def no_plan(road: Conditions) -> Plan:
    """Why nothing fits on this road, and what would help."""
    longest_s, least_s = float(road.dwell.longest), float(theory.min_delay_s(road, 1))
    beyond = "to at least" if road.delays.quickest_may_be_least else "beyond"
    metres = _brief(_up(least_s / longest_s * road.length_m))
    who = "the slowest vehicles" if road.spreads else "the vehicles"
    return Plan("infeasible", reason=_too_short(road, who, longest_s, f"lengthen the section {beyond} {metres} m"))


def no_plan_on_trace(road: Conditions, longest_s: float) -> "TracePlan":
    """Why nothing fits into stays of at most so many seconds."""
    return TracePlan(
        "infeasible", reason=_too_short(road, "the slowest vehicles", longest_s, "choose a longer section")
    )


def _too_short(road: Conditions, who: str, longest_s: float, remedy: str) -> str:
    below = "to at most" if road.delays.quickest_may_be_least else "below"
    return (
        f"{who} leave after {_brief(longest_s)} s but one step with both transfers takes"
        f" {_brief(float(theory.min_delay_s(road, 1)))} s: {remedy},"
        f" or bring the step and the transfers {below} {_brief(-_up(-longest_s))} s"
    )


def _up(value: float) -> float:
    """The next number of three digits that is no smaller, so that advice which is rounded still holds."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return math.ceil(value / unit - 1e-9) * unit


def _brief(value: float) -> str:
    """Three digits, with at least one decimal place below ten: 2.0, 44, 0.0125."""
    text = f"{value:.3g}"
    return f"{value:.1f}" if "." not in text and value < 10 else text


@dataclass(frozen=True)
class PoissonPlan:
    """Theorem 1's plan for a recorded road: what it promises, and what it would really give there."""

    local_steps: int
    round_s: float
    promised_objective: float
    real_objective: float


@dataclass(frozen=True)
class TracePlan(Plan):
    """A plan made from recorded crossings, beside Theorem 1's plan for their rate and mean dwell."""

    poisson_plan: PoissonPlan | None = None


@dataclass(frozen=True)
class AnytimePlan:
    """The T of anytime rounds with what it promises; without a feasible plan the numbers are None.

    Args:
        status: "ok" or "infeasible".
        round_s: T in seconds.
        objective: v(T), valid local steps per second where the longest training of a round decides.
        expected_uploads: How many vehicles upload in a round, on average.
        valid_round_prob: The chance that anybody does.
        local_steps: T·v(T), the mean of a round's longest training.
        averaged_objective: What an average weighted by steps really advances, in local steps per second; None where the
            traffic is recorded.
        knows: What vehicles know of their leaving.
        reason: Why there is no plan.
        objective_error: By which share of v another T might be better; None: by none.
        schedule: Always "anytime".
    """

    status: str
    round_s: float | None = None
    objective: float | None = None
    expected_uploads: float | None = None
    valid_round_prob: float | None = None
    local_steps: float | None = None
    averaged_objective: float | None = None
    knows: Knows = "nothing"
    reason: str | None = None
    objective_error: float | None = None
    schedule: str = "anytime"

    @classmethod
    def at(
        cls, scenario: theory.AnyRoad, round_s: float, knows: Knows, objective_error: float | None = None
    ) -> "AnytimePlan":
        """What rounds of this T promise on this road, best or not."""
        uploads = float(theory.uploads_of_steps(scenario, 1, round_s, knows))
        steps = float(theory.longest_steps(scenario, round_s, knows))
        averaged = theory.averaged_steps(scenario, round_s, knows) / round_s
        valid = -math.expm1(-uploads)
        numbers = (round_s, steps / round_s, uploads, valid, steps, averaged)
        return cls("ok", *numbers, knows=knows, objective_error=objective_error)

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        if self.objective_error is None:
            del told["objective_error"]
        return told
