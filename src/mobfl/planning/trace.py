"""The best H and T on recorded crossings, whatever law they follow.

Behind a signal vehicles come in platoons: the mean of the uploads is as the identity says, but more rounds stay empty
than e^−Λ. The exact chance of an empty round is an average over when rounds begin,
P0(H, T) = E_φ ∏ (1 − F_S(overlap of the vehicle with the round)), and g = (H/T)·(1 − P0).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.predicting import predicted_stay_s, ways_of
from mobfl.mobility.tracks import STEADILY
from mobfl.planning.overlaps import Stays, empty_and_uploads, longest_and_uploads, stays_of, steps_of_round
from mobfl.planning.plans import Plan, recording_too_short, stays_too_short
from mobfl.planning.search import Tried, best_steps
from mobfl.theory import KNOWLEDGE, Conditions, Delays, Knows
from mobfl.theory.delays import StepLaws

Array = NDArray[np.float64]

# Instants at which a round is imagined to begin: eight per round, spread over the trace, within these limits.
_STARTS_PER_ROUND, _FEWEST_STARTS, _MOST_STARTS = 8, 512, 4096
_FEWEST_ROUNDS = 10  # a T of which the trace holds fewer could not be judged
_GRID = 48  # g(H, ·) may have several peaks here, so T is first searched on a grid
_SCANNED = 4  # of so many starts the grid sees one
_GAP = 1e-3  # a share of g that is not worth searching for
_NARROW = 1 / 32  # H that differ by this share are told apart only about the best one


class ImaginedRounds(NamedTuple):
    """Rounds that begin at instants all over a recording, in order, each with what it promises."""

    start_s: Array
    round_s: float
    empty: Array  # the chance of no upload
    uploads: Array
    steps: Array  # of the round's longest training, 0 without any

    @property
    def spacing_s(self) -> float:
        """Between two beginnings, on average."""
        return float(self.start_s[-1] - self.start_s[0]) / (len(self.start_s) - 1)


@cache
def _spread(count: int) -> Array:
    """One number at random in each of so many equal parts of [0, 1): even spacing might keep step with a signal."""
    return (np.arange(count) + np.random.default_rng(0).random(count)) / count


class Known(NamedTuple):
    """What vehicles know of their leaving, as compiled code wants it."""

    knows: int  # its place in `KNOWLEDGE`
    mean_stay_s: float
    first: NDArray[np.int64]  # of their tracks
    time_s: Array
    way_m: Array


_NOTHING, _MEAN, _PREDICTED = (KNOWLEDGE.index(knows) for knows in ("nothing", "mean", "predicted"))


def assumed_of(knows: Knows, crossings: Crossings | None) -> str | None:
    """What is assumed of traffic in which vehicles predict their leaving; None if nothing."""
    return STEADILY if knows == "predicted" and crossings is not None and crossings.tracks is None else None


@dataclass(frozen=True)
class Trace:
    """Crossings as the search needs them, with the share of vehicles that takes part."""

    crossings: Crossings
    participation: float
    window_s: tuple[float, float] | None = None  # in which rounds are imagined, if not while all was observed

    @cached_property
    def observed_s(self) -> tuple[float, float]:
        return self.window_s or self.crossings.observed_s

    def without_longest(self, stays: int) -> "Trace":
        """Without so many of the longest stays, over the same time."""
        kept = np.ones(len(self.crossings), np.bool_)
        kept[np.argsort(-self.crossings.dwell_s, kind="stable")[:stays]] = False
        return Trace(self.crossings.take(kept), self.participation, self.observed_s)

    @property
    def arrivals_per_s(self) -> float:
        """The mean rate between enterings, or over the window that was given."""
        if self.window_s is None:
            return self.crossings.arrivals_per_s
        start, end = self.window_s
        entered = (self.crossings.enter_s >= start) & (self.crossings.enter_s < end)
        return float(entered.sum()) / (end - start)

    @property
    def longest_round_s(self) -> float:
        start, end = self.observed_s
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
        rounds = self.rounds(road, local_steps, round_s)
        valid = 1.0 - float(rounds.empty.mean())
        objective, uploads = local_steps / round_s * valid, float(rounds.uploads.mean())
        return Plan("ok", local_steps, round_s, objective, uploads, valid, planner="trace")

    def rounds(self, road: Conditions, local_steps: int, round_s: float, every: int = 1) -> ImaginedRounds:
        """Rounds of this H and T that begin at instants all over the recording, or `every` so many of them."""
        starts, laws = self.starts(round_s)[::every], total_delay(road.delays, local_steps)
        empty, uploads = empty_and_uploads(starts, round_s, self._stays, laws, self.participation)
        return ImaginedRounds(starts, round_s, empty, uploads, local_steps * (1.0 - empty))

    def anytime_rounds(self, road: Conditions, round_s: float, knows: Knows) -> ImaginedRounds:
        """Anytime rounds of this T that begin at instants all over the recording."""
        starts, laws, known = self.starts(round_s), step_laws(road), self.known(knows)
        last = laws, road.delays.transfer_s, self.participation
        if known.knows == _PREDICTED:
            stays = self.crossings.enter_s, self.crossings.leave_s
            longest, uploads, empty = _predicted_rounds(starts, round_s, *stays, *last, known)
        else:
            longest, uploads, empty = longest_and_uploads(starts, round_s, self._stays_known[known.knows], *last)
        return ImaginedRounds(starts, round_s, empty, uploads, longest)

    def longest_steps(self, road: Conditions, round_s: float, knows: Knows) -> tuple[float, float, float]:
        """Of anytime rounds: the mean of the longest training, the uploads, and the chance of any."""
        rounds = self.anytime_rounds(road, round_s, knows)
        return float(rounds.steps.mean()), float(rounds.uploads.mean()), 1.0 - float(rounds.empty.mean())

    def starts(self, round_s: float) -> Array:
        """When rounds are imagined to begin, in order."""
        start, end = self.observed_s
        if round_s > end - start:
            raise InputError(f"the trace must last at least one round of {round_s:g} s, got {end - start:g} s")
        wanted = int(_STARTS_PER_ROUND * (end - start) / round_s)
        starts = min(max(wanted, _FEWEST_STARTS), _MOST_STARTS)
        return start + _spread(starts) * (end - round_s - start)

    @cached_property
    def _stays(self) -> Stays:
        return stays_of(self.crossings.enter_s, self.crossings.leave_s)

    @cached_property
    def _stays_known(self) -> dict[int, Stays]:
        """With the leaving that vehicles expect, which ends their work; who leaves before, or before the end, fails."""
        enter, leave = self.crossings.enter_s, self.crossings.leave_s
        expected = enter + self.crossings.stays_s.mean()
        holds = leave >= expected
        return {
            _NOTHING: stays_of(enter, leave, np.zeros(len(enter), np.bool_)),
            _MEAN: stays_of(enter, np.where(holds, expected, leave), holds),
            KNOWLEDGE.index("leaving"): self._stays,
        }

    def known(self, knows: Knows) -> "Known":
        """As compiled code wants it. Who drives steadily predicts its leaving as it is."""
        tracks = self.crossings.tracks
        steady = knows == "predicted" and tracks is None
        code = KNOWLEDGE.index("leaving" if steady else knows)
        return Known(code, float(self.crossings.stays_s.mean()), *ways_of(tracks))


def best_anytime_on_trace(trace: Trace, road: Conditions, knows: Knows) -> float | None:
    """The T with the greatest v on the trace: on a grid first, then between the neighbours of the best grid point.

    None if no vehicle can ever upload.
    """
    most = _most_steps(trace, road)
    if most < 1:
        return None
    least_s, longest_s = float(theory.min_delay_s(road, 1)), trace.longest_round_s

    def objective(t: float) -> float:
        return float(trace.anytime_rounds(road, t, knows).steps.mean()) / t

    grid, values = list[float](), list[float]()
    for t in np.geomspace(min(1.02 * least_s, longest_s), longest_s, _GRID):
        if most / t < max(values, default=0.0):  # nobody takes more steps, however long the round
            break
        grid.append(float(t))
        values.append(objective(grid[-1]))
    return _refined(objective, np.array(grid), values) if max(values) > 0 else None


def _refined(objective: Callable[[float], float], grid: Array, values: Sequence[float]) -> float:
    """The T of a grid with the best value, or a better one between its neighbours."""
    from scipy.optimize import minimize_scalar

    top = int(np.argmax(values))
    bounds = (grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)])
    found = minimize_scalar(
        lambda t: -objective(float(t)), bounds=bounds, method="bounded", options={"xatol": 1e-4 * bounds[0]}
    )
    return float(found.x) if -found.fun > objective(float(grid[top])) else float(grid[top])


def best_on_trace(trace: Trace, road: Conditions, known: Plan | None) -> Plan | None:
    """The plan with the greatest g on the trace, None if no vehicle can ever upload; `known` is a good guess.

    Branch and bound over H, best bound first: as under Theorem 1, max_T g(H, T)/H never rises with H. A T with H/T
    below a third of a g that is known cannot win, and is not tried: what it might give stands in the bound instead.
    """
    most = _most_steps(trace, road)
    if most < 1:
        return None
    floor, plans = _g(known) / 3 if known else 0.0, dict[int, Plan]()

    def attempt(h: int) -> Tried:
        if h not in plans:
            plans[h] = best_round_on_trace(trace, road, h, floor)
        return Tried(_g(plans[h]), max(_g(plans[h]), floor))

    best = best_steps(attempt, most, _g(known) if known else None, _GAP, _NARROW)
    if not best.found > 0:
        return None
    around = best.local_steps or (known.numbers[0] if known else 1)
    found = _climbed(lambda h: attempt(h).found, around, most)
    return max([plans.get(found, known), known], key=lambda each: _g(each) if each else 0.0)


def _climbed(objective: Callable[[int], float], h: int, most: int) -> int:
    """The best H about this one, by steps that halve, beginning with what the search did not tell apart."""
    step = int(_NARROW * h)
    while step:
        near = max((max(h - step, 1), h, min(h + step, most)), key=objective)
        h, step = near, step if near != h else step // 2
    return h


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
    values = [trace.rounds(road, local_steps, t, _SCANNED).steps.mean() / t for t in grid]
    best_s = _refined(lambda t: _g(trace.promise(road, local_steps, t)), grid, values)
    return trace.promise(road, local_steps, best_s)


def total_delay(delays: Delays, local_steps: int) -> StepLaws:
    """S of H steps: with the transfers, and without jitter that cannot be told from none, which would overflow."""
    laws = delays.laws(local_steps)
    jitter_s = np.where([bool(each.jitters) for each in delays.classes], laws.extra_s, 0.0)
    return laws._replace(least_s=laws.least_s + delays.transfer_s, extra_s=jitter_s)


def step_laws(road: Conditions) -> StepLaws:
    """The time of one local step."""
    return total_delay(replace(road.delays, download_s=0.0, upload_s=0.0), 1)


@njit(cache=True)
def window_s(known, i, start, end, enter, leave):
    """How long vehicle i is at it in an anytime round, 0 if it has left or leaves before it is done."""
    if leave <= start:
        return 0.0
    begin = max(enter, start)
    if known.knows == _NOTHING:
        stop = end
    elif known.knows == _MEAN:
        stop = min(end, enter + known.mean_stay_s)
    elif known.knows == _PREDICTED:
        stop = min(end, begin + predicted_stay_s((known.first, known.time_s, known.way_m), i, begin))
    else:
        stop = min(end, leave)
    return stop - begin if leave >= stop else 0.0


@njit(cache=True)
def _predicted_rounds(starts, t, enter, leave, laws, transfer_s, share, known):
    """As `longest_and_uploads`, of vehicles whose time in a round depends on when they look at their way."""
    longest, uploads, empty = np.zeros(len(starts)), np.zeros(len(starts)), np.ones(len(starts))
    active, windows = np.empty(len(enter), np.int64), np.empty(len(enter) + 1)
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
            windows[there] = window_s(known, i, start, end, enter[i], leave[i])
            there += windows[there] > 0.0
        count = stay
        longest[k], uploads[k], empty[k] = steps_of_round(windows, there, 0, t, laws, transfer_s, share)
    return longest, uploads, empty
