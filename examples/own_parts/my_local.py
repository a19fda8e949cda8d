"""Local training: steps of one length, along the sign of the gradient. `--local my_local:SignSteps`."""

import numpy as np

import mobfl
from mobfl.learning.task import Integers
from mobfl.learning.weights import is_statistic


class SignSteps:
    """signSGD (Bernstein et al. 2018): w ← w − share·η·sign(∇loss)."""

    def __init__(self, share: float = 0.02) -> None:
        self.share = share

    def train(self, task: mobfl.Task, model: mobfl.Weights, batches: Integers, learning_rate: float) -> mobfl.Weights:
        for batch in batches:
            slopes = task.gradient(model, batch)
            model = {
                name: slopes[name]
                if is_statistic(name)
                else (values - self.share * learning_rate * np.sign(slopes[name])).astype(np.float32)
                for name, values in model.items()
            }
        return model
