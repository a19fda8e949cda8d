"""Turns on a shared radio that no clock cuts into rounds: again and again, or all who are there at once."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.rounds.air import Channel, Shadows
from mobfl.rounds.draws import Draws
from mobfl.rounds.rows import VehicleRows
from mobfl.rounds.rules import CLOCK_ROUNDING, gathered, rows_of
from mobfl.rounds.window import Cars, Crowd, Log, Stretch, Turn, run_stretch


@dataclass(frozen=True)
class OnAir:
    """The vehicles of a training whose transfers share a radio, from `start_s` until those have left who came by then.

    Args:
        traffic: Crossings, in blocks in the order of time.
        draws: Of their local steps.
        channel: The radio.
        start_s: When training begins, on the traffic's clock.
        until_s: Who enters later does not count.
    """

    traffic: Iterable[Crossings]
    draws: Draws
    channel: Channel
    start_s: float
    until_s: float

    @cached_property
    def _gathered(self) -> tuple[Cars, tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
        return gathered(self.traffic, self.draws, self.start_s, self.until_s)

    @property
    def cars(self) -> Cars:
        return self._gathered[0]

    def again_and_again(self, local_steps: int) -> VehicleRows:
        """Whoever enters downloads by itself, trains, uploads and begins again, until it leaves."""
        cars, laws = self.cars, self.draws.laws(local_steps)
        stay_s = cars.leave_s - np.maximum(cars.enter_s, self.start_s)
        most = int((stay_s / laws.least_s.min()).sum()) + 2 * len(cars.key)
        log, count = Log.empty(most), len(cars.key)
        self._run(self.start_s, local_steps, Crowd.of(count, 0, count), log, again=True)
        return rows_of(log, cars, None)

    def all_at_once(self, chosen: NDArray[np.int64], start_s: float, local_steps: int) -> tuple[VehicleRows, float]:
        """The turns of the chosen, who begin together, and when the last of them ended."""
        cars, log = self.cars, Log.empty(len(chosen))
        crowd = Crowd.of(len(cars.key), len(chosen))
        crowd.active[: len(chosen)], crowd.counts[1:] = chosen, len(cars.key)
        end_s = start_s + self._run(start_s, local_steps, crowd, log, again=False)
        cars.attempt[chosen] += 1
        return rows_of(log, cars, None), end_s

    def _run(self, start_s: float, local_steps: int, crowd: Crowd, log: Log, again: bool) -> float:
        cars, ways = self._gathered
        air = self.channel.air(self.draws.seed)
        if again:  # nobody waits for a common beginning
            air = air._replace(broadcast=False)
        last_s = float(cars.leave_s.max(initial=start_s))
        stretch = Stretch(start_s, math.inf, CLOCK_ROUNDING * max(abs(start_s), abs(last_s)))
        return float(
            run_stretch(
                air, stretch, cars, Turn.none(len(cars.key)), Shadows.none(len(cars.key)), self.draws.laws(local_steps),
                None, local_steps, ways, crowd, log, 0, again,
            )
        )  # fmt: skip
