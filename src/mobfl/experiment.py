"""The one place where rounds meet learning.

The rounds say who uploads; only those vehicles' local steps are computed, and only models that changed are evaluated.
Every draw is addressed by vehicle and attempt and every sum has its order, so the result does not depend on how many
workers there are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, takewhile
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.history import ROUNDING, Row
from mobfl.learning.aggregation import Upload, Weights, aggregate
from mobfl.learning.holdings import draw_batches, held_samples
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.participation import taking_part
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import generator, stream
from mobfl.rounds import Outcome, Policy, Rounds, simulate_rounds
from mobfl.scenario import Scenario, Training

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Learnt:
    """Where a run stands after a round: the round's row, the model at its end, and why uploads were rejected."""

    row: Row
    model: Weights
    rejections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """What a run goes on from: so many rounds are done, with this model and these scores."""

    rounds: int
    model: Weights
    scores: Scores


@dataclass(frozen=True)
class _Visit:
    """One vehicle's upload in one round."""

    key: np.uint64
    attempt: int


@dataclass(frozen=True)
class _Round:
    number: int
    start_s: float
    end_s: float
    local_steps: int
    present: int
    uploads: tuple[_Visit, ...]


def fresh_start(task: Task, seed: int) -> Start:
    model = task.initial_weights(seed)
    return Start(0, model, task.evaluate(model))


def learn(
    scenario: Scenario,
    task: Task,
    policy: Policy,
    seed: int,
    start: Start,
    crossings: Crossings | None = None,
    workers: int = 1,
) -> Iterator[Learnt]:
    """The rounds after `start`, one by one, for as long as training lasts or the recorded traffic does."""
    steps = _LocalSteps(task, scenario.training, stream(seed, "samples"), stream(seed, "batches"))
    rounds = _rounds(scenario, policy, seed, crossings)
    with _workers(workers) as submit:
        waiting: deque[tuple[_Round, Weights, list[str], Callable[[], Scores]]] = deque()
        model, scores = start.model, _known(start.scores)
        for each in rounds:
            if each.number < start.rounds:
                continue
            uploads = [submit(steps.upload, model, each.local_steps, visit) for visit in each.uploads]
            new, rejections = aggregate(model, [upload() for upload in uploads])
            if new is not model:
                # The next round's vehicles train while this model is evaluated.
                scores = submit(task.evaluate, new)
            model = new
            waiting.append((each, model, rejections, scores))
            while len(waiting) > workers - 1:
                yield _learnt(*waiting.popleft())
        while waiting:
            yield _learnt(*waiting.popleft())


@dataclass(frozen=True)
class _LocalSteps:
    """What a vehicle does in a round: H steps (Eq. 1) from the round's model on batches of its own samples."""

    task: Task
    training: Training
    samples: np.uint64  # the stream of who holds which samples
    batches: np.uint64  # the stream of batches

    def upload(self, model: Weights, steps: int, visit: _Visit) -> Upload:
        held = held_samples(generator(self.samples, visit.key), self.task.pool, self.training)
        random = generator(self.batches, visit.key, visit.attempt)
        batches = draw_batches(random, held, steps, self.training.batch_size)
        weights = self.task.local_steps(model, batches, self.training.learning_rate, self.training.momentum)
        return Upload(weights, len(held))


def _learnt(each: _Round, model: Weights, rejections: list[str], scores: Callable[[], Scores]) -> Learnt:
    row = {
        "round": each.number,
        "start_s": each.start_s,
        "end_s": each.end_s,
        "local_steps": each.local_steps,
        "present": each.present,
        "uploads": len(each.uploads),
        "rejected": len(rejections),
        **scores(),
    }
    return Learnt(row, model, tuple(rejections))


def whole_rounds(scenario: Scenario, round_s: float, crossings: Crossings | None = None) -> int:
    """⌊T_A/T⌋, or fewer if the recorded traffic ends before: how many rounds a plan of this T has."""
    duration_s = _span(scenario, crossings)[1]
    rounds = int(duration_s * (1 + ROUNDING) / round_s)
    if rounds < 1:
        raise InputError(f"training.duration_s must be at least one round of {round_s:g} s, got {duration_s:g}")
    return rounds


def _span(scenario: Scenario, crossings: Crossings | None) -> tuple[float, float]:
    """When the first round starts, on the traffic's clock, and how long training lasts."""
    if crossings is None:
        return 0.0, scenario.training.duration_s
    start_s, end_s = crossings.observed_s
    return start_s, min(scenario.training.duration_s, end_s - start_s)


def _rounds(scenario: Scenario, policy: Policy, seed: int, crossings: Crossings | None) -> Iterator[_Round]:
    """The rounds that end by T_A; times count from the first round."""
    start_s, duration_s = _span(scenario, crossings)
    traffic: Iterable[Crossings] = poisson_crossings(scenario, seed)
    if crossings is not None:
        traffic = [taking_part(crossings, scenario.traffic.participation, seed)]
    blocks = simulate_rounds(traffic, policy, scenario.link, scenario.compute, seed, start_s=start_s)
    rounds = chain.from_iterable(_single(block, start_s) for block in blocks)
    return takewhile(lambda each: each.end_s <= duration_s * (1 + ROUNDING), _then_empty(rounds, policy))


def _then_empty(rounds: Iterator[_Round], policy: Policy) -> Iterator[_Round]:
    """After the last vehicle the rounds go on without any."""
    last: _Round | None = None
    for last in rounds:
        yield last
    if last is None:  # nobody came at all
        order = policy.next_order(None)
        last = _Round(-1, -order.round_s, 0.0, order.local_steps, 0, ())
    length_s = last.end_s - last.start_s
    for k in count(1):
        start_s = last.end_s + (k - 1) * length_s
        yield _Round(last.number + k, start_s, start_s + length_s, last.local_steps, 0, ())


def _single(block: Rounds, start_s: float) -> Iterator[_Round]:
    rows = block.vehicles
    if rows is None:
        raise ValueError("rounds without their vehicles cannot be learnt from")
    uploaded = rows.outcome == Outcome.UPLOADED
    key, attempt = rows.key[uploaded], rows.attempt[uploaded]
    ends = np.cumsum(block.uploads)
    for i in range(len(block)):
        mine = slice(int(ends[i] - block.uploads[i]), int(ends[i]))
        visits = tuple(map(_Visit, key[mine], attempt[mine].tolist()))
        begin = float(block.start_s[i]) - start_s
        yield _Round(
            int(block.round[i]), begin, begin + block.round_s, block.local_steps, int(block.present[i]), visits
        )


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
