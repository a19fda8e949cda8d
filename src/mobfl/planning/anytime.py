"""The best T of anytime rounds: exact where W(T) is concave between known bends, else within a bound that is told."""

from typing import TYPE_CHECKING

import numpy as np

from mobfl import theory
from mobfl.errors import InputError
from mobfl.planning.bends import MOST_BENDS, LongestSteps, best_between_bends
from mobfl.planning.cells import Top, top_between
from mobfl.planning.planner import road_and_crossings
from mobfl.planning.plans import NOBODY_WITHIN, AnytimePlan, no_plan
from mobfl.scenario import Scenario
from mobfl.theory import Conditions, Knows

if TYPE_CHECKING:
    from mobfl.mobility.given import AnyCrossings
    from mobfl.planning.trace import Trace

_GAP, _FIRST_CELLS = 1e-6, 64
_GAP_OF_OTHER_LAWS = 1e-4
_ROUNDING = 4 * np.finfo(float).eps


def plan_anytime(
    scenario: theory.AnyRoad = "paper", knows: Knows = "nothing", crossings: "AnyCrossings | None" = None
) -> AnytimePlan:
    """The round length T that maximises v(T), the valid local steps per second of anytime rounds.

    Args:
        scenario: The road, its traffic and its delays: a `Scenario`, a packaged one's name, a file or tables.
        knows: What vehicles know of their leaving: "nothing", the "mean" stay of the road, what they have "predicted"
            from the way left and their present speed, or their "leaving" itself.
        crossings: Recorded traffic or its file, instead of the scenario's road and traffic.
    """
    road = Conditions.of(scenario)
    if road.noise is not None:
        raise InputError(f"training.noise_uploads must be 0 for anytime rounds, got {road.noise}")
    if knows not in theory.KNOWLEDGE:
        raise InputError(f"knows must be one of {', '.join(theory.KNOWLEDGE)}, got {knows!r}")
    if crossings is not None:
        from mobfl.planning.trace import Trace

        known, recorded = road_and_crossings(scenario, crossings, keep_tracks=knows == "predicted")
        return anytime_on_trace(known, Trace(recorded, known.traffic.participation), knows)
    if not theory.fits(road, 1):
        return AnytimePlan("infeasible", knows=knows, reason=no_plan(road).reason)
    top = best_anytime_round(road, knows)
    error = top.bound / top.objective - 1
    return AnytimePlan.at(road, top.round_s, knows, error if error > 64 * _ROUNDING else None)


def anytime_on_trace(scenario: Scenario, trace: "Trace", knows: Knows) -> AnytimePlan:
    """The best T of anytime rounds on a recording, or in the window of it that the trace has."""
    from mobfl.planning.notices import read
    from mobfl.planning.trace import assumed_of, best_anytime_on_trace
    from mobfl.planning.trace_average import averaged_on_trace

    road = Conditions.of(scenario)
    reason = trace.too_short_for(road, 1)
    best_s = None if reason else best_anytime_on_trace(trace, road, knows)
    if best_s is None:
        return AnytimePlan("infeasible", knows=knows, reason=reason or NOBODY_WITHIN, planner="trace")
    steps, uploads, valid = trace.longest_steps(road, best_s, knows)
    averaged = averaged_on_trace(trace, road, best_s, knows) / best_s
    reading = read(trace, lambda some: some.anytime_rounds(road, best_s, knows))
    return AnytimePlan(
        "ok", best_s, steps / best_s, uploads, valid, steps, averaged,
        knows=knows, assumed=assumed_of(knows, trace.crossings), planner="trace", **reading._asdict(),
    )  # fmt: skip


def best_anytime_round(road: Conditions, knows: Knows) -> Top:
    """The best T with its v; the bound is v itself where the optimum is exact."""
    if road.delays.exact and _bends(road) <= MOST_BENDS:
        return best_between_bends(LongestSteps(road, knows))
    longest = _longest_useful_s(road, knows)
    edges = np.geomspace(float(theory.min_delay_s(road, 1)), longest, _FIRST_CELLS)
    gap = _GAP if road.delays.exact else _GAP_OF_OTHER_LAWS
    return top_between(lambda t: theory.anytime_objective(road, t, knows), edges, gap)


def _bends(road: Conditions) -> float:
    """How many T_min(n), of all classes, are below the longest dwell."""
    longest = float(road.dwell.longest)
    return sum((longest - road.delays.transfer_s) / each.min_step_s for each in road.delays.classes)


def _longest_useful_s(road: Conditions, knows: Knows) -> float:
    """A T beyond which v only falls, at least the longest dwell."""
    t = float(road.dwell.longest)
    while theory.anytime_objective_slope(road, t, knows) > 0:
        t *= 2
    return t
