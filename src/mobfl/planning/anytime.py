"""The best T of anytime rounds.

W(T), the mean of a round's longest training, bends upwards at every T_min(n), where one more step begins to fit, so
v = W/T has many tops. Between neighbouring T_min(n) every Λ(n, ·) is concave, and so is W: there v has one top at most,
where T·W′ = W. A tangent at the left end of an interval tells most of them that they cannot hold the best one.
Proofs are in docs/background/theory.md.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.planning.cells import Top, top_between
from mobfl.planning.plans import NOBODY_WITHIN, AnytimePlan, no_plan
from mobfl.scenario import Scenario
from mobfl.theory import Conditions, Knows

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings

Array = NDArray[np.float64]

_MOST_BENDS = 4096  # above, neighbouring bends are so near that v is searched as any function
_GAP, _FIRST_CELLS = 1e-6, 64
_GAP_OF_OTHER_LAWS = 1e-4
_ROUNDING = 4 * np.finfo(float).eps
_LAST_STEP = 1e-12  # of T


def plan_anytime(
    scenario: theory.AnyRoad, knows: Knows = "nothing", crossings: "Crossings | None" = None
) -> AnytimePlan:
    """The round length T that maximises v(T), the valid local steps per second of anytime rounds.

    Args:
        scenario: The road, its traffic and its delays.
        knows: What vehicles know of their leaving: "nothing", the "mean" stay of the road, or their "leaving" itself.
        crossings: Recorded traffic, instead of the scenario's road and traffic.
    """
    road = Conditions.of(scenario)
    if road.noise is not None:
        raise InputError(f"training.noise_uploads must be 0 for anytime rounds, got {road.noise}")
    if knows not in theory.KNOWLEDGE:
        raise InputError(f"knows must be one of {', '.join(theory.KNOWLEDGE)}, got {knows!r}")
    if crossings is not None:
        if isinstance(scenario, Conditions):
            raise TypeError("planning from crossings needs a Scenario, for the share of vehicles that takes part")
        return _plan_on_trace(scenario, knows, crossings)
    if theory.max_local_steps(road) < 1:
        return AnytimePlan("infeasible", knows=knows, reason=no_plan(road).reason)
    top = best_anytime_round(road, knows)
    error = top.bound / top.objective - 1
    return AnytimePlan.at(road, top.round_s, knows, error if error > 64 * _ROUNDING else None)


def _plan_on_trace(scenario: Scenario, knows: Knows, crossings: "Crossings") -> AnytimePlan:
    from mobfl.planning.trace import Trace, best_anytime_on_trace

    trace, road = Trace(crossings, scenario.traffic.participation), Conditions.of(scenario)
    reason = trace.too_short_for(road, 1)
    round_s = None if reason else best_anytime_on_trace(trace, road, knows)
    if round_s is None:
        return AnytimePlan("infeasible", knows=knows, reason=reason or NOBODY_WITHIN)
    steps, uploads, valid = trace.longest_steps(road, round_s, knows)
    return AnytimePlan("ok", round_s, steps / round_s, uploads, valid, steps, knows=knows)


def best_anytime_round(road: Conditions, knows: Knows) -> Top:
    """The best T with its v; the bound is v itself where the optimum is exact."""
    bends = _bends(road)
    if road.delays.exact and bends is not None:
        return _exact_top(road, knows, bends)
    longest = _longest_useful_s(road, knows)
    edges = np.geomspace(float(theory.min_delay_s(road, 1)), longest, _FIRST_CELLS)
    gap = _GAP if road.delays.exact else _GAP_OF_OTHER_LAWS
    return top_between(lambda t: theory.anytime_objective(road, t, knows), edges, gap)


def _bends(road: Conditions) -> Array | None:
    """T_min(n) of every class below the longest dwell, and that; None if they are too many."""
    longest = float(road.dwell.longest)
    counts = [(longest - road.delays.transfer_s) / each.min_step_s for each in road.delays.classes]
    if sum(counts) > _MOST_BENDS:
        return None
    least = [
        road.delays.transfer_s + each.min_step_s * np.arange(1, max(int(count) + 1, 1))
        for each, count in zip(road.delays.classes, counts, strict=True)
    ]
    bends = np.unique(np.concatenate(least))
    return np.append(bends[bends < longest * (1 - _ROUNDING)], longest)


def _exact_top(road: Conditions, knows: Knows, bends: Array) -> Top:
    steps = theory.longest_steps(road, bends, knows)
    tops = _Tops(road, knows, bends, steps)
    tops.look_into(tops.promising()[:1])  # which mostly rules out all the others
    tops.look_into(tops.promising())
    return Top(tops.best_s, tops.best, tops.best)


class _Tops:
    """Intervals between bends, in some of which the best T may lie; the last one begins at the longest dwell."""

    def __init__(self, road: Conditions, knows: Knows, bends: Array, steps: Array) -> None:
        self._road, self._knows = road, knows
        values = steps / bends
        best = int(values.argmax())
        self.best_s, self.best = float(bends[best]), float(values[best])
        # W never falls.
        hopeful = np.flatnonzero(np.append(steps[1:], np.inf) / bends > self.best)
        stop = np.append(bends[1:], _longest_useful_s(road, knows))
        self._start, self._stop = bends[hopeful], stop[hopeful]
        slope = theory.longest_steps_slope(road, self._start, knows)
        # Along a tangent W/T lies between its values at the two ends. Where v does not rise at first it never does.
        tangent = (steps[hopeful] + slope * (self._stop - self._start)) / self._stop
        self._bound = np.where(slope > values[hopeful], tangent, 0.0)

    def promising(self) -> NDArray[np.int64]:
        """The intervals that may hold more than the best so far, the most promising first."""
        order = np.argsort(-self._bound)
        return order[self._bound[order] > self.best * (1 + _ROUNDING)]

    def look_into(self, chosen: NDArray[np.int64]) -> None:
        if not len(chosen):
            return
        t = _roots(self._rise, self._start[chosen], self._stop[chosen])
        values = theory.anytime_objective(self._road, t, self._knows)
        top = int(values.argmax())
        if values[top] > self.best:
            self.best_s, self.best = float(t[top]), float(values[top])
        self._bound[chosen] = 0.0

    def _rise(self, t: Array) -> Array:
        """W′ − W/T, which has the sign of v's slope."""
        steps, slope = theory.longest_steps_and_slope(self._road, t, self._knows)
        return slope - steps / t


