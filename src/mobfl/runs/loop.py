"""The one place where traffic meets learning.

A server's steps say who uploads; only those vehicles' local steps are computed, and only models that changed are
evaluated. Every draw is addressed by vehicle and attempt and every sum has its order, so the result does not depend on
how many workers there are.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rates import learning_rate
from mobfl.learning.task import Task
from mobfl.learning.uploads import Upload, Weights, aggregate, mixed
from mobfl.learning.vehicles import Vehicles
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.runs.history import Row
from mobfl.scenario import Scenario
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, Server, ServerStep
from mobfl.theory import Delays

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Learnt:
    """Where a run stands after a server step: its row, the model that is served then, and why uploads were rejected.

    `versions` holds the other models that are needed to go on, by how many steps led to them: those that vehicles are
    training on, and the one that training goes on from where an average of it is served.
    """

    row: Row
    model: Weights
    rejections: tuple[str, ...] = ()
    versions: Mapping[int, Weights] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """What a run goes on from: so many steps are done, with this served model, its scores and the other versions."""

    rounds: int
    model: Weights
    scores: Scores
    versions: Mapping[int, Weights] = field(default_factory=dict)


def fresh_start(task: Task, seed: int) -> Start:
    model = task.initial_weights(seed)
    return Start(0, model, task.evaluate(model))


def learn(
    scenario: Scenario,
    task: Task,
    server: Server,
    seed: int,
    start: Start,
    crossings: Crossings | None = None,
    workers: int = 1,
) -> Iterator[Learnt]:
    """The server steps after `start`, one by one, for as long as training lasts or the recorded traffic does."""
    site = training_site(scenario, seed, crossings)
    vehicles = Vehicles.of(task, scenario.classes, seed)
    models, scores = Models(start, scenario.training.average_s), _known(start.scores)
    waiting = deque[Callable[[], Learnt]]()
    before_s = 0.0
    with _workers(workers) as submit:
        for step in server_steps(server, site):
            elapsed_s, before_s = step.end_s - before_s, step.end_s
            if step.number < start.rounds:
                continue
            uploads = [
                submit(_upload, vehicles, site, step, each, models.version(each.version)) for each in step.uploads
            ]
            new, rejections = aggregate(models.latest, [upload() for upload in uploads], server.merge)
            if models.advance(step, new, elapsed_s):
                # The next step's vehicles train while this model is evaluated.
                scores = submit(task.evaluate, models.served)
            waiting.append(partial(_learnt, step, models.served, rejections, models.others, scores))
            while len(waiting) > workers - 1:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def server_steps(server: Server, site: Site) -> Iterator[ServerStep]:
    """Those that end within the training."""
    return takewhile(lambda step: step.end_s <= site.end_s, server.steps(site))


def training_site(scenario: Scenario, seed: int, crossings: Crossings | None) -> Site:
    """The scenario's road until T_A, or the recorded one for as long as it was observed."""
    seen = ObservedTraffic.of(scenario, seed, crossings)
    duration_s = min(scenario.training.duration_s, seen.end_s - seen.start_s)
    return Site(seen.crossings, Delays.of(scenario), seed, seen.start_s, duration_s)


class Models:
    """The models of a run: the latest, older ones in use, and what is served, which may be an average over time."""

    def __init__(self, start: Start, average_s: float) -> None:
        self.served, self._average_s = start.model, average_s
        self._number, self._versions = start.rounds, {start.rounds: start.model, **start.versions}

    @property
    def latest(self) -> Weights:
        return self._versions[self._number]

    @property
    def others(self) -> dict[int, Weights]:
        """What is needed to go on besides the model that is served."""
        needless = self._number if self.latest is self.served else None
        return {number: model for number, model in self._versions.items() if number != needless}

    def version(self, number: int) -> Weights:
        if number not in self._versions:
            raise InputError(f"the last model must come with version {number}, on which a vehicle trains, got none")
        return self._versions[number]

    def advance(self, step: ServerStep, new: Weights, elapsed_s: float) -> bool:
        """Takes in the model that a step has led to; says whether what is served has changed."""
        kept = {number: model for number, model in self._versions.items() if number in step.still_in_use}
        self._number = step.number + 1
        self._versions = {**kept, self._number: new}
        before, self.served = self.served, self._averaged(new, elapsed_s)
        return self.served is not before

    def _averaged(self, new: Weights, elapsed_s: float) -> Weights:
        """An exponential average over virtual time; the very same one where it has not moved."""
        if not self._average_s:
            return new
        moved = mixed(self.served, new, -math.expm1(-elapsed_s / self._average_s))
        still = all(np.array_equal(moved[name], values) for name, values in self.served.items())
        return self.served if still else moved


def _upload(vehicles: Vehicles, site: Site, step: ServerStep, mine: Contribution, model: Weights) -> Upload:
    rate = learning_rate(vehicles.training_of(mine.key), mine.download_s / site.duration_s)
    upload = vehicles.train(mine.key, mine.attempt, model, step.local_steps, rate)
    return replace(upload, staleness=step.number - mine.version)


def row_of(step: ServerStep, rejected: int) -> dict[str, Any]:
    """A server step as the table of rounds has it, without what its model scores."""
    return {
        "round": step.number,
        "start_s": step.start_s,
        "end_s": step.end_s,
        "local_steps": step.local_steps,
        "present": step.present,
        "uploads": len(step.uploads),
        "rejected": rejected,
    }


def _learnt(
    step: ServerStep,
    served: Weights,
    rejections: list[str],
    others: Mapping[int, Weights],
    scores: Callable[[], Scores],
) -> Learnt:
    row = row_of(step, len(rejections)) | dict(scores())
    return Learnt(row, served, tuple(rejections), others)


# Starts a call and returns what fetches its result.
Submit = Callable[..., Callable[[], Any]]


@contextmanager
def _workers(count: int) -> Iterator[Submit]:
    if count == 1:
        yield lambda call, *arguments: _known(call(*arguments))
        return
    with ThreadPoolExecutor(count) as pool:
        yield lambda call, *arguments: pool.submit(call, *arguments).result


def _known(value: Any) -> Callable[[], Any]:
    return lambda: value
