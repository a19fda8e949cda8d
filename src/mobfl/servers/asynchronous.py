"""When uploads arrive if nobody waits for anybody: the schedule behind FedAsync and FedBuff.

A vehicle downloads the latest model on arrival, takes H steps, uploads, and starts again from the model there is then,
for as long as it is there. A server step is made of so many uploads. Schedules that differ in what a vehicle sets out
to do after a download share `asynchronous_steps`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple, TypeAlias

from mobfl.errors import InputError
from mobfl.servers.efforts import Efforts
from mobfl.servers.on_air import asynchronous_on_air
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, ServerStep, check_local_steps

# At one instant uploads come first: whoever downloads then gets a model that has them.
_UPLOAD, _DOWNLOAD = 0, 1


class Undertaking(NamedTuple):
    """What a vehicle sets out to do as it downloads."""

    local_steps: int
    compute_s: float
    done_s: float  # when it is uploaded, if the vehicle is still there
    part: int = 0  # of the stay, where a schedule cuts it into parts
    budget: int | None = None  # bytes, where there is no time for a whole upload


# Given the vehicle, its attempt, the next part of its stay and the time. None if it does not take part any more.
SetOut: TypeAlias = Callable[[Vehicle, int, int, float], Undertaking | None]


class _Event(NamedTuple):
    """In the order of time; at one instant in that of entering. A vehicle has one event ahead, so ties end there."""

    at_s: float
    kind: int
    order: int
    vehicle: Vehicle
    attempt: int
    part: int = 0  # of a download: the next one of the stay
    version: int = -1  # what an upload started from, when, and what is uploaded
    download_s: float = -1.0
    work: Undertaking | None = None


@dataclass(frozen=True)
class Asynchronous:
    """A server step after every so many uploads, whoever they come from."""

    name: ClassVar[str] = "async"
    makes_stale: ClassVar[bool] = True
    knows_radio: ClassVar[bool] = True

    local_steps: int
    uploads: int = 1

    def __post_init__(self) -> None:
        check_local_steps(self.name, self.local_steps)
        check_uploads(self.name, self.uploads)

    @property
    def rule(self) -> str:
        return "clip+fedasync" if self.uploads == 1 else "clip+fedbuff"

    @property
    def least(self) -> str:
        return first_uploads(self.uploads)

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name, "local_steps": self.local_steps, "round_s": None, "uploads": self.uploads}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        if site.channel is not None:
            return asynchronous_on_air(site, self.local_steps, self.uploads)

        def set_out(vehicle: Vehicle, attempt: int, part: int, at_s: float) -> Undertaking:  # noqa: ARG001
            delay_s = site.delay_s(vehicle, attempt, self.local_steps)
            return Undertaking(self.local_steps, delay_s - site.delays.transfer_s, at_s + delay_s)

        return asynchronous_steps(site, set_out, self.uploads)


def check_uploads(name: str, uploads: int) -> None:
    if not (float(uploads).is_integer() and uploads >= 1):
        raise InputError(f"{name} must have a whole number of uploads >= 1 in a step, got {uploads:g}")


def first_uploads(uploads: int) -> str:
    return f"as long as its first {uploads:g} uploads take" if uploads > 1 else "as long as its first upload takes"


def asynchronous_steps(site: Site, set_out: SetOut, uploads: int) -> Iterator[ServerStep]:
    """A server step after every so many uploads of vehicles that set out again and again."""
    section = _Section(site, set_out, site.vehicles(), Efforts(site.delays.download_s))
    section.expect_next()
    number, start_s, buffer = 0, 0.0, list[Contribution]()
    while section.events:
        event = heappop(section.events)
        if event.work is None:
            section.start_training(event, number)
            continue
        buffer.append(_contribution(event, event.work, site.delays.download_s))
        section.start_again(event, event.work)
        if len(buffer) == uploads:
            longest = max(each.local_steps for each in buffer)
            present, in_use = section.present_since(start_s), section.versions_in_use
            effort = section.efforts.until(event.at_s + event.vehicle.rounding_s)
            yield ServerStep(number, start_s, event.at_s, longest, present, tuple(buffer), in_use, effort)
            number, start_s, buffer = number + 1, event.at_s, []


def _contribution(event: _Event, work: Undertaking, download_s: float) -> Contribution:
    sent_s = event.at_s - event.download_s - download_s - work.compute_s
    return Contribution(
        event.vehicle.key, event.attempt, event.version, event.download_s, work.local_steps, work.budget,
        work.compute_s, max(sent_s, 0.0),
    )  # fmt: skip


@dataclass
class _Section:
    """Who is there, and what is about to happen."""

    site: Site
    set_out: SetOut
    arrivals: Iterator[Vehicle]
    efforts: Efforts
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
        work = self.set_out(vehicle, attempt, download.part, at_s)
        if work is None:
            return
        self.efforts.book(at_s, work.compute_s, vehicle.leave_s, vehicle.rounding_s)
        if vehicle.can_finish_at(work.done_s) and work.done_s <= self.site.end_s:
            heappush(self.events, _Event(work.done_s, _UPLOAD, vehicle.order, vehicle, attempt, 0, version, at_s, work))

    def start_again(self, upload: _Event, work: Undertaking) -> None:
        at_s, vehicle = upload.at_s, upload.vehicle
        if vehicle.can_begin_at(at_s):
            heappush(self.events, _Event(at_s, _DOWNLOAD, vehicle.order, vehicle, upload.attempt + 1, work.part + 1))

    def present_since(self, start_s: float) -> int:
        self.there = [vehicle for vehicle in self.there if vehicle.can_begin_at(start_s)]
        return len(self.there)

    @property
    def versions_in_use(self) -> frozenset[int]:
        return frozenset(event.version for event in self.events if event.kind == _UPLOAD)
