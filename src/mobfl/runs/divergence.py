"""When a run has fallen apart, and going on would only cost time: found from its rows alone.

So the same row ends it for any number of workers and after any interruption. Steps without uploads say nothing. Of the
latest server steps that had any, two things are signs:

- every loss is far above the initial model's, and the second half has come no lower than the first. An honest run may
  start with bad models and be noisy for ever, but it comes down, or stays near where it began;
- models were taken back again and again (`mobfl.runs.adoption`), and none that was sound came of any step.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

STEPS = 40  # server steps with uploads that are looked at
TIMES = 10.0  # how far above the initial loss is far
_TAKEN_BACK = STEPS // 4  # so many are again and again


@dataclass(frozen=True)
class Diverged:
    """The server step at which it is certain, and why."""

    round: int
    at_s: float
    why: str


class _Step(NamedTuple):
    round: int
    end_s: float
    loss: float


class Divergence:
    """Takes in a run's rows, one after the other."""

    def __init__(self, initial_loss: float) -> None:
        self._initial, self._latest = initial_loss, deque[_Step](maxlen=STEPS)

    def add(self, row: Mapping[str, Any]) -> Diverged | None:
        """What is to be said after this row; None if all is well."""
        if not row["uploads"]:
            return None
        self._latest.append(_Step(int(row["round"]), float(row["end_s"]), float(row["loss"])))
        if len(self._latest) < STEPS or not math.isfinite(self._initial):
            return None
        why = self._far_above() or self._taken_back()
        return None if why is None else Diverged(self._latest[-1].round, self._latest[-1].end_s, why)

    @property
    def _losses(self) -> list[float]:
        return [step.loss for step in self._latest]

    def _far_above(self) -> str | None:
        far = self._initial + (TIMES - 1) * abs(self._initial)
        losses = [loss if math.isfinite(loss) else math.inf for loss in self._losses]
        half = STEPS // 2
        if not self._initial or min(losses) <= far or min(losses[half:]) < min(losses[:half]):
            return None
        return (
            f"from round {self._latest[0].round} on its loss was more than {TIMES:g} times the initial"
            f" {self._initial:.4g} and did not fall"
        )

    def _taken_back(self) -> str | None:
        sound = {loss for loss in self._losses if math.isfinite(loss)}
        lost = sum(not math.isfinite(loss) for loss in self._losses)
        if len(sound) > 1 or lost < _TAKEN_BACK:
            return None
        return f"from round {self._latest[0].round} on no step led to a sound model, and {lost} were taken back"


class Watch:
    """Takes in a run's rows, each with its station's: one model may fall apart while the others learn."""

    def __init__(self, initial_loss: float) -> None:
        self._initial, self._stations = initial_loss, dict[int, Divergence]()

    def add(self, row: Mapping[str, Any]) -> Diverged | None:
        """What is to be said after this row; None if all is well."""
        station = int(row.get("station", 0))
        return self._stations.setdefault(station, Divergence(self._initial)).add(row)


def divergence(initial_loss: float, rows: Iterable[Mapping[str, Any]]) -> Diverged | None:
    """Where a run has diverged, if it has."""
    watch = Divergence(initial_loss)
    return next((found for row in rows if (found := watch.add(row)) is not None), None)
