"""The one table that every kind of traffic becomes: vehicle, enter_s, leave_s."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.mobility.tracks import Tracks

Array = NDArray[np.float64]

COLUMNS = ("vehicle", "enter_s", "leave_s")
_VISIT = np.uint64(0xD1B54A32D192ED03)  # odd, so that visits of one vehicle never share a key


@dataclass(frozen=True)
class Crossings:
    """One row per presence on the section, in the order of entering; a vehicle that returns has two rows.

    Args:
        vehicle: Numbers or text, as the source has them.
        enter_s: When each enters, in seconds on any clock.
        leave_s: When each leaves, on the same clock.
        tracks: Where each was in between, if that was kept.
    """

    vehicle: NDArray[Any]  # numbers, or text of any width (see `named`)
    enter_s: Array
    leave_s: Array
    tracks: Tracks | None = None

    def __post_init__(self) -> None:
        if not len(self.vehicle) == len(self.enter_s) == len(self.leave_s):
            raise InputError("crossings must have columns of one length")
        if not self._keeps_rules():
            self._say_which_is_broken()
        if self.tracks is not None:
            self.tracks.check(self.enter_s, self.leave_s)

    def _say_which_is_broken(self) -> None:
        for rule, broken in (
            ("finite times", ~(np.isfinite(self.enter_s) & np.isfinite(self.leave_s))),
            ("leave_s >= enter_s", self.leave_s < self.enter_s),
            ("enter_s in order", np.diff(self.enter_s, prepend=-np.inf) < 0),
        ):
            if broken.any():
                row = int(np.argmax(broken))
                raise BrokenRowError(row, rule, f"{self.enter_s[row]} to {self.leave_s[row]}")

    def _keeps_rules(self) -> bool:
        in_order = bool((self.enter_s[1:] >= self.enter_s[:-1]).all())
        return in_order and bool((self.leave_s >= self.enter_s).all() and np.isfinite(self.leave_s.sum()))

    @classmethod
    def sorted(cls, vehicle: Any, enter_s: Any, leave_s: Any, tracks: Tracks | None = None) -> "Crossings":
        """From rows in any order, as lists or arrays."""
        enter, leave = np.asarray(enter_s, float), np.asarray(leave_s, float)
        order = np.argsort(enter, kind="stable")
        names = vehicle if isinstance(vehicle, np.ndarray) else named(vehicle)
        return cls(names[order], enter[order], leave[order], None if tracks is None else tracks.take(order))

    def __len__(self) -> int:
        return len(self.enter_s)

    @property
    def dwell_s(self) -> Array:
        """How long each is on the section."""
        return self.leave_s - self.enter_s

    @property
    def observed_s(self) -> tuple[float, float]:
        """From when the first vehicle has left to when the last enters: outside, the section fills or empties."""
        if not len(self):
            raise InputError("crossings must not be empty")
        first_left = float(self.leave_s.min())
        return first_left, max(first_left, float(self.enter_s[-1]))

    @property
    def arrivals_per_s(self) -> float:
        """The mean rate from the first to the last entering."""
        span = float(self.enter_s[-1] - self.enter_s[0]) if len(self) else 0.0
        if not span > 0:
            raise InputError(f"crossings must span some time between enterings, got {len(self)} rows over {span:g} s")
        return (len(self) - 1) / span

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What a vehicle's random draws are addressed by: its own name and its visit, not its place in the table."""
        if self.vehicle.dtype.kind in "iu":
            keys = self.vehicle.astype(np.int64).view(np.uint64)
            if (self.vehicle[1:] > self.vehicle[:-1]).all():  # nobody returns
                return keys
        else:
            keys = np.array([_digest(str(name)) for name in self.vehicle], np.uint64)
        return keys + _visits(keys) * _VISIT

    def fingerprint(self) -> str:
        """Tells whether it is the same traffic, with its tracks if it has some."""
        digest = hashlib.blake2b(digest_size=16)
        tracks = () if self.tracks is None else (self.tracks.first, *self.tracks.columns)
        for column in (self.keys, self.enter_s, self.leave_s, *tracks):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def between(self, start_s: float, end_s: float) -> "Crossings":
        """Those that are on the section at some time from start to end, their times unchanged."""
        return self.take((self.leave_s > start_s) & (self.enter_s < end_s))

    def up_to(self, longest_stay_s: float) -> "Crossings":
        """Without stays that are longer: vehicles that are parked rather than passing by."""
        if not longest_stay_s > 0:
            raise InputError(f"longest_stay_s must be > 0, got {longest_stay_s:g}")
        kept = self.dwell_s <= longest_stay_s
        if not kept.any():
            shortest_s = float(self.dwell_s.min())
            raise InputError(
                f"longest_stay_s must leave someone, got {longest_stay_s:g} where the shortest stay is {shortest_s:g} s"
            )
        return self if kept.all() else self.take(kept)

    def take(self, chosen: NDArray[np.bool_]) -> "Crossings":
        tracks = None if self.tracks is None else self.tracks.take(chosen)
        return Crossings(self.vehicle[chosen], self.enter_s[chosen], self.leave_s[chosen], tracks)


def named(vehicles: Sequence[Any]) -> NDArray[Any]:
    """Numbers as they are, text as long as each name is: in a fixed width every row has the longest one's."""
    if all(isinstance(vehicle, str) for vehicle in vehicles):
        return np.array(vehicles, np.dtypes.StringDType())
    return np.array(vehicles)


class BrokenRowError(InputError):
    """A row of crossings that breaks a rule; a reader of files turns the row into a line."""

    def __init__(self, row: int, rule: str, value: str) -> None:
        self.row, self.rule, self.value = row, rule, value
        super().__init__(f"crossings must have {rule}, got {value} in row {row}")


def _digest(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _visits(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """How many rows before have the same key."""
    order = np.argsort(keys, kind="stable")
    new = np.append(True, keys[order][1:] != keys[order][:-1]) if len(keys) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(new, np.arange(len(keys)), 0))
    visits = np.empty(len(keys), np.uint64)
    visits[order] = np.arange(len(keys)) - first
    return visits
