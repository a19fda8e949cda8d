"""What a vehicle does with a model: local steps on batches of its own samples, in simulation as on a real node."""

from dataclasses import dataclass

import numpy as np

from mobfl.learning.holdings import draw_batches, held_samples
from mobfl.learning.local import LocalTraining
from mobfl.learning.task import Task
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.rng import classes_of, generator, stream
from mobfl.scenario import FleetClass, Training


@dataclass(frozen=True)
class Vehicles:
    """Draws are addressed by vehicle and attempt, so it does not matter which process trains whom."""

    task: Task
    classes: tuple[FleetClass, ...]  # which differ in the samples they hold
    local: LocalTraining
    kinds: np.uint64  # the stream of who is of which class
    samples: np.uint64  # the stream of who holds which samples
    batches: np.uint64  # the stream of batches

    @classmethod
    def of(cls, task: Task, classes: tuple[FleetClass, ...], local: LocalTraining, seed: int) -> "Vehicles":
        return cls(task, classes, local, *(stream(seed, purpose) for purpose in ("class", "samples", "batches")))

    def training_of(self, key: np.uint64) -> Training:
        """What holds for this vehicle's class."""
        shares = [each.share for each in self.classes]
        return self.classes[classes_of(self.kinds, np.array([key]), shares)[0]].training

    def train(
        self,
        key: np.uint64,
        attempt: int,
        model: Weights,
        local_steps: int,
        learning_rate: float,
        correction: Weights | None = None,
    ) -> Upload:
        """The vehicle's upload after its steps from this model; a correction is added to the gradient of each."""
        training = self.training_of(key)
        held = held_samples(generator(self.samples, key), self.task.pool, training)
        batches = draw_batches(generator(self.batches, key, attempt), held, local_steps, training.batch_size)
        bent = {} if correction is None else {"correction": correction}
        weights = self.local.train(self.task, model, batches, learning_rate, **bent)
        return Upload(weights, len(held), model, local_steps=local_steps)
