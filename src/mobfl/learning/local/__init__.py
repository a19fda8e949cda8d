"""How a vehicle trains: from a model and batches of its own samples to the model that it uploads.

A part has `train(task, model, batches, learning_rate) -> model`. SGD with momentum, a pull towards the model that was
downloaded and a constant correction stays inside the task's own kernel; anything else asks `task.gradient`.
"""

from mobfl.learning.local.named import LOCALS, LocalTraining, local_named

__all__ = ["LOCALS", "LocalTraining", "local_named"]
