"""α, β and the transfers τ, from replies of several H and from attempts that were cut off.

S = τ + αH + Exp(βH), so (S − τ)/H is α plus an exponential time of mean β, whatever H: given τ, replies of all H are
one sample. Its least value bounds α, and β is the total time above α, of replies and of attempts that were cut off,
by the number of replies: maximum likelihood under right-censoring. Integrated over α and β the likelihood of τ is
(total time)^−(replies − 1). It is flat if all replies are of one H, for then only τ + αH shows: the prior of τ decides.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.policies.adaptive.fading import FadingRows, effective
from mobfl.policies.adaptive.observed import Observed
from mobfl.rounds.estimates import Estimate

Array = NDArray[np.float64]

_MOST_ROWS = 1500
_TRANSFERS = 41  # values of τ that are compared
_FEW_TRANSFERS, _UNLIKELY = 15, 1e-3  # so few that are more likely than this share of the likeliest
_TRANSFER_SD = 0.25  # of the prior of τ, as a share of τ and one step
_QUANTILES = (np.arange(100) + 0.5) / 100  # stand for a law when laws are mixed
_LEAST_STEP = 1e-2  # α never falls below this share of its prior


@dataclass(frozen=True)
class DelayEstimate:
    transfer_s: Estimate
    min_step_s: Estimate
    extra_step_s: Estimate


class ReplyDelays:
    """The prior of α and β counts as a few replies that were as it says; it fades like all else."""

    def __init__(self, prior: tuple[float, float, float], prior_replies: float, memory_s: float) -> None:
        self._transfer_s, self._min_step_s, self._extra_step_s = prior
        self._transfer_sd = _TRANSFER_SD * (self._transfer_s + self._min_step_s)
        self._least_step_s = _LEAST_STEP * self._min_step_s
        self._prior_replies, self._unequal = prior_replies, False
        self._rows = FadingRows(3, memory_s, _MOST_ROWS)

    def add(self, seen: Observed) -> None:
        self._unequal |= len(np.unique(seen.steps)) > 1
        when = np.full(len(seen.window_s), seen.end_s)
        self._rows.add(when, seen.steps, np.fmin(seen.reply_s, seen.window_s), np.isfinite(seen.reply_s))

    def values(self) -> tuple[float, float, float]:
        """τ, α and β, without their intervals."""
        laws = self._laws()
        return laws.mean(laws.transfer_s), laws.mean(laws.min_step_s - laws.room_s), laws.mean(laws.extra_step_s)

    def estimate(self) -> DelayEstimate:
        laws = self._laws()
        shares = _QUANTILES[:, None]
        min_step_s = np.maximum(laws.min_step_s + np.log(shares) * laws.room_s, self._least_step_s)
        extra_step_s = _inverse_gamma(laws.freedom, shares) * laws.extra_step_s
        tau, alpha, beta = self.values()
        return DelayEstimate(
            Estimate(tau, *laws.interval(laws.transfer_s[None])),
            Estimate(alpha, *laws.interval(min_step_s)),
            Estimate(beta, *laws.interval(extra_step_s)),
        )

    def _laws(self) -> "_Laws":
        """Where unequal steps tell τ so well that few of its values remain, those between them are compared.

        One H for all, which changes now and then, never tells it so well that plans would gain by it.
        """
        (steps, lasted_s, replied), _ = self._rows.weighted()
        ended = replied == 1.0
        laws = self._laws_if(self._candidates(lasted_s[ended] - self._least_step_s * steps[ended]))
        likely = np.flatnonzero(laws.chance > _UNLIKELY * laws.chance.max())
        if not self._unequal or len(likely) > _FEW_TRANSFERS:
            return laws
        first, last = max(likely[0] - 1, 0), min(likely[-1] + 1, _TRANSFERS - 1)
        return self._laws_if(np.linspace(laws.transfer_s[first], laws.transfer_s[last], _TRANSFERS))

    def _laws_if(self, transfer_s: Array) -> "_Laws":
        """One for each of these τ."""
        (steps, lasted_s, replied), weights = self._rows.weighted()
        ended = replied == 1.0
        if len(weights):
            weights = weights * (effective(weights) / weights.sum())  # so that they add up to what they are worth
        per_step_s = (lasted_s[:, None] - transfer_s) / steps[:, None]
        prior = self._prior_replies * self._rows.prior_weight
        replies = prior + float(weights[ended].sum())
        some = bool(ended.any())
        least_s = per_step_s[ended].min(axis=0) if some else np.full(_TRANSFERS, self._min_step_s)
        total_s = weights @ np.maximum(per_step_s - least_s, 0.0) + prior * self._extra_step_s
        freedom = max(replies - some, 0.5)
        likely = -freedom * np.log(total_s) - np.square((transfer_s - self._transfer_s) / self._transfer_sd) / 2
        chance = np.exp(likely - likely.max())
        # How far α may be below the least of those that would have shown it.
        room_s = some * total_s / freedom / (prior + weights @ (per_step_s >= least_s))
        own, shared = 1 - prior / replies, prior / replies * self._min_step_s
        return _Laws(
            chance / chance.sum(), freedom, transfer_s, shared + own * least_s, own * room_s, total_s / freedom
        )

    def _candidates(self, most_s: Array) -> Array:
        """Values of τ within four standard deviations of the prior, not negative and none above what replies allow."""
        reach_s = 4 * self._transfer_sd
        high_s = float(most_s.min(initial=self._transfer_s + reach_s))
        return np.linspace(min(max(self._transfer_s - reach_s, 0.0), high_s), high_s, _TRANSFERS)


@dataclass(frozen=True)
class _Laws:
    """For every τ that is compared its chance, and what α and β are if it is true."""

    chance: Array
    freedom: float  # replies that β is known from
    transfer_s: Array
    min_step_s: Array  # what α is at most,
    room_s: Array  # and the mean of the exponential time by which it is less
    extra_step_s: Array

    def mean(self, values: Array) -> float:
        return float(values @ self.chance)

    def interval(self, values: Array) -> tuple[float, float]:
        """The middle 95 % of equally likely lines of values, whose columns have their chance."""
        order = np.argsort(values, axis=None)
        reached = np.cumsum(np.tile(self.chance / len(values), len(values))[order])
        low, high = (values.ravel()[order][np.searchsorted(reached, share)] for share in (0.025, 0.975))
        return float(low), float(high)


def _inverse_gamma(freedom: float, shares: Array) -> Array:
    """Quantiles of what β may be as a multiple of its estimate."""
    from scipy.special import gammaincinv

    return np.divide(freedom, gammaincinv(freedom, shares), dtype=np.float64)
