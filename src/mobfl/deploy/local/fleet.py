"""Whom a local deployment lets on the road, and when."""

import heapq
import json
import re
import signal
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mobfl.deploy.clock import Clock
from mobfl.deploy.local import processes
from mobfl.deploy.vehicle.settings import Vehicle
from mobfl.servers.site import Site

_START_S = 0.3  # from letting a vehicle out to when the server sees it
_ODD = r"[^A-Za-z0-9]"


@dataclass(frozen=True, order=True)
class Visit:
    """One vehicle on the road, on the traffic's clock."""

    enter_s: float
    leave_s: float
    name: str
    key: int
    since_s: float  # of who is there as training begins nobody knows for how long it has been there


def visits_of(site: Site, most: int) -> tuple[list[Visit], int]:
    """Who comes during the training, and how many cannot take part since `most` are there already."""
    end_s, visits, left_out = site.start_s + site.duration_s, list[Visit](), 0
    leaving, seen = list[float](), Counter[str]()  # when those leave who are there, and names so far
    for block in site.traffic:
        columns = zip(block.vehicle, block.keys.tolist(), block.enter_s.tolist(), block.leave_s.tolist(), strict=True)
        for vehicle, key, enter_s, leave_s in columns:
            if enter_s >= end_s:
                return visits, left_out
            if leave_s <= site.start_s:
                continue
            while leaving and leaving[0] <= enter_s:
                heapq.heappop(leaving)
            if len(leaving) == most:
                left_out += 1
                continue
            heapq.heappush(leaving, leave_s)
            name, since_s = _name(str(vehicle), seen), max(enter_s, site.start_s)
            visits.append(Visit(enter_s, leave_s, name, key, since_s))
    return visits, left_out


def _name(vehicle: str, seen: Counter[str]) -> str:
    """Fit for files and Flower's configuration, and another one on every visit."""
    name = re.sub(_ODD, "_", vehicle)[:40]
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}.{seen[name]}"


class Fleet:
    """Lets vehicles out of the garage as they enter, and takes them off the road as they leave."""

    def __init__(self, visits: list[Visit], superlink: str, trainer: Path, logs: Path, garage: subprocess.Popen[bytes]):
        self._coming, self._there = sorted(visits, reverse=True), list[tuple[float, str]]()
        self._superlink, self._trainer, self._logs, self._garage = superlink, trainer, logs, garage

    def move(self, clock: Clock) -> None:
        """To where everybody is by now; who has gone by while nobody looked is not let out."""
        now_s, start_s = clock.now_s(), _START_S / clock.scale
        while self._coming and self._coming[-1].enter_s - start_s <= now_s:
            visit = self._coming.pop()
            if visit.leave_s > now_s:
                self.let_out(visit.name, visit)
                heapq.heappush(self._there, (visit.leave_s, visit.name))
        while self._there and self._there[0][0] <= now_s:
            self.take_off(heapq.heappop(self._there)[1])

    def let_out(self, name: str, visit: Visit | None = None) -> None:
        """As `mobfl vehicle` would, but without encryption: nobody else is on this machine's own network."""
        vehicle = Vehicle(name, self._superlink, str(self._trainer), insecure=True)
        if visit is not None:
            vehicle = replace(vehicle, draws=str(visit.key), enter_s=visit.since_s, leave_s=visit.leave_s)
        self._tell({"start": asdict(vehicle), "log": str(self._logs / f"vehicle-{name}.log")})

    def take_off(self, name: str, number: int = signal.SIGTERM) -> None:
        self._tell({"signal": int(number), "name": name})

    def _tell(self, order: dict[str, object]) -> None:
        if self._garage.stdin is None:
            raise ValueError("the garage takes its orders from a pipe")
        processes.write_line(self._garage.stdin, json.dumps(order))
