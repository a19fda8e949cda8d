"""The one place where traffic meets learning.

A schedule's steps say who uploads; only those vehicles' local steps are computed, and only models that changed are
evaluated. Every draw is addressed by vehicle and attempt and every sum has its order, so the result does not depend on
how many workers there are. A run on one section and that of a city are one loop: the first has one model, the second
one for every station and the cloud's (`mobfl.runs.learners`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from mobfl.learning.task import Task
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.job import Job
from mobfl.runs.learners import Learners
from mobfl.runs.rows import Learnt, row_of
from mobfl.runs.scoring import Scores, Submit
from mobfl.runs.task_check import checked_scores
from mobfl.servers.city import Average, HandIn

__all__ = ["Learnt", "fresh_start", "learn", "row_of"]


def fresh_start(task: Task, seed: int) -> tuple[Checkpoint, dict[str, float]]:
    """A run before its first step: the initial model, and what it scores."""
    model = task.initial_weights(seed)
    return Checkpoint(0, model), checked_scores(task, task.evaluate(model))


def learn(job: Job, begun: Checkpoint, scores: Scores, workers: int = 1) -> Iterator[Learnt]:
    """The server steps after `begun`, whose model has these scores, for as long as training or the traffic lasts."""
    waiting, rows = deque[Callable[[], Learnt]](), 0
    with _workers(workers) as submit:
        learners = Learners(job, begun, dict(scores), submit)
        for event in job.steps():
            if isinstance(event, HandIn):
                if rows >= begun.rounds:
                    learners.hand_in()
                continue
            rows += 1
            if isinstance(event, Average):
                if rows > begun.rounds:
                    waiting.append(learners.average(event))
            else:
                told = learners.tell(event)
                if rows > begun.rounds:
                    waiting.append(learners.step(event, *told))
            while len(waiting) > workers - 1:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()


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
