"""When uploads arrive if nobody waits for anybody: the schedule behind FedAsync and FedBuff.

A vehicle downloads the latest model on arrival, takes H steps, uploads, and starts again from the model there is then,
for as long as it is there. A server step is made of so many uploads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple

from mobfl.errors import InputError
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, ServerStep, check_local_steps

# At one instant uploads come first: whoever downloads then gets a model that has them.
_UPLOAD, _DOWNLOAD = 0, 1


class _Event(NamedTuple):
    """In the order of time; at one instant in that of entering. A vehicle has one event ahead, so ties end there."""

    at_s: float
    kind: int
    order: int
    vehicle: Vehicle
    attempt: int
    version: int = -1  # what an upload started from, and when
    download_s: float = -1.0


@dataclass(frozen=True)
class Asynchronous:
    """A server step after every so many uploads, whoever they come from."""

    name: ClassVar[str] = "async"
    makes_stale: ClassVar[bool] = True

    local_steps: int
    uploads: int = 1

    def __post_init__(self) -> None:
        check_local_steps(self.name, self.local_steps)
        if not (float(self.uploads).is_integer() and self.uploads >= 1):
            raise InputError(f"{self.name} must have a whole number of uploads >= 1 in a step, got {self.uploads:g}")

    @property
    def rule(self) -> str:
        return "clip+fedasync" if self.uploads == 1 else "clip+fedbuff"

    @property
    def least(self) -> str:
        return (
            f"as long as its first {self.uploads} uploads take"
            if self.uploads > 1
            else "as long as its first upload takes"
        )

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name, "local_steps": self.local_steps, "round_s": None, "uploads": self.uploads}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        section = _Section(site, self.local_steps, site.vehicles())
        section.expect_next()
        number, start_s, buffer = 0, 0.0, list[Contribution]()
        while section.events:
            event = heappop(section.events)
            if event.kind == _DOWNLOAD:
                section.start_training(event, number)
                continue
            buffer.append(
                Contribution(event.vehicle.key, event.attempt, event.version, event.download_s, self.local_steps)
            )
            section.start_again(event)
            if len(buffer) == self.uploads:
                present, in_use = section.present_since(start_s), section.versions_in_use
                yield ServerStep(number, start_s, event.at_s, self.local_steps, present, tuple(buffer), in_use)
                number, start_s, buffer = number + 1, event.at_s, []


@dataclass
class _Section:
    """Who is there, and what is about to happen."""

    site: Site
    local_steps: int
    arrivals: Iterator[Vehicle]
    there: list[Vehicle] = field(default_factory=list)
    events: list[_Event] = field(default_factory=list)

    def expect_next(self) -> None:
        vehicle = next(self.arrivals, None)
        if vehicle is not None:
            heappush(self.events, _Event(vehicle.enter_s, _DOWNLOAD, vehicle.order, vehicle, 0))

    def start_training(self, download: _Event, version: int) -> None:
        """Only an upload that will count is expected: not if the vehicle leaves or the training ends before."""
        at_s, vehicle, attempt = download.at_s, download.vehicle, download.attempt
        if attempt == 0:
            self.there.append(vehicle)
            self.expect_next()
        done_s = at_s + self.site.delay_s(vehicle, attempt, self.local_steps)
        if vehicle.can_finish_at(done_s) and done_s <= self.site.end_s:
            heappush(self.events, _Event(done_s, _UPLOAD, vehicle.order, vehicle, attempt, version, at_s))

    def start_again(self, upload: _Event) -> None:
        at_s, vehicle = upload.at_s, upload.vehicle
        if vehicle.can_begin_at(at_s):
            heappush(self.events, _Event(at_s, _DOWNLOAD, vehicle.order, vehicle, upload.attempt + 1))

    def present_since(self, start_s: float) -> int:
        self.there = [vehicle for vehicle in self.there if vehicle.can_begin_at(start_s)]
        return len(self.there)

    @property
    def versions_in_use(self) -> frozenset[int]:
        return frozenset(event.version for event in self.events if event.kind == _UPLOAD)
