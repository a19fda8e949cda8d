"""The best H and T for any law of the step times, with a bound on what the search may have missed.

Λ never falls in T, so between a and b g is at most (H/a)·w(Λ(b)) = g(b)·b/a. Intervals of T whose bound is no better
than what is known are dropped, the others are cut, until none is left. Beyond the longest dwell Λ is a straight line,
whatever the law.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.at_least import least_round_s
from mobfl.planning.plans import Plan, no_plan
from mobfl.planning.roots import best_linear_round_s
from mobfl.planning.search import Tried, best_steps
from mobfl.theory import Conditions

Array = NDArray[np.float64]

# Shares of g that are not searched for: for every H, and between them.
_ROUND_GAP, _STEPS_GAP = 1e-4, 4e-4
_FIRST_CELLS, _PIECES = 16, 4


class GuardedRound(NamedTuple):
    """The best T that was found, its g, and what no other T exceeds."""

    round_s: float
    objective: float
    bound: float


def best_guarded_plan(road: Conditions, least_mean: float = 0.0) -> Plan:
    """The plan whose g is within `objective_error` of the best there is with Λ of at least `least_mean`."""
    most = int(theory.max_local_steps(road))
    if most < 1:
        return no_plan(road)
    rounds = dict[int, GuardedRound]()

    def attempt(h: int) -> Tried:
        rounds[h] = best_guarded_round(road, h, least_mean)
        return Tried(rounds[h].objective, rounds[h].bound)

    best = best_steps(attempt, most, gap=_STEPS_GAP)
    if best.local_steps is None or not best.found > 0:
        return no_plan(road)
    return guarded_plan(road, best.local_steps, rounds[best.local_steps].round_s, best.bound)


def guarded_plan(road: Conditions, local_steps: int, round_s: float, bound: float) -> Plan:
    """A plan that says by which share of its g a better one might be better."""
    uploads, valid, g = (float(value) for value in theory.promise(road, local_steps, round_s))
    return Plan("ok", local_steps, round_s, g, uploads, valid, objective_error=max(bound / g - 1, 0.0))


def best_guarded_round(road: Conditions, local_steps: int, least_mean: float = 0.0) -> GuardedRound:
    """For an H that fits."""
    least_s, longest_s = float(theory.min_delay_s(road, local_steps)), float(road.dwell.longest)
    if least_mean:
        least_s = max(least_s, float(least_round_s(road, local_steps, least_mean)))
    beyond_s = max(float(_best_beyond_s(road, local_steps)), longest_s, least_s)
    if least_s > longest_s:  # there is only the straight line
        reached = float(theory.objective(road, local_steps, beyond_s))
        return GuardedRound(beyond_s, reached, reached)
    edges = np.geomspace(least_s, longest_s, _FIRST_CELLS + 1)
    t = np.append(edges, beyond_s)
    g = _objective(road, local_steps, t)
    top = int(g.argmax())
    best_s, best, bound = float(t[top]), float(g[top]), float(g[top])
    cells = _Cells(edges[:-1], edges[1:], g[1:-1])
    while len(cells.start):
        cells, dropped = cells.above(best * (1 + _ROUND_GAP))
        bound = max(bound, dropped)
        cells = cells.cut(road, local_steps) if len(cells.start) else cells
        if cells.objective.max(initial=0.0) > best:
            top = int(cells.objective.argmax())
            best_s, best = float(cells.stop[top]), float(cells.objective[top])
    return GuardedRound(best_s, best, max(bound, best))


def _best_beyond_s(road: Conditions, local_steps: int) -> Array:
    c0, c1 = theory.long_round_line(road, local_steps)
    return best_linear_round_s(road.arrivals_per_s * c0, road.arrivals_per_s * c1, road.noise)


def _objective(road: Conditions, local_steps: int, t: Array) -> Array:
    return theory.objective(road, local_steps, t)


class _Cells(NamedTuple):
    """Intervals of T, with g where each ends."""

    start: Array
    stop: Array
    objective: Array

    def above(self, enough: float) -> tuple["_Cells", float]:
        """Those that may hold more than this, and what the others hold at most."""
        bounds = self.objective * (self.stop / self.start)
        kept = bounds > enough
        dropped = float(bounds[~kept].max(initial=0.0))
        return _Cells(*(column[kept] for column in self)), dropped

    def cut(self, road: Conditions, local_steps: int) -> "_Cells":
        """Each in pieces of one ratio."""
        ratios = (self.stop / self.start)[:, np.newaxis] ** (np.arange(_PIECES + 1) / _PIECES)
        edges = self.start[:, np.newaxis] * ratios
        edges[:, -1] = self.stop
        g = np.column_stack([_objective(road, local_steps, edges[:, 1:-1]), self.objective])
        return _Cells(edges[:, :-1].ravel(), edges[:, 1:].ravel(), g.ravel())
