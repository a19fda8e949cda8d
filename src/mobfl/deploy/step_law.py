"""How long a local step takes, from attempts of which many were cut off.

An answer says how long a step took, an attempt that was cut off only that it takes longer than there was time for. To
leave those out would count the quick ones alone; Kaplan–Meier takes in both. Of steps that hardly any attempt had time
to show too little is known, and the one that did would stand for all: there the law goes on as the paper's, exponential
with the mean β that is most likely under right-censoring, the total time above the least by the number of answers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.policies.adaptive.stays import kaplan_meier
from mobfl.scenario import Compute
from mobfl.theory.delays import StepTimes

Array = NDArray[np.float64]

_QUANTILES = 2000  # stand for a law of which a part was cut off
_HARDLY_ANY = 0.1  # of the attempts


@dataclass(frozen=True)
class StepLaw:
    """Seconds per local step that are equally likely, and the share of them that lies beyond what was seen."""

    samples_s: Array
    unseen_share: float
    seen_up_to_s: float

    @property
    def min_step_s(self) -> float:
        """α: the least that was seen."""
        return float(self.samples_s[0])

    @property
    def extra_step_s(self) -> float:
        """β: the mean above it."""
        return float(self.samples_s.mean()) - self.min_step_s

    @property
    def compute(self) -> Compute:
        """As a scenario has it."""
        return Compute(step_samples=tuple(self.samples_s.tolist()))

    @property
    def times(self) -> StepTimes:
        return StepTimes.of(self.compute)


@dataclass(frozen=True)
class SeenSteps:
    """Attempts side by side: seconds per local step, which an attempt that did not end took at least."""

    step_s: Array
    ended: NDArray[np.bool_]
    visit: NDArray[np.int64]  # whose attempt it was

    @property
    def law(self) -> StepLaw:
        return _law(self.step_s, self.ended, np.ones(len(self.step_s)))

    def law_of_others(self, random: np.random.Generator) -> StepLaw:
        """What other vehicles might have told: visits drawn again from these, each with all of its attempts."""
        _, mine = np.unique(self.visit, return_inverse=True)
        visits = int(mine.max()) + 1
        weight = np.bincount(random.integers(visits, size=visits), minlength=visits)[mine].astype(float)
        if not weight[self.ended].any():  # nobody who answered
            return self.law
        there = weight > 0
        return _law(self.step_s[there], self.ended[there], weight[there])


def _law(step_s: Array, ended: NDArray[np.bool_], weight: Array) -> StepLaw:
    if ended.all() and (weight == 1).all():
        return StepLaw(np.sort(step_s), 0.0, float(step_s.max()))
    step_s, ended, weight = _as_far_as_known(step_s, ended, weight)
    values_s, chances = kaplan_meier(step_s, ended.astype(float), weight)
    last_s = float(values_s[-1])
    beyond = float(chances[-1]) if (step_s[~ended] == last_s).any() else 0.0  # whose longest was cut off, too
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    places = np.minimum(np.searchsorted(np.cumsum(chances), shares), len(values_s) - 1)
    samples_s = values_s[places]
    tail = shares > 1.0 - beyond
    samples_s[tail] = last_s - _mean_extra_s(step_s, ended, weight) * np.log((1.0 - shares[tail]) / beyond)
    return StepLaw(samples_s, beyond, last_s)


def _as_far_as_known(step_s: Array, ended: NDArray[np.bool_], weight: Array) -> tuple[Array, NDArray[np.bool_], Array]:
    """In order; what is longer than hardly any had time for is cut off there."""
    order = np.lexsort((~ended, step_s))  # at equal times those that ended come first
    step_s, ended, weight = step_s[order], ended[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    longer = np.append(1.0, np.cumprod(1.0 - ended * weight / at_risk)[:-1])
    had_time = at_risk / weight.sum() >= _HARDLY_ANY * longer
    known = int(np.argmin(had_time)) if not had_time.all() else len(step_s)
    beyond = np.arange(len(step_s)) >= known
    return np.minimum(step_s, step_s[known - 1]), ended & ~beyond, weight


def _mean_extra_s(step_s: Array, ended: NDArray[np.bool_], weight: Array) -> float:
    least_s = step_s[ended].min()
    return float(weight @ np.maximum(step_s - least_s, 0.0) / max(weight[ended].sum() - 1.0, 1.0))
