"""A vehicle's own pace: how many local steps it has time for, by what it has measured of itself.

It measures how long its steps take. What order and answer take on their way it learns from the base station, which
says with the next order by how much its last answer came before the end that it was told: of the time that was left
when that order was sent, what it neither trained nor had to spare went into messages. Only lengths of time are
compared, each on one clock, so the two clocks need not agree.

Both times are expected as RFC 6298 (Paxson, Allman, Chu, Sargent, 2011) expects a reply: a smoothed mean and four mean
deviations. A vehicle whose answers come late leaves more time from then on, and one whose answers come early less. One
that sits out measures nothing, so it forgets a little of what it expects: a bad hour does not keep it out for good.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

_MEAN_GAIN, _DEVIATION_GAIN, _DEVIATIONS = 1 / 8, 1 / 4, 4
_LEAST_S = 1e-9  # no clock tells less from nothing


class Expected(NamedTuple):
    """What a time was lately, in seconds."""

    mean_s: float
    deviation_s: float

    @classmethod
    def first(cls, took_s: float) -> "Expected":
        return cls(took_s, took_s / 2)

    def after(self, took_s: float) -> "Expected":
        deviation_s = self.deviation_s + _DEVIATION_GAIN * (abs(took_s - self.mean_s) - self.deviation_s)
        return Expected(self.mean_s + _MEAN_GAIN * (took_s - self.mean_s), deviation_s)

    @property
    def faded(self) -> "Expected":
        """A little less, where nothing new was measured."""
        return Expected((1 - _MEAN_GAIN) * self.mean_s, (1 - _DEVIATION_GAIN) * self.deviation_s)

    @property
    def most_s(self) -> float:
        """It hardly ever takes longer."""
        return self.mean_s + _DEVIATIONS * self.deviation_s


class _Answered(NamedTuple):
    """How an order was carried out."""

    round: int
    left_s: float  # when it was sent
    own_s: float  # from when it came to when its answer was ready


class Pace:
    """What a trainer has measured: steps are its own, messages those of each vehicle that it trains for."""

    def __init__(self) -> None:
        self._step: Expected | None = None
        self._messages = dict[str, Expected]()
        self._answered = dict[str, _Answered]()

    def steps(self, wish: Mapping[str, Any], now_unix_s: float) -> int:
        """How many fit into what is left of the window, no more than are asked for; one until a step was measured."""
        self._learn(wish)
        if self._step is None:
            return 1
        vehicle = str(wish["vehicle"])
        messages = self._messages.get(vehicle) or Expected.first(max(float(wish["messages_s"]), 0.0))
        left_s = float(wish["received_unix_s"]) + float(wish["left_s"]) - now_unix_s - messages.most_s
        fitting = math.floor(left_s / self._step.most_s) if left_s > 0 else 0
        if not fitting:
            self._messages[vehicle], self._step = messages.faded, self._step.faded
        return min(fitting, int(wish["local_steps"]))

    def begin(self, steps: int, took_s: float) -> None:
        """So many local steps together, without what was before: the first ones may have compiled something."""
        self._step = None
        self.took(steps, took_s)

    def took(self, steps: int, took_s: float) -> None:
        """So many local steps together."""
        each_s = max(took_s / steps, _LEAST_S)
        self._step = Expected.first(each_s) if self._step is None else self._step.after(each_s)

    def answers(self, wish: Mapping[str, Any], now_unix_s: float) -> None:
        """The answer to this order is ready."""
        own_s = now_unix_s - float(wish["received_unix_s"])
        self._answered[str(wish["vehicle"])] = _Answered(int(wish["round"]), float(wish["left_s"]), own_s)

    def _learn(self, wish: Mapping[str, Any]) -> None:
        """From what the base station says of the last answer."""
        vehicle = str(wish["vehicle"])
        last = self._answered.pop(vehicle, None)
        spare_s = float(wish["spare_s"])
        if last is None or last.round != int(wish["spare_round"]) or not math.isfinite(spare_s):
            return
        took_s = max(last.left_s - last.own_s - spare_s, 0.0)
        before = self._messages.get(vehicle)
        self._messages[vehicle] = Expected.first(took_s) if before is None else before.after(took_s)
