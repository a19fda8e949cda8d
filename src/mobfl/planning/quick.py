"""A plan from recorded crossings in milliseconds instead of seconds, for choosing among hundreds of sections.

It begins with Theorem 1's plan for the rate and the mean dwell, looks about on a coarse grid and climbs from there.
What it says of its plan is what the recording gives, so its g is really reached; a full search may find a little more.
"""

from itertools import product

from mobfl import theory
from mobfl.planning.planner import as_poisson, plan, refuse_noise
from mobfl.planning.plans import NOBODY_WITHIN, Plan
from mobfl.planning.trace import Trace
from mobfl.scenario import Scenario
from mobfl.theory import Conditions

_OF_STEPS, _OF_ROUND = (0.5, 0.75, 1.0, 1.4, 2.0), (0.6, 0.8, 1.0, 1.3, 1.8)  # times Theorem 1's
_CLIMBS = (1.2, 1.1, 1.05)
_SEEN = 4  # of so many imagined rounds the search sees one
_WORTH = 1.0005  # a smaller gain ends a climb
_LONGER = 1.3  # times the least round, where Theorem 1 has none


def plan_in_passing(scenario: Scenario, trace: Trace) -> Plan:
    """H and T that are nearly the best on a recording, and what they give there."""
    road = Conditions.of(scenario)
    refuse_noise(road, "a plan from crossings")
    if (reason := trace.too_short_for(road, 1)) is not None:
        return Plan("infeasible", reason=reason, planner="trace")
    tried = dict[tuple[int, float], float]()

    def objective(steps: float, round_s: float) -> tuple[float, int, float]:
        h = max(round(steps), 1)
        least_s = float(theory.min_delay_s(road, h))
        t = min(max(round_s, 1.001 * least_s), trace.longest_round_s)
        if (h, t) not in tried:
            tried[h, t] = float(trace.rounds(road, h, t, _SEEN).steps.mean()) / t if least_s < t else 0.0
        return tried[h, t], h, t

    h, t = _theorem(road, trace)
    best = max(objective(h * a, t * b) for a, b in product(_OF_STEPS, _OF_ROUND))
    for ratio in _CLIMBS:
        moves = tuple(product((1 / ratio, 1.0, ratio), repeat=2))
        while (near := max(objective(best[1] * a, best[2] * b) for a, b in moves))[0] > _WORTH * best[0]:
            best = near
    if not best[0] > 0:
        return Plan("infeasible", reason=NOBODY_WITHIN, planner="trace")
    return trace.promise(road, *best[1:])


def _theorem(road: Conditions, trace: Trace) -> tuple[int, float]:
    """Theorem 1's H and T, or the shortest rounds there are."""
    found = plan(as_poisson(road, trace))
    if found.reason is not None:
        return 1, _LONGER * float(theory.min_delay_s(road, 1))
    return found.numbers[:2]
