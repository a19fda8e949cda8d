"""What planning returns: H and T with what they promise, for one road or many, or why there is no plan."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.display import Displayed, Sheet, Tabular
from mobfl.errors import counted
from mobfl.planning.sheets import anytime_sheet, brief_plan, plan_sheet, plans_sheet
from mobfl.theory import Conditions, Knows

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Planner = Literal["exact", "trace", "simulation", "fixed-point"]

# Keys for which a planner has nothing to say.
_NOT_TOLD_BY: dict[Planner, tuple[str, ...]] = {
    "exact": ("valid_round_prob_interval", "half_from_vehicles", "notices"),
    "trace": (),
    "simulation": ("half_from_vehicles", "notices"),
    "fixed-point": ("valid_round_prob_interval", "half_from_vehicles", "notices"),
}
_INSTANT_S = 1e-9  # no clock of a recording tells a shorter stay from none


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """H and T with what they promise; without a feasible plan the numbers are None and `reason` says why."""

    status: str
    local_steps: int | None = None
    round_s: float | None = None
    objective: float | None = None
    expected_uploads: float | None = None
    valid_round_prob: float | None = None
    reason: str | None = None
    objective_error: float | None = None  # by which share of g a better plan might be better; None: by none
    planner: Planner = "exact"
    valid_round_prob_interval: tuple[float, float] | None = None  # 95 %; None where it is exact

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
        return _told(self)

    def _brief(self) -> str:
        return brief_plan(self)

    def _sheet(self) -> Sheet:
        return plan_sheet(self)


def _told(plan: "Plan | AnytimePlan") -> dict[str, Any]:
    """All of it, without what another planner tells."""
    told = asdict(plan) | {"planner": plan.planner if plan.status == "ok" else None}
    optional = {key: told.pop(key) for key in ("objective_error", "assumed", "constant_plan") if key in told}
    averaged = {key: told.pop(key) for key in ("averaged_objective",) if key in told}
    for key in _NOT_TOLD_BY[plan.planner]:
        told.pop(key, None)
    return told | averaged | {key: value for key, value in optional.items() if value is not None}


@dataclass(frozen=True, repr=False)
class Plans(Displayed, Tabular):
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

    def _columns(self) -> dict[str, Any]:
        names = ("local_steps", "round_s", "objective", "expected_uploads", "valid_round_prob")
        return {"status": self.status} | {name: getattr(self, name) for name in names}

    def _brief(self) -> str:
        return f"for {counted(len(self), 'road')}, {int((self.local_steps > 0).sum())} feasible"

    def _sheet(self) -> Sheet:
        return plans_sheet(self)


def no_plan(road: Conditions) -> Plan:
    """Why nothing fits on this road, and what would help."""
    longest_s, least_s = float(road.dwell.longest), float(theory.min_delay_s(road, 1))
    beyond = "to at least" if road.delays.quickest_may_be_least else "beyond"
    metres = _brief(_up(least_s / longest_s * road.length_m))
    who = "the slowest vehicles" if road.spreads else "the vehicles"
    return Plan("infeasible", reason=_too_short(road, 1, who, longest_s, f"lengthen the section {beyond} {metres} m"))


def stays_too_short(road: Conditions, local_steps: int, longest_s: float) -> str:
    """Why so many steps do not fit into recorded stays of at most so many seconds."""
    return _too_short(road, local_steps, "the slowest vehicles", longest_s, "choose a longer section")


def recording_too_short(needed_s: float, observed_s: float, rounds: int) -> str:
    """Why rounds that take at least so many seconds cannot be judged on a recording."""
    return (
        f"a plan needs {rounds} rounds of at least {_brief(needed_s)} s on the trace, but between its first vehicle's"
        f" leaving and its last one's entering there are only {_brief(observed_s)} s: record for longer"
    )


NOBODY_WITHIN = (
    "no vehicle is there long enough between the trace's first leaving and its last entering:"
    " record for longer, or choose a longer section"
)


def _too_short(road: Conditions, local_steps: int, who: str, longest_s: float, remedy: str) -> str:
    below = "to at most" if road.delays.quickest_may_be_least else "below"
    one = local_steps == 1
    steps, they = ("one step", "the step") if one else (f"H = {local_steps}", "the steps")
    needed = f"{steps} with both transfers takes {_brief(float(theory.min_delay_s(road, local_steps)))} s: {remedy}"
    if longest_s < _INSTANT_S:
        return f"{who} leave as soon as they enter but {needed}"
    quicker = f"bring {they} and the transfers {below} {_brief(-_up(-longest_s))} s"
    return f"{who} leave after {_brief(longest_s)} s but {needed}, or {quicker}"


def _up(value: float) -> float:
    """The next number of three digits that is no smaller, so that advice which is rounded still holds."""
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return math.ceil(value / unit - 1e-9) * unit


def _brief(value: float) -> str:
    """Three digits, with at least one decimal place below ten: 2.0, 44, 0.0125."""
    text = f"{value:.3g}"
    return f"{value:.1f}" if "." not in text and value < 10 else text


@dataclass(frozen=True, repr=False)
class GuaranteedPlan(Plan):
    """A plan for rounds with at least `least_uploads` uploads, and what that costs against the plan without."""

    least_uploads: int | None = None  # m
    with_prob: float | None = None  # p, as it was asked for
    least_uploads_prob: float | None = None  # P{M ≥ m}
    free_objective: float | None = None  # the greatest g without
    price: float | None = None  # the share of it that is given up


@dataclass(frozen=True)
class PoissonPlan:
    """Theorem 1's plan for a recorded road: what it promises, and what it would really give there."""

    local_steps: int
    round_s: float
    promised_objective: float
    real_objective: float


