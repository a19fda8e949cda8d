"""Where vehicles were while they crossed: optional, beside crossings, one track per row.

A track begins where the vehicle enters and ends where it leaves; between two samples it moves evenly. `way_m` is how
far it has come since it entered, along its own way. A crossing without a track is taken to move steadily.
"""

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError

Array = NDArray[np.float64]

COLUMNS = ("time_s", "x_m", "y_m", "way_m")
_SAME_INSTANT_S = 1e-6  # text may keep fewer digits than memory
STEADILY = "these crossings have no tracks: every vehicle is assumed to drive steadily from one end to the other"


@dataclass(frozen=True)
class Tracks:
    """The samples of all tracks, one track after the other.

    Args:
        first: Where the samples of each track begin, with the end of the last.
        time_s: When, on the crossings' clock.
        x_m: Where, in the source's coordinates; NaN where it does not say.
        y_m: The same.
        way_m: Metres since the vehicle entered.
    """

    first: NDArray[np.int64]
    time_s: Array
    x_m: Array
    y_m: Array
    way_m: Array

    def __post_init__(self) -> None:
        samples = {len(column) for column in self.columns}
        if len(self.first) < 1 or samples != {int(self.first[-1])} or (np.diff(self.first) < 1).any():
            raise InputError("tracks must have columns of one length and at least one sample each")

    @property
    def columns(self) -> tuple[Array, Array, Array, Array]:
        return self.time_s, self.x_m, self.y_m, self.way_m

    def __len__(self) -> int:
        return len(self.first) - 1

    def take(self, chosen: Any) -> "Tracks":
        """Those of the chosen rows, in that order: a mask, or indices."""
        rows = np.arange(len(self))[chosen]
        counts = np.diff(self.first)[rows]
        first = np.append(0, np.cumsum(counts))
        samples = np.arange(first[-1]) + np.repeat(self.first[rows] - first[:-1], counts)
        return Tracks(first, *(column[samples] for column in self.columns))

    def plus(self, others: "Tracks") -> "Tracks":
        first = np.append(self.first, others.first[1:] + self.first[-1])
        pairs = zip(self.columns, others.columns, strict=True)
        return Tracks(first, *(np.concatenate(pair) for pair in pairs))

    @classmethod
    def none(cls) -> "Tracks":
        return cls(np.zeros(1, np.int64), *np.zeros((4, 0)))

    def check(self, enter_s: Array, leave_s: Array) -> None:
        """That there is one for every crossing, from when it enters to when it leaves."""
        if len(self) != len(enter_s):
            raise InputError(f"crossings must have a track each, got {len(self)} for {len(enter_s)}")
        ends = np.stack([self.time_s[self.first[:-1]] - enter_s, self.time_s[self.first[1:] - 1] - leave_s])
        inside = np.ones(len(self.time_s) - 1 if len(self.time_s) else 0, bool)
        inside[self.first[1:-1] - 1] = False  # from one vehicle to the next
        steps = np.diff(np.stack([self.time_s, self.way_m]))[:, inside] if len(self) else np.zeros((2, 0))
        if not (np.abs(ends) <= _SAME_INSTANT_S).all():
            row = int(np.argmax((np.abs(ends) > _SAME_INSTANT_S).any(axis=0)))
            raise InputError(f"tracks must begin at enter_s and end at leave_s, got another time in row {row}")
        if not (steps >= 0).all():
            raise InputError("tracks must have times and ways in order, got one that goes back")


class TrackKeeper:
    """Collects tracks while vehicles are followed; those that have ended lie in one compact array."""

    def __init__(self) -> None:
        self._under_way: dict[Any, array[float]] = {}
        self._ended, self._counts = array("d"), list[int]()

    def begin(self, vehicle: Any, time_s: float, x_m: float, y_m: float) -> None:
        self._under_way[vehicle] = array("d", (time_s, x_m, y_m, 0.0))

    def go_on(self, vehicle: Any, time_s: float, x_m: float, y_m: float, metres: float) -> None:
        """The next sample, so many metres farther."""
        track = self._under_way[vehicle]
        track.extend((time_s, x_m, y_m, track[-1] + metres))

    def end(self, vehicle: Any) -> None:
        track = self._under_way.pop(vehicle)
        self._ended.extend(track)
        self._counts.append(len(track) // len(COLUMNS))

    def tracks(self) -> Tracks:
        """Of all that have ended, in the order of their ends."""
        samples = np.frombuffer(self._ended, float).reshape(-1, len(COLUMNS)) if self._counts else np.zeros((0, 4))
        return Tracks(np.append(0, np.cumsum(self._counts, dtype=np.int64)), *samples.T.copy())
