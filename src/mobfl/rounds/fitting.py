"""How many local steps a vehicle takes that is told to take as many as fit.

What it expects of its leaving is decided in `expected_stay_s`, and nowhere else.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from mobfl.mobility.predicting import predicted_stay_s
from mobfl.rng import normal, vehicle_key
from mobfl.rounds.orders import AsManyAsFit
from mobfl.theory import KNOWLEDGE

_NOTHING, _MEAN, _PREDICTED = (KNOWLEDGE.index(knows) for knows in ("nothing", "mean", "predicted"))


class Fitting(NamedTuple):
    """`AsManyAsFit` as compiled code wants it."""

    knows: int  # its place in `KNOWLEDGE`
    mean_stay_s: float
    error: float
    stream: np.uint64  # of how wrong vehicles are about their leaving

    @classmethod
    def of(cls, asked: AsManyAsFit, stream: np.uint64) -> "Fitting":
        return cls(KNOWLEDGE.index(asked.knows), asked.mean_stay_s, asked.error, stream)


@njit(cache=True)
def expected_stay_s(fitting, key, begin_s, enter_s, leave_s, ways, track):
    """For how long from now on a vehicle expects to stay that begins at `begin_s`; without a track it is steady."""
    if fitting.knows == _PREDICTED and track >= 0:
        return predicted_stay_s(ways, track, begin_s)
    if fitting.knows == _NOTHING:
        return math.inf
    if fitting.knows == _MEAN:
        return enter_s + fitting.mean_stay_s - begin_s
    wrong = fitting.error * normal(vehicle_key(fitting.stream, key), 0) if fitting.error > 0 else 0.0
    return leave_s + wrong * (leave_s - enter_s) - begin_s


@njit(cache=True)
def fitting_steps(compute_s, step_s):
    """How many steps of this length there is time for."""
    return np.int64(math.floor(compute_s / step_s)) if compute_s > 0 else 0
