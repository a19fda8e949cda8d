"""Anytime rounds: a vehicle is told the round's end with the model and takes as many local steps as fit before it.

It knows how long its own step and its upload take. What it knows of its leaving is a choice: nothing, and then it is
lost if it leaves before it is done; the mean stay on this road; or its own leaving, exactly or with an error. One that
cannot take a single step does not take part.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from mobfl.errors import InfeasibleError, InputError
from mobfl.planning.anytime import plan_anytime
from mobfl.rng import normal, stream, vehicle_key
from mobfl.servers.arrivals import Arrivals
from mobfl.servers.choice import PlanRequest
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, ServerStep
from mobfl.theory import KNOWLEDGE, Conditions, Knows


@dataclass(frozen=True)
class AnytimeRounds:
    """Rounds of T seconds in which every vehicle takes as many steps as it can."""

    name: ClassVar[str] = "anytime"
    rule: ClassVar[str] = "clip+cap+steps"
    makes_stale: ClassVar[bool] = False

    round_s: float
    knows: Knows
    mean_stay_s: float
    error: float  # of the stay that a vehicle predicts for itself, as a share (a standard deviation)

    @property
    def least(self) -> str:
        return f"one round of {self.round_s:g} s"

    def describe(self) -> dict[str, Any]:
        told = {"error": self.error} if self.knows == "leaving" else {}
        return {"policy": self.name, "local_steps": None, "round_s": self.round_s, "knows": self.knows, **told}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        arrivals, there, attempts = Arrivals(site.vehicles()), list[Vehicle](), dict[int, int]()
        predict = stream(site.seed, "predicted leaving")
        for number in count():
            start_s, end_s = number * self.round_s, (number + 1) * self.round_s
            there = [*(each for each in there if each.can_begin_at(start_s)), *arrivals.before(end_s)]
            uploads = list[Contribution]()
            for vehicle in there:
                attempt = attempts.get(vehicle.order, 0)
                attempts[vehicle.order] = attempt + 1
                begin_s = max(vehicle.enter_s, start_s)
                stop_s = min(end_s, self._expected_leave_s(vehicle, predict))
                steps, done_s = _fitting_steps(site, vehicle, attempt, begin_s, stop_s)
                if steps and vehicle.can_finish_at(done_s):
                    uploads.append(Contribution(vehicle.key, attempt, number, begin_s, steps))
            longest = max((each.local_steps for each in uploads), default=0)
            yield ServerStep(number, start_s, end_s, longest, len(there), tuple(uploads))

    def _expected_leave_s(self, vehicle: Vehicle, predict: np.uint64) -> float:
        if self.knows == "nothing":
            return math.inf
        if self.knows == "mean":
            return vehicle.enter_s + self.mean_stay_s
        wrong = self.error * float(normal(vehicle_key(predict, vehicle.key), 0)) if self.error else 0.0
        return vehicle.leave_s + wrong * (vehicle.leave_s - vehicle.enter_s)


def _fitting_steps(site: Site, vehicle: Vehicle, attempt: int, begin_s: float, stop_s: float) -> tuple[int, float]:
    """How many local steps fit between these instants, with both transfers, and when that many are uploaded."""
    transfer_s = site.delays.transfer_s
    step_s = site.delay_s(vehicle, attempt, 1) - transfer_s
    steps = math.floor((stop_s - begin_s - transfer_s + vehicle.rounding_s) / step_s)
    return max(steps, 0), begin_s + transfer_s + max(steps, 0) * step_s


def anytime(request: PlanRequest, round_s: float | None = None, knows: str = "nothing", error: float = 0.0) -> Any:
    """As `--plan anytime:8,knows=leaving,error=0.1` asks for them; without T, with the best one."""
    if knows not in KNOWLEDGE:
        raise InputError(f"plan anytime must have knows one of {', '.join(KNOWLEDGE)}, got {knows!r}")
    if not 0 <= error < math.inf or (error and knows != "leaving"):
        raise InputError(f"plan anytime must have an error >= 0, with knows=leaving, got {error:g} with knows={knows}")
    return AnytimeRounds(_round_s(request, round_s, knows), knows, _mean_stay_s(request), error)


def _round_s(request: PlanRequest, given: float | None, knows: Knows) -> float:
    if given is not None:
        if not 0 < given < math.inf:
            raise InputError(f"plan anytime must have T > 0 s, got {given:g}")
        return float(given)
    best = plan_anytime(request.scenario, knows, request.crossings)
    if best.round_s is None:
        raise InfeasibleError(best.reason or "")
    return best.round_s


def _mean_stay_s(request: PlanRequest) -> float:
    if request.crossings is not None:
        return float(request.crossings.dwell_s.mean())
    return float(Conditions.of(request.scenario).mean_dwell_s)
