"""Asynchronous training whose steps follow the stay: a vehicle uploads when it leaves, or after every n-th of its stay.

Between FedAsync (C. Xie, S. Koyejo, I. Gupta, arXiv:1903.03934) and anytime rounds: nobody waits for a round's end, and
nobody's work is thrown away because H steps take too long for it. On arrival a vehicle downloads the latest model. It
cuts its stay into n parts and takes as many steps as fit into each, both transfers included. A part too short for a
single step is joined with the next one. The change is damped by its staleness (the rule `damped`).

A vehicle that knows nothing of its leaving uploads after a fixed time, again and again, and is lost in the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from mobfl.errors import InputError
from mobfl.servers.asynchronous import SetOut, Undertaking, asynchronous_steps, check_uploads, first_uploads
from mobfl.servers.choice import PlanRequest
from mobfl.servers.leaving import Leaving
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import ServerStep
from mobfl.theory import Knows

_MOST_PARTS = 1000  # every one of them is looked at as a vehicle sets out


@dataclass(frozen=True)
class StayAware:
    """Download on arrival, upload after every n-th of the stay, as many steps as fit in between."""

    name: ClassVar[str] = "stay-aware"
    rule: ClassVar[str] = "clip+damped"
    makes_stale: ClassVar[bool] = True

    parts: int
    leaving: Leaving
    part_s: float  # of a vehicle that knows nothing of its leaving
    uploads: int = 1

    @property
    def least(self) -> str:
        return first_uploads(self.uploads)

    def describe(self) -> dict[str, Any]:
        blind = {"part_s": self.part_s} if self.leaving.knows == "nothing" else {}
        known = {"parts": self.parts, **self.leaving.describe(), **blind, "uploads": self.uploads}
        return {"policy": self.name, "local_steps": None, "round_s": None, **known}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        set_out = self._blindly(site) if self.leaving.knows == "nothing" else self._by_parts(site)
        return asynchronous_steps(site, set_out, self.uploads)

    def _by_parts(self, site: Site) -> SetOut:
        leaves_s = self.leaving.on(site)

        def set_out(vehicle: Vehicle, attempt: int, part: int, at_s: float) -> Undertaking | None:
            stay_s = leaves_s(vehicle) - vehicle.enter_s
            for each in range(part, self.parts):
                stop_s = vehicle.enter_s + stay_s * (each + 1) / self.parts
                steps, step_s = site.fitting_steps(vehicle, attempt, at_s, stop_s)
                if steps:
                    return _undertaking(site, steps, step_s, at_s, each)
            return None

        return set_out

    def _blindly(self, site: Site) -> SetOut:
        def set_out(vehicle: Vehicle, attempt: int, part: int, at_s: float) -> Undertaking:
            steps, step_s = site.fitting_steps(vehicle, attempt, at_s, at_s + self.part_s)
            return _undertaking(site, max(steps, 1), step_s, at_s, part)

        return set_out


def _undertaking(site: Site, steps: int, step_s: float, at_s: float, part: int) -> Undertaking:
    return Undertaking(steps, steps * step_s, at_s + site.delays.transfer_s + steps * step_s, part)


def stay_aware(
    request: PlanRequest,
    parts: int = 2,
    knows: Knows = "leaving",
    error: float = 0.0,
    part_s: float = 0.0,
    uploads: int = 1,
) -> StayAware:
    """Asynchronous: as many steps as fit in every n-th of the stay; part_s where nothing is known of it.

    As `--plan stay-aware:2,knows=leaving,error=0.1` asks for it. Without a `part_s` a vehicle that knows nothing of its
    leaving uploads after every n-th of the road's mean stay.
    """
    if not (float(parts).is_integer() and 1 <= parts <= _MOST_PARTS):
        raise InputError(f"plan stay-aware must have a whole number of parts >= 1 and <= {_MOST_PARTS}, got {parts:g}")
    if not 0 <= part_s < inf or (part_s and knows != "nothing"):
        raise InputError(
            f"plan stay-aware must have a part_s >= 0, with knows=nothing, got {part_s:g} with knows={knows}"
        )
    check_uploads(StayAware.name, uploads)
    leaving = Leaving.asked(StayAware.name, knows, error, request)
    return StayAware(int(parts), leaving, float(part_s or leaving.mean_stay_s / parts), int(uploads))
