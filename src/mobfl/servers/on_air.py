"""Server steps where transfers share a radio and no clock cuts them into rounds."""

from collections.abc import Iterator

import numpy as np

from mobfl.rounds.on_air import OnAir
from mobfl.rounds.rows import Array, Integers, Outcome, VehicleRows
from mobfl.servers.rounds import spent
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, Effort, ServerStep


def asynchronous_on_air(site: Site, local_steps: int, uploads: int) -> Iterator[ServerStep]:
    """A server step after every so many uploads of vehicles that set out again and again."""
    road = on_air(site)
    rows = road.again_and_again(local_steps)
    arrived = _arrived(rows, site)
    ends_s = rows.end_s[arrived][uploads - 1 :: uploads]
    starts_s = np.append(site.start_s, ends_s)[:-1]
    # At one instant uploads come first: whoever downloads then gets a model that has them.
    version = np.searchsorted(ends_s, rows.begin_s, side="right")
    efforts = _efforts(rows, site, ends_s)
    for number, (start_s, end_s) in enumerate(zip(starts_s.tolist(), ends_s.tolist(), strict=True)):
        merged = arrived[number * uploads : (number + 1) * uploads]
        later = arrived[(number + 1) * uploads :]
        in_use = version[later[rows.begin_s[later] < end_s]]
        yield ServerStep(
            number,
            start_s - site.start_s,
            end_s - site.start_s,
            local_steps,
            int(((road.cars.leave_s > start_s) & (road.cars.enter_s <= end_s)).sum()),
            tuple(_contribution(rows, i, int(version[i]), site) for i in merged.tolist()),
            frozenset(in_use.tolist()),
            efforts[number],
        )


def waiting_on_air(site: Site, local_steps: int) -> Iterator[ServerStep]:
    """Rounds of those who are there as they start; each ends when all of them have uploaded or left."""
    road, start_s, number = on_air(site), site.start_s, 0
    cars = road.cars
    while True:
        there = np.flatnonzero((cars.enter_s <= start_s) & (cars.leave_s > start_s))
        if not len(there):
            coming = int(np.searchsorted(cars.enter_s, start_s, side="right"))
            if coming == len(cars.enter_s):
                return
            start_s = float(cars.enter_s[coming])
            continue
        rows, end_s = road.all_at_once(there, start_s, local_steps)
        uploads = tuple(_contribution(rows, i, number, site) for i in _arrived(rows, site).tolist())
        (effort,) = _efforts(rows, site, np.array([np.inf]))
        origin_s = site.start_s
        yield ServerStep(number, start_s - origin_s, end_s - origin_s, local_steps, len(there), uploads, effort=effort)
        number, start_s = number + 1, end_s


def on_air(site: Site) -> OnAir:
    if site.channel is None:
        raise ValueError("a site without a radio has nobody on the air")
    return OnAir(site.traffic, site.draws, site.channel, site.start_s, site.start_s + site.end_s)


def _arrived(rows: VehicleRows, site: Site) -> Integers:
    """Places of the uploads that came within the training, in the order of coming."""
    came = np.flatnonzero((rows.outcome == Outcome.UPLOADED) & (rows.end_s <= site.start_s + site.end_s))
    return came[np.argsort(rows.end_s[came], kind="stable")]


def _contribution(rows: VehicleRows, i: int, version: int, site: Site) -> Contribution:
    assert rows.transfers is not None
    return Contribution(
        rows.key[i],
        int(rows.attempt[i]),
        version,
        float(rows.begin_s[i]) - site.start_s,
        int(rows.steps[i]),
        compute_s=float(rows.compute_s[i]),
        upload_s=float(rows.end_s[i] - rows.transfers.send_s[i]),
    )


def _efforts(rows: VehicleRows, site: Site, ends_s: Array) -> list[Effort]:
    """What was begun in every step: after the end of the one before, and by its own."""
    assert rows.transfers is not None
    begun, trained_s, sending_s = spent(rows, site.delays)
    assert sending_s is not None

    def totals(at_s: Array, amount: Array) -> list[float]:
        step = np.searchsorted(ends_s, np.where(amount > 0, at_s, np.inf))
        return np.bincount(step, amount, len(ends_s) + 1)[: len(ends_s)].tolist()

    columns = (
        totals(rows.begin_s, np.ones(len(rows))),
        totals(rows.transfers.send_s, begun.astype(float)),
        totals(rows.transfers.train_s, trained_s),
        totals(rows.transfers.send_s, sending_s),
    )
    return [Effort(int(down), int(up), compute_s, sent_s) for down, up, compute_s, sent_s in zip(*columns, strict=True)]
