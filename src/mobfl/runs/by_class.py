"""What every class of vehicles gave to a training: from its schedule alone, which needs no learning.

The model is one for all, so its KPIs belong to no class; what differs is who is heard, how often and with how many
steps.
"""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import numpy as np

from mobfl.runs.job import Job
from mobfl.servers.steps import server_steps


@dataclass(frozen=True)
class ClassShare:
    """One class of vehicles in a training; a visit is one vehicle's passing by."""

    name: str
    visits: int
    heard: float  # the share of visits with at least one upload
    uploads: int
    uploads_per_visit: float
    local_steps: int  # in all of its uploads

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def shares_by_class(job: Job, rounds: int | None = None) -> list[ClassShare]:
    """As the schedule has it: an upload that the server rejected counts too. A run may have ended after some rounds."""
    draws, names = job.site.draws, [each.name for each in job.scenario.classes]
    server = list(server_steps(job.server.schedule, job.site))
    until_s = server[rounds - 1].end_s if rounds is not None and 0 < rounds < len(server) else inf
    visits = np.array([vehicle.key for vehicle in job.site.vehicles() if vehicle.enter_s <= until_s], np.uint64)
    sent = [(each.key, each.local_steps) for step in server[:rounds] for each in step.uploads]
    keys, steps = np.array([key for key, _ in sent], np.uint64), np.array([h for _, h in sent], np.int64)

    def counted(keys: Any, weights: Any = None) -> Any:
        return np.bincount(draws.classes(keys), weights, minlength=len(names)).astype(np.int64).tolist()

    columns = counted(visits), counted(np.unique(keys)), counted(keys), counted(keys, steps)
    return [
        ClassShare(name, passed, heard / max(passed, 1), uploads, uploads / max(passed, 1), taken)
        for name, passed, heard, uploads, taken in zip(names, *columns, strict=True)
    ]
