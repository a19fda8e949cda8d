"""The models of a run: the latest, older ones that vehicles train on, and the one that is served."""

import math

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.weights import Weights, mixed
from mobfl.runs.checkpoint import Checkpoint
from mobfl.servers.steps import ServerStep


class Models:
    """What is served may be an average of the latest over time."""

    def __init__(self, begun: Checkpoint, average_s: float) -> None:
        self.served, self._average_s = begun.model, average_s
        self._number, self._versions = begun.rounds, {begun.rounds: begun.model, **begun.versions}

    @property
    def number(self) -> int:
        """Of the latest: how many server steps led to it."""
        return self._number

    @property
    def latest(self) -> Weights:
        return self._versions[self._number]

    @property
    def others(self) -> dict[int, Weights]:
        """What is needed to go on besides the model that is served."""
        needless = self._number if self.latest is self.served else None
        return {number: model for number, model in self._versions.items() if number != needless}

    def version(self, number: int) -> Weights:
        if number not in self._versions:
            raise InputError(f"the last model must come with version {number}, on which a vehicle trains, got none")
        return self._versions[number]

    def advance(self, step: ServerStep, new: Weights, elapsed_s: float) -> bool:
        """Takes in the model that a step has led to; says whether what is served has changed."""
        kept = {number: model for number, model in self._versions.items() if number in step.still_in_use}
        self._number = step.number + 1
        self._versions = {**kept, self._number: new}
        before, self.served = self.served, self._averaged(new, elapsed_s)
        return self.served is not before

    def take_back(self, model: Weights) -> None:
        """Training goes on from this model, which is served again."""
        self.served = self._versions[self._number] = model

    def _averaged(self, new: Weights, elapsed_s: float) -> Weights:
        """An exponential average over virtual time; the very same one where it has not moved."""
        if not self._average_s:
            return new
        moved = mixed(self.served, new, -math.expm1(-elapsed_s / self._average_s))
        still = all(np.array_equal(moved[name], values) for name, values in self.served.items())
        return self.served if still else moved
