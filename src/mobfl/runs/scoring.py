"""What models score: on all validation samples, and in a city whose data differ by place on a station's own."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from mobfl.learning.task import Integers, Task
from mobfl.learning.weights import Weights
from mobfl.runs.history import OWN
from mobfl.runs.task_check import checked_scores

# Starts a call and returns what fetches its result.
Submit = Callable[..., Callable[[], Any]]
Scores = Mapping[str, float]
Fetch = Callable[[], Scores]


class Scoring:
    """Evaluations under way; a model that is asked for again at the same station is not evaluated again."""

    def __init__(self, task: Task, submit: Submit, parts: Sequence[Integers] | None = None) -> None:
        self._task, self._submit, self._parts = task, submit, parts
        self._latest = dict[int, tuple[Weights, Fetch]]()

    def all(self, model: Weights) -> Fetch:
        return self._submit(_scored, self._task, model)

    def own(self, model: Weights, place: int) -> Fetch:
        """On the samples of the station at this place; nothing where stations have none of their own."""
        if self._parts is None:
            return dict
        found = self._latest.get(place)
        if found is None or found[0] is not model:
            found = model, self._submit(_scored_on, self._task, model, self._parts[place])
            self._latest[place] = found
        return found[1]

    def everywhere(self, model: Weights) -> Fetch:
        """The means over the stations of what it scores on their own samples."""
        if self._parts is None:
            return dict
        each = [self.own(model, place) for place in range(len(self._parts))]
        return lambda: _means([fetch() for fetch in each])


def _scored(task: Task, model: Weights) -> dict[str, float]:
    return checked_scores(task, task.evaluate(model))


def _scored_on(task: Any, model: Weights, samples: Integers) -> dict[str, float]:
    scores = checked_scores(task, task.evaluate_on(model, samples))
    return {f"{OWN}{name}": score for name, score in scores.items()}


def _means(scores: Sequence[Scores]) -> dict[str, float]:
    return {name: fmean(each[name] for each in scores) for name in scores[0]}
