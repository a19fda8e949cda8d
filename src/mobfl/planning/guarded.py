"""The best H and T for any law of the step times, with a bound on what the search may have missed.

Λ never falls in T, so intervals of T are searched with a bound (`cells`). Beyond the longest dwell Λ is a straight
line, whatever the law.
"""

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.at_least import least_round_s
from mobfl.planning.cells import Top, top_between
from mobfl.planning.plans import Plan, no_plan
from mobfl.planning.roots import best_linear_round_s
from mobfl.planning.search import Tried, best_steps
from mobfl.theory import Conditions

Array = NDArray[np.float64]

# Shares of g that are not searched for: for every H, and between them.
_ROUND_GAP, _STEPS_GAP = 1e-4, 4e-4
_FIRST_CELLS = 16


def best_guarded_plan(road: Conditions, least_mean: float = 0.0) -> Plan:
    """The plan whose g is within `objective_error` of the best there is with Λ of at least `least_mean`."""
    most = int(theory.max_local_steps(road))
    if most < 1:
        return no_plan(road)
    rounds = dict[int, Top]()

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


def best_guarded_round(road: Conditions, local_steps: int, least_mean: float = 0.0) -> Top:
    """For an H that fits."""
    least_s, longest_s = float(theory.min_delay_s(road, local_steps)), float(road.dwell.longest)
    if least_mean:
        least_s = max(least_s, float(least_round_s(road, local_steps, least_mean)))
    beyond_s = max(float(_best_beyond_s(road, local_steps)), longest_s, least_s)
    if least_s > longest_s:  # there is only the straight line
        reached = float(theory.objective(road, local_steps, beyond_s))
        return Top(beyond_s, reached, reached)
    edges = np.geomspace(least_s, longest_s, _FIRST_CELLS + 1)
    return top_between(lambda t: theory.objective(road, local_steps, t), edges, _ROUND_GAP, np.array([beyond_s]))


def _best_beyond_s(road: Conditions, local_steps: int) -> Array:
    c0, c1 = theory.long_round_line(road, local_steps)
    return best_linear_round_s(road.arrivals_per_s * c0, road.arrivals_per_s * c1, road.noise)
