"""A policy whose H falls: long local training while the model is far from good, short when it is near."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from mobfl.rounds.orders import FOREVER, Order
from mobfl.rounds.rows import Rounds


@dataclass(frozen=True)
class FallingSteps:
    """H falls linearly in virtual time from `local_steps` to `falling_to` times that as training ends, never below 1.

    Each round takes the H of its start, to the nearest whole number.
    """

    local_steps: int
    falling_to: float
    start_s: float  # when training begins, on the traffic's clock
    duration_s: float
    round_s: Callable[[int], float]  # T for an H

    def next_order(self, seen: Rounds | None) -> Order:
        """For as many rounds as H stays the same."""
        now_s = 0.0 if seen is None else float(seen.start_s[-1]) + seen.round_s - self.start_s
        h = self.steps_at(now_s)
        length_s = self.round_s(h)
        if h == self.steps_at(self.duration_s):
            return Order(h, length_s, FOREVER)
        return Order(h, length_s, max(1, math.floor((self._lasts_until(h) - now_s) / length_s) + 1))

    def steps_at(self, at_s: float) -> int:
        passed = min(at_s / self.duration_s, 1.0) if self.duration_s else 1.0
        return max(1, math.floor(self.local_steps * (1.0 - (1.0 - self.falling_to) * passed) + 0.5))

    def _lasts_until(self, h: int) -> float:
        """When H, before it is rounded, has fallen to h − 1/2."""
        return self.duration_s * (1.0 - (h - 0.5) / self.local_steps) / (1.0 - self.falling_to)
