"""The best H and T on recorded crossings, whatever law they follow.

Behind a signal vehicles come in platoons: the mean of the uploads is as the identity says, but more rounds stay empty
than e^−Λ. The exact chance of an empty round is an average over when rounds begin,
P0(H, T) = E_φ ∏ (1 − F_S(overlap of the vehicle with the round)), and g = (H/T)·(1 − P0).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.plans import Plan, recording_too_short, stays_too_short
from mobfl.planning.search import Tried, best_steps
from mobfl.theory import KNOWLEDGE, Conditions, Delays, Knows
from mobfl.theory.delays import LOGNORMAL, MEASURED, StepLaws

Array = NDArray[np.float64]

# Instants at which a round is imagined to begin: eight per round, spread over the trace, within these limits.
_STARTS_PER_ROUND, _FEWEST_STARTS, _MOST_STARTS = 8, 512, 4096
_FEWEST_ROUNDS = 10  # a T of which the trace holds fewer could not be judged
_GRID = 48  # g(H, ·) may have several peaks here, so T is first searched on a grid
_GAP = 1e-3  # a share of g that is not worth searching for


@dataclass(frozen=True)
class Trace:
    """Crossings as the search needs them, with the share of vehicles that takes part."""

    crossings: Crossings
    participation: float

    @property
    def longest_round_s(self) -> float:
        start, end = self.crossings.observed_s
        return (end - start) / _FEWEST_ROUNDS

    def too_short_for(self, road: Conditions, local_steps: int) -> str | None:
        """Why so many local steps fit into no stay or no round of the recording; None if they fit into both."""
        least_s, longest_stay_s = float(theory.min_delay_s(road, local_steps)), float(self.crossings.dwell_s.max())
        if not _fits(road, least_s, longest_stay_s):
            return stays_too_short(road, local_steps, longest_stay_s)
        if not _fits(road, least_s, self.longest_round_s):
            return recording_too_short(least_s, _FEWEST_ROUNDS * self.longest_round_s, _FEWEST_ROUNDS)
        return None

    def promise(self, road: Conditions, local_steps: int, round_s: float) -> Plan:
        """What this H and T give on the recorded road, averaged over when the rounds begin."""
        empty, uploads = _empty_and_uploads(
            self._starts(round_s), round_s, self.crossings.enter_s, self.crossings.leave_s,
            _total_delay(road.delays, local_steps), self.participation,
        )  # fmt: skip
        valid = 1.0 - empty
        return Plan("ok", local_steps, round_s, local_steps / round_s * valid, uploads, valid)

    def _starts(self, round_s: float) -> Array:
        start, end = self.crossings.observed_s
        if round_s > end - start:
            raise InputError(f"the trace must last at least one round of {round_s:g} s, got {end - start:g} s")
        wanted = int(_STARTS_PER_ROUND * (end - start) / round_s)
        starts = min(max(wanted, _FEWEST_STARTS), _MOST_STARTS)
        # One at random in each of as many equal parts: even spacing might keep step with a signal.
        shares = (np.arange(starts) + np.random.default_rng(0).random(starts)) / starts
        return start + shares * (end - round_s - start)

    def longest_steps(self, road: Conditions, round_s: float, knows: Knows) -> tuple[float, float, float]:
        """Of anytime rounds: the mean of the longest training, the uploads, and the chance of any."""
        laws, mean_s = (
            _total_delay(replace(road.delays, download_s=0.0, upload_s=0.0), 1),
            self.crossings.dwell_s.mean(),
        )
        return _longest_and_uploads(
            self._starts(round_s), round_s, self.crossings.enter_s, self.crossings.leave_s, laws,
            road.delays.transfer_s, self.participation, KNOWLEDGE.index(knows), mean_s,
        )  # fmt: skip


def best_anytime_on_trace(trace: Trace, road: Conditions, knows: Knows) -> float | None:
    """The T with the greatest v on the trace: on a grid first, then between the neighbours of the best grid point.

    None if no vehicle can ever upload.
    """
    most = _most_steps(trace, road)
    if most < 1:
        return None
    least_s, longest_s = float(theory.min_delay_s(road, 1)), trace.longest_round_s

    def objective(t: float) -> float:
        return trace.longest_steps(road, t, knows)[0] / t

    grid, best = list[float](), 0.0
    for t in np.geomspace(min(1.02 * least_s, longest_s), longest_s, _GRID):
        if most / t < best:  # nobody takes more steps, however long the round
            break
        grid.append(float(t))
        best = max(best, objective(grid[-1]))
    return _refined(objective, np.array(grid)) if best > 0 else None


def _refined(objective: Callable[[float], float], grid: Array) -> float:
    """The best T of a grid, or a better one between its neighbours."""
    from scipy.optimize import minimize_scalar

    values = [objective(float(t)) for t in grid]
    top = int(np.argmax(values))
    bounds = (grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda t: -objective(float(t)), bounds=bounds, method="bounded", options={"xatol": 1e-4 * bounds[0]}
    )
    return float(found.x) if -found.fun > values[top] else float(grid[top])


def best_on_trace(trace: Trace, road: Conditions, known: Plan | None) -> Plan | None:
    """The plan with the greatest g on the trace, None if no vehicle can ever upload; `known` is a good guess.

    Branch and bound over H, best bound first: as under Theorem 1, max_T g(H, T)/H never rises with H. A T with H/T
    below a third of a g that is known cannot win, and is not tried: what it might give stands in the bound instead.
    """
    most = _most_steps(trace, road)
    if most < 1:
        return None
    floor, plans = _g(known) / 3 if known else 0.0, dict[int | None, Plan | None]({None: known})

    def attempt(h: int) -> Tried:
        plans[h] = tried = best_round_on_trace(trace, road, h, floor)
        return Tried(_g(tried), max(_g(tried), floor))

    best = best_steps(attempt, most, _g(known) if known else None, _GAP)
    return plans[best.local_steps] if best.found > 0 else None


def _g(plan: Plan) -> float:
    return plan.numbers[2]


def _fits(road: Conditions, least_s: float, within_s: float) -> bool:
    return least_s <= within_s if road.delays.quickest_may_be_least else least_s < within_s


def _most_steps(trace: Trace, road: Conditions) -> int:
    """The most local steps for which some stay and some round are long enough."""
    longest_s = min(float(trace.crossings.dwell_s.max()), trace.longest_round_s)
    delays = road.delays
    most = (longest_s - delays.transfer_s) / delays.min_step_s
    return max(0, int(most) if delays.quickest_may_be_least else int(np.ceil(most)) - 1)


def best_round_on_trace(trace: Trace, road: Conditions, local_steps: int, floor: float = 0.0) -> Plan:
    """The best T for this H: on a grid first, then between the neighbours of the best grid point.

    T is not tried where H/T is below `floor`.
    """
    least_s = float(theory.min_delay_s(road, local_steps))
    longest_s = min(trace.longest_round_s, max(local_steps / floor, 1.1 * least_s) if floor else np.inf)
    grid = np.append(least_s, least_s + np.geomspace(1e-3, 1.0, _GRID) * (longest_s - least_s))
    others_s = np.array(road.delays.least_by_class_s(local_steps))  # where g may leap or bend
    grid = np.union1d(grid, others_s[others_s < longest_s])
    best_s = _refined(lambda t: _g(trace.promise(road, local_steps, t)), grid)
    return trace.promise(road, local_steps, best_s)


def _total_delay(delays: Delays, local_steps: int) -> StepLaws:
    """S of H steps: with the transfers, and without jitter that cannot be told from none, which would overflow."""
    laws = delays.laws(local_steps)
    jitter_s = np.where([bool(each.jitters) for each in delays.classes], laws.extra_s, 0.0)
    return laws._replace(least_s=laws.least_s + delays.transfer_s, extra_s=jitter_s)


@njit(cache=True)
def _done_within(laws, window):
    """P{S ≤ window} of a vehicle at random."""
    chance = 0.0
    for c in range(len(laws.law)):
        extra = window - laws.least_s[c]
        if extra < 0.0 or (extra == 0.0 and laws.law[c] != MEASURED and laws.extra_s[c] > 0.0):
            continue
        if laws.law[c] == LOGNORMAL:
            z = (math.log(extra) - laws.mu[c]) / laws.sigma[c]
            done = 0.5 * math.erfc(-z / math.sqrt(2.0))
        elif laws.law[c] == MEASURED:
            samples = laws.samples_s[laws.first[c] : laws.first[c + 1]]
            done = np.searchsorted(samples, extra, side="right") / len(samples)
        else:
            done = 1.0 if laws.extra_s[c] == 0.0 else -math.expm1(-extra / laws.extra_s[c])
        chance += laws.share[c] * done
    return chance


@njit(cache=True)
def _empty_and_uploads(starts, t, enter, leave, laws, share):
    """The chance of no upload and the mean number of uploads, averaged over rounds that begin at `starts`."""
    empty = uploads = 0.0
    active = np.empty(len(enter), np.int64)  # who may still be there; those gone are dropped on the way
    count = coming = 0
    for k in range(len(starts)):
        start, end = starts[k], starts[k] + t
        while coming < len(enter) and enter[coming] < end:
            active[count] = coming
            count += 1
            coming += 1
        log_empty = 0.0
        stay = 0
        for j in range(count):
            i = active[j]
            active[stay] = i
            stay += leave[i] > start
            success = share * _done_within(laws, min(leave[i], end) - max(enter[i], start))
            if success > 0.0:
                uploads += success
                log_empty += math.log1p(-success) if success < 1.0 else -np.inf
        count = stay
        empty += math.exp(log_empty)
    return empty / len(starts), uploads / len(starts)


@njit(cache=True)
def _longest_and_uploads(starts, t, enter, leave, laws, transfer_s, share, knows, mean_s):
    """The mean longest training of anytime rounds that begin at `starts`, their uploads, and the chance of any."""
    longest = uploads = valid = 0.0
    active, windows = np.empty(len(enter), np.int64), np.empty(len(enter))
    count = coming = 0
    for k in range(len(starts)):
        start, end = starts[k], starts[k] + t
        while coming < len(enter) and enter[coming] < end:
            active[count] = coming
            count += 1
            coming += 1
        stay = there = 0
        for j in range(count):
            i = active[j]
            active[stay] = i
            stay += leave[i] > start
            expected = end if knows == 0 else enter[i] + mean_s if knows == 1 else leave[i]
            stop = min(end, expected)
            if leave[i] >= stop:
                windows[there] = stop - max(enter[i], start) - transfer_s
                there += windows[there] > 0.0
        count = stay
        steps = 0
        while True:  # until nobody can take one more
            steps += 1
            log_none, most = 0.0, 0.0
            for j in range(there):
                success = share * _done_within(laws, windows[j] / steps)
                uploads += success if steps == 1 else 0.0
                most = max(most, success)
                log_none += math.log1p(-success) if success < 1.0 else -np.inf
            if most == 0.0:
                break
            longest += -math.expm1(log_none)
            valid += -math.expm1(log_none) if steps == 1 else 0.0
    return longest / len(starts), uploads / len(starts), valid / len(starts)
