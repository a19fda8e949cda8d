"""Trainings that go on from one station to the next.

A vehicle that leaves before its training is done has the model and its samples with it: it goes on computing, and sends
what came of it at the next station that it reaches, as soon as it is there and done. Until then it takes part in
nothing else there. Its upload is merged with those of the round in which it arrives; one that arrives before the round
has ended in which the training was begun is lost, for that station would have to tell its model twice.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, ServerStep


@dataclass(frozen=True)
class _Visit:
    """One passing by, in seconds since training began."""

    station: int
    key: int
    enter_s: float
    leave_s: float


def carried_on(stations: Sequence[Sequence[ServerStep]], sites: Sequence[Site]) -> list[list[ServerStep]]:
    """The steps with uploads that were begun elsewhere, instead of what these vehicles would have sent till then."""
    visits, vehicle_of = _visits(sites)
    changed = [list(steps) for steps in stations]
    for place, steps in enumerate(stations):
        for step in steps:
            for begun in step.interrupted:
                vehicle = vehicle_of[int(begun.key)]
                after = _next(visits[vehicle], place, int(begun.key))
                if after is not None:
                    _insert(changed[after.station], begun, vehicle, after, sites[after.station], step.end_s)
    return changed


def _visits(sites: Sequence[Site]) -> tuple[dict[int, list[_Visit]], dict[int, int]]:
    """Every vehicle's in the order of entering, and whose each is."""
    visits, vehicle_of = defaultdict[int, list[_Visit]](list), dict[int, int]()
    for place, site in enumerate(sites):
        for block in site.traffic:
            keys, vehicles = (site.draws.keys(each).tolist() for each in (block.keys, block.vehicle_keys))
            times = (block.enter_s - site.start_s).tolist(), (block.leave_s - site.start_s).tolist()
            for key, vehicle, enter_s, leave_s in zip(keys, vehicles, *times, strict=True):
                visits[vehicle].append(_Visit(place, key, enter_s, leave_s))
                vehicle_of[key] = vehicle
    for each in visits.values():
        each.sort(key=lambda visit: visit.enter_s)
    return visits, vehicle_of


def _next(visits: Sequence[_Visit], station: int, key: int) -> _Visit | None:
    """Where it is next, if that is another station."""
    mine = next(place for place, visit in enumerate(visits) if visit.key == key)
    after = visits[mine + 1] if mine + 1 < len(visits) else None
    return after if after is not None and after.station != station else None


def _insert(
    steps: list[ServerStep], begun: Contribution, vehicle: int, visit: _Visit, site: Site, told_s: float
) -> None:
    ready_s = max(begun.download_s + float(site.delays.download_s) + begun.compute_s, visit.enter_s)
    arrives_s = ready_s + float(site.delays.upload_s)
    at = bisect_left(steps, arrives_s, key=_end_s)
    if arrives_s > visit.leave_s or at == len(steps) or steps[at].end_s < told_s:
        return
    for place in range(bisect_left(steps, visit.enter_s, key=_end_s), at + 1):  # till then it was busy
        kept = tuple(each for each in steps[place].uploads if int(each.key) != visit.key)
        steps[place] = replace(steps[place], uploads=kept)
    upload = replace(begun, carried_by=np.uint64(vehicle))
    steps[at] = replace(steps[at], uploads=(*steps[at].uploads, upload))


def _end_s(step: ServerStep) -> float:
    return step.end_s
