"""Several stations as one stream of server steps in the order of time, the cloud's averages among them.

Hierarchical federated averaging (HierFAVG: L. Liu, J. Zhang, S. H. Song, K. B. Letaief, ICC 2020): every station merges
the uploads of its own vehicles, and now and then the cloud averages the stations' models. Here stations need not be in
step. They hand in their models when each has ended κ rounds since the last average came to it, or every so many
seconds; the average is there a backhaul's delay later, and comes to the stations after another one. A station takes it
up when the round ends that it is in. All of this is known before anybody trains.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.scenario import Cloud
from mobfl.servers.steps import ServerStep


@dataclass(frozen=True)
class HandIn:
    """The stations send their models as they are now to the cloud."""

    at_s: float


@dataclass(frozen=True)
class Average:
    """The cloud has averaged what was handed in.

    Args:
        number: 0, 1, 2, …
        start_s: When the average before was there; 0 for the first.
        end_s: When this one is there.
        comes_s: When it comes to the stations.
    """

    number: int
    start_s: float
    end_s: float
    comes_s: float


Event: TypeAlias = ServerStep | HandIn | Average


def city_steps(
    stations: Sequence[Iterator[ServerStep]], cloud: Cloud | None, end_s: float = float("inf")
) -> Iterator[Event]:
    """All stations' steps, marked with their places, and what the cloud does in between until the training ends.

    What happens at one instant has an order: the stations' steps in that of their places, then the cloud.
    """
    steps = heapq.merge(
        *(_marked(each, place) for place, each in enumerate(stations)), key=lambda step: (step.end_s, step.station)
    )
    if cloud is None or not (cloud.is_shared or cloud.averages):
        return steps
    if cloud.is_shared:
        return _of_one_model(steps, len(stations))
    return _with_averages(steps, cloud, len(stations), end_s)


def _marked(steps: Iterator[ServerStep], place: int) -> Iterator[ServerStep]:
    return (replace(step, station=place) for step in steps) if place else steps


def _with_averages(steps: Iterator[ServerStep], cloud: Cloud, stations: int, end_s: float) -> Iterator[Event]:
    rhythm = _Rhythm(cloud, stations)
    for step in steps:
        yield from rhythm.before(step.end_s)
        yield step
        yield from rhythm.after(step)
    yield from rhythm.before(end_s * (1 + TIME_ROUNDING))


class _Rhythm:
    """When stations hand in their models, and what follows from it."""

    def __init__(self, cloud: Cloud, stations: int) -> None:
        self._cloud, self._rounds = cloud, [0] * stations
        self._number, self._last_s, self._comes_s = 0, 0.0, 0.0
        self._due: Average | None = None  # what was handed in and is not averaged yet
        self._ticks, self._next_s = 1, float("inf") if cloud.every_s is None else cloud.every_s

    def before(self, until_s: float) -> Iterator[Event]:
        """What happens before this instant."""
        while min(self._next_s, self._due_s) < until_s:
            if self._due is not None and self._due_s <= self._next_s:
                yield self._averaged(self._due)
            else:
                yield self._hand_in(self._next_s)

    def after(self, step: ServerStep) -> Iterator[Event]:
        """What follows from a station's round."""
        kappa = self._cloud.every_rounds
        if kappa is None or step.end_s < self._comes_s:
            return
        self._rounds[step.station] += 1
        if self._due is None and min(self._rounds) >= kappa:
            yield self._hand_in(step.end_s)
            if not self._cloud.backhaul_s:
                yield from self.before(float("inf"))

    @property
    def _due_s(self) -> float:
        return float("inf") if self._due is None else self._due.end_s

    def _hand_in(self, at_s: float) -> HandIn:
        """The next is not before this one has come back to the stations."""
        there_s = at_s + self._cloud.backhaul_s
        self._comes_s = there_s + self._cloud.backhaul_s
        self._due = Average(self._number, self._last_s, there_s, self._comes_s)
        if self._cloud.every_s is not None:
            until = math.ceil(self._comes_s / self._cloud.every_s * (1 - TIME_ROUNDING))
            self._ticks = max(self._ticks + 1, until)
            self._next_s = self._ticks * self._cloud.every_s
        return HandIn(at_s)

    def _averaged(self, due: Average) -> Average:
        self._number, self._last_s, self._due = self._number + 1, due.end_s, None
        self._rounds = [0] * len(self._rounds)
        return due


def _of_one_model(steps: Iterator[ServerStep], stations: int) -> Iterator[ServerStep]:
    """Steps that all lead one model on: κ = 0. They are numbered through, with versions as they count then.

    `led_to[s][n]` is the model's version after the n-th step of station s; a version is in use for as long as vehicles
    of any station may be training on it.
    """
    led_to = [[0] for _ in range(stations)]
    in_use: list[frozenset[int]] = [frozenset() for _ in range(stations)]
    for number, step in enumerate(steps):
        own = led_to[step.station]
        uploads = tuple(replace(each, version=own[each.version]) for each in step.uploads)
        in_use[step.station] = frozenset(own[version] for version in step.still_in_use)
        own.append(number + 1)
        used = frozenset(versions[-1] for versions in led_to).union(*in_use)
        yield replace(step, number=number, uploads=uploads, still_in_use=used - {number + 1})
