"""The one table that every kind of traffic becomes: vehicle, enter_s, leave_s."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.display import Displayed, Sheet, Tabular, shortened
from mobfl.errors import InputError, counted
from mobfl.mobility.tracks import Tracks

Array = NDArray[np.float64]

COLUMNS = ("vehicle", "enter_s", "leave_s")
# What `cut` is the sum of: the recording began or ended while the vehicle was there, or it was not seen for a while.
CUT_START, CUT_END, GAP_BEFORE, GAP_AFTER = 1, 2, 4, 8
_VISIT = np.uint64(0xD1B54A32D192ED03)  # odd, so that visits of one vehicle never share a key
_STATION = np.uint64(0xA24BAED4963EE407)  # nor do those at several stations


@dataclass(frozen=True, repr=False)
class Crossings(Displayed, Tabular):
    """One row per presence on the section, in the order of entering; a vehicle that returns has two rows.

    Args:
        vehicle: Numbers or text, as the source has them.
        enter_s: When each enters, in seconds on any clock.
        leave_s: When each leaves, on the same clock.
        tracks: Where each was in between, if that was kept.
        cut: Whose stay was longer than was seen: 1 if the recording began while it was there, 2 if it ended, 4 and 8
            if it was not seen for a while before it entered or after it left. None if nothing is known of that.
        station: The place of the section's station among those of a city.
        drawn: Whether a source drew them with the run's seed, so that another seed has others.
    """

    vehicle: NDArray[Any]  # numbers, or text of any width (see `named`)
    enter_s: Array
    leave_s: Array
    tracks: Tracks | None = None
    cut: NDArray[np.int8] | None = None
    station: int = 0
    drawn: bool = False

    def __post_init__(self) -> None:
        if not len(self.vehicle) == len(self.enter_s) == len(self.leave_s):
            raise InputError("crossings must have columns of one length")
        if self.cut is not None and len(self.cut) != len(self.enter_s):
            raise InputError("crossings must have columns of one length")
        if not self._keeps_rules():
            self._say_which_is_broken()
        if self.tracks is not None:
            self.tracks.check(self.enter_s, self.leave_s)

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in COLUMNS}

    def _brief(self) -> str:
        if not len(self):
            return "none"
        return f"{len(self)} from {self.enter_s[0]:.5g} to {self.leave_s.max():.5g} s, {self.dwell_s.mean():.4g} s each"

    def _sheet(self) -> Sheet:
        def row(i: int) -> list[str]:
            return [str(self.vehicle[i]), f"{self.enter_s[i]:.2f}", f"{self.leave_s[i]:.2f}"]

        return Sheet(counted(len(self), "crossing"), shortened(len(self), row), COLUMNS)

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
    def sorted(
        cls, vehicle: Any, enter_s: Any, leave_s: Any, tracks: Tracks | None = None, cut: Any = None
    ) -> "Crossings":
        """From rows in any order, as lists or arrays."""
        enter, leave = np.asarray(enter_s, float), np.asarray(leave_s, float)
        order = np.argsort(enter, kind="stable")
        names = vehicle if isinstance(vehicle, np.ndarray) else named(vehicle)
        kept = None if tracks is None else tracks.take(order)
        return cls(names[order], enter[order], leave[order], kept, None if cut is None else cut[order])

    def __len__(self) -> int:
        return len(self.enter_s)

    @property
    def dwell_s(self) -> Array:
        """How long each was seen on the section."""
        return self.leave_s - self.enter_s

    @cached_property
    def stays_s(self) -> Array:
        """The law of the stays, as so many that are equally likely: as they are, if none was cut off.

        Who was cut off at the end stayed at least as long as was seen (the product-limit estimate, Kaplan and Meier
        1958); of who was cut off at the start it is not known since when.
        """
        began, ended = self._began, ~self._is_cut(CUT_END | GAP_AFTER)
        if self.cut is None or not (began & ended).any():
            return self.dwell_s
        return _product_limit(self.dwell_s[began], ended[began])

    @property
    def _began(self) -> NDArray[np.bool_]:
        """Who was seen entering."""
        return ~self._is_cut(CUT_START | GAP_BEFORE)

    def _is_cut(self, how: int) -> NDArray[np.bool_]:
        return np.zeros(len(self), np.bool_) if self.cut is None else (self.cut & how) != 0

    @property
    def observed_s(self) -> tuple[float, float]:
        """From when to when everybody was seen.

        Where the recording cut stays off, it is known when it began and ended. Otherwise from when the first vehicle
        has left to when the last enters: outside, the section fills or empties.
        """
        if not len(self):
            raise InputError("crossings must not be empty")
        at_start, at_end = self._is_cut(CUT_START), self._is_cut(CUT_END)
        start = float(self.enter_s[at_start].max() if at_start.any() else self.leave_s.min())
        end = float(self.leave_s[at_end].min() if at_end.any() else self.enter_s[-1])
        return start, max(start, end)

    @property
    def arrivals_per_s(self) -> float:
        """The mean rate of those who were seen entering, while the recording lasted as far as that is known."""
        enter_s, at_start, at_end = self.enter_s[self._began], self._is_cut(CUT_START), self._is_cut(CUT_END)
        start = float(self.enter_s[at_start].min() if at_start.any() else enter_s[0]) if len(enter_s) else 0.0
        end = float(self.leave_s[at_end].max() if at_end.any() else enter_s[-1]) if len(enter_s) else 0.0
        count = len(enter_s) - (not at_start.any())
        if not (end > start and count > 0):
            span = f"{len(self)} rows over {end - start:g} s"
            raise InputError(f"crossings must span some time between enterings, got {span}")
        return count / (end - start)

    @cached_property
    def vehicle_keys(self) -> NDArray[np.uint64]:
        """Who each vehicle is: addressed by its name alone, the same on every visit and at every station."""
        if self.vehicle.dtype.kind in "iu":
            return self.vehicle.astype(np.int64).view(np.uint64)
        return np.array([_digest(str(name)) for name in self.vehicle], np.uint64)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What a visit's random draws are addressed by: its vehicle, station and number, not its place in the table."""
        keys = self.vehicle_keys
        if self.station:
            keys = keys + np.array([self.station], np.uint64) * _STATION
        numbered = self.vehicle.dtype.kind in "iu"
        if numbered and (self.vehicle[1:] > self.vehicle[:-1]).all():  # nobody returns
            return keys
        return keys + _visits(keys) * _VISIT

    def fingerprint(self) -> str:
        """Tells whether it is the same traffic, with its tracks if it has some."""
        digest = hashlib.blake2b(digest_size=16)
        tracks = () if self.tracks is None else (self.tracks.first, *self.tracks.columns)
        cut = () if self.cut is None else (self.cut,)
        for column in (self.keys, self.enter_s, self.leave_s, *tracks, *cut):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def between(self, start_s: float, end_s: float) -> "Crossings":
        """Those that are on the section at some time from start to end, their times unchanged."""
        return self.take((self.leave_s > start_s) & (self.enter_s < end_s))

    def up_to(self, longest_stay_s: float, or_none: bool = False) -> "Crossings":
        """Without stays that are longer: vehicles that are parked rather than passing by."""
        if not longest_stay_s > 0:
            raise InputError(f"longest_stay_s must be > 0, got {longest_stay_s:g}")
        kept = self.dwell_s <= longest_stay_s
        if not (or_none or kept.any()):
            shortest_s = float(self.dwell_s.min())
            raise InputError(
                f"longest_stay_s must leave someone, got {longest_stay_s:g} where the shortest stay is {shortest_s:g} s"
            )
        return self if kept.all() else self.take(kept)

    def take(self, chosen: NDArray[np.bool_]) -> "Crossings":
        tracks = None if self.tracks is None else self.tracks.take(chosen)
        return replace(
            self,
            vehicle=self.vehicle[chosen],
            enter_s=self.enter_s[chosen],
            leave_s=self.leave_s[chosen],
            tracks=tracks,
            cut=None if self.cut is None else self.cut[chosen],
        )

    def at(self, station: int) -> "Crossings":
        """The same, as those of a city's station at this place."""
        return self if station == self.station else replace(self, station=station)


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


def _product_limit(stays_s: Array, ended: NDArray[np.bool_]) -> Array:
    """As many stays as were given, equally likely, of the law in which those that did not end go on."""
    values, at = np.unique(stays_s, return_inverse=True)
    gone, there = np.bincount(at, ended), np.cumsum(np.bincount(at)[::-1])[::-1]
    remain = np.cumprod(1.0 - gone / there)
    remain[-1] = 0.0  # of the longest it is not known how much longer
    shares = 1.0 - (np.arange(len(stays_s)) + 0.5) / len(stays_s)
    return np.asarray(values[np.searchsorted(-remain, -shares, side="left")])


def _visits(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """How many rows before have the same key."""
    order = np.argsort(keys, kind="stable")
    new = np.append(True, keys[order][1:] != keys[order][:-1]) if len(keys) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(new, np.arange(len(keys)), 0))
    visits = np.empty(len(keys), np.uint64)
    visits[order] = np.arange(len(keys)) - first
    return visits
