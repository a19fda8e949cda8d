"""So many at random, as in FedAvg.

H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017, chooses
a share C of all clients in every round. Vehicles come and go, so here it is a number: the slots that the link has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mobfl.servers.selections.protocol import Candidate, RoundAhead, Seen, check_slots


@dataclass(frozen=True)
class AtRandom:
    """So many at random (FedAvg)."""

    slots: int = 2

    def __post_init__(self) -> None:
        check_slots("random", self.slots)

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:  # noqa: ARG002
        return sorted(there, key=lambda each: each.draw)[: int(self.slots)]
