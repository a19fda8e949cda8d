"""Scores of models, found beside the rounds: no deadline waits for an evaluation."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from mobfl.learning.weights import Weights

Scores: TypeAlias = Mapping[str, float]


@dataclass
class _Served:
    """A model, and the rounds after which it was served."""

    model: Weights
    rounds: list[int]
    scores: Future[Scores] = field(default_factory=Future)


class Evaluations:
    """One model at a time. Where that is slower than the rounds, models that were overtaken stay without scores."""

    def __init__(self, evaluate: Callable[[Weights], Scores], model: Weights, scores: Scores | None) -> None:
        """With the model that is served at the start, and what it scores if that is known."""
        self._evaluate, self._pool = evaluate, ThreadPoolExecutor(1)
        self._served = deque[_Served]()
        if scores is not None:
            self._served.append(_Served(model, []))
            self._served[0].scores.set_result(scores)

    def add(self, number: int, model: Weights) -> None:
        """After this round this model is served."""
        latest = self._served[-1] if self._served else None
        if latest is not None and latest.model is model:
            latest.rounds.append(number)
            return
        for overtaken in list(self._served):
            if overtaken.scores.cancel():  # it is waiting still
                self._served.remove(overtaken)
        self._served.append(_Served(model, [number], self._pool.submit(self._evaluate, model)))

    def done(self, wait: bool = False) -> Iterator[tuple[list[int], Weights, Scores]]:
        """What is known by now; with `wait`, all that will be."""
        while self._served and (wait or self._served[0].scores.done()):
            first = self._served[0]
            scores = first.scores.result()
            if first.rounds:
                yield first.rounds, first.model, scores
                first.rounds = []
            if len(self._served) == 1:  # it may be served after further rounds
                return
            self._served.popleft()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
