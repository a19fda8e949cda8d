"""The exact optimum of g under Theorem 1 and the identity behind it.

For a given H the best T is exact: closed form above the longest dwell, a Newton root below. H is found by
branch and bound on a fact that needs no unimodality: with G(H) = max_T g(H, T), G(H)/H never rises, since
more steps only delay an upload. This holds for any worth w(Λ) of a round that rises with its uploads: 1 − e^−Λ,
or E[M/(M + ν)] where averaging counts. So G(H) ≤ (H/a)·G(a) for H ≥ a, and whole ranges of H are ruled out by
their left ends. The proofs are in docs/background/theory.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.plans import Plan, no_plan
from mobfl.theory import Conditions
from mobfl.theory.distributions import Constant, Dwell, ShiftedExponential

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Two values of g this close are a tie: a few roundings of a double.
_TIE = 16 * np.finfo(float).eps
# Newton squares its error, so after a relative step of 1e-6 about 1e-12 is left.
_LAST_STEP = 1e-6
_ROUNDING = 2 * np.finfo(float).eps
# Below this the series of y in s is as good as Newton, which there loses digits.
_SERIES_REACH = 1e-3
# Keeps a quotient finite where no vehicle stays long enough to be told from none.
_TINY = 1e-300
# The guard costs a third of an iteration and is hardly ever needed, so the first steps go without.
_UNGUARDED_STEPS = 8
STEPS_AT_ONCE = 400
_SPREAD_AT_ONCE = 1024


# ---- the best T for a given H -------------------------------------------------------------------


def best_rounds(road: Conditions, h: Counts) -> tuple[Array, Array, Array, Array]:
    """For every H its best T, with Λ, P{M_suc > 0} and g there."""
    if isinstance(road.dwell, Constant) or h.size <= _SPREAD_AT_ONCE:
        return _best_rounds(road, h)
    # A dwell that spreads takes hundreds of numbers per H: not too many of them at a time.
    parts = np.array_split(np.arange(h.size), -(-h.size // _SPREAD_AT_ONCE))
    columns = zip(*(_best_rounds(road.take(part), h[part]) for part in parts), strict=True)
    t, uploads, valid, g = (np.concatenate(column) for column in columns)
    return t, uploads, valid, g


def _best_rounds(road: Conditions, h: Counts) -> tuple[Array, Array, Array, Array]:
    rate, dwell, delay, noise = road.arrivals_per_s, road.dwell, theory.delay(road, h), road.noise
    if isinstance(delay, ShiftedExponential):
        t = _best_round_with_jitter(rate, dwell, delay, noise)
    else:  # Λ is linear in T from T_min on
        c0, c1 = theory.long_round_identity(dwell, delay)
        t = np.maximum(best_linear_round_s(rate * c0, rate * c1, noise), theory.min_delay_s(road, h))
    uploads = theory.uploads_identity(rate, dwell, delay, t)
    return t, uploads, *theory.valid_and_objective(uploads, h, t, noise)


def best_linear_round_s(slope: Array, offset: Array, noise: Any = None) -> Array:
    """The T that maximises w(Λ)/T for Λ = slope·T + offset; 0 where that only falls. w is the worth of a round."""
    c = np.maximum(-offset, 0.0)
    y = _best_growth(c) if noise is None else c + _best_uploads(c, noise)
    return y / np.maximum(slope, _TINY)


def _best_growth(c: Array) -> Array:
    """y = slope·T where w = 1 − e^−Λ: then y − log(1 + y) = c, so y = −W₋₁(−e^(−c − 1)) − 1.

    We solve for y itself: the argument of W loses half its digits near −1/e, which is where rare traffic lies.
    """
    s = np.sqrt(2.0 * c)
    start = s + s * s / 3.0 + s * s * s / (36.0 + 6.0 * s)  # y's series in s, bent towards c + log c
    y = np.maximum(start, _SERIES_REACH)
    for _ in range(2):  # from within 0.5 % to 1e-12, for any c
        y = y - (y - np.log1p(y) - c) * (1.0 + y) / y
    return np.where(s < _SERIES_REACH, start, y)


def _best_uploads(c: Array, noise: Any) -> Array:
    """Λ where w = E[M/(M + ν)]: then Λ²/d(Λ) = c, with ν < d ≤ ν + 2, and Λ is more than without noise.

    Newton in log Λ from the larger of these two lower bounds; where a step is not half the last, bisection.
    """
    log_c = np.log(np.maximum(c, _TINY))
    low = x = np.maximum((log_c + np.log(noise)) / 2, np.log(np.log1p(_best_growth(np.maximum(c, _TINY)))))
    high = (log_c + np.log(noise + 2.0)) / 2
    last = np.inf
    for _ in range(100):
        uploads = np.exp(x)
        a = theory.worth_fraction(uploads, noise)
        d = noise + a
        excess = 2.0 * x - np.log(d) - log_c
        new = x - excess * d / (a * (uploads + d))
        if (np.abs(new - x) <= _LAST_STEP).all():
            break
        low, high = np.where(excess > 0, low, x), np.where(excess > 0, x, high)
        stray = (new < low) | (new > high) | (np.abs(new - x) > last / 2)
        new = np.where(stray, (low + high) / 2, new)
        last, x = np.abs(new - x), new
    return np.where(c > 0.0, np.exp(new), 0.0)


def _best_round_with_jitter(rate: Any, dwell: Dwell, delay: ShiftedExponential, noise: Any) -> Array:
    """The root of ∂g/∂T: by Newton up to the longest dwell, along a straight line beyond.

    The sign of ∂g/∂T is that of log(1 + T·∂Λ/∂T) − log(1 + w/w′), which falls in T and, unlike the paper's q,
    cannot overflow.
    """
    low = delay.shift
    high = longest = dwell.longest
    t = _first_guess(rate, low, high - low, delay.scale)
    for iteration in range(100):
        uploads, slope, bend = theory.uploads_and_slopes(rate, dwell, delay, t)
        growth = t * slope
        enough, damping = _enough_growth(uploads, noise)
        excess = np.log1p(growth) - enough
        new = t + excess * (1.0 + growth) / (t * np.maximum(slope * slope * damping - bend, _TINY))
        if iteration < _UNGUARDED_STEPS:
            new = np.minimum(np.maximum(new, low), high)
        else:
            low, high = np.where(excess > 0, t, low), np.where(excess > 0, high, t)
            new = np.where((new < low) | (new > high), (low + high) / 2, new)
        # Whoever runs into the end must start from there once, to see whether g still rises.
        if iteration > 1 and (np.abs(new - t) <= _settled(t, delay.shift) * (new < longest)).all():
            break
        t = new
    beyond = (t == longest) & (excess > 0)  # from there on Λ is a straight line
    if beyond.any():
        new = np.where(beyond, best_linear_round_s(slope, uploads - slope * t, noise), new)
    return new


def _enough_growth(uploads: Array, noise: Any) -> tuple[Array, Any]:
    """log(1 + w/w′), which log(1 + T·∂Λ/∂T) exceeds while longer rounds pay, and −w″/w′; Λ and 1 without noise."""
    if noise is None:
        return uploads, 1.0
    a = theory.worth_fraction(uploads, noise)
    d = noise + a
    return np.log1p(uploads + uploads * uploads / d), a / d


def _settled(t: Array, least: Array) -> Array:
    """How small a last step is small enough: with little jitter all happens just above T_min."""
    return np.maximum(_LAST_STEP * (t - least), _ROUNDING * t)


def _first_guess(rate: Any, least: Array, room: Array, scale: Array) -> Array:
    """The root for Λ ≈ λ·(T − T_min)·room/scale, times a fitted factor for what that leaves out."""
    reach = room / scale
    guess = np.log1p(rate * least * reach) / (rate * reach) * (1.08 + 0.6 / reach)
    return least + np.minimum(guess, 0.95 * room)


# ---- the best H ---------------------------------------------------------------------------------


def branch_and_bound(road: Conditions, most: Counts) -> tuple[Counts, Array]:
    """The best H and T of every road; H = 0 where nothing fits."""
    which = np.flatnonzero(most)  # the road of each range [start, stop)
    start, stop = np.ones(len(which), np.int64), most[which] + 1
    best = np.zeros(len(most))
    seen = []
    while len(which):
        pieces = max(4, (STEPS_AT_ONCE + 12 * len(most)) // len(which))
        which, start, stop = _split(which, start, stop, pieces)
        t, _, _, g = best_rounds(road.take(which), start)
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


def best_of(road: Conditions, h: Counts) -> Plan:
    """The best of these H, each with its best T."""
    if not h.any():
        return no_plan(road)
    t, uploads, valid, g = best_rounds(road, h)
    best = int((g >= g.max() * (1 - _TIE)).argmax())
    chosen = (column[best].item() for column in (h, t, g, uploads, valid))
    return Plan("ok", *chosen) if g[best] > 0 else no_plan(road)
