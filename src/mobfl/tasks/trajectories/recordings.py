"""What every source of trajectories becomes: lanes, and who moved where among them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError

OBSERVED, PREDICTED = 20, 30  # time steps of 0.1 s
STEPS = OBSERVED + PREDICTED
STEP_S = 0.1

# Of a lane's attributes: what the source does not say.
UNKNOWN = -1
STRAIGHT, LEFT, RIGHT = 0, 1, 2
NO, YES = 0, 1


@dataclass(frozen=True)
class LaneMap:
    """Lanes by their centre lines, in the direction of travel; L lanes, indices count them from 0."""

    points: NDArray[np.float64]  # (P, 2) m, all centre lines one after the other
    offsets: NDArray[np.int64]  # (L + 1,): lane i is points[offsets[i]:offsets[i + 1]], at least two points
    turn: NDArray[np.int8]  # (L,) STRAIGHT, LEFT, RIGHT or UNKNOWN
    control: NDArray[np.int8]  # (L,) whether traffic is controlled: NO, YES or UNKNOWN
    intersection: NDArray[np.int8]  # (L,) whether it lies in one: NO, YES or UNKNOWN
    successors: NDArray[np.int64]  # (S, 2) pairs (lane, lane that continues it)
    left: NDArray[np.int64]  # (L,) the neighbour in the same direction on that side, -1 for none
    right: NDArray[np.int64]  # (L,)

    def __post_init__(self) -> None:
        lanes = len(self)
        columns = (self.turn, self.control, self.intersection, self.left, self.right)
        if any(len(column) != lanes for column in columns):
            raise InputError("a map's columns must have one entry per lane")
        if lanes and not (np.diff(self.offsets) >= 2).all():
            lane = int(np.argmax(np.diff(self.offsets) < 2))
            raise InputError(f"a lane must have at least two points, got lane {lane} with fewer")
        if not np.isfinite(self.points).all():
            raise InputError("a map's points must be finite, got something else")
        for links in (self.successors, self.left, self.right):
            if links.size and not -1 <= links.min() <= links.max() < lanes:
                raise InputError(f"a map's links must name its {lanes} lanes, got {links.min()} to {links.max()}")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def line(self, lane: int) -> NDArray[np.float64]:
        return self.points[self.offsets[lane] : self.offsets[lane + 1]]


@dataclass(frozen=True)
class Recording:
    """Five seconds of traffic at 10 Hz: 20 steps observed, 30 to be predicted."""

    name: str
    city: str  # names the map
    positions: NDArray[np.float64]  # (A, 50, 2) m; NaN where somebody was not seen. Row 0 is the agent to be predicted

    def __post_init__(self) -> None:
        if self.positions.ndim != 3 or self.positions.shape[1:] != (STEPS, 2) or not len(self.positions):
            raise InputError(f"{self.name}: positions must be (actors, {STEPS}, 2), got {self.positions.shape}")
        if not np.isfinite(self.positions[0, OBSERVED - 1]).all():
            raise InputError(f"{self.name}: the agent must be seen at the last observed step, got no position")
