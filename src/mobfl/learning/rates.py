"""The learning rate over time."""

import math

from mobfl.scenario import Training


def learning_rate(training: Training, share_of_time: float) -> float:
    """η along half a cosine to `decay_to`·η, which is reached when all of the training's time has passed."""
    left = (1.0 + math.cos(math.pi * min(share_of_time, 1.0))) / 2.0
    return training.learning_rate * (training.decay_to + (1.0 - training.decay_to) * left)
