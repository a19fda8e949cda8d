"""A plan found by simulation, for whatever can be simulated; `planning.by_simulation` has the search."""

import math
from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.given import AnyCrossings, crossings_given
from mobfl.planning.by_simulation import Found, Stage, best_by_simulation, share_of
from mobfl.planning.lattice import Space
from mobfl.planning.planner import plan
from mobfl.planning.plans import ConstantPlan, SimulatedAnytimePlan, SimulatedPlan, no_plan
from mobfl.planning.radio import in_seconds, too_narrow
from mobfl.planning.trace import Trace, assumed_of
from mobfl.rounds.orders import AsManyAsFit
from mobfl.rounds.stretches import Simulator, Tally
from mobfl.scenario import AnyScenario, Scenario, scenario_of
from mobfl.theory import Conditions, Knows, Transfers
from mobfl.theory.delays import StepTimes

Array = NDArray[np.float64]

LEVEL = 0.95
_AT_ONCE = Transfers(0.0, 0.0, 1.0)
_STRETCHES, _STRETCHES_OF_TRACE = 32, 12
_PROMISE_STRETCHES, _MOST_PROMISE_STRETCHES = 64, 4096
_OFTEN = 0.05  # of the measured steps
_LONGEST = 1e4  # times a stay and the gap between two vehicles: if nobody uploads in such a round, nobody ever does
_NOBODY = (
    "nobody uploaded in any simulated round, however few the steps and however long the round: lengthen the section, or"
    " quicken the step and the transfers"
)


@overload
def plan_by_simulation(
    scenario: AnyScenario = ..., within: float | str = 0.01, crossings: AnyCrossings | None = None, seed: int = 0, *,
    anytime: None = None, progress: Callable[[Stage], None] = ...,
) -> SimulatedPlan: ...  # fmt: skip


@overload
def plan_by_simulation(
    scenario: AnyScenario = ..., within: float | str = 0.01, crossings: AnyCrossings | None = None, seed: int = 0, *,
    anytime: Knows | AsManyAsFit, progress: Callable[[Stage], None] = ...,
) -> SimulatedAnytimePlan: ...  # fmt: skip


def plan_by_simulation(
    scenario: AnyScenario = "paper",
    within: float | str = 0.01,
    crossings: AnyCrossings | None = None,
    seed: int = 0,
    *,
    anytime: Knows | AsManyAsFit | None = None,
    progress: Callable[[Stage], None] = lambda _: None,
) -> SimulatedPlan | SimulatedAnytimePlan:
    """A plan whose objective is within a share of the best, found by simulating plans on the same traffic.

    It asks no formula, and so works for whatever rounds can be simulated with. In at least 95 of 100 searches no plan
    is better by a larger share than `within`. What the plan promises comes from traffic that did not choose it.

    Args:
        scenario: The road, its traffic and its delays: a `Scenario`, a packaged one's name, a file or tables.
        within: By which share of the objective another plan may be better, from 0.00001 to 0.5 or such as "1%".
        crossings: Recorded traffic, or its file. What is then uncertain is what vehicles draw and when rounds begin,
            not what another recording would bring.
        seed: The same seed finds the same plan.
        anytime: For rounds in which every vehicle takes as many steps as fit: what it knows of its leaving.
        progress: Told how far the search has come.
    """
    scenario, within = scenario_of(scenario), share_of(within)
    needs_tracks = scenario.radio is not None or anytime == "predicted"
    crossings = crossings_given(crossings, scenario, seed, needs_tracks)
    road, trace = _conditions(scenario), None
    asked = None if anytime is None else _asked(anytime, road, crossings)
    if crossings is not None:
        trace = Trace(crossings, scenario.traffic.participation)
    reason = _infeasible(scenario, road, trace)
    if reason is None:
        simulator = Simulator(scenario, road, asked, crossings, seed)
        stretches = _STRETCHES if trace is None else _STRETCHES_OF_TRACE
        found = best_by_simulation(simulator, _space(road, trace, asked), within, stretches, progress)
        if found is not None:
            tally = _promise(simulator, found, within)
            if asked is not None:
                return _anytime_plan(found, tally, asked, crossings)
            return _plan(found, tally, _for_constants(scenario, found, simulator) if trace is None else None)
    reason = reason or _NOBODY
    if asked is None:
        return SimulatedPlan("infeasible", reason=reason)
    return SimulatedAnytimePlan("infeasible", knows=asked.knows, reason=reason)


def _asked(anytime: Knows | AsManyAsFit, road: Conditions, crossings: Crossings | None) -> AsManyAsFit:
    if road.noise is not None:
        raise InputError(f"training.noise_uploads must be 0 for anytime rounds, got {road.noise}")
    if isinstance(anytime, AsManyAsFit):
        return anytime
    stay_s = road.mean_dwell_s if crossings is None else crossings.stays_s.mean()
    return AsManyAsFit(anytime, float(stay_s))


def _conditions(scenario: Scenario) -> Conditions:
    """What the theory knows of the road: of a radio's transfers only that they take some time."""
    return Conditions.of(scenario if scenario.radio is None else in_seconds(scenario, _AT_ONCE))