def _longest_useful_s(road: Conditions, knows: Knows) -> float:
    """A T beyond which v only falls, at least the longest dwell."""
    t = float(road.dwell.longest)
    while theory.anytime_objective_slope(road, t, knows) > 0:
        t *= 2
    return t


def _roots(falling: Callable[[Array], Array], start: Array, stop: Array) -> Array:
    """Where a falling function that begins above zero reaches it; the end if it stays above.

    Regula falsi, whose standing end counts half when it has stood twice (the Illinois rule).
    """
    low, high = start.copy(), stop * (1 - _ROUNDING)  # just before the next bend
    at_low, at_high = falling(low), falling(high)
    inside = (at_low > 0) & (at_high < 0)
    t, last = np.where(at_low > 0, high, low), np.zeros(len(start))
    while inside.any():
        new = np.where(inside, low + (high - low) * at_low / np.where(inside, at_low - at_high, 1.0), t)
        inside &= np.abs(new - t) > _LAST_STEP * new
        t = new
        value = falling(t)
        side = np.sign(value)
        up, stood = value > 0, side == last
        at_low = np.where(up, value, np.where(stood, at_low / 2, at_low))
        at_high = np.where(up, np.where(stood, at_high / 2, at_high), value)
        low, high, last = np.where(up, t, low), np.where(up, high, t), side
        inside &= value != 0
    return t
