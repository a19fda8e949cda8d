"""The best T where Λ is concave in T: a root of ∂g/∂T between two ends, and in closed form along a straight line."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory

Array = NDArray[np.float64]
# Λ and its first two derivatives in T.
Slopes = Callable[[Array], tuple[Array, Array, Array]]

# Newton squares its error, so after a relative step of 1e-6 about 1e-12 is left.
_LAST_STEP = 1e-6
_ROUNDING = 2 * np.finfo(float).eps
# Below this the series of y in s is as good as Newton, which there loses digits.
_SERIES_REACH = 1e-3
# Keeps a quotient finite where no vehicle stays long enough to be told from none.
_TINY = 1e-300
# The guard costs a third of an iteration and is hardly ever needed, so the first steps go without.
_UNGUARDED_STEPS = 8


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


def ascend(slopes: Slopes, guess: Array, least: Array, most: Array, longest: Any, noise: Any) -> Array:
    """The root of ∂g/∂T from `least` to `most` by Newton; along a straight line where `most` is the longest dwell.

    The sign of ∂g/∂T is that of log(1 + T·∂Λ/∂T) − log(1 + w/w′), which falls in T where Λ is concave and, unlike the
    paper's q, cannot overflow.
    """
    low, high, t = least, most, guess
    for iteration in range(100):
        uploads, slope, bend = slopes(t)
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
        if iteration > 1 and (np.abs(new - t) <= _settled(t, least) * (new < most)).all():
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
