"""Choosing n of many candidates one after the other, with a bound on what the best n could give.

The goal is a set function that never falls and whose gains shrink as the set grows (monotone and submodular). Then for
any set S, chosen or not, no n candidates give more than F(S) plus the n greatest gains that are left at S (Leskovec et
al., "Cost-effective outbreak detection in networks", KDD 2007, theorem 4). That holds whatever may be combined with
what; of candidates that exclude each other at most one counts. Where nothing is excluded, greedy is moreover never
below 1 − 1/e of the best (Nemhauser, Wolsey, Fisher 1978).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Excluded = NDArray[np.bool_]  # symmetric: which two candidates may not be chosen together

ALWAYS = 1 - np.exp(-1)  # greedy's share of the best where nothing is excluded
_ROUNDING = 1e-12  # a share of the greatest gain that is taken for none


class Goal(Protocol):
    """What a set of candidates is worth; a state is what has been chosen so far, as the goal wants it."""

    def nothing(self) -> Any:
        """The state of the empty set, which is worth 0."""

    def gains(self, state: Any) -> Array:
        """By how much each candidate would raise the goal, as an array of the caller's own; the chosen do not count."""

    def with_one(self, state: Any, candidate: int) -> Any:
        """The state with one candidate more."""


@dataclass(frozen=True)
class Picked:
    """Candidates in the order in which they were chosen.

    Args:
        chosen: Their numbers.
        gains: By how much each raised the goal when it was chosen.
        bounds: What no 1, 2, … candidates exceed together; as many numbers as were asked for.
    """

    chosen: tuple[int, ...]
    gains: tuple[float, ...]
    bounds: tuple[float, ...]

    @property
    def value(self) -> float:
        return float(sum(self.gains))

    @property
    def bound(self) -> float:
        return self.bounds[-1]


def greedy_from_all(goal: Goal, count: int, excluded: Excluded) -> Picked:
    """Greedy; where candidates exclude each other, the best of those that begin with each candidate in turn.

    A first choice that excludes two others may be worth less than both of them.
    """
    groups, best = exclusive_groups(excluded), greedy(goal, count, excluded)
    bounds = np.array(best.bounds)
    for candidate in np.flatnonzero(excluded.any(axis=1)):
        found = greedy(goal, count, excluded, [int(candidate)], groups)
        best, bounds = max(best, found, key=lambda each: each.value), np.minimum(bounds, found.bounds)
    return Picked(*_in_order(goal, best.chosen), tuple(map(float, bounds)))


def _in_order(goal: Goal, chosen: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The same candidates, the one that adds most first, and what each adds."""
    state, left, order, gained = goal.nothing(), list(chosen), list[int](), list[float]()
    while left:
        gains = goal.gains(state)
        order.append(max(left, key=gains.__getitem__))
        gained.append(float(gains[order[-1]]))
        left.remove(order[-1])
        state = goal.with_one(state, order[-1])
    return tuple(order), tuple(gained)


def greedy(
    goal: Goal,
    count: int,
    excluded: Excluded,
    first: Sequence[int] = (),
    groups: list[NDArray[np.int64]] | None = None,
) -> Picked:
    """The candidate with the greatest gain, again and again, until there are `count` or none is left that helps.

    Args:
        goal: What is to be had.
        count: How many are wanted.
        excluded: Which two may not be chosen together.
        first: Chosen before all others, in their order.
        groups: Of candidates that all exclude each other, if they are known.
    """
    state, free = goal.nothing(), np.ones(len(excluded), np.bool_)
    chosen, gained = list[int](), list[float]()
    groups = exclusive_groups(excluded) if groups is None else groups
    gains = goal.gains(state)
    bounds, least = _most_left(gains, groups, count), _ROUNDING * float(gains.max(initial=0.0))
    while len(chosen) < count:
        given = len(chosen) < len(first)
        best = first[len(chosen)] if given else int(np.argmax(np.where(free, gains, -np.inf)))
        if not given and (not free[best] or gains[best] <= least):
            break
        chosen.append(best)
        gained.append(float(gains[best]))
        free &= ~excluded[best]
        free[best] = False
        state = goal.with_one(state, best)
        gains = goal.gains(state)
        gains[chosen] = 0.0
        bounds = np.minimum(bounds, sum(gained) + _most_left(gains, groups, count))
    return Picked(tuple(chosen), tuple(gained), tuple(map(float, bounds)))


def _most_left(gains: Array, groups: list[NDArray[np.int64]], count: int) -> Array:
    """What the best 1, 2, … groups could add, each by its best member."""
    best = np.sort([gains[group].max() for group in groups])[::-1]
    return np.cumsum(np.append(np.maximum(best, 0.0), np.zeros(count)))[:count]


def exclusive_groups(excluded: Excluded) -> list[NDArray[np.int64]]:
    """The candidates in groups of which all members exclude each other, the most excluded first."""
    left, groups = np.ones(len(excluded), np.bool_), list[NDArray[np.int64]]()
    for first in np.argsort(-excluded.sum(axis=1), kind="stable"):
        if not left[first]:
            continue
        members, common = [int(first)], excluded[first] & left
        while common.any():
            # who shares most of what is still common to all
            shared = (excluded & common).sum(axis=1)
            members.append(int(np.argmax(np.where(common, shared, -1))))
            common = common & excluded[members[-1]]
        left[members] = False
        groups.append(np.array(members))
    return groups
