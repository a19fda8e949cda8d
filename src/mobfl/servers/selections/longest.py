"""Those who stay longest first: the greedy choice where slots are few and the time that is left is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mobfl.servers.selections.protocol import Candidate, RoundAhead, Seen, check_slots


@dataclass(frozen=True)
class Longest:
    """So many of those who stay longest."""

    needs_leaving: ClassVar[bool] = True

    slots: int = 2

    def __post_init__(self) -> None:
        check_slots("longest", self.slots)

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:  # noqa: ARG002
        return sorted(there, key=lambda each: (-each.left_s, each.draw))[: int(self.slots)]
