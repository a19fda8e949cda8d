"""The nouns: a schedule turns traffic into server steps, each of which names the uploads that are merged.

Models are numbered by the server steps that led to them: version 0 is the initial one. So an upload that started from
version v is n − v server steps stale when step n merges it, which is known before anybody trains.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

import numpy as np

from mobfl.errors import InputError
from mobfl.servers.site import Site


@dataclass(frozen=True)
class Contribution:
    """One vehicle's upload, before anybody has trained.

    Args:
        key: What the vehicle's draws are addressed by (`Vehicle.key`).
        attempt: How often it has trained before on this visit.
        version: The model that it started from: how many server steps had led to it.
        download_s: When it began to download that, in seconds since training began.
        local_steps: H, how many it took.
        budget: How many bytes there is time to send, where a schedule lets the time left decide; None is no limit.
        compute_s: How many seconds its steps took, for rules that weigh by delays; 0 where a schedule does not tell.
        upload_s: How many seconds passed from then until it had arrived.
        share: How much of it arrived, below 1 if it was cut off and its beginning counts.
        carried_by: The vehicle's own key, if it began this training at another station (`mobfl.servers.carrying`);
            `key`, `attempt` and `version` are those of that station.
    """

    key: np.uint64
    attempt: int
    version: int
    download_s: float
    local_steps: int
    budget: int | None = None
    compute_s: float = 0.0
    upload_s: float = 0.0
    share: float = 1.0
    carried_by: np.uint64 | None = None


def delays_s(upload: Contribution, site: Site) -> tuple[float, float]:
    """How many seconds an upload's local steps and its transfer took, also where its schedule does not tell."""
    if upload.compute_s:
        compute_s = upload.compute_s
    else:
        delay_s = site.draws.delay_s(upload.key, upload.attempt, upload.local_steps)
        compute_s = delay_s - float(site.delays.transfer_s)
    return compute_s, upload.upload_s or float(site.delays.upload_s)


@dataclass(frozen=True)
class Effort:
    """What a server step took of everybody, lost work included.

    Args:
        downloads: How many were begun.
        uploads: How many were begun.
        compute_s: Seconds of training, those of all vehicles together.
        sending_s: Seconds of uploading, those of all together; None where every upload takes the link's own.
    """

    downloads: int = 0
    uploads: int = 0
    compute_s: float = 0.0
    sending_s: float | None = None

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.downloads + other.downloads, self.uploads + other.uploads, self.compute_s + other.compute_s)


@dataclass(frozen=True)
class ServerStep:
    """A round, or whatever else ends with a new model: who was there, and whose uploads are merged.

    Args:
        number: 0, 1, 2, …
        start_s: In seconds since training began.
        end_s: When the uploads are merged.
        local_steps: H, for the table of rounds.
        present: How many vehicles were there.
        uploads: Those that are merged, in this order.
        still_in_use: Older versions, on which vehicles are training as it ends.
        effort: What it took since the step before; None where a schedule does not tell.
        station: The place of its station among those of a city; schedules leave it out.
        interrupted: Trainings that were cut off by leaving, where somebody goes on with them.
    """

    number: int
    start_s: float
    end_s: float
    local_steps: int
    present: int
    uploads: tuple[Contribution, ...]
    still_in_use: frozenset[int] = frozenset()  # older versions, on which vehicles are training as it ends
    effort: Effort | None = None
    station: int = 0
    interrupted: tuple[Contribution, ...] = ()

    @property
    def whole(self) -> tuple[Contribution, ...]:
        """The uploads that arrived whole."""
        return tuple(each for each in self.uploads if each.share == 1)


class Schedule(Protocol):
    """When the server changes its model, and with whose uploads. It knows nothing of weights.

    A schedule of rounds has a `policy`, which sees only the past: it can be deployed. Any other reads the simulated
    future in `steps`, and is for simulation only.
    """

    @property
    def name(self) -> str: ...

    @property
    def rule(self) -> str:
        """The rule that goes with it if no other is named."""

    @property
    def makes_stale(self) -> bool:
        """Whether uploads may have started from older models than the latest."""

    @property
    def least(self) -> str:
        """What the shortest training must have time for, as an error message says it."""

    def describe(self) -> dict[str, Any]:
        """For run.json, tables and figures: `policy`, `local_steps`, `round_s`, and what else it was given."""

    def steps(self, site: Site) -> Iterator[ServerStep]:
        """The server's steps in the order of time; those that end after the training are not asked for."""


def check_local_steps(name: str, local_steps: int) -> None:
    if not (float(local_steps).is_integer() and local_steps >= 1):
        raise InputError(f"{name} must have a whole H >= 1, got {local_steps}")


def server_steps(schedule: Schedule, site: Site) -> Iterator[ServerStep]:
    """Those that end within the training."""
    if site.channel is not None and not getattr(schedule, "knows_radio", False):
        raise InputError(
            f"plan {schedule.name} takes transfers that last the same for all, got a scenario with a radio: choose"
            " rounds, anytime, wait-for-all or async, or leave out the table radio"
        )
    return takewhile(lambda step: step.end_s <= site.end_s, schedule.steps(site))
