"""Which traffic there is, and from when to when."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.participation import taking_part
from mobfl.mobility.poisson import poisson_crossings
from mobfl.scenario import Scenario


@dataclass(frozen=True)
class ObservedTraffic:
    """Poisson traffic as the scenario says, without end; or who takes part of a recording, while all of it is known."""

    crossings: Iterable[Crossings]
    start_s: float
    end_s: float

    @classmethod
    def of(cls, scenario: Scenario, seed: int, recorded: Crossings | None = None) -> "ObservedTraffic":
        if recorded is None:
            return cls(poisson_crossings(scenario, seed), 0.0, math.inf)
        chosen = taking_part(recorded, scenario.traffic.participation, seed)
        return cls([chosen], *recorded.observed_s)

    def whole_rounds(self, round_s: float, most: int) -> int:
        """How many rounds end while traffic is observed, at most so many; raises if not even one does."""
        if most < 1:
            raise InputError(f"rounds must be >= 1, got {most}")
        lasts_s = self.end_s - self.start_s
        if lasts_s < round_s:
            raise InputError(f"the trace must last at least one round of {round_s:g} s, got {lasts_s:g} s")
        return int(min(most, lasts_s / round_s))