@dataclass(frozen=True)
class ConstantPlan(PoissonPlan):
    """The plan for constant transfers of the same mean, where there is a radio: its promise, and what it gives."""


@dataclass(frozen=True, repr=False)
class TracePlan(Plan):
    """A plan made from recorded crossings, beside Theorem 1's plan for their rate and mean dwell.

    Its interval is where the chance of an upload lies in 95 of 100 further recordings of the same road and length, as
    long as the traffic stays what it was.
    """

    planner: Planner = "trace"
    poisson_plan: PoissonPlan | None = None
    half_from_vehicles: int | None = None  # so many of the longest stays carry half of g
    notices: tuple[str, ...] = ()  # sentences on a road that drifted, and on a few vehicles that carry the plan


@dataclass(frozen=True, repr=False)
class SimulatedPlan(Plan):
    """A plan found by simulation; its numbers come from traffic that did not choose it, with 95 % intervals."""

    planner: Planner = "simulation"
    objective_interval: tuple[float, float] | None = None
    regret: float | None = None  # by which share of the objective another plan may be better, but for 5 % of searches
    constant_plan: ConstantPlan | None = None  # where there is a radio


@dataclass(frozen=True, repr=False)
class AnytimePlan(Displayed):
    """The T of anytime rounds with what it promises; without a feasible plan the numbers are None.

    Args:
        status: "ok" or "infeasible".
        round_s: T in seconds.
        objective: v(T), valid local steps per second where the longest training of a round decides.
        expected_uploads: How many vehicles upload in a round, on average.
        valid_round_prob: The chance that anybody does.
        local_steps: T·v(T), the mean of a round's longest training.
        averaged_objective: What an average weighted by steps really advances, in local steps per second.
        knows: What vehicles know of their leaving.
        reason: Why there is no plan.
        objective_error: By which share of v another T might be better; None: by none.
        schedule: Always "anytime".
        planner: "exact", "simulation", or "trace" where the traffic is recorded, which has three things more.
        valid_round_prob_interval: As of a `TracePlan`.
        half_from_vehicles: As of a `TracePlan`, of v instead of g.
        notices: As of a `TracePlan`.
        assumed: What had to be assumed of recorded traffic; None: nothing.
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
    planner: Planner = "exact"
    valid_round_prob_interval: tuple[float, float] | None = None
    half_from_vehicles: int | None = None
    notices: tuple[str, ...] = ()
    assumed: str | None = None

    @classmethod
    def at(
        cls, scenario: theory.AnyRoad, round_s: float, knows: Knows, objective_error: float | None = None
    ) -> "AnytimePlan":
        """What rounds of this T promise on this road, best or not."""
        uploads, steps, averaged = theory.anytime_promise(scenario, round_s, knows)
        numbers = (round_s, steps / round_s, uploads, -math.expm1(-uploads), steps, averaged / round_s)
        return cls("ok", *numbers, knows=knows, objective_error=objective_error)

    def to_dict(self) -> dict[str, Any]:
        return _told(self)

    def _brief(self) -> str:
        return brief_plan(self)

    def _sheet(self) -> Sheet:
        return anytime_sheet(self)


@dataclass(frozen=True, repr=False)
class SimulatedAnytimePlan(AnytimePlan):
    """A plan for anytime rounds found by simulation, as a `SimulatedPlan` is."""

    planner: Planner = "simulation"
    objective_interval: tuple[float, float] | None = None
    regret: float | None = None
