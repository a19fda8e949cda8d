"""Which traffic there is, and from when to when."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

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
