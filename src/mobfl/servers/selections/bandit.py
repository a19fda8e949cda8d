"""A bandit on observed success: those whose like have uploaded in time before.

H. Tu, L. Chen, Z. Li, X. Chen, W. Wu, "Mobility-Aware Federated Learning: Multi-Armed Bandit Based Selection in
Vehicular Network" (MAVFL), arXiv:2410.10451, 2024, chooses by the share of trainings that succeeded so far and an upper
confidence bound. In the paper a vehicle is an arm. Here nearly all vehicles are seen once, so an arm is a kind of
vehicle: its class, and for how long it has been there. The reward is 1 for an upload in time; the paper's terms for
loss and delay are left out. It is told nothing of leaving: it finds out who leaves too soon. The index is UCB1's
(P. Auer, N. Cesa-Bianchi, P. Fischer, Machine Learning 47, 2002).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt

from mobfl.errors import InputError
from mobfl.servers.selections.protocol import Candidate, RoundAhead, Seen, check_slots

_Arm = tuple[int, int]


@dataclass
class Bandit:
    """So many of those whose like have uploaded in time, or have hardly been tried (MAVFL, UCB1)."""

    slots: int = 2
    bin_s: float = 5.0  # vehicles that came within so many seconds of each other are alike
    explore: float = 1.0  # 0 never tries again what failed
    _tried: Counter[_Arm] = field(default_factory=Counter, repr=False)
    _succeeded: Counter[_Arm] = field(default_factory=Counter, repr=False)

    def __post_init__(self) -> None:
        check_slots("bandit", self.slots)
        if not 0 < self.bin_s < inf:
            raise InputError(f"bandit must have a bin_s > 0 s, got {self.bin_s:g}")
        if not 0 <= self.explore < inf:
            raise InputError(f"bandit must have an explore >= 0, got {self.explore:g}")

    def choose(self, there: Sequence[Candidate], ahead: RoundAhead, seen: Seen | None) -> Sequence[Candidate]:  # noqa: ARG002
        self._learn(seen)
        total = sum(self._tried.values())
        return sorted(there, key=lambda each: (-self._index(self._arm(each), total), each.draw))[: int(self.slots)]

    def _learn(self, seen: Seen | None) -> None:
        if seen is None:
            self._tried.clear()
            self._succeeded.clear()
        for candidate, uploaded in seen or ():
            self._tried[self._arm(candidate)] += 1
            self._succeeded[self._arm(candidate)] += uploaded

    def _arm(self, candidate: Candidate) -> _Arm:
        return candidate.vehicle_class, int(candidate.stayed_s // self.bin_s)

    def _index(self, arm: _Arm, total: int) -> float:
        """UCB1: the mean reward and sqrt(2·ln N / n); an arm never tried comes first."""
        tried = self._tried[arm]
        if not tried:
            return inf
        return self._succeeded[arm] / tried + self.explore * sqrt(2 * log(total) / tried)
