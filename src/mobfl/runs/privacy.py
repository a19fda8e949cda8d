"""What a simulated run has spent of its vehicles' privacy: from its schedule alone, which says who uploads.

So it needs no place in a checkpoint, and is the same after a resume. A vehicle is whoever bears one name on the road:
one that returns in recorded traffic is the same vehicle, while its draws are addressed by visit.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from mobfl.learning.accounting import ledger_of
from mobfl.runs.job import Job
from mobfl.servers.steps import server_steps


def privacy_of(job: Job) -> Callable[[int], Mapping[str, Any]]:
    """`privacy` after any number of rounds, asked for in rising order; nothing where the rule is not private."""
    # Several stations have no private rule (`check_job`).
    ledger = None if job.scenario.is_city else ledger_of(job.server.rule)
    if ledger is None:
        return lambda _: {}
    steps, vehicle_of = server_steps(job.server.schedule, job.site), _vehicles(job)

    def told(rounds: int) -> dict[str, Any]:
        while ledger.steps < rounds:
            ledger.add(vehicle_of(upload.key) for upload in next(steps).uploads)
        return {"privacy": ledger.results()}

    return told


def _vehicles(job: Job) -> Callable[[np.uint64], Hashable]:
    """Who a key belongs to. Nobody returns in traffic that is made up."""
    if job.crossings is None:
        return int
    names, site = dict[int, Hashable](), job.site
    for block in site.traffic:
        keys = site.draws.keys(block.keys)
        names |= zip(keys.tolist(), block.vehicle.tolist(), strict=True)
    return lambda key: names[int(key)]
