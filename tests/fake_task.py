"""A task whose arithmetic can be done by hand: a local step adds 1, or what a vehicle's batch says."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mobfl.learning.task import Integers, Kpi, Pool, SgdTerms
from mobfl.learning.weights import Weights


class CountingTask:
    """The model is one number; H local steps add H (or the sum of the batches); the loss is its distance to 40."""

    name = "counting"
    kpis: Sequence[Kpi] = (Kpi("count"),)
    baselines: Mapping[str, Mapping[str, float]] = {"nothing": {"count": 0.0}}

    def __init__(self, samples: int = 50, by_batches: bool = False, step_s: float = 0.0) -> None:
        self.pool = Pool(np.arange(samples) % 5, np.arange(samples, dtype=float)[::-1])
        self.record: Mapping[str, Any] = {"data": "none", "by_batches": by_batches}
        self.by_batches, self.step_s = by_batches, step_s
        self.trained: list[Integers] = []
        self.evaluated: list[float] = []

    def initial_weights(self, seed: int) -> Weights:
        return {"w": np.zeros(1, np.float32)}

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        time.sleep(self.step_s)
        self.trained.append(batches)
        added = batches.sum() / 1000 if self.by_batches else len(batches)
        return {"w": (model["w"] + np.float32(added)).astype(np.float32)}

    def evaluate(self, model: Weights) -> dict[str, float]:
        count = float(model["w"][0])
        self.evaluated.append(count)
        return {"loss": abs(40.0 - count), "count": count}


class QuadraticTask(CountingTask):
    """The model is a row of numbers; a batch's gradient is its distance to what the batch's mean says."""

    name = "quadratic"
    record: Mapping[str, Any]

    def __init__(self, samples: int = 50, numbers: int = 6, spread: bool = False) -> None:
        super().__init__(samples)
        self.record = {"data": "none", "numbers": numbers}
        self.scale = np.linspace(0.1, 1.0, numbers)
        # With `spread`, samples that are far from the first have steeper slopes: averages of minima are no minimum.
        self.steepness = np.linspace(0.2, 1.8, samples) if spread else np.ones(samples)

    def initial_weights(self, seed: int) -> Weights:
        return {"w": np.zeros(len(self.scale), np.float32)}

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        steep = self.steepness[batch][:, np.newaxis]
        pulls = steep * (model["w"] - batch[:, np.newaxis] / 10 * self.scale)
        return {"w": pulls.mean(axis=0).astype(np.float32)}

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        self.trained.append(batches)
        start, w = model["w"], model["w"]
        bent = np.float32(0) if terms.correction is None else terms.correction["w"]
        for batch in batches:
            slope = self.gradient({"w": w}, batch)["w"] + terms.proximal * (w - start) + bent
            w = (w - terms.learning_rate * slope).astype(np.float32)
        return {"w": w}

    def evaluate(self, model: Weights) -> dict[str, float]:
        everything = np.arange(len(self.pool))
        self.evaluated.append(float(model["w"][0]))
        return {"loss": float(np.abs(self.gradient(model, everything)["w"]).sum()), "count": float(model["w"][0])}
