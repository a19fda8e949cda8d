"""Who uploads in which round: the rules of a round over any crossings, without any learning.

Round k lasts from its start for T seconds. Whoever is on the section at the start begins then, later ones on
arrival: download, H steps or as many as fit, upload. A vehicle succeeds if it is done by min(its leaving, the round's
end), equality included. In the next round everyone still there starts afresh with a new delay.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.mobility.predicting import Ways, ways_of
from mobfl.mobility.tracks import Tracks
from mobfl.rounds.air import Air, Channel, Shadows
from mobfl.rounds.draws import Draws, compute_s, exponential_s
from mobfl.rounds.fitting import expected_stay_s, fitting_steps
from mobfl.rounds.orders import FOREVER, AsManyAsFit, Policy, Steps
from mobfl.rounds.rows import Array, Fitted, Integers, Rounds, Transfers, VehicleRows, joined
from mobfl.rounds.window import Cars, Crowd, Log, Turn, run_radio_rounds
from mobfl.theory import Delays
from mobfl.theory.delays import EXPONENTIAL

# Times are doubles: a deadline is known to a few roundings of the clock, and met if met within these.
CLOCK_ROUNDING = 4 * np.finfo(float).eps
# And k·T to so much of itself.
TIME_ROUNDING = 1e-9
_ROUNDS_AT_ONCE = 1 << 16


def simulate_rounds(
    traffic: Iterable[Crossings],
    policy: Policy,
    delays: Delays,
    seed: int,
    *,
    channel: Channel | None = None,
    start_s: float = 0.0,
    until_s: float = -np.inf,
    keep_vehicles: bool = True,
) -> Iterator[Rounds]:
    """The rounds from `start_s` on, in blocks, until the traffic has ended and `until_s` has come.

    With a `channel` transfers take as long as its rates let them, and those of the delays are not asked for. Memory
    does not grow with the duration.
    """
    air = None if channel is None else channel.air(seed)
    road = _Road(iter(traffic), Draws(delays, seed), air, last_s=until_s)
    number, origin, done = 0, start_s, 0
    order = policy.next_order(None)
    seen = list[Rounds]()  # of the present order
    while True:
        h, t = order.local_steps, order.round_s
        starts = np.float64(origin) + t * np.arange(done, done + min(order.rounds - done, _ROUNDS_AT_ONCE))
        present, uploads, rows, fitted = road.run(starts, t, h, number, keep_vehicles)
        ran = len(present)
        if not ran:
            return
        block = Rounds(h, t, number + np.arange(ran), starts[:ran], present, uploads, rows, fitted)
        yield block
        number, done = number + ran, done + ran
        if order.rounds < FOREVER:
            seen.append(block)
        if done == order.rounds:
            origin, done = origin + done * t, 0
            order = policy.next_order(joined(seen))
            seen = []


@dataclass
class _Vehicles:
    """Vehicles side by side in arrays."""

    label: Integers
    key: NDArray[np.uint64]
    enter_s: Array
    leave_s: Array
    attempt: Integers
    vehicle_class: NDArray[np.int8]
    track: Integers  # its row in the road's tracks, below 0 where it has none
    origin_s: Array  # when it really entered: where it is follows from that

    @classmethod
    def none(cls) -> "_Vehicles":
        whole, real = np.empty(0, np.int64), np.empty(0)
        return cls(whole, np.empty(0, np.uint64), real, real, whole, np.empty(0, np.int8), whole, real)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def arrays(self) -> Cars:
        return Cars(*vars(self).values())

    def since(self, start_s: float) -> "_Vehicles":
        """Those who did not leave before; nobody knows for how long they have been there."""
        there = self.take(self.leave_s > start_s)
        return replace(there, enter_s=np.maximum(there.enter_s, start_s))

    def take(self, chosen: Any) -> "_Vehicles":
        return _Vehicles(*(array[chosen] for array in self.arrays))

    def plus(self, others: "_Vehicles") -> "_Vehicles":
        pairs: Any = zip(self.arrays, others.arrays, strict=True)
        return _Vehicles(*(np.concatenate(pair) for pair in pairs))


@dataclass
class _Road:
    """The vehicles on the section, and those known to come in the order of entering."""

    traffic: Iterator[Crossings]
    draws: Draws
    air: Air | None = None
    there: _Vehicles = field(default_factory=_Vehicles.none)
    coming: _Vehicles = field(default_factory=_Vehicles.none)
    names: NDArray[Any] | None = None
    tracks: Tracks = field(default_factory=Tracks.none)  # of all who have some
    seen: int = 0
    last_s: float = -np.inf  # when the last vehicle seen so far leaves: so long rounds go on
    horizon_s: float = -np.inf  # until when all who enter are known

    def run(
        self, starts: Array, t: float, asked: Steps, number: int, keep_vehicles: bool
    ) -> tuple[Integers, Integers, VehicleRows | None, Fitted | None]:
        """As many of these rounds as the traffic allows: at least one, unless it has ended."""
        while starts[0] + t > self.horizon_s and self._look_ahead():
            pass
        ready = int(np.searchsorted(starts + t, self.horizon_s, side="right"))
        present, uploads = np.zeros((2, ready), np.int64)
        if not ready:
            return present, uploads, None, None
        entering = int(np.searchsorted(self.coming.enter_s, starts[ready - 1] + t))
        vehicles = self.there.plus(self.coming.take(slice(entering)))
        if number == 0:
            vehicles = vehicles.since(starts[0])
        pairs = _most_pairs(vehicles, starts[0], starts[ready - 1] + t, t) if keep_vehicles else 0
        fitted = Fitted(*np.zeros((3, ready), np.int64)) if isinstance(asked, AsManyAsFit) else None
        stretch = starts[:ready], t, asked, number, vehicles, (present, uploads), pairs, fitted
        stay, kept = self._run(*stretch) if self.air is None else self._run_on_air(self.air, *stretch)
        self.there, self.coming = vehicles.take(stay), self.coming.take(slice(entering, None))
        return present, uploads, kept if keep_vehicles else None, fitted

    def _run(
        self, starts: Array, t: float, asked: Steps, number: int, vehicles: _Vehicles,
        counts: tuple[Integers, Integers], most: int, fitted: Fitted | None,
    ) -> tuple[Integers, VehicleRows]:  # fmt: skip
        """Who is there afterwards, and the rows, of which there are at most so many."""
        rows = _empty_rows(most)
        stay, pairs = _run_rounds(
            starts, t, self.draws.delays_of(asked), number, len(self.there), vehicles.arrays,
            counts, rows, self.draws.fitting(asked), fitted, ways_of(self.tracks),
        )  # fmt: skip
        if not isinstance(asked, AsManyAsFit):
            rows[-1][:pairs] = asked
        return stay, VehicleRows(self.names, *(row[:pairs] for row in rows))

    def _run_on_air(
        self, air: Air, starts: Array, t: float, asked: Steps, number: int, vehicles: _Vehicles,
        counts: tuple[Integers, Integers], most: int, fitted: Fitted | None,
    ) -> tuple[Integers, VehicleRows]:  # fmt: skip
        """The same where transfers share a radio."""
        cars, log, count = vehicles.arrays, Log.empty(most), len(vehicles)
        rounding_s = CLOCK_ROUNDING * max(abs(starts[0]), abs(starts[-1] + t))
        steps = 0 if isinstance(asked, AsManyAsFit) else asked
        stay = run_radio_rounds(
            air, starts, t, rounding_s, cars, Turn.none(count), Shadows.none(count), self.draws.delays_of(asked)[1],
            self.draws.fitting(asked), steps, ways_of(self.tracks), Crowd.of(count, len(self.there)), log, number,
            counts, fitted,
        )  # fmt: skip
        return stay, rows_of(log, cars, self.names)

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
        classes = self.draws.classes(self.draws.keys(block.vehicle_keys))
        labels = label.astype(np.int64, copy=False)
        times = block.enter_s, block.leave_s
        return _Vehicles(labels, keys, *times, attempts, classes, self._tracked(block), block.enter_s)

    def _tracked(self, block: Crossings) -> Integers:
        """Takes in the block's tracks; where each vehicle's now is."""
        if block.tracks is None:
            return np.full(len(block), -1)
        first = len(self.tracks)
        self.tracks = self.tracks.plus(block.tracks) if first else block.tracks
        return np.arange(first, first + len(block))


def gathered(traffic: Iterable[Crossings], draws: Draws, start_s: float, until_s: float) -> tuple[Cars, Ways]:
    """Whoever is there at some time from start to end, in the order of entering, and their tracks."""
    road = _Road(iter(traffic), draws)
    while road.horizon_s <= until_s and road._look_ahead():
        pass
    vehicles = road.coming.take(slice(int(np.searchsorted(road.coming.enter_s, until_s, side="right"))))
    return vehicles.since(start_s).arrays, ways_of(road.tracks)


def _most_pairs(vehicles: _Vehicles, start_s: float, end_s: float, t: float) -> int:
    """At least the number of vehicle-round pairs from start to end."""
    time = np.minimum(vehicles.leave_s, end_s) - np.maximum(vehicles.enter_s, start_s)
    return int((np.maximum(time, 0.0) / t).sum()) + 3 * len(vehicles)


def rows_of(log: Log, cars: Cars, names: NDArray[Any] | None) -> VehicleRows:
    """The turns of a log, by rounds and in the order of entering."""
    columns: list[Any] = [column[: log.rows[0]] for column in log[1:]]
    order = np.lexsort(columns[2::-1])  # by round, vehicle and attempt
    number, vehicle, attempt, begin_s, compute_s, steps, train_s, send_s, end_s, sent, outcome = (
        column[order] for column in columns
    )
    return VehicleRows(
        names, number, cars.label[vehicle], cars.key[vehicle], attempt, begin_s, compute_s, end_s, outcome,
        cars.vehicle_class[vehicle], steps, Transfers(train_s, send_s, sent),
    )  # fmt: skip


def _empty_rows(pairs: int) -> tuple[Any, ...]:
    kinds = (np.int64, np.int64, np.uint64, np.int64, np.float64, np.float64, np.float64, np.int8, np.int8, np.int64)
    return tuple(np.empty(pairs, kind) for kind in kinds)


@njit(cache=True)
def _run_rounds(starts, t, delays, number, there, vehicles, counts, rows, fitting, fitted, ways):
    """Runs the rounds; vehicles before `there` are on the section, the others enter in order.

    `delays` are those of H steps, or with a `fitting` those of one. Without it the code that fits steps is not even
    compiled. Returns who is still there after the last round, and how many rows were written.
    """
    transfers_s, laws = delays
    paper = len(laws.law) == 1 and laws.law[0] == EXPONENTIAL  # then nobody's class has to be looked up
    least_s, extra_s = laws.least_s[0], laws.extra_s[0]
    present, uploads = counts
    _, key, enter, leave, attempt, place, track = vehicles[:7]
    keep_rows = len(rows[0]) > 0
    active = np.empty(len(enter), np.int64)
    for j in range(there):  # a slice given to a slice would take a second to compile, for what it says of wrong shapes
        active[j] = j
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
            if fitting is None:
                uploaded = transfers_s + compute <= min(time_left, stay_left) + rounding
            else:
                expected = expected_stay_s(fitting, key[i], begin, enter[i], leave[i], ways, track[i])
                taken = fitting_steps(min(time_left, expected) - transfers_s + rounding, compute)
                compute *= taken
                # It fits by how it was counted: only whoever leaves before it expected to is lost.
                uploaded = taken > 0 and transfers_s + compute <= stay_left + 2 * rounding
                fitted.started[k] += taken > 0
                fitted.steps[k] += taken * uploaded
                fitted.longest[k] = max(fitted.longest[k], taken * uploaded)
                if keep_rows:
                    rows[9][row] = taken
            successes += uploaded
            if keep_rows:
                outcome = 0 if uploaded else (1 if stay_left < time_left else 2)  # as `Outcome` has them
                if fitting is not None and taken == 0:
                    outcome = 3
                _write_row(rows, row, number + k, vehicles, i, begin, compute, min(leave[i], end), outcome)
                row += 1
            attempt[i] += 1
            active[stay] = i
            stay += leave[i] > end
        present[k], uploads[k] = there, successes
        there = stay
    return active[:there], row


@njit(inline="always", cache=True)
def _write_row(rows, row, number, vehicles, i, begin, compute, end, outcome):
    """All of it but the steps, which are known by whoever counts them."""
    label, key, _, _, attempt, place = vehicles[:6]
    rows[0][row], rows[1][row], rows[2][row], rows[3][row] = number, label[i], key[i], attempt[i]
    rows[4][row], rows[5][row], rows[6][row] = begin, compute, end
    rows[7][row], rows[8][row] = outcome, place[i]
