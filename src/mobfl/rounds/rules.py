"""Who uploads in which round: the rules of a round over any crossings, without any learning.

Round k lasts from its start for T seconds. Whoever is on the section at the start begins then, later ones on
arrival: download, H steps, upload. A vehicle succeeds if it is done by min(its leaving, the round's end), equality
included. In the next round everyone still there starts afresh with a new delay.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.rounds.draws import Draws, compute_s, exponential_s
from mobfl.theory import Delays
from mobfl.theory.delays import EXPONENTIAL

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Times are doubles: a deadline is known to a few roundings of the clock, and met if met within these.
CLOCK_ROUNDING = 4 * np.finfo(float).eps
# And k·T to so much of itself.
TIME_ROUNDING = 1e-9
_ROUNDS_AT_ONCE = 1 << 16
FOREVER = np.iinfo(np.int64).max


class Outcome(IntEnum):
    UPLOADED = 0
    LEFT_EARLY = 1  # the vehicle was gone before its upload was done
    ROUND_OVER = 2  # the round ended before its upload was done


@dataclass(frozen=True)
class Order:
    """What a policy wants, after which it is asked again.

    Args:
        local_steps: H, the local steps that a vehicle takes in a round.
        round_s: T, the length of a round in seconds.
        rounds: For how many rounds.
    """

    local_steps: int
    round_s: float
    rounds: int = 1

    def __post_init__(self) -> None:
        whole = float(self.local_steps).is_integer() and self.local_steps >= 1
        if not (whole and 0 < self.round_s < np.inf):
            raise InputError(f"plan must have a whole H >= 1 and T > 0, got {self.local_steps},{self.round_s:g}")
        if self.rounds < 1:
            raise InputError(f"an order must be for at least one round, got {self.rounds}")


class Policy(Protocol):
    """Gives each round's H and T, knowing what was seen before."""

    def next_order(self, seen: "Rounds | None") -> Order:
        """The order for the next rounds; `seen` is what came of the last order, None at the start."""


@dataclass(frozen=True)
class FixedPlan:
    """The same H and T for ever."""

    local_steps: int
    round_s: float

    def __post_init__(self) -> None:
        self.next_order(None)  # which checks it

    def next_order(self, seen: "Rounds | None") -> Order:  # noqa: ARG002
        return Order(self.local_steps, self.round_s, FOREVER)


_ROW_COLUMNS = ("round", "vehicle", "key", "attempt", "begin_s", "compute_s", "end_s", "outcome", "vehicle_class")


@dataclass(frozen=True)
class VehicleRows:
    """A row per vehicle and round, in the order of the rounds.

    A vehicle downloads from `begin_s`, then trains for `compute_s`, then uploads; `end_s` (its leaving or the
    round's end) may cut it off anywhere.
    """

    names: NDArray[Any] | None  # of the vehicles, where they are text
    round: Integers
    vehicle: Integers  # its number, or its place in `names`
    key: NDArray[np.uint64]  # what other draws of this vehicle on this visit may be addressed by
    attempt: Integers  # the rounds it was in before
    begin_s: Array
    compute_s: Array
    end_s: Array
    outcome: NDArray[np.int8]
    vehicle_class: NDArray[np.int8]  # its place in the fleet

    def __len__(self) -> int:
        return len(self.round)

    def of_rounds(self, first: int, stop: int) -> "VehicleRows":
        """The rows of the rounds from `first` to before `stop`."""
        kept = slice(*np.searchsorted(self.round, [first, stop]))
        return VehicleRows(self.names, *(getattr(self, name)[kept] for name in _ROW_COLUMNS))

    def to_dicts(self, delays: Delays) -> list[dict[str, Any]]:
        """With the instant at which each stage begins, None where it was not reached, and how it ended when.

        The class is told where there is more than one.
        """
        train, upload, uploaded = delays.stages_s(self.begin_s, self.compute_s)
        done = np.where(self.outcome == Outcome.UPLOADED, uploaded, self.end_s)
        names = [each.name for each in delays.classes]
        return [
            {
                "round": int(self.round[i]),
                "vehicle": int(self.vehicle[i]) if self.names is None else self.names[self.vehicle[i]],
                "attempt": int(self.attempt[i]),
                "download_s": float(self.begin_s[i]),
                "train_s": float(train[i]) if train[i] <= done[i] else None,
                "upload_s": float(upload[i]) if upload[i] <= done[i] else None,
                "end_s": float(done[i]),
                "outcome": Outcome(int(self.outcome[i])).name.lower(),
                **({"class": names[self.vehicle_class[i]]} if len(names) > 1 else {}),
            }
            for i in range(len(self))
        ]


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of one H and T: a row per round, and the vehicles' rows if they were kept."""

    local_steps: int
    round_s: float
    round: Integers
    start_s: Array
    present: Integers
    uploads: Integers
    vehicles: VehicleRows | None

    def __len__(self) -> int:
        return len(self.round)