def _infeasible(scenario: Scenario, road: Conditions, trace: Trace | None) -> str | None:
    """Why not even one step fits; None if it does."""
    if scenario.radio is not None and (reason := too_narrow(scenario)) is not None:
        return reason
    if trace is not None:
        return trace.too_short_for(road, 1)
    return None if theory.fits(road, 1) else no_plan(road).reason


def _space(road: Conditions, trace: Trace | None, asked: AsManyAsFit | None) -> Space:
    """Which plans may be worth something: H that fit into the longest stay, T of at least their quickest delay."""
    if trace is None:
        longest_stay_s, stay_s = float(road.dwell.longest), float(road.mean_dwell_s)
        longest_s = _LONGEST * (longest_stay_s + 1 / float(road.arrivals_per_s))
    else:
        longest_stay_s, stay_s = float(trace.crossings.dwell_s.max()), float(trace.crossings.stays_s.mean())
        longest_s = trace.longest_round_s
        longest_stay_s = min(longest_stay_s, longest_s)
    delays = road.delays
    most = max(1, int((longest_stay_s - delays.transfer_s) / delays.min_step_s * (1 + 1e-12)))
    if asked is not None:
        return Space(1, lambda _: float(delays.least_s(1)), lambda _: float(most), stay_s, longest_s)
    often_s = [step_s for each in delays.classes for step_s in _often(each)]
    return Space(
        most, lambda h: float(delays.least_s(h)), float, stay_s, longest_s,
        lambda h: [delays.transfer_s + step_s * h for step_s in often_s],
    )  # fmt: skip


def _often(steps: StepTimes) -> list[float]:
    """Times of a step that many vehicles have in common: where H of them fit into a round, g leaps."""
    if steps.extra_samples_s is None:
        return [] if steps.jitters else [float(steps.min_step_s)]
    extra_s, times = np.unique(steps.extra_samples_s, return_counts=True)
    return [float(steps.min_step_s + extra) for extra in extra_s[times >= _OFTEN * len(steps.extra_samples_s)]]


def _promise(simulator: Simulator, found: Found, within: float) -> Tally:
    """What the plan gives on fresh stretches, until its objective is known as well as the plan itself is."""
    plan, count, first = (found.local_steps, found.round_s), _PROMISE_STRETCHES, found.stretches
    averaged = simulator.asked is not None
    tally = simulator.tally(plan, first, count, found.lasts_s, averaged)
    low, high = mean_interval(tally.objective)
    missing = ((high - low) / 2 / (within * float(tally.objective.mean()))) ** 2
    if missing > 1:
        more = min(math.ceil(count * (missing - 1)), _MOST_PROMISE_STRETCHES)
        tally = tally.plus(simulator.tally(plan, first + count, more, found.lasts_s, averaged))
    return tally


def mean_interval(samples: Array) -> tuple[float, float]:
    """Where the mean lies in 95 of 100 cases."""
    from scipy.special import stdtrit

    reach = float(stdtrit(len(samples) - 1, (1 + LEVEL) / 2) * samples.std(ddof=1) / math.sqrt(len(samples)))
    mean = float(samples.mean())
    return mean - reach, mean + reach


def _valid_interval(tally: Tally) -> tuple[float, float]:
    """Of the chance of an upload; never a single number, as a round may fail that never did so far."""
    low, high = mean_interval(tally.valid / tally.rounds)
    unseen = -math.log(1 - LEVEL) / float(tally.rounds.sum())
    valid = float(tally.valid.sum() / tally.rounds.sum())
    return max(min(low, valid - unseen), 0.0), min(high, 1.0)


def _for_constants(scenario: Scenario, found: Found, simulator: Simulator) -> ConstantPlan | None:
    """What the radio costs: the exact plan for constant transfers of the same mean, and what it gives on the air."""
    if scenario.radio is None:
        return None
    times = theory.mean_transfers(scenario, found.local_steps, found.round_s)
    constant = plan(in_seconds(scenario, times))
    if constant.reason is not None:
        return None
    h, t, promised = constant.numbers
    tally = simulator.tally((h, t), found.stretches, _PROMISE_STRETCHES, found.lasts_s)
    return ConstantPlan(h, t, promised, float(tally.objective.mean()))


def _plan(found: Found, tally: Tally, constant: ConstantPlan | None) -> SimulatedPlan:
    rounds = float(tally.rounds.sum())
    return SimulatedPlan(
        "ok", found.local_steps, found.round_s, float(tally.objective.mean()), float(tally.uploads.sum()) / rounds,
        float(tally.valid.sum()) / rounds, valid_round_prob_interval=_valid_interval(tally),
        objective_interval=mean_interval(tally.objective), regret=found.regret, constant_plan=constant,
    )  # fmt: skip


def _anytime_plan(found: Found, tally: Tally, asked: AsManyAsFit, crossings: Crossings | None) -> SimulatedAnytimePlan:
    rounds, objective = float(tally.rounds.sum()), float(tally.objective.mean())
    return SimulatedAnytimePlan(
        "ok", found.round_s, objective, float(tally.uploads.sum()) / rounds, float(tally.valid.sum()) / rounds,
        found.round_s * objective, float(tally.averaged.sum()) / rounds / found.round_s, knows=asked.knows,
        assumed=assumed_of(asked.knows, crossings), valid_round_prob_interval=_valid_interval(tally),
        objective_interval=mean_interval(tally.objective), regret=found.regret,
    )  # fmt: skip
