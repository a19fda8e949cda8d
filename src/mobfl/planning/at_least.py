"""Rounds with at least m uploads: what a plan must fulfil for noise and secure aggregation to mean something.

M is Poisson with mean Λ (Theorem 1), so P{M ≥ m} ≥ p is the same as Λ(H, T) ≥ Λ_min(m, p). Λ never falls in T and grows
without end beyond the longest dwell, so of every H that fits, the rounds from some T on do. Proofs are in
docs/background/theory.md.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.theory import Conditions

Array = NDArray[np.float64]

_MOST_UPLOADS = 10**6
_TINY = 1e-300
# What is rounded must not fall below what is promised.
_UP = 1 + 4 * np.finfo(float).eps


@dataclass(frozen=True)
class LeastUploads:
    """So many uploads in a round at least, with at least this probability.

    Args:
        uploads: m, a whole number >= 1.
        prob: p, above 0 and below 1.
    """

    uploads: int
    prob: float = 0.9

    def __post_init__(self) -> None:
        if not (1 <= self.uploads <= _MOST_UPLOADS and float(self.uploads).is_integer()):
            raise InputError(f"least_uploads must be a whole number from 1 to {_MOST_UPLOADS}, got {self.uploads:g}")
        if not 0 < self.prob < 1:
            raise InputError(f"with_prob must be > 0 and < 1, got {self.prob:g}")

    @cached_property
    def mean(self) -> float:
        """Λ_min(m, p): the least mean of a Poisson number that is m or more with probability p."""
        from scipy.special import gammaincinv

        return float(gammaincinv(self.uploads, self.prob)) * _UP

    def prob_at(self, expected_uploads: float) -> float:
        """P{M ≥ m} of a Poisson number with this mean."""
        from scipy.special import gammainc

        return float(gammainc(self.uploads, expected_uploads))


def least_round_s(road: Conditions, local_steps: ArrayLike, mean: float) -> Array:
    """The shortest T with Λ(H, T) ≥ mean, for every H that fits.

    A straight line beyond the longest dwell; below, bisection to neighbouring numbers, of which the upper one is taken:
    Λ may leap or bend.
    """
    h, longest, rate = np.asarray(local_steps), road.dwell.longest, road.arrivals_per_s
    delay = theory.delay(road, h)

    def enough(t: Any) -> Any:
        return theory.uploads_identity(rate, road.dwell, delay, t) >= mean

    low = np.minimum(theory.min_delay_s(road, h), longest)
    high = np.where(enough(low), low, np.broadcast_to(longest, low.shape))
    within = enough(high)
    while np.any((low < (middle := (low + high) / 2)) & (middle < high)):
        reached = enough(middle)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    c0, c1 = theory.long_round_identity(road.dwell, delay)
    with np.errstate(over="ignore"):  # of an H that hardly anybody manages
        beyond = np.maximum((mean / rate - c1) / np.maximum(c0, _TINY) * _UP, longest)
    return np.where(within, high, beyond)