def simulate_rounds(
    traffic: Iterable[Crossings],
    policy: Policy,
    delays: Delays,
    seed: int,
    *,
    start_s: float = 0.0,
    until_s: float = -np.inf,
    keep_vehicles: bool = True,
) -> Iterator[Rounds]:
    """The rounds from `start_s` on, in blocks, until the traffic has ended and `until_s` has come.

    Memory does not grow with the duration.
    """
    road = _Road(iter(traffic), Draws(delays, seed), last_s=until_s)
    number, origin, done = 0, start_s, 0
    order = policy.next_order(None)
    seen = list[Rounds]()  # of the present order
    while True:
        h, t = order.local_steps, order.round_s
        starts = np.float64(origin) + t * np.arange(done, done + min(order.rounds - done, _ROUNDS_AT_ONCE))
        present, uploads, rows = road.run(starts, t, h, number, keep_vehicles)
        ran = len(present)
        if not ran:
            return
        block = Rounds(h, t, number + np.arange(ran), starts[:ran], present, uploads, rows)
        yield block
        number, done = number + ran, done + ran
        if order.rounds < FOREVER:
            seen.append(block)
        if done == order.rounds:
            origin, done = origin + done * t, 0
            order = policy.next_order(joined(seen))
            seen = []


def joined(blocks: list[Rounds]) -> Rounds:
    """One order's rounds in one piece, however the traffic was cut into blocks."""
    first = blocks[0]
    if len(blocks) == 1:
        return first

    def column(name: str, parts: list[Any]) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    number, start_s, present, uploads = (column(name, blocks) for name in ("round", "start_s", "present", "uploads"))
    rows = [block.vehicles for block in blocks if block.vehicles is not None]
    vehicles = VehicleRows(rows[-1].names, *(column(name, rows) for name in _ROW_COLUMNS)) if rows else None
    return Rounds(first.local_steps, first.round_s, number, start_s, present, uploads, vehicles)


@dataclass
class _Vehicles:
    """Vehicles side by side in arrays."""

    label: Integers
    key: NDArray[np.uint64]
    enter_s: Array
    leave_s: Array
    attempt: Integers
    vehicle_class: NDArray[np.int8]

    @classmethod
    def none(cls) -> "_Vehicles":
        whole, real = np.empty(0, np.int64), np.empty(0)
        return cls(whole, np.empty(0, np.uint64), real, real, whole, np.empty(0, np.int8))

    def __len__(self) -> int:
        return len(self.label)

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.label, self.key, self.enter_s, self.leave_s, self.attempt, self.vehicle_class

    def take(self, chosen: Any) -> "_Vehicles":
        return _Vehicles(*(array[chosen] for array in self.arrays))

    def plus(self, others: "_Vehicles") -> "_Vehicles":
        return _Vehicles(*(np.concatenate(pair) for pair in zip(self.arrays, others.arrays, strict=True)))


