"""Local training by name."""

from typing import Protocol

from mobfl.errors import InputError
from mobfl.learning.task import Integers, Task
from mobfl.learning.weights import Weights
from mobfl.parts import Kind, Wish
from mobfl.scenario import Training

_PLACE = "mobfl.learning.local"
LOCALS = Kind(
    "local training",
    "locals",
    ("train",),
    {"sgd": f"{_PLACE}.sgd:Sgd", "fedprox": f"{_PLACE}.fedprox:FedProx"},
)


class LocalTraining(Protocol):
    """Knows nothing of roads and servers; may be asked by several threads at once.

    One with `corrects = True` also takes `correction`, arrays that every step adds to the gradient, and uploads w₀ less
    η times the sum of both: a rule such as SCAFFOLD counts on it.
    """

    def train(self, task: Task, model: Weights, batches: Integers, learning_rate: float) -> Weights:
        """The model after a step per row of `batches`, which holds numbers of the task's training samples."""


def local_named(text: str | None, training: Training) -> tuple[LocalTraining, Wish]:
    """The local training of that name; `training.momentum` is the momentum of SGD unless that is given."""
    wish = LOCALS.parse("sgd" if text is None else text)
    if wish.name in LOCALS.ours:
        if "momentum" in wish.values and training.momentum:
            raise InputError(
                f"momentum must be given once, got training.momentum = {training.momentum:g} and local training {wish}"
            )
        wish = Wish(wish.name, wish.words, {"momentum": training.momentum, **wish.values})
    return LOCALS.build(wish), wish
