"""What a base station tells vehicles that take as many steps as fit: how long they have, how their last answer came."""

import math
from dataclasses import dataclass
from typing import Any

from mobfl.deploy.clock import Clock
from mobfl.rounds.orders import AsManyAsFit

# Of an answer that has not come by the end of its round it is not yet known how late it is.
_NOT_YET_S = 0.5


@dataclass
class Present:
    """A node that is there: in how many rounds it was, and since when it is there."""

    attempts: int
    since_s: float


class Windows:
    """By node, as long as it is there. `messages_s` is what order and answer took when that was measured."""

    def __init__(self, clock: Clock, quickest_step_s: float, messages_s: float) -> None:
        self._clock, self._quickest_step_s, self._messages_s = clock, quickest_step_s, messages_s
        self._ends_s = dict[int, tuple[int, float]]()  # the round, and the end that a vehicle was told
        self._spare_s = dict[int, tuple[int, float]]()

    def most_steps(self, window_s: float) -> int:
        """More than so many fit into no window of this length, whatever a vehicle says."""
        return max(1, math.floor(window_s / self._quickest_step_s * (1 + 1e-9)))

    def told(
        self, asked: AsManyAsFit, node: int, number: int, begin_s: float, end_s: float, since_s: float
    ) -> dict[str, Any]:
        """These values of an order."""
        window_s = max(min(end_s - begin_s, _stay_s(asked, since_s) - begin_s), 0.0)
        self._ends_s[node] = (number, begin_s + window_s)
        left_s = (begin_s + window_s - self._clock.now_s()) * self._clock.scale
        spare_round, spare_s = self._spare_s.pop(node, (-1, 0.0))
        return {
            "local_steps": self.most_steps(window_s),
            "knows": asked.knows,
            "error": asked.error,
            "begin_s": begin_s,
            "window_s": window_s,
            "left_s": max(left_s, 0.0),
            "messages_s": self._messages_s,
            "spare_s": spare_s,
            "spare_round": spare_round,
        }

    def came(self, node: int, number: int, at_s: float) -> None:
        """A vehicle's upload in this round, be it in time or late."""
        told, end_s = self._ends_s.get(node, (-1, 0.0))
        if told == number:
            self._spare_s[node] = (number, (end_s - at_s) * self._clock.scale)

    def missing(self, node: int, number: int) -> None:
        """Nothing has come by the round's end."""
        if self._ends_s.get(node, (-1, 0.0))[0] == number:
            self._spare_s[node] = (number, -_NOT_YET_S)

    def forget(self, node: int) -> None:
        self._ends_s.pop(node, None)
        self._spare_s.pop(node, None)


def _stay_s(asked: AsManyAsFit, since_s: float) -> float:
    """Until when vehicles are there that came then, as far as the base station knows."""
    return since_s + asked.mean_stay_s if asked.knows == "mean" else math.inf
