"""The traffic as a schedule sees it: one vehicle after the other, on the training's own clock."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mobfl.mobility.crossings import Crossings
from mobfl.rounds.air import Channel
from mobfl.rounds.draws import Draws, Owners
from mobfl.rounds.rules import CLOCK_ROUNDING, TIME_ROUNDING
from mobfl.theory import Delays


@dataclass(frozen=True)
class Vehicle:
    """One vehicle on one visit; times count from when training begins."""

    order: int  # of entering
    key: np.uint64  # what its draws are addressed by
    enter_s: float  # 0 if it is there when training begins
    leave_s: float
    rounding_s: float  # to which its times are known

    def can_begin_at(self, at_s: float) -> bool:
        """Whether it is still there: not if it leaves at this very moment."""
        return at_s < self.leave_s - self.rounding_s

    def can_finish_at(self, at_s: float) -> bool:
        """An upload that is completed while leaving counts."""
        return at_s <= self.leave_s + self.rounding_s


@dataclass(frozen=True)
class Site:
    """A section with its traffic, and for how long training lasts on it.

    Args:
        traffic: Crossings, in blocks in the order of time.
        delays: How long download, local steps and upload take.
        seed: Of the computing delays.
        start_s: When training begins, on the traffic's clock.
        duration_s: How long it lasts.
        channel: The radio that transfers share; None where they take the delays' own seconds.
        tells_interrupted: Whether rounds say whose training was cut off by leaving.
    """

    traffic: Iterable[Crossings]
    delays: Delays
    seed: int
    start_s: float  # when training begins, on the traffic's clock
    duration_s: float
    channel: Channel | None = None
    tells_interrupted: bool = False

    @cached_property
    def draws(self) -> Draws:
        own = Draws(self.delays, self.seed)
        if not isinstance(self.traffic, Sequence):  # endless, and nobody returns
            return own
        pairs = [(own.keys(block.keys), own.keys(block.vehicle_keys)) for block in self.traffic]
        return Draws(self.delays, self.seed, Owners(*map(np.concatenate, zip(*pairs, strict=True))) if pairs else None)

    @property
    def end_s(self) -> float:
        """What ends by then is within the training."""
        return self.duration_s * (1 + TIME_ROUNDING)

    def vehicles(self) -> Iterator[Vehicle]:
        """Whoever is there during the training, in the order of entering."""
        order = 0
        for block in self.traffic:
            keys = self.draws.keys(block.keys)
            for i in np.flatnonzero(block.leave_s > np.maximum(block.enter_s, self.start_s)):
                enter_s, leave_s = float(block.enter_s[i]), float(block.leave_s[i])
                if enter_s - self.start_s > self.end_s:
                    return
                clock_s = max(abs(self.start_s), abs(leave_s))
                enters_s, leaves_s = max(enter_s - self.start_s, 0.0), leave_s - self.start_s
                yield Vehicle(order, keys[i], enters_s, leaves_s, CLOCK_ROUNDING * clock_s)
                order += 1

    def delay_s(self, vehicle: Vehicle, attempt: int, local_steps: int) -> float:
        """S: from the download's beginning to the upload's end, with the same draws as in planned rounds."""
        return self.draws.delay_s(vehicle.key, attempt, local_steps)

    def fitting_steps(self, vehicle: Vehicle, attempt: int, begin_s: float, stop_s: float) -> tuple[int, float]:
        """How many local steps fit between these instants, with both transfers, and how long one takes."""
        step_s = self.delay_s(vehicle, attempt, 1) - self.delays.transfer_s
        # Half of the rounding here, so that the sum of what fits is within the whole of it.
        room_s = stop_s - begin_s - self.delays.transfer_s + vehicle.rounding_s / 2
        return max(math.floor(room_s / step_s), 0), step_s
