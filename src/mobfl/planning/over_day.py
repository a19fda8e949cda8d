"""Plans by the hour, or any other span, of a recording, and what they gain over one plan for all of it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl.display import Displayed, Sheet, Tabular, columns_of, rows_of
from mobfl.errors import InputError, counted
from mobfl.planning.anytime import anytime_on_trace
from mobfl.planning.planner import plan_on_trace, road_and_crossings
from mobfl.planning.plans import AnytimePlan, Plan
from mobfl.planning.trace import Trace
from mobfl.scenario import AnyScenario
from mobfl.theory import Conditions, Knows

if TYPE_CHECKING:
    from mobfl.mobility.given import AnyCrossings

FEWEST_VEHICLES = 10
_WORSE = 0.01  # by so much an own plan may be worse, for a search ends before the last digit
MOST_SPANS = 10_000

_TOLD = ("status", "local_steps", "round_s", "objective", "expected_uploads", "valid_round_prob")


@dataclass(frozen=True)
class SpanPlan:
    """One hour's plan, judged on the hour's own traffic.

    Args:
        start_s: When the span begins, or when the recording is in use.
        end_s: When it ends.
        vehicles: How many enter in it.
        arrivals_per_s: Their rate.
        mean_stay_s: Of those who are there, None if nobody is.
        plan: The span's own; without one its `reason` says what is missing.
        one_objective: What the one plan for all spans gives in this one; None if the span is shorter than its round.
    """

    start_s: float
    end_s: float
    vehicles: int
    arrivals_per_s: float
    mean_stay_s: float | None
    plan: Plan | AnytimePlan
    one_objective: float | None

    @property
    def lasts_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def kept_objective(self) -> float:
        """With its own plan where there is one, else with the one for all."""
        own = self.plan.objective if self.plan.objective is not None else self.one_objective
        return own or 0.0

    @property
    def gain(self) -> float | None:
        """By which share its own plan gives more than the one for all."""
        if self.plan.objective is None or not self.one_objective:
            return None
        return self.plan.objective / self.one_objective - 1

    def to_dict(self) -> dict[str, Any]:
        whole = {name: each for name, each in vars(self).items() if name not in ("plan", "one_objective")}
        of_plan = {name: getattr(self.plan, name) for name in _TOLD}
        return whole | of_plan | {"one_objective": self.one_objective, "gain": self.gain, "reason": self.plan.reason}


@dataclass(frozen=True, repr=False)
class DayPlans(Displayed, Tabular):
    """Plans of all spans beside the one plan for all of them.

    Args:
        every_s: How long a span is; spans begin at whole multiples of it on the recording's clock.
        one_plan: The best for the whole recording.
        spans: In their order.
    """

    every_s: float
    one_plan: Plan | AnytimePlan
    spans: tuple[SpanPlan, ...]

    @property
    def gain(self) -> float | None:
        """By which share own plans give more over the whole recording; a span without one keeps the other."""
        one = sum(span.lasts_s * (span.one_objective or 0.0) for span in self.spans)
        own = sum(span.lasts_s * span.kept_objective for span in self.spans)
        return own / one - 1 if one > 0 else None

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.rows())

    def _brief(self) -> str:
        gain = "" if self.gain is None else f", {self.gain:.1%} more than one plan for all"
        return f"{counted(len(self.spans), 'span')} of {self.every_s:g} s{gain}"

    def _sheet(self) -> Sheet:
        names = ("start_s", "end_s", "vehicles", "local_steps", "round_s", "objective", "gain")
        return Sheet(f"Plans by span: {self._brief()}", rows_of(self.rows(), names), names)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for every span."""
        return [span.to_dict() for span in self.spans]

    def to_dict(self) -> dict[str, Any]:
        return {
            "every_s": self.every_s, "gain": self.gain, "one_plan": self.one_plan.to_dict(), "spans": self.rows()
        }  # fmt: skip


