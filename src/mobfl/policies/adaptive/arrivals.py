"""The rate of arrivals, with forgetting."""

import math

from mobfl.policies.adaptive.observed import Observed
from mobfl.rounds.estimates import Estimate

# The rate never falls below that of half an arrival within the memory: nobody in an hour is no proof of nobody ever.
_LEAST_COUNT = 0.5


class ArrivalRate:
    """λ as a fading count over a fading time; the prior is a few vehicles that came at the prior's rate before."""

    def __init__(self, prior_per_s: float, prior_vehicles: float, memory_s: float) -> None:
        self._memory_s = memory_s
        self._count, self._time_s = prior_vehicles, prior_vehicles / prior_per_s
        self._square = prior_vehicles  # the sum of squared weights, which is the count's variance

    def add(self, seen: Observed) -> None:
        length_s = seen.end_s - seen.start_s
        weights = [math.exp((each - seen.end_s) / self._memory_s) for each in seen.arrived_s.tolist()]
        kept = math.exp(-length_s / self._memory_s)
        self._count = self._count * kept + sum(weights)
        self._square = self._square * kept**2 + sum(weight**2 for weight in weights)
        self._time_s = self._time_s * kept + self._memory_s * (1 - kept)

    @property
    def value(self) -> float:
        return max(self._count, _LEAST_COUNT) / self._time_s

    def estimate(self) -> Estimate:
        """With Jeffreys' interval for as many arrivals as would be as certain as the fading count."""
        from scipy.special import gammaincinv

        rate = self.value
        arrivals = max(self._count**2 / self._square if self._square else 0.0, _LEAST_COUNT)
        low, high = (float(gammaincinv(arrivals + 0.5, share)) / arrivals for share in (0.025, 0.975))
        return Estimate(rate, rate * low, rate * high)
