"""What the controller orders on a road that it knows: H and T, or T alone where vehicles take as many steps as fit."""

import math
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.planner import best_round_s, plan
from mobfl.rounds.orders import AsManyAsFit, Steps, same_for_all
from mobfl.theory import AnyRoad, Conditions

_TRIED = 49  # values of T, 3 % apart if it may double

Choice: TypeAlias = tuple[Steps, float]
"""Steps and T."""


class Chooser(Protocol):
    """Finds steps and T for a road; None where nobody can upload."""

    def best(self, road: AnyRoad) -> Choice | None: ...

    def next_choice(self, road: Conditions, present: Choice, factor: float) -> Choice | None:
        """The best that one change leads to, which changes nothing by more than this factor."""

    def objective(self, road: Conditions, choices: list[Choice]) -> NDArray[np.float64]:
        """Valid local steps per second."""

    def told(self, steps: Steps, mean_stay_s: float) -> Steps:
        """What vehicles are told."""


@dataclass(frozen=True)
class OneH:
    """The same H for all, as MOB-FL plans it."""

    def best(self, road: AnyRoad) -> Choice | None:
        found = plan(road)
        return None if found.reason is not None else found.numbers[:2]

    def next_choice(self, road: Conditions, present: Choice, factor: float) -> Choice | None:
        """An H that is cut short gets a T of its own."""
        best = self.best(road)
        if best is None:
            return None
        h, now, t = same_for_all(best[0]), same_for_all(present[0]), best[1]
        bounded = min(max(h, math.ceil(now / factor)), max(math.floor(now * factor), now + 1))
        if bounded != h:
            fits = bool(theory.fits(road, bounded))
            t = float(best_round_s(road, bounded) if fits else theory.min_delay_s(road, bounded))
        return bounded, min(max(t, present[1] / factor), present[1] * factor)

    def objective(self, road: Conditions, choices: list[Choice]) -> NDArray[np.float64]:
        steps, t = zip(*choices, strict=True)
        return theory.objective(road, [same_for_all(each) for each in steps], t)

    def told(self, steps: Steps, mean_stay_s: float) -> Steps:  # noqa: ARG002
        return steps


@dataclass(frozen=True)
class OnlyT:
    """Anytime rounds: every vehicle finds its own steps, and T is all that is left to choose."""

    asked: AsManyAsFit

    def best(self, road: AnyRoad) -> Choice | None:
        t = plan_anytime(road, self.asked.knows).round_s
        return None if t is None else (self.asked, t)

    def next_choice(self, road: Conditions, present: Choice, factor: float) -> Choice | None:
        """From a grid: v is flat about its top, and estimates are never so sure that its ripples count."""
        tried = present[1] * np.geomspace(1 / factor, factor, _TRIED)
        values = theory.anytime_objective(road, tried, self.asked.knows)
        if values.any():
            return self.asked, float(tried[values.argmax()])
        best = self.best(road)
        return best and (self.asked, float(np.clip(best[1], tried[0], tried[-1])))

    def objective(self, road: Conditions, choices: list[Choice]) -> NDArray[np.float64]:
        return theory.anytime_objective(road, [t for _, t in choices], self.asked.knows)

    def told(self, steps: Steps, mean_stay_s: float) -> Steps:  # noqa: ARG002
        """The mean stay as it is known by now."""
        return replace(self.asked, mean_stay_s=mean_stay_s)
