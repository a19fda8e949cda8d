"""What several base stations are wanted for: steps, vehicles, or districts; each never falls and is submodular."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.planning.greedy import Excluded, Picked, greedy

Array = NDArray[np.float64]

_HALVINGS = 10  # of the seconds in which all districts are to be heard
_ROUNDING = 1e-6  # of 32-bit sums


@dataclass(frozen=True)
class MostSteps:
    """Valid local steps per second of all stations together; no two share a vehicle's time, so their g add up."""

    objective: Array  # g of each candidate

    def __len__(self) -> int:
        return len(self.objective)

    def nothing(self) -> None:
        return None

    def gains(self, _: None) -> Array:
        return self.objective.copy()

    def with_one(self, _state: None, _candidate: int) -> None:
        return None


@dataclass(frozen=True)
class MostVehicles:
    """How many different vehicles upload at least once, on average: Σ_v (1 − ∏_i P{i never hears v})."""

    heard: Any  # a sparse matrix, candidates by vehicles: the chance that this one hears that one

    def __len__(self) -> int:
        return int(self.heard.shape[0])

    def nothing(self) -> Array:
        return np.ones(self.heard.shape[1])

    def gains(self, unheard: Array) -> Array:
        return np.asarray(self.heard @ unheard)

    def with_one(self, unheard: Array, candidate: int) -> Array:
        left = unheard.copy()
        row = self.heard[[candidate]]
        left[row.indices] *= 1.0 - row.data
        return left


@dataclass(frozen=True)
class DistrictsHeard:
    """Seconds by which districts are heard before the horizon, each counted up to `level`, summed over districts.

    The chance that nobody of a district was heard until t is a product over stations, so the seconds saved are those of
    1 − ∏, which is submodular; a minimum with a constant and a sum leave it so.
    """

    logs: NDArray[np.float32]  # candidates, districts, starts, times: log P{not heard yet}
    step_s: float
    level: float = np.inf

    def __len__(self) -> int:
        return len(self.logs)

    @property
    def horizon_s(self) -> float:
        return self.step_s * self.logs.shape[3]

    def saved_s(self, state: NDArray[np.float32]) -> Array:
        """Of each district the seconds between when it is first heard and the horizon; a step's beginning counts."""
        # A district counts as unheard until the end of the step in which it was heard.
        heard = -np.expm1(state[:, :, :-1]).sum(axis=2, dtype=np.float64)
        return np.asarray(self.step_s * heard.mean(axis=1))

    def nothing(self) -> NDArray[np.float32]:
        return np.zeros(self.logs.shape[1:], np.float32)

    def gains(self, state: NDArray[np.float32]) -> Array:
        now = np.minimum(self.saved_s(state), self.level).sum()
        return np.array([np.minimum(self.saved_s(state + each), self.level).sum() - now for each in self.logs])

    def with_one(self, state: NDArray[np.float32], candidate: int) -> NDArray[np.float32]:
        return np.asarray(state + self.logs[candidate])


@dataclass(frozen=True)
class SoonestOfAll:
    """Candidates by which the slowest district is heard soonest, and what no others can beat.

    Args:
        picked: In the order of choice; its gains are of the level at which they were found.
        slowest_s: After 1, 2, … of them, how long the slowest district takes to be heard, on average.
        bound_s: No so many candidates have a shorter one.
    """

    picked: Picked
    slowest_s: tuple[float, ...]
    bound_s: float


def hear_all_soonest(goal: DistrictsHeard, count: int, excluded: Excluded) -> SoonestOfAll:
    """The least time of the slowest district is no submodular goal, but "all within a level" is.

    For a level c, the sum over districts of min(seconds saved, c) is. If its bound for `count` candidates is below
    c times the districts, no so many candidates hear everybody by then; else greedy may have found some. The level is
    found by halving, once for each (Krause, McMahan, Guestrin, Gupta, "Robust submodular observation selection", 2008;
    they let the set grow to have a guarantee, we keep its size and tell the bound).
    """
    low, high = 0.0, goal.horizon_s
    best = _at_level(goal, np.inf, count, excluded)
    for _ in range(_HALVINGS):
        found = _at_level(goal, (low + high) / 2, count, excluded)
        best = min(best, found, key=lambda each: each.slowest_s[-1:] or (np.inf,))
        reached = _saved_by(found, goal) >= (low + high) / 2 * (1 - _ROUNDING)
        low, high = ((low + high) / 2, high) if reached else (low, (low + high) / 2)
    picked = greedy(goal, count, excluded, best.picked.chosen)  # a level may be reached by fewer
    best = SoonestOfAll(picked, slowest_after(goal, picked.chosen), 0.0)
    low, high = _saved_by(best, goal), goal.horizon_s
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        impossible = _at_level(goal, level, count, excluded).picked.bound < len(goal.logs[0]) * level * (1 - _ROUNDING)
        low, high = (low, level) if impossible else (level, high)
    return SoonestOfAll(best.picked, best.slowest_s, goal.horizon_s - high)


def _saved_by(found: SoonestOfAll, goal: DistrictsHeard) -> float:
    """Of the slowest district."""
    return goal.horizon_s - found.slowest_s[-1] if found.slowest_s else 0.0


def _at_level(goal: DistrictsHeard, level: float, count: int, excluded: Excluded) -> SoonestOfAll:
    limited = DistrictsHeard(goal.logs, goal.step_s, level)
    picked = greedy(limited, count, excluded)
    return SoonestOfAll(picked, slowest_after(goal, picked.chosen), 0.0)


def slowest_after(goal: DistrictsHeard, chosen: tuple[int, ...]) -> tuple[float, ...]:
    """How long the slowest district takes to be heard after 1, 2, … of the chosen."""
    state, slowest = goal.nothing(), list[float]()
    for candidate in chosen:
        state = goal.with_one(state, candidate)
        slowest.append(goal.horizon_s - float(goal.saved_s(state).min()))
    return tuple(slowest)