def seconds_of(span: str) -> float:
    """Of `1h`, `30min`, `900s` or `900`."""
    found = re.fullmatch(r"(\d+\.?\d*)\s*(h|min|s|)", span.strip())
    if found is None or not 0 < float(found[1]) < math.inf:
        raise InputError(f"every must be a time such as 1h, 30min or 900s, got {span!r}")
    return float(found[1]) * {"h": 3600.0, "min": 60.0}.get(found[2], 1.0)


def plan_over_day(
    scenario: AnyScenario,
    crossings: "AnyCrossings",
    every_s: float | str = 3600.0,
    anytime: Knows | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> DayPlans:
    """A plan for every hour of a recording, or for every other span.

    Both the span's own plan and the one for all are judged on the span's own traffic. The own plan was also chosen on
    it, so that even of equal hours each gains a little.

    Args:
        scenario: The delays, and the share of vehicles that takes part: a `Scenario`, a packaged one's name, a file or
            tables.
        crossings: The recording, or its file.
        every_s: How long a span is, in seconds or such as "1h" and "30min".
        anytime: What vehicles know of their leaving, for anytime rounds; None for rounds of one H.
        progress: Is told how many spans are planned.
    """
    every_s = seconds_of(every_s) if isinstance(every_s, str) else every_s
    if not 0 < every_s < np.inf:
        raise InputError(f"every must be > 0 s, got {every_s:g}")
    scenario, crossings = road_and_crossings(scenario, crossings)
    share, road = scenario.traffic.participation, Conditions.of(scenario)
    start, end = crossings.observed_s
    edges = every_s * np.arange(np.floor(start / every_s), np.ceil(end / every_s) + 1)
    if len(edges) - 1 > MOST_SPANS:
        raise InputError(f"every must leave at most {MOST_SPANS} spans, got {every_s:g} s for {end - start:g} s")

    def best(trace: Trace) -> Plan | AnytimePlan:
        return plan_on_trace(scenario, trace) if anytime is None else anytime_on_trace(scenario, trace, anytime)

    one, spans = best(Trace(crossings, share)), list[SpanPlan]()
    for low, high in zip(np.maximum(edges[:-1], start), np.minimum(edges[1:], end), strict=True):
        trace = Trace(crossings.between(float(low), float(high)), share, (float(low), float(high)))
        if low < high:
            spans.append(_span(trace, best, lambda some: _given_by(one, some, road)))
        progress(len(spans))
    return DayPlans(every_s, one, tuple(spans))


def _span(
    trace: Trace, best: Callable[[Trace], Plan | AnytimePlan], given: Callable[[Trace], float | None]
) -> SpanPlan:
    start, end = trace.observed_s
    vehicles = round(trace.arrivals_per_s * (end - start))
    stays_s = float(trace.crossings.dwell_s.mean()) if len(trace.crossings) else None
    if vehicles < FEWEST_VEHICLES:
        few = f"a plan needs at least {FEWEST_VEHICLES} vehicles that enter, got {vehicles}"
        own: Plan | AnytimePlan = Plan("infeasible", reason=few, planner="trace")
    else:
        own = best(trace)
    one_objective = given(trace)
    if own.status == "ok" and (own.objective or 0.0) < (1 - _WORSE) * (one_objective or 0.0):
        short = f"of plans with ten rounds in {end - start:.3g} s none gives more than the one for all"
        own = Plan("infeasible", reason=f"{short}: take longer spans", planner="trace")
    return SpanPlan(start, end, vehicles, trace.arrivals_per_s, stays_s, own, one_objective)


def _given_by(one: Plan | AnytimePlan, trace: Trace, road: Conditions) -> float | None:
    """What a plan gives on another trace, per second; None where there is none, or no room for a round."""
    start, end = trace.observed_s
    if one.round_s is None or one.round_s > end - start:
        return None
    if isinstance(one, AnytimePlan):
        rounds = trace.anytime_rounds(road, one.round_s, one.knows) if len(trace.crossings) else None
        return float(rounds.steps.mean()) / one.round_s if rounds is not None else 0.0
    return trace.promise(road, *one.numbers[:2]).objective
