"""What came of rounds: a row per round, and a row per vehicle and round with how it ended."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl.rounds.orders import Steps, same_for_all
from mobfl.theory import Delays

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Outcome(IntEnum):
    UPLOADED = 0
    LEFT_EARLY = 1  # the vehicle was gone before its upload was done
    ROUND_OVER = 2  # the round ended before its upload was done
    SAT_OUT = 3  # not one step would have fitted
    RADIO = 4  # its steps alone would have been done in time, but transfers took too long
    PARTIAL = 5  # a part of its upload had arrived by then, and counts


_ROW_COLUMNS = (
    "round", "vehicle", "key", "attempt", "begin_s", "compute_s", "end_s", "outcome", "vehicle_class", "steps",
)  # fmt: skip


@dataclass(frozen=True)
class Transfers:
    """Where transfers share a radio: when they were done, of the rows that have them.

    Args:
        train_s: When the download was complete; NaN if it never was.
        send_s: When the upload began; NaN if it never did.
        sent: The share of the upload that had arrived by `end_s`.
    """

    train_s: Array
    send_s: Array
    sent: Array

    def take(self, kept: Any) -> "Transfers":
        return Transfers(self.train_s[kept], self.send_s[kept], self.sent[kept])

    def bps(self, upload_bits: float, end_s: Array) -> Array:
        """The mean rate of what was sent; NaN where nothing was."""
        return upload_bits * self.sent / (end_s - self.send_s)


@dataclass(frozen=True)
class VehicleRows:
    """A row per vehicle and round, in the order of the rounds.

    A vehicle downloads from `begin_s`, then takes `steps` local steps in `compute_s`, then uploads; `end_s` (its
    leaving or the round's end) may cut it off anywhere. One that sits the round out takes none in no time.
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
    steps: Integers  # that it set out to take
    transfers: Transfers | None = None  # where there is a radio: then `end_s` is when an upload was complete, too

    def __len__(self) -> int:
        return len(self.round)

    def stages_s(self, delays: Delays) -> tuple[Array, Array, Array]:
        """When steps begin, when the upload begins and when it is done, of all who got so far."""
        if self.transfers is None:
            return delays.stages_s(self.begin_s, self.compute_s)
        return self.transfers.train_s, self.transfers.send_s, self.end_s

    @property
    def taking_part(self) -> NDArray[np.bool_]:
        return self.outcome != Outcome.SAT_OUT

    @property
    def downloading(self) -> NDArray[np.bool_]:
        """Who began to download: with a radio everybody does, and may find then that no step fits."""
        return self.taking_part if self.transfers is None else np.ones(len(self), bool)

    def of_rounds(self, first: int, stop: int) -> "VehicleRows":
        """The rows of the rounds from `first` to before `stop`."""
        kept = slice(*np.searchsorted(self.round, [first, stop]))
        transfers = self.transfers and self.transfers.take(kept)
        return replace(self, **{name: getattr(self, name)[kept] for name in _ROW_COLUMNS}, transfers=transfers)

    def to_dicts(self, delays: Delays) -> list[dict[str, Any]]:
        """With the instant at which each stage begins, None where it was not reached, and how it ended when.

        The class is told where there is more than one.
        """
        train, upload, uploaded = self.stages_s(delays)
        done = np.where(self.outcome == Outcome.UPLOADED, uploaded, self.end_s)
        reached = np.where(self.taking_part, done, -np.inf)
        names = [each.name for each in delays.classes]
        return [
            {
                "round": int(self.round[i]),
                "vehicle": int(self.vehicle[i]) if self.names is None else self.names[self.vehicle[i]],
                "attempt": int(self.attempt[i]),
                "download_s": float(self.begin_s[i]) if self.begin_s[i] <= reached[i] else None,
                "train_s": float(train[i]) if train[i] <= reached[i] else None,
                "upload_s": float(upload[i]) if upload[i] <= reached[i] else None,
                "end_s": float(done[i]),
                "steps": int(self.steps[i]),
                "outcome": Outcome(int(self.outcome[i])).name.lower(),
                **({"class": names[self.vehicle_class[i]]} if len(names) > 1 else {}),
            }
            for i in range(len(self))
        ]


class Fitted(NamedTuple):
    """What rounds of unequal steps have to count: per round, those who took part, and the uploads' local steps."""

    started: Integers
    steps: Integers  # of all uploads together
    longest: Integers  # of the longest, 0 if there was none


_ROUND_COLUMNS = ("round", "start_s", "present", "uploads")


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of one H (or of as many steps as fit) and T.

    Args:
        local_steps: H, or `AsManyAsFit()`, as it was ordered.
        round_s: T.
        round: Their numbers; of this and what follows there is one per round.
        start_s: When they began.
        present: How many vehicles were there.
        uploads: How many of them uploaded in time.
        vehicles: The vehicles' rows, if they were kept.
        fitted: Counts where every vehicle took as many steps as fitted; ask `started`, `steps` and `longest`.
    """

    local_steps: Steps
    round_s: float
    round: Integers
    start_s: Array
    present: Integers
    uploads: Integers
    vehicles: VehicleRows | None
    fitted: Fitted | None = None

    def __len__(self) -> int:
        return len(self.round)

    @property
    def started(self) -> Integers:
        """How many took part."""
        return self.present if self.fitted is None else self.fitted.started

    @property
    def steps(self) -> Integers:
        """The local steps of all uploads together."""
        return same_for_all(self.local_steps) * self.uploads if self.fitted is None else self.fitted.steps

    @property
    def longest(self) -> Integers:
        """The local steps of the longest upload, 0 if there was none: their mean per second is g, or v."""
        return same_for_all(self.local_steps) * (self.uploads > 0) if self.fitted is None else self.fitted.longest

    def first(self, count: int) -> "Rounds":
        """The first of them, without the vehicles' rows, which nobody asks for at the end."""
        columns = {name: getattr(self, name)[:count] for name in _ROUND_COLUMNS}
        fitted = self.fitted and Fitted(*(column[:count] for column in self.fitted))
        return replace(self, **columns, vehicles=None, fitted=fitted)


def joined(blocks: list[Rounds]) -> Rounds:
    """One order's rounds in one piece, however the traffic was cut into blocks."""
    first = blocks[0]
    if len(blocks) == 1:
        return first

    def column(name: str, parts: list[Any]) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    rows = [block.vehicles for block in blocks if block.vehicles is not None]
    vehicles = None
    if rows:
        parts = [row.transfers for row in rows if row.transfers is not None]
        transfers = Transfers(*(column(name, parts) for name in ("train_s", "send_s", "sent"))) if parts else None
        vehicles = replace(rows[-1], **{name: column(name, rows) for name in _ROW_COLUMNS}, transfers=transfers)
    counted = [block.fitted for block in blocks if block.fitted is not None]
    fitted = Fitted(*(column(name, counted) for name in Fitted._fields)) if counted else None
    return replace(first, **{name: column(name, blocks) for name in _ROUND_COLUMNS}, vehicles=vehicles, fitted=fitted)
