"""How sure a promise from a recording is: an interval, and whether the road drifted while it was recorded.

Rounds that begin close together share vehicles, and behind a signal they repeat themselves. So the error of their mean
comes from the slow waves of the series alone, slower than either (equal-weighted cosines: Müller, "A theory of robust
long-run variance estimation", 2007; Lazarus, Lewis, Stock, Watson, "HAR inference", 2018). Where traffic is stationary
all slow waves are alike; where it drifts, the two slowest stand out.
"""

import numpy as np
from numpy.typing import NDArray

from mobfl.planning.trace import ImaginedRounds

Array = NDArray[np.float64]

LEVEL = 0.95
DRIFT_FALSE_ALARM = 0.01  # of stationary roads this share is said to drift

_SLOWEST_SIGNAL_S = 240.0  # two cycles of a slow traffic light
_STAYS_PER_WAVE = 5.0  # in a time so much longer than a round and a stay nothing is left of who was there
_FEWEST_WAVES, _MOST_WAVES = 3, 24
_DRIFTING_WAVES = 2  # a trend, and a rise with a fall
_FEWEST_TO_COMPARE = 4  # the other waves, if a drift is to be seen


def valid_prob_interval(rounds: ImaginedRounds, stay_s: float) -> tuple[float, float]:
    """Where the chance of an upload lies in 95 of 100 further recordings of the same road and length.

    Args:
        rounds: The rounds of the plan.
        stay_s: The mean stay of a vehicle.
    """
    from scipy.special import expit, logit, stdtrit

    waves, empty = slow_waves(rounds.empty, rounds, stay_s), float(rounds.empty.mean())
    apart = max(len(rounds.empty) * rounds.spacing_s / (rounds.round_s + stay_s), 1.0)
    # One round in twenty recordings may be empty even where no imagined one can be.
    least = -np.expm1(np.log1p(-LEVEL) / apart) if empty == 0.0 else 0.0
    error = np.sqrt(2.0 * np.mean(waves**2) / len(rounds.empty))  # of this mean and of the other recording's
    if empty in (0.0, 1.0) or error == 0.0:
        return 1.0 - max(empty, float(least)), 1.0 - empty
    reach = stdtrit(len(waves), (1 + LEVEL) / 2) * error / (empty * (1 - empty))
    return float(expit(-logit(empty) - reach)), float(expit(-logit(empty) + reach))


def drifts(rounds: ImaginedRounds, stay_s: float) -> bool:
    """Whether the road's traffic changed in the course of the recording, beyond what chance explains."""
    from scipy.special import fdtrc

    for series in (rounds.empty, rounds.uploads):
        squares = slow_waves(series, rounds, stay_s) ** 2
        others = len(squares) - _DRIFTING_WAVES
        if others < _FEWEST_TO_COMPARE or not squares.any():
            continue
        ratio = squares[:_DRIFTING_WAVES].mean() / max(squares[_DRIFTING_WAVES:].mean(), np.finfo(float).tiny)
        if fdtrc(_DRIFTING_WAVES, others, ratio) < DRIFT_FALSE_ALARM / 2:
            return True
    return False


def slow_waves(series: Array, rounds: ImaginedRounds, stay_s: float) -> Array:
    """The series' cosine transform at the slowest waves, which are as many as the recording has room for."""
    n = len(series)
    wave_s = max(_SLOWEST_SIGNAL_S, _STAYS_PER_WAVE * (rounds.round_s + stay_s))
    count = int(np.clip(2 * n * rounds.spacing_s / wave_s, _FEWEST_WAVES, _MOST_WAVES))
    phases = np.pi * (np.arange(n) + 0.5) / n
    return np.sqrt(2 / n) * (np.cos(np.outer(np.arange(1, count + 1), phases)) @ (series - series.mean()))
