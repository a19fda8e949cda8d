"""ε for δ of clipped and noised sums, by Google's library of accountants.

A vehicle that joined k steps is told apart by k Gaussian mechanisms, each chosen after the outputs of those before. All
of them together are as private as a single one with noise/√k (J. Dong, A. Roth, W. Su, "Gaussian Differential Privacy",
2022), whose exact ε is found by Theorem 8 of B. Balle, Y.-X. Wang, "Improving the Gaussian Mechanism for Differential
Privacy", ICML 2018 (arXiv:1805.06530). So nothing is lost by composing, and nothing is estimated.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from math import sqrt
from typing import Any

from mobfl.learning.rules.chain import Rule
from mobfl.learning.rules.private import Private

NEIGHBOURS = "one vehicle's uploads replaced by no change"


def epsilon(noise: float, rounds: int, delta: float) -> float:
    """ε at this δ of a vehicle that joined so many rounds, each with noise of this standard deviation over C."""
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(noise / sqrt(rounds), delta)) if rounds else 0.0


class Ledger:
    """Who joined how many server steps. An upload that was rejected counts: its step was noised as any other.

    A vehicle with n uploads in one step can move the sum n times as far, which is as telling as n² steps with one.
    """

    def __init__(self, terms: Private) -> None:
        self._terms, self.steps = terms, 0
        self._joined, self._composed = Counter[Hashable](), Counter[Hashable]()

    def add(self, vehicles: Iterable[Hashable]) -> None:
        """A server step, by those whose uploads it had."""
        for vehicle, uploads in Counter(vehicles).items():
            self._joined[vehicle] += 1
            self._composed[vehicle] += uploads**2
        self.steps += 1

    def results(self) -> dict[str, Any]:
        """What run.json tells, of the vehicle that is told apart best."""
        composed = max(self._composed.values(), default=0)
        return {
            "epsilon": epsilon(self._terms.noise, composed, self._terms.delta),
            "delta": self._terms.delta,
            "noise": self._terms.noise,
            "clip": self._terms.clip,
            "denominator": self._terms.uploads,
            "most_rounds": max(self._joined.values(), default=0),
            "composed_rounds": composed,
            "vehicles": len(self._joined),
            "neighbours": NEIGHBOURS,
        }


def ledger_of(rule: Rule) -> Ledger | None:
    """An empty ledger for a rule that is private; None for any other."""
    parts = (link.part for link in getattr(rule, "links", ()))
    terms = next((part for part in parts if isinstance(part, Private)), None)
    return None if terms is None else Ledger(terms)
