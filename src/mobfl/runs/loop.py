"""The one place where traffic meets learning.

A schedule's steps say who uploads; only those vehicles' local steps are computed, and only models that changed are
evaluated. Every draw is addressed by vehicle and attempt and every sum has its order, so the result does not depend on
how many workers there are.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mobfl.learning.rules.draws import addressed_draw
from mobfl.learning.task import Task
from mobfl.learning.weights import Weights
from mobfl.runs.adoption import Adoption, known_sound
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.history import Row
from mobfl.runs.job import Job
from mobfl.runs.task_check import checked_scores
from mobfl.runs.visits import Visits
from mobfl.servers.steps import ServerStep, server_steps

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Learnt:
    """A server step's row, and where the run stands after it."""

    row: Row
    checkpoint: Checkpoint


def fresh_start(task: Task, seed: int) -> tuple[Checkpoint, dict[str, float]]:
    """A run before its first step: the initial model, and what it scores."""
    model = task.initial_weights(seed)
    return Checkpoint(0, model), checked_scores(task, task.evaluate(model))


def learn(job: Job, begun: Checkpoint, scores: Scores, workers: int = 1) -> Iterator[Learnt]:
    """The server steps after `begun`, whose model has these scores, for as long as training or the traffic lasts."""
    task, visits = job.task, Visits(job, begun)
    adoption, known = Adoption(job, begun), _known(dict(scores))
    waiting = deque[Callable[[], Learnt]]()
    before_s, site = 0.0, job.site
    counts_parts = site.channel is not None and site.channel.partial
    with _workers(workers) as submit:
        for step in server_steps(job.server.schedule, site):
            elapsed_s, before_s, costs = step.end_s - before_s, step.end_s, visits.costs.row(step)
            if step.number < begun.rounds:
                continue
            coming, before = [submit(visit) for visit in visits.of(step, adoption)], adoption.served
            uploads = visits.take_in(step, [visit() for visit in coming])
            # While they trained, the model that they were given was evaluated.
            adoption.judge(step.number, known()["loss"])
            reasons = adoption.take_in(step, uploads, elapsed_s, addressed_draw(job.seed, step.number))
            if adoption.served is not before:
                known = submit(_scored, task, adoption.served)
            reached = replace(adoption.checkpoint, memories=visits.memories.kept)
            waiting.append(partial(_learnt, row_of(step, len(reasons), counts_parts) | costs, reached, known))
            while len(waiting) > workers - 1:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


def _scored(task: Task, model: Weights) -> dict[str, float]:
    return checked_scores(task, task.evaluate(model))


def row_of(step: ServerStep, rejected: int, counts_parts: bool = False) -> dict[str, Any]:
    """A server step as the table of rounds has it, without what it costs and what its model scores.

    Uploads of which a part arrived are counted apart, where they may be.
    """
    whole = step.whole
    parts = {"partial": len(step.uploads) - len(whole)} if counts_parts else {}
    return {
        "round": step.number,
        "start_s": step.start_s,
        "end_s": step.end_s,
        "local_steps": step.local_steps,
        "present": step.present,
        "uploads": len(whole),
        "rejected": rejected,
        "steps": sum(upload.local_steps for upload in whole),
        **parts,
    }


def _learnt(row: Row, reached: Checkpoint, scores: Callable[[], Scores]) -> Learnt:
    row = {**row, **scores()}
    return Learnt(row, known_sound(reached, row["loss"]))


# Starts a call and returns what fetches its result.
Submit = Callable[..., Callable[[], Any]]


@contextmanager
def _workers(count: int) -> Iterator[Submit]:
    if count == 1:
        yield lambda call, *arguments: _known(call(*arguments))
        return
    pool = ThreadPoolExecutor(count)
    try:
        yield lambda call, *arguments: pool.submit(call, *arguments).result
    finally:  # whoever was interrupted does not wait for what is still computed
        pool.shutdown(wait=False, cancel_futures=True)


def _known(value: Any) -> Callable[[], Any]:
    return lambda: value
