"""FedCS: as many vehicles as can upload, one after the other, before the deadline.

T. Nishio, R. Yonetani, "Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge", IEEE ICC
2019 (arXiv:1804.08333), Algorithm 3: add whoever lengthens the sequence of updates and uploads least, for as long as it
ends by the deadline. The paper's limit is the uplink, on which one client uploads at a time. Here the deadline of each
is min(T, its predicted leaving); without knowledge of leaving it is T, as in the paper. Time for asking and merging is
neglected, a step is expected to take its class's mean, and of those who are equal the first to leave goes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mobfl.servers.selections.protocol import Candidate, RoundAhead, Seen, check_slots


@dataclass(frozen=True)
class FedCS:
    """As many as are expected to upload one after the other before the round ends or they leave (Nishio, Yonetani)."""

    needs_steps: ClassVar[bool] = True
    one_upload_at_a_time: ClassVar[bool] = True

    slots: int = 0  # at most so many; 0 is no limit but the uplink

    def __post_init__(self) -> None:
        check_slots("fedcs", self.slots, 0)

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:  # noqa: ARG002
        chosen, rest, elapsed_s = list[Candidate](), list(there), 0.0

        def ends_s(each: Candidate) -> float:
            """Θ' = Θ + t_upload + max(0, t_update − Θ), counted from the download's end."""
            return max(elapsed_s, each.compute_s) + ahead.upload_s

        while rest and not (self.slots and len(chosen) == self.slots):
            each = min(rest, key=lambda one: (ends_s(one), one.left_s, one.draw))
            rest.remove(each)
            if ahead.download_s + ends_s(each) <= min(ahead.round_s, each.left_s):
                chosen.append(each)
                elapsed_s = ends_s(each)
        return chosen
