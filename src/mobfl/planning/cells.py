"""The greatest value of w(T)/T where w never falls, with a bound on what the search may have missed.

Between a and b the value is at most w(b)/a, which is b/a times that at b. Intervals of T whose bound is no better than
what is known are dropped, the others are cut, until none is left.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Objective = Callable[[Array], Array]

_PIECES = 4


class Top(NamedTuple):
    """The best T that was found, its value, and what no other T exceeds."""

    round_s: float
    objective: float
    bound: float


def top_between(objective: Objective, edges: Array, gap: float, others: Array | None = None) -> Top:
    """From the first edge to the last, and of the `others` beside them; a share `gap` is not searched for."""
    t = edges if others is None else np.append(edges, others)
    values = objective(t)
    top = int(values.argmax())
    best_s, best, bound = float(t[top]), float(values[top]), float(values[top])
    cells = Cells(edges[:-1], edges[1:], values[1 : len(edges)])
    while len(cells.start):
        cells, dropped = cells.above(best * (1 + gap))
        bound = max(bound, dropped)
        cells = cells.cut(objective) if len(cells.start) else cells
        if cells.objective.max(initial=0.0) > best:
            top = int(cells.objective.argmax())
            best_s, best = float(cells.stop[top]), float(cells.objective[top])
    return Top(best_s, best, max(bound, best))


class Cells(NamedTuple):
    """Intervals of T, with the value where each ends."""

    start: Array
    stop: Array
    objective: Array

    def above(self, enough: float) -> tuple["Cells", float]:
        """Those that may hold more than this, and what the others hold at most."""
        bounds = self.objective * (self.stop / self.start)
        kept = bounds > enough
        dropped = float(bounds[~kept].max(initial=0.0))
        return Cells(*(column[kept] for column in self)), dropped

    def cut(self, objective: Objective) -> "Cells":
        """Each in pieces of one ratio."""
        ratios = (self.stop / self.start)[:, np.newaxis] ** (np.arange(_PIECES + 1) / _PIECES)
        edges = self.start[:, np.newaxis] * ratios
        edges[:, -1] = self.stop
        values = np.column_stack([objective(edges[:, 1:-1]), self.objective])
        return Cells(edges[:, :-1].ravel(), edges[:, 1:].ravel(), values.ravel())
