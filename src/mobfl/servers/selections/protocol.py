"""What a selection is given, and what it must say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from mobfl.errors import InputError
from mobfl.parts import Kind

_PLACE = "mobfl.servers.selections"
SELECTIONS = Kind(
    "selection",
    "selections",
    ("choose",),
    {
        "all": f"{_PLACE}.everyone:Everyone",
        "random": f"{_PLACE}.at_random:AtRandom",
        "longest": f"{_PLACE}.longest:Longest",
        "fedcs": f"{_PLACE}.fedcs:FedCS",
        "bandit": f"{_PLACE}.bandit:Bandit",
    },
)


@dataclass(frozen=True)
class Candidate:
    """A vehicle that is there as a round begins, as the base station knows it.

    Args:
        key: Which it is.
        stayed_s: For how long it has been there.
        left_s: In how many seconds it is expected to leave; infinite where nothing is known of it.
        compute_s: How long its local steps take on average, in its class; that of one step where H is not fixed.
        vehicle_class: The place of its class in the fleet.
        draw: A number in (0, 1] of its own for this round: for chance, and for what is equal otherwise.
    """

    key: np.uint64
    stayed_s: float
    left_s: float
    compute_s: float
    vehicle_class: int = 0
    draw: float = 1.0


@dataclass(frozen=True)
class RoundAhead:
    """The round that vehicles are chosen for.

    Args:
        number: 0, 1, 2, …
        round_s: T.
        local_steps: H; None where everybody takes as many steps as fit.
        download_s: How long a download takes.
        upload_s: How long an upload takes, if it need not wait for its turn.
    """

    number: int
    round_s: float
    local_steps: int | None
    download_s: float
    upload_s: float


# Those who were chosen last time, and whether each has uploaded in time.
Seen: TypeAlias = Sequence[tuple[Candidate, bool]]


class Selection(Protocol):
    """Chooses who takes part in a round. With `needs_leaving` it is refused where nothing is known of leaving."""

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:
        """Some of those who are there. `seen` is None at the start: what was known before must be forgotten."""


def check_slots(name: str, slots: int, least: int = 1) -> None:
    if not (float(slots).is_integer() and slots >= least):
        raise InputError(f"{name} must have a whole number of slots >= {least}, got {slots:g}")
