"""From a road to a plan: `plan` for one road, `plan_many` for a table, and the paper's own algorithm."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.planning.at_least import LeastUploads
from mobfl.planning.exact import STEPS_AT_ONCE, best_of, best_rounds, branch_and_bound
from mobfl.planning.guarded import best_guarded_plan, best_guarded_round
from mobfl.planning.plans import NOBODY_WITHIN, GuaranteedPlan, Plan, Plans, PoissonPlan, TracePlan, no_plan
from mobfl.planning.roads import conditions_from
from mobfl.scenario import Scenario, scenario_of
from mobfl.theory import Conditions

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings
    from mobfl.mobility.given import AnyCrossings
    from mobfl.planning.trace import Trace

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_ROADS_AT_ONCE = 2048
_MOST_STEPS_BY_ALGORITHM_1 = 10_000_000


@overload
def plan(scenario: theory.AnyRoad = "paper", crossings: None = None, least: None = None) -> Plan: ...
@overload
def plan(scenario: theory.AnyRoad, crossings: None = None, *, least: LeastUploads | int) -> GuaranteedPlan: ...
@overload
def plan(scenario: theory.AnyRoad, crossings: "AnyCrossings", least: None = None) -> TracePlan: ...
@overload
def plan(
    scenario: theory.AnyRoad, crossings: "AnyCrossings | None", least: LeastUploads | int | None = None
) -> Plan: ...
def plan(
    scenario: theory.AnyRoad = "paper",
    crossings: "AnyCrossings | None" = None,
    least: LeastUploads | int | None = None,
) -> Plan:
    """The H and T that maximise g on this road; equal values of g go to the smaller H.

    Exact where steps jitter exponentially or not at all; for other laws the plan's `objective_error` says how much
    more there might be.

    With `training.noise_uploads` above 0, g counts how many uploads a round averages (`theory.round_worth`).
    With recorded crossings, a `TracePlan` from their own law instead of the scenario's road and traffic.

    Args:
        scenario: The road, its traffic and its delays: a `Scenario`, a packaged one's name, a file or tables.
        crossings: Recorded traffic, or the file that holds it.
        least: How many uploads a round must have and how surely; the plan is then a `GuaranteedPlan`, with its price.
    """
    least = LeastUploads(least) if isinstance(least, int) else least
    if crossings is None:
        road = Conditions.of(scenario)
        free = _best(road)
        return free if least is None else _guaranteed(least, _best(road, least.mean), free)
    if least is not None:
        raise InputError("least_uploads counts on Poisson traffic, where Λ says how surely they come: got crossings")
    from mobfl.planning.trace import Trace

    given, recorded = road_and_crossings(scenario, crossings)
    return plan_on_trace(given, Trace(recorded, given.traffic.participation))


def road_and_crossings(
    scenario: theory.AnyRoad, crossings: "AnyCrossings", keep_tracks: bool = False
) -> "tuple[Scenario, Crossings]":
    """Both as they are needed, however they were given."""
    from mobfl.mobility.given import crossings_given

    if isinstance(scenario, Conditions):
        raise TypeError("planning from crossings needs a Scenario, for the share of vehicles that takes part")
    road = scenario_of(scenario)
    return road, cast("Crossings", crossings_given(crossings, road, keep_tracks=keep_tracks))


def _best(road: Conditions, least_mean: float = 0.0) -> Plan:
    """The greatest g among plans whose Λ is at least so much."""
    if not road.delays.exact:
        return best_guarded_plan(road, least_mean)
    most = int(theory.max_local_steps(road))
    if most <= STEPS_AT_ONCE:
        return best_of(road, np.arange(1, most + 1), least_mean)
    h, _ = branch_and_bound(road, np.array([most]), least_mean)
    return best_of(road, h, least_mean)


def _guaranteed(least: LeastUploads, found: Plan, free: Plan) -> GuaranteedPlan:
    if found.expected_uploads is None:
        return GuaranteedPlan(**vars(found), least_uploads=least.uploads, with_prob=least.prob)
    best = free.numbers[2]
    return GuaranteedPlan(
        **vars(found),
        least_uploads=least.uploads,
        with_prob=least.prob,
        least_uploads_prob=least.prob_at(found.expected_uploads),
        free_objective=best,
        price=max(1 - found.numbers[2] / best, 0.0),
    )


def plan_on_trace(scenario: Scenario, trace: "Trace") -> TracePlan:
    """The best plan on a recording, or in the window of it that the trace has."""
    from mobfl.planning.notices import read
    from mobfl.planning.trace import best_on_trace

    road = Conditions.of(scenario)
    refuse_noise(road, "a plan from crossings")
    if (reason := trace.too_short_for(road, 1)) is not None:
        return TracePlan("infeasible", reason=reason)
    theorem, beside, known = plan(as_poisson(road, trace)), None, None
    if theorem.reason is None:
        h, t, promised = theorem.numbers
    if theorem.reason is None and t <= trace.longest_round_s:
        known = trace.promise(road, h, t)
        beside = PoissonPlan(h, t, promised, known.numbers[2])
    best = best_on_trace(trace, road, known)
    if best is None:
        return TracePlan("infeasible", reason=NOBODY_WITHIN)
    reading = read(trace, lambda some: some.rounds(road, *best.numbers[:2]))
    return TracePlan(**vars(best) | reading._asdict(), poisson_plan=beside)


def as_poisson(road: Conditions, trace: "Trace") -> Conditions:
    """The road of Theorem 1 with the rate of those who take part and the mean dwell of recorded crossings."""
    rate, stay_s = trace.participation * trace.arrivals_per_s, float(trace.crossings.stays_s.mean())
    return replace(road, arrivals_per_s=rate, length_m=stay_s, speed_mps=1.0, speed_sd_mps=0.0)


def plan_many(table: Any) -> Plans:
    """A plan for every row of a table.

    Args:
        table: A mapping or data frame with columns under the TOML's names, such as `road.length_m`, in SI units. A
            single number counts for every row; what is missing takes the paper's value.
    """
    roads = conditions_from(table)
    rows = len(roads.length_m)
    h, numbers = np.zeros(rows, np.int64), np.full((4, rows), np.nan)
    for part in _alike(roads):
        road = roads.take(part)
        h[part], t = branch_and_bound(road, theory.max_local_steps(road))
        ok = h[part] > 0
        uploads, valid, objective = theory.promise(road.take(ok), h[part][ok], t[ok])
        numbers[:, part[ok]] = t[ok], objective, uploads, valid
    t, objective, uploads, valid = numbers
    return Plans(h, t, objective, uploads, valid, roads)


def _alike(roads: Conditions) -> Iterator[Counts]:
    """The rows in portions of one kind: `Conditions` must agree on these three."""
    kinds = 4 * roads.averages + 2 * roads.spreads + roads.delays.only_class.jitters
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        yield from np.array_split(rows, -(-len(rows) // _ROADS_AT_ONCE))


def best_round_s(scenario: theory.AnyRoad, local_steps: ArrayLike) -> Array:
    """The T in seconds that maximises g(H, ·), for an H that fits the road.

    Args:
        scenario: The road.
        local_steps: H, one or an array of them.
    """
    road, h = Conditions.of(scenario), np.asarray(local_steps)
    if not np.all(theory.fits(road, h)):
        raise InputError(f"local_steps must fit the road, got {h[~theory.fits(road, h)].flat[0]}")
    if road.delays.exact:
        return best_rounds(road, h)[0]
    return np.vectorize(lambda each: best_guarded_round(road, int(each)).round_s, otypes=[float])(h)


def algorithm_1(scenario: theory.AnyRoad, gamma: float = 1e-6) -> Plan:
    """The paper's Algorithm 1, for all h side by side: bisect ∂g/∂T to width γ, then take the best h.

    Two lines differ from the listing. Line 3 means T_min(h), not T_min(H); and an h with T_min(h) = T0,
    which the paper's H_max admits, never uploads, so `max_local_steps` leaves it out.

    Args:
        scenario: The road.
        gamma: γ, the width in seconds at which the bisection of T ends.
    """
    road = Conditions.of(scenario)
    refuse_noise(road, "Algorithm 1")
    if len(road.delays.classes) > 1 or not road.delays.exact:
        raise InputError("Algorithm 1 needs one class of vehicles and the paper's law: g(H, ·) may have several tops")
    most = int(theory.max_local_steps(road))
    if not gamma > 0 or most > _MOST_STEPS_BY_ALGORITHM_1:
        raise InputError(f"gamma must be > 0 and H_max <= {_MOST_STEPS_BY_ALGORITHM_1:g}, got {gamma:g} and {most}")
    h = np.arange(1, most + 1)
    if not len(h):
        return no_plan(road)
    low, high = theory.min_delay_s(road, h), theory.max_round_s(road, h)
    t = (low + high) / 2
    # A width of γ may lie below the resolution of a very long T: then neighbouring doubles are enough.
    while np.any(wide := (high - low > gamma) & (low < t) & (t < high)):
        rising = theory.objective_slope(road, h, t) > 0
        low, high = np.where(wide & rising, t, low), np.where(wide & ~rising, t, high)
        t = (low + high) / 2
    best = int(np.argmax(theory.objective(road, h, t)))
    return Plan.at(road, int(h[best]), float(t[best]))


def refuse_noise(road: Conditions, what: str) -> None:
    """Raises where more uploads would make a round worth more, which `what` does not know."""
    if road.noise is not None:
        raise InputError(f"training.noise_uploads must be 0 for {what}, which maximises g, got {road.noise}")
