"""The exact optimum of g under Theorem 1 and the identity behind it.

For a given H the best T is exact: closed form above the longest dwell, a Newton root below (in a fleet, one in every
interval between the classes' T_min). H is found by
branch and bound on a fact that needs no unimodality: with G(H) = max_T g(H, T), G(H)/H never rises, since
more steps only delay an upload. This holds for any worth w(Λ) of a round that rises with its uploads: 1 − e^−Λ,
or E[M/(M + ν)] where averaging counts; and where Λ must reach a least value, as fewer T do so with more steps.
So G(H) ≤ (H/a)·G(a) for H ≥ a, and whole ranges of H are ruled out by
their left ends. The proofs are in docs/background/theory.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.at_least import least_round_s
from mobfl.planning.fleets import best_rounds_of_fleet
from mobfl.planning.plans import Plan, no_plan
from mobfl.planning.roots import ascend, best_linear_round_s
from mobfl.theory import Conditions
from mobfl.theory.distributions import Constant, Dwell, ShiftedExponential

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Two values of g this close are a tie: a few roundings of a double.
_TIE = 16 * np.finfo(float).eps
STEPS_AT_ONCE = 400
_SPREAD_AT_ONCE = 1024


# ---- the best T for a given H -------------------------------------------------------------------


def best_rounds(road: Conditions, h: Counts, least_mean: float = 0.0) -> tuple[Array, Array, Array, Array]:
    """For every H its best T with Λ of at least `least_mean`, and Λ, P{M_suc > 0} and g there."""
    at_once = _SPREAD_AT_ONCE // len(road.delays.classes) ** 2 + 1
    if isinstance(road.dwell, Constant) or h.size <= at_once:
        return _best_rounds(road, h, least_mean)
    # A dwell that spreads takes hundreds of numbers per H: not too many of them at a time.
    parts = np.array_split(np.arange(h.size), -(-h.size // at_once))
    columns = zip(*(_best_rounds(road.take(part), h[part], least_mean) for part in parts), strict=True)
    t, uploads, valid, g = (np.concatenate(column) for column in columns)
    return t, uploads, valid, g


def _best_rounds(road: Conditions, h: Counts, least_mean: float) -> tuple[Array, Array, Array, Array]:
    if len(road.delays.classes) > 1:
        return best_rounds_of_fleet(road, h, least_mean)
    rate, dwell, delay, noise = road.arrivals_per_s, road.dwell, theory.delay(road, h), road.noise
    if isinstance(delay, ShiftedExponential):
        t = _best_round_with_jitter(rate, dwell, delay, noise)
    else:  # Λ is linear in T from T_min on
        c0, c1 = theory.long_round_identity(dwell, delay)
        t = np.maximum(best_linear_round_s(rate * c0, rate * c1, noise), theory.min_delay_s(road, h))
    if least_mean:  # beyond its top g(H, ·) only falls
        t = np.maximum(t, least_round_s(road, h, least_mean))
    uploads = theory.uploads_identity(rate, dwell, delay, t)
    return t, uploads, *theory.valid_and_objective(uploads, h, t, noise)


def _best_round_with_jitter(rate: Any, dwell: Dwell, delay: ShiftedExponential, noise: Any) -> Array:
    least, longest = delay.shift, dwell.longest
    guess = _first_guess(rate, least, longest - least, delay.scale)
    return ascend(lambda t: theory.uploads_and_slopes(rate, dwell, delay, t), guess, least, longest, longest, noise)


def _first_guess(rate: Any, least: Array, room: Array, scale: Array) -> Array:
    """The root for Λ ≈ λ·(T − T_min)·room/scale, times a fitted factor for what that leaves out."""
    reach = room / scale
    guess = np.log1p(rate * least * reach) / (rate * reach) * (1.08 + 0.6 / reach)
    return least + np.minimum(guess, 0.95 * room)


# ---- the best H ---------------------------------------------------------------------------------


def branch_and_bound(road: Conditions, most: Counts, least_mean: float = 0.0) -> tuple[Counts, Array]:
    """The best H and T of every road; H = 0 where nothing fits."""
    which = np.flatnonzero(most)  # the road of each range [start, stop)
    start, stop = np.ones(len(which), np.int64), most[which] + 1
    best = np.zeros(len(most))
    seen = []
    while len(which):
        pieces = max(4, (STEPS_AT_ONCE + 12 * len(most)) // len(which))
        which, start, stop = _split(which, start, stop, pieces)
        t, _, _, g = best_rounds(road.take(which), start, least_mean)
        seen.append((which, start, t, g))
        np.maximum.at(best, which, g)
        hopeful = (stop - start > 1) & (g * ((stop - 1) / start) >= best[which] * (1 - _TIE))
        which, start, stop = which[hopeful], start[hopeful] + 1, stop[hopeful]
    return _smallest_best(seen, best)


def _split(which: Counts, start: Counts, stop: Counts, pieces: int) -> tuple[Counts, Counts, Counts]:
    """Every range [start, stop) cut into at most so many pieces, by equal ratios, none empty."""
    counts = np.minimum(stop - start, pieces)
    last = np.cumsum(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    piece = np.arange(len(owner)) - (last - counts)[owner]
    ratio = np.power(stop / start, 1.0 / counts)[owner]
    starts = np.maximum(start[owner] + piece, np.floor(start[owner] * ratio**piece).astype(np.int64))
    stops = np.append(starts[1:], 0)
    stops[last - 1] = stop
    return which[owner], starts, stops


def _smallest_best(seen: list[tuple[Counts, Counts, Array, Array]], best: Array) -> tuple[Counts, Array]:
    h, t = np.zeros(len(best), np.int64), np.zeros(len(best))
    if not seen:
        return h, t
    which, steps, rounds, g = (np.concatenate(column) for column in zip(*seen, strict=True))
    ties = np.flatnonzero((g >= best[which] * (1 - _TIE)) & (g > 0))
    ties = ties[np.argsort(-steps[ties], kind="stable")]  # so that the smallest H is written last
    h[which[ties]], t[which[ties]] = steps[ties], rounds[ties]
    return h, t


def best_of(road: Conditions, h: Counts, least_mean: float = 0.0) -> Plan:
    """The best of these H, each with its best T of those with Λ of at least `least_mean`."""
    if not h.any():
        return no_plan(road)
    t, uploads, valid, g = best_rounds(road, h, least_mean)
    best = int((g >= g.max() * (1 - _TIE)).argmax())
    chosen = (column[best].item() for column in (h, t, g, uploads, valid))
    return Plan("ok", *chosen) if g[best] > 0 else no_plan(road)
