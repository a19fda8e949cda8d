"""Branch and bound over H. It needs no unimodality, only that the best g for an H, divided by H, never rises with H."""

import heapq
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def best_steps(
    tried: Callable[[int], Found],
    worth: Callable[[Found], float],
    most: int,
    *,
    known: Found | None = None,
    floor: float = 0.0,
    gap: float = 0.0,
) -> Found:
    """The best of what is found for H = 1, …, `most`, up to a share `gap` of its worth; of equals that of the least H.

    `known` is a good guess, if there is one. A worth below `floor` may not have been searched for: it bounds what lies
    beyond. An H between a and b has at most b/a times the worth of a, so whole ranges are ruled out by their left ends.
    """
    first = tried(1)
    best, best_h = (first, 1) if known is None or worth(first) >= worth(known) else (known, most + 1)
    ranges = [(-most * max(worth(first), floor), 1, most, max(worth(first), floor))]
    while ranges and -ranges[0][0] > worth(best) * (1 + gap):
        _, a, b, value = heapq.heappop(ranges)
        if b == a:
            continue
        middle = max(a + 1, round((a * b) ** 0.5))
        found = tried(middle)
        if (worth(found), -middle) > (worth(best), -best_h):
            best, best_h = found, middle
        for low, high, bound in ((a, middle - 1, value), (middle, b, max(worth(found), floor))):
            if high > low:
                heapq.heappush(ranges, (-bound * high / low, low, high, bound))
    return best


def best_count(objective: Callable[[int], float], most: int) -> tuple[int, float]:
    """The H from 1 to `most` that maximises g(H, T) for one T, and that g; the smaller of two equal ones."""
    return best_steps(lambda h: (h, objective(h)), lambda found: found[1], most)
