"""What a base station sees, in simulation as on a real road: no more than this feeds the estimates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """From one instant to another.

    A vehicle that was there before watching began is no arrival, and nobody knows how long it stays. An attempt is cut
    off when its window closes, as the vehicle leaves or the round ends: then its delay is at least the window.
    """

    start_s: float
    end_s: float
    arrived_s: Array  # when vehicles entered, in order
    left_s: Array  # of those who left: when,
    stay_s: Array  # and how long they stayed
    there_s: Array  # how long those still there have stayed so far
    window_s: Array  # a row per attempt: for how long a reply could have come,
    reply_s: Array  # how long download, steps and upload took (NaN where no reply came),
    steps: Array  # and how many local steps these were, or would have been

    def __post_init__(self) -> None:
        if not self.end_s > self.start_s:
            raise InputError(f"what is observed must last some time, got {self.start_s:g} to {self.end_s:g} s")
        attempts = {len(self.window_s), len(self.reply_s), len(self.steps)}
        if len(self.left_s) != len(self.stay_s) or len(attempts) > 1:
            raise InputError("what is observed must have a stay per leaving and a window per attempt")
