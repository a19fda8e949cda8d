"""What a vehicle does with a model: H steps (Eq. 1) on batches of its own samples, in simulation as on a real node."""

from dataclasses import dataclass

import numpy as np

from mobfl.learning.holdings import draw_batches, held_samples
from mobfl.learning.task import Task
from mobfl.learning.uploads import Upload, Weights
from mobfl.rng import generator, stream
from mobfl.scenario import Training


@dataclass(frozen=True)
class Vehicles:
    """Draws are addressed by vehicle and attempt, so it does not matter which process trains whom."""

    task: Task
    training: Training
    samples: np.uint64  # the stream of who holds which samples
    batches: np.uint64  # the stream of batches

    @classmethod
    def of(cls, task: Task, training: Training, seed: int) -> "Vehicles":
        return cls(task, training, stream(seed, "samples"), stream(seed, "batches"))

    def train(self, key: np.uint64, attempt: int, model: Weights, local_steps: int, learning_rate: float) -> Upload:
        """The vehicle's upload after its steps from this model."""
        held = held_samples(generator(self.samples, key), self.task.pool, self.training)
        batches = draw_batches(generator(self.batches, key, attempt), held, local_steps, self.training.batch_size)
        weights = self.task.local_steps(model, batches, learning_rate, self.training.momentum)
        return Upload(weights, len(held), model)
