"""One vehicle by itself, a node of its own: how many local steps it takes, by the rules of compiled rounds."""

from typing import NamedTuple

import numpy as np

from mobfl.mobility.predicting import NO_WAYS
from mobfl.rounds.draws import Draws
from mobfl.rounds.fitting import expected_stay_s, fitting_steps
from mobfl.rounds.orders import AsManyAsFit
from mobfl.rounds.rules import CLOCK_ROUNDING


class Taken(NamedTuple):
    """How many steps fit, and for how long that takes with both transfers; nothing where not one does."""

    steps: int
    delay_s: float


class Visit(NamedTuple):
    """When a vehicle comes and goes."""

    enter_s: float
    leave_s: float


def steps_that_fit(draws: Draws, key: np.uint64, attempt: int, begin_s: float, window_s: float) -> Taken:
    """In a window of so many seconds from `begin_s` on, with the step time that is drawn for this attempt."""
    transfer_s = float(draws.delays.transfer_s)
    step_s = draws.step_s(key, attempt)
    rounding_s = CLOCK_ROUNDING * (abs(begin_s) + abs(window_s)) if np.isfinite(window_s) else 0.0
    steps = int(fitting_steps(window_s - transfer_s + rounding_s, step_s))
    return Taken(steps, transfer_s + steps * step_s if steps else 0.0)


def window_s(draws: Draws, asked: AsManyAsFit, key: np.uint64, begin_s: float, end_s: float, visit: Visit) -> float:
    """From when it begins to the round's end, or to when it expects to leave."""
    expected_s = expected_stay_s(draws.fitting(asked), key, begin_s, *visit, NO_WAYS, -1)
    return float(min(end_s - begin_s, expected_s))
