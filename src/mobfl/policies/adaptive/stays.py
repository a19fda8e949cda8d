"""How long vehicles stay, from those who left and those who have not left yet."""

import numpy as np
from numpy.typing import NDArray

from mobfl.policies.adaptive.fading import FadingRows, effective
from mobfl.policies.adaptive.observed import Observed
from mobfl.rounds.estimates import Estimate
from mobfl.theory.distributions import Dwell

Array = NDArray[np.float64]

_MOST_ROWS = 2000
_PRIOR_STAYS = 5  # stand for the prior's law


def kaplan_meier(stay_s: Array, left: Array, weight: Array) -> tuple[Array, Array]:
    """The stays that end and their chances; who has not left has stayed at least that long.

    Where the longest stay goes on it counts as ended (Efron), for else its mass would be nowhere.
    """
    order = np.lexsort((1.0 - left, stay_s))  # at equal stays those who leave come first
    stay_s, left, weight = stay_s[order], left[order].copy(), weight[order]
    left[-1] = 1.0
    at_risk = np.cumsum(weight[::-1])[::-1]
    leaves = left * weight / at_risk
    chance = leaves * np.concatenate([[1.0], np.cumprod(1.0 - leaves)[:-1]])
    return stay_s[chance > 0], chance[chance > 0]


class Stays:
    """The law of stays, as a weighted Kaplan–Meier estimate; the prior is a few vehicles that stayed as it says."""

    def __init__(self, prior: Dwell, prior_vehicles: float, memory_s: float) -> None:
        self._rows = FadingRows(1, memory_s, _MOST_ROWS)
        shares = (np.arange(_PRIOR_STAYS) + 0.5) / _PRIOR_STAYS
        self._prior_s, self._prior_vehicles = np.asarray(prior.draw(shares), float), prior_vehicles
        self._there_s = np.empty(0)

    def add(self, seen: Observed) -> None:
        self._rows.add(seen.left_s, seen.stay_s)
        self._there_s = seen.there_s

    def mean_s(self) -> float:
        values_s, chances, _ = self._law()
        return float(values_s @ chances)

    def estimate(self) -> Estimate:
        """The mean stay."""
        values_s, chances, count = self._law()
        mean_s = float(values_s @ chances)
        return _with_interval(mean_s, float(np.sqrt(np.square(values_s - mean_s) @ chances)), count)

    def _law(self) -> tuple[Array, Array, float]:
        """Stays, their chances, and how many vehicles they are known from."""
        (gone_s,), weights = self._rows.weighted()
        prior = np.full(_PRIOR_STAYS, self._prior_vehicles * self._rows.prior_weight / _PRIOR_STAYS)
        ended = np.concatenate([weights, prior])
        law = kaplan_meier(
            np.concatenate([gone_s, self._prior_s, self._there_s]),
            np.repeat([1.0, 0.0], [len(ended), len(self._there_s)]),
            np.concatenate([ended, np.ones_like(self._there_s)]),
        )
        return *law, effective(ended)


def _with_interval(mean: float, sd: float, count: float) -> Estimate:
    from scipy.special import stdtrit

    freedom = max(count - 1.0, 1.0)
    reach = float(stdtrit(freedom, 0.975)) * sd / np.sqrt(freedom)
    return Estimate(mean, max(mean - reach, 0.0), mean + reach)