@dataclass
class _Road:
    """The vehicles on the section, and those known to come in the order of entering."""

    traffic: Iterator[Crossings]
    draws: Draws
    there: _Vehicles = field(default_factory=_Vehicles.none)
    coming: _Vehicles = field(default_factory=_Vehicles.none)
    names: NDArray[Any] | None = None
    seen: int = 0
    last_s: float = -np.inf  # when the last vehicle seen so far leaves: so long rounds go on
    horizon_s: float = -np.inf  # until when all who enter are known

    def run(
        self, starts: Array, t: float, local_steps: int, number: int, keep_vehicles: bool
    ) -> tuple[Integers, Integers, VehicleRows | None]:
        """As many of these rounds as the traffic allows: at least one, unless it has ended."""
        while starts[0] + t > self.horizon_s and self._look_ahead():
            pass
        ready = int(np.searchsorted(starts + t, self.horizon_s, side="right"))
        present, uploads = np.zeros((2, ready), np.int64)
        if not ready:
            return present, uploads, None
        entering = int(np.searchsorted(self.coming.enter_s, starts[ready - 1] + t))
        vehicles = self.there.plus(self.coming.take(slice(entering)))
        if number == 0:
            vehicles = vehicles.take(vehicles.leave_s > starts[0])  # not those who left before the first round
        rows = _empty_rows(_most_pairs(vehicles, starts[0], starts[ready - 1] + t, t) if keep_vehicles else 0)
        counts = (present, uploads)
        delays = float(self.draws.delays.transfer_s), self.draws.laws(local_steps)
        stay, pairs = _run_rounds(starts[:ready], t, delays, number, len(self.there), vehicles.arrays, counts, rows)
        self.there, self.coming = vehicles.take(stay), self.coming.take(slice(entering, None))
        kept = VehicleRows(self.names, *(row[:pairs] for row in rows)) if keep_vehicles else None
        return present, uploads, kept

    def _look_ahead(self) -> bool:
        """Takes in the next block of crossings; False once the last vehicle has left."""
        block = next(self.traffic, None)
        if block is None:
            ended, self.horizon_s = self.horizon_s >= self.last_s, max(self.horizon_s, self.last_s)
            return not ended
        if len(block):
            labelled = self._labelled(block)
            self.coming = self.coming.plus(labelled) if len(self.coming) else labelled
            self.horizon_s = float(block.enter_s[-1])
            self.last_s = max(self.last_s, float(block.leave_s.max()))
        return True

    def _labelled(self, block: Crossings) -> _Vehicles:
        label = block.vehicle
        if label.dtype.kind not in "iu":
            self.names = label if self.names is None else np.concatenate([self.names, label])
            label = np.arange(self.seen, self.seen + len(block))
        self.seen += len(block)
        keys, attempts = self.draws.keys(block.keys), np.zeros(len(block), np.int64)
        labels, classes = label.astype(np.int64, copy=False), self.draws.classes(keys)
        return _Vehicles(labels, keys, block.enter_s, block.leave_s, attempts, classes)


def _most_pairs(vehicles: _Vehicles, start_s: float, end_s: float, t: float) -> int:
    """At least the number of vehicle-round pairs from start to end."""
    time = np.minimum(vehicles.leave_s, end_s) - np.maximum(vehicles.enter_s, start_s)
    return int((np.maximum(time, 0.0) / t).sum()) + 3 * len(vehicles)


def _empty_rows(pairs: int) -> tuple[Any, ...]:
    kinds = (np.int64, np.int64, np.uint64, np.int64, np.float64, np.float64, np.float64, np.int8, np.int8)
    return tuple(np.empty(pairs, kind) for kind in kinds)


@njit(cache=True)
def _run_rounds(starts, t, delays, number, there, vehicles, counts, rows):
    """Runs the rounds; vehicles before `there` are on the section, the others enter in order.

    Returns who is still there after the last round, and how many rows were written.
    """
    transfers_s, laws = delays
    paper = len(laws.law) == 1 and laws.law[0] == EXPONENTIAL  # then nobody's class has to be looked up
    least_s, extra_s = laws.least_s[0], laws.extra_s[0]
    present, uploads = counts
    label, key, enter, leave, attempt, place = vehicles
    row_round, row_vehicle, row_key, row_attempt, row_begin, row_compute, row_end, row_outcome, row_place = rows
    keep_rows = len(row_round) > 0
    active = np.empty(len(enter), np.int64)
    active[:there] = np.arange(there)
    coming = there
    row = 0
    rounding = CLOCK_ROUNDING * max(abs(starts[0]), abs(starts[-1] + t))
    for k in range(len(starts)):
        start, end = starts[k], starts[k] + t
        while coming < len(enter) and enter[coming] < end:
            active[there] = coming
            there += 1
            coming += 1
        stay = successes = 0
        for j in range(there):
            i = active[j]
            # Relative to the start, and exactly T for those who are there throughout.
            begin = max(enter[i], start)
            time_left, stay_left = t - max(enter[i] - start, 0.0), leave[i] - begin
            if paper:
                compute = exponential_s(least_s, extra_s, key[i], attempt[i])
            else:
                compute = compute_s(laws, place[i], key[i], attempt[i])
            uploaded = transfers_s + compute <= min(time_left, stay_left) + rounding
            successes += uploaded
            if keep_rows:
                row_round[row], row_vehicle[row], row_key[row], row_attempt[row] = (
                    number + k,
                    label[i],
                    key[i],
                    attempt[i],
                )
                row_begin[row], row_compute[row] = begin, compute
                row_end[row] = min(leave[i], end)
                row_outcome[row] = 0 if uploaded else (1 if stay_left < time_left else 2)
                row_place[row] = place[i]
                row += 1
            attempt[i] += 1
            active[stay] = i
            stay += leave[i] > end
        present[k], uploads[k] = there, successes
        there = stay
    return active[:there], row
