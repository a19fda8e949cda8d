"""Vehicles of a story: nodes in this process, as slow as simulation draws it, on a clock that only waiting moves."""

import math
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from fake_task import CountingTask, QuadraticTask
from mobfl import Crossings, Scenario, TaskRequest
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import Answer, answer_message, read_order
from mobfl.deploy.settings import Deployment
from mobfl.deploy.vehicle.trainer import Trainer
from mobfl.learning.task import Integers, SgdTerms
from mobfl.learning.weights import Weights


@dataclass
class StoryClock:
    """Time passes only by waiting, and by a little whenever somebody looks at it."""

    start_s: float = 0.0
    begins_unix_s: float = 1e9
    scale: float = 1.0
    passed_s: float = field(default=0.0)

    def now_s(self) -> float:
        return self.start_s + self.passed_s

    def wait(self, wall_s: float) -> None:
        self.passed_s += max(wall_s, 1e-6) / self.scale

    def unix_s(self, at_s: float) -> float:
        return self.begins_unix_s + (at_s - self.start_s) * self.scale


@dataclass(frozen=True)
class Vehicle:
    """Answers with what the trainer computes, as late as the delay that is imposed on it."""

    trainer: Trainer
    key: int
    name: str
    clock: StoryClock
    enter_s: float = -math.inf
    leave_s: float = math.inf

    def __call__(self, message: Message, now_s: float) -> tuple[Message, float]:
        order, model = read_order(message)
        mine = {"key": str(self.key), "vehicle": self.name, "enter_s": self.enter_s, "leave_s": self.leave_s}
        told, upload = self.trainer.answer({**mine, **order.__dict__}, model)
        if not told["steps"]:
            return answer_message(message, Answer(order.run, order.round, 0, self.name, sits_out=True)), now_s
        begin_s = self.clock.start_s + (order.begin_unix_s - self.clock.begins_unix_s) / order.scale
        took = {"steps": told["steps"], "compute_s": told["compute_s"]}
        answer = Answer(order.run, order.round, told["samples"], self.name, **took)
        return answer_message(message, answer, upload), begin_s + told["delay_s"]


def counting_task(request: TaskRequest) -> CountingTask:
    return CountingTask(**request.options)


def quadratic_task(request: TaskRequest) -> QuadraticTask:
    return QuadraticTask(**request.options)


def deployment(road: Scenario, out: object, plan: str, **more: Any) -> Deployment:
    settings = {"task": "deployed_road:counting_task", "options": {"by_batches": True}, "seed": 3, "impose": True}
    return Deployment(scenario=road.to_dict(), out=str(out), plan=plan, **{**settings, **more})


def story_grid(crossings: Crossings, trainer: Trainer, clock: StoryClock) -> InProcessGrid:
    """A node per crossing; its number is the crossing's place, counted from 1."""
    start_s = crossings.observed_s[0]  # when training begins
    columns = zip(crossings.keys.tolist(), crossings.enter_s.tolist(), crossings.leave_s.tolist(), strict=True)
    nodes = [
        InProcessNode(i, enter_s, leave_s, Vehicle(trainer, key, str(i), clock, max(enter_s, start_s), leave_s))
        for i, (key, enter_s, leave_s) in enumerate(columns, 1)
    ]
    return InProcessGrid(nodes, clock)


class CrashingTask(CountingTask):
    """Ends its process in the first training of ten steps, and never again while the mark is there."""

    def __init__(self, mark: str) -> None:
        super().__init__(by_batches=True)
        self._mark = Path(mark)

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        if len(batches) == 10 and not self._mark.exists():
            self._mark.touch()
            os._exit(7)
        return super().local_steps(model, batches, terms)


class RatedTask(CountingTask):
    """Its model tells the learning rates of its steps."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return {"w": (model["w"] + np.float32(terms.learning_rate * len(batches))).astype(np.float32)}


def rated_task() -> RatedTask:
    return RatedTask()


class PacedTask(CountingTask):
    """Every step takes its time."""

    def __init__(self, each_s: float) -> None:
        super().__init__(by_batches=True)
        self._each_s = each_s

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        time.sleep(self._each_s * len(batches))
        return super().local_steps(model, batches, terms)


def paced_task(request: TaskRequest) -> PacedTask:
    return PacedTask(**request.options)


def crashing_task(request: TaskRequest) -> CrashingTask:
    return CrashingTask(**request.options)
