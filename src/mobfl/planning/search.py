"""Branch and bound over H: the best g(H)/H never rises with H, since more steps only delay an upload.

So an H between a and b reaches at most b/a times what a reaches, and whole ranges of H are ruled out by their first.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple


class Tried(NamedTuple):
    """The g that was found for an H, and what no plan with this H exceeds."""

    found: float
    bound: float


class Best(NamedTuple):
    """The H with the greatest g that was found, None if none exceeds what was known; and what no H exceeds."""

    local_steps: int | None
    found: float
    bound: float


def best_steps(
    attempt: Callable[[int], Tried], most: int, known: float | None = None, gap: float = 0.0, narrow: float = 0.0
) -> Best:
    """Over H from 1 to `most`, the best bound first; a share `gap` of g is not searched for.

    Of two equal ones it is the smaller H. Of a range whose ends differ by a share `narrow` only the first is tried.
    """
    first = attempt(1)
    best = Best(None, known, known) if known is not None and known >= first.found else Best(1, first.found, first.bound)
    bound, ranges = max(best.found, first.bound), list[tuple[float, int, int, float]]()
    if most > 1:
        ranges.append((-first.bound * most, 1, most, first.bound))  # minus the bound, first H, last H, the first's
    while ranges and -ranges[0][0] > best.found * (1 + gap):
        _, start, stop, reached = heapq.heappop(ranges)
        middle = max(start + 1, round((start * stop) ** 0.5))
        tried = attempt(middle)
        bound = max(bound, tried.bound)
        if tried.found > best.found or (tried.found == best.found and middle < (best.local_steps or 0)):
            best = Best(middle, *tried)
        for a, b, value in ((start, middle - 1, reached), (middle, stop, tried.bound)):
            if b > a * (1 + narrow):
                heapq.heappush(ranges, (-value * b / a, a, b, value))
    left = -ranges[0][0] if ranges else 0.0
    return best._replace(bound=max(bound, left))


def best_count(objective: Callable[[int], float], most: int) -> tuple[int, float]:
    """The H from 1 to `most` that maximises g(H, T) for one T, and that g; the smaller of two equal ones.

    There g/H = (1 − P0)/T never rises with H.
    """
    best = best_steps(lambda h: Tried(g := objective(h), g), most)
    return best.local_steps or 1, best.found
