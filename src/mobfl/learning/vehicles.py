"""What a vehicle does with a model: local steps on batches of its own samples, in simulation as on a real node."""

from dataclasses import dataclass

import numpy as np

from mobfl.learning.districts import Districts
from mobfl.learning.holdings import draw_batches, held_samples
from mobfl.learning.local import LocalTraining
from mobfl.learning.task import Integers, Task
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.rng import classes_of, generator, stream
from mobfl.scenario import FleetClass, Training


@dataclass(frozen=True)
class Vehicles:
    """Draws are addressed by vehicle, visit and attempt, so it does not matter which process trains whom.

    Class and samples are the vehicle's, batches those of a visit. Where data differ by place, `districts` has them.
    """

    task: Task
    classes: tuple[FleetClass, ...]  # which differ in the samples they hold
    local: LocalTraining
    kinds: np.uint64  # the stream of who is of which class
    samples: np.uint64  # the stream of who holds which samples
    batches: np.uint64  # the stream of batches
    districts: Districts | None = None

    @classmethod
    def of(
        cls,
        task: Task,
        classes: tuple[FleetClass, ...],
        local: LocalTraining,
        seed: int,
        districts: Districts | None = None,
    ) -> "Vehicles":
        kinds, samples, batches = (stream(seed, purpose) for purpose in ("class", "samples", "batches"))
        return cls(task, classes, local, kinds, samples, batches, districts)

    def training_of(self, vehicle: np.uint64) -> Training:
        """What holds for this vehicle's class."""
        shares = [each.share for each in self.classes]
        return self.classes[classes_of(self.kinds, np.array([vehicle]), shares)[0]].training

    def held(self, vehicle: np.uint64) -> Integers:
        """Its samples, the same wherever and whenever it is asked."""
        random, training = generator(self.samples, vehicle), self.training_of(vehicle)
        if self.districts is not None:
            return self.districts.held(random, vehicle, training)
        return held_samples(random, self.task.pool, training)

    def train(
        self,
        key: np.uint64,
        attempt: int,
        model: Weights,
        local_steps: int,
        learning_rate: float,
        correction: Weights | None = None,
        vehicle: np.uint64 | None = None,
    ) -> Upload:
        """The upload after a visit's steps from this model; a correction is added to the gradient of each.

        `key` is the visit's; `vehicle` who it is, the visit itself where nobody ever returns.
        """
        vehicle = key if vehicle is None else vehicle
        held, training = self.held(vehicle), self.training_of(vehicle)
        batches = draw_batches(generator(self.batches, key, attempt), held, local_steps, training.batch_size)
        bent = {} if correction is None else {"correction": correction}
        weights = self.local.train(self.task, model, batches, learning_rate, **bent)
        return Upload(weights, len(held), model, local_steps=local_steps)
