"""Synchronous federated averaging: a round ends when nobody in it is waited for any more.

H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017
(FedAvg). It knows no vehicles that leave: here the server sees them go and stops waiting for them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, ClassVar

from mobfl.learning.rules import GUARDED_MEAN
from mobfl.servers.arrivals import Arrivals
from mobfl.servers.efforts import Efforts
from mobfl.servers.on_air import waiting_on_air
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, ServerStep, check_local_steps


@dataclass(frozen=True)
class WaitForAll:
    """Whoever is there as a round starts takes part; it ends when all of them have uploaded or left."""

    name: ClassVar[str] = "wait-for-all"
    rule: ClassVar[str] = GUARDED_MEAN
    makes_stale: ClassVar[bool] = False
    least: ClassVar[str] = "as long as its first round takes"
    knows_radio: ClassVar[bool] = True

    local_steps: int

    def __post_init__(self) -> None:
        check_local_steps(self.name, self.local_steps)

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name, "local_steps": self.local_steps, "round_s": None}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        return self._waiting(site) if site.channel is None else waiting_on_air(site, self.local_steps)

    def _waiting(self, site: Site) -> Iterator[ServerStep]:
        arrivals, attempts = Arrivals(site.vehicles()), Counter[int]()
        there, now_s = list[Vehicle](), 0.0
        for number in count():
            there = [vehicle for vehicle in (*there, *arrivals.by(now_s)) if vehicle.can_begin_at(now_s)]
            if not there:
                if arrivals.coming is None:
                    return
                now_s = arrivals.coming.enter_s
                there = list(arrivals.by(now_s))
            step = self._round(site, number, now_s, there, attempts)
            yield step
            now_s = step.end_s

    def _round(
        self, site: Site, number: int, start_s: float, there: Sequence[Vehicle], attempts: Counter[int]
    ) -> ServerStep:
        uploads, end_s, efforts = list[Contribution](), start_s, Efforts(site.delays.download_s)
        for vehicle in there:
            attempt = attempts[vehicle.order]
            delay_s = site.delay_s(vehicle, attempt, self.local_steps)
            done_s = start_s + delay_s
            efforts.book(start_s, delay_s - site.delays.transfer_s, vehicle.leave_s, vehicle.rounding_s)
            if uploaded := vehicle.can_finish_at(done_s):
                uploads.append(Contribution(vehicle.key, attempt, number, start_s, self.local_steps))
            end_s = max(end_s, done_s if uploaded else vehicle.leave_s)
            attempts[vehicle.order] += 1
        h, effort = self.local_steps, efforts.until(inf)
        return ServerStep(number, start_s, end_s, h, len(there), tuple(uploads), effort=effort)
