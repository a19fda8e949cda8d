"""Tasks that are interrupted at a place of one's choice: they send their own process a signal.

They write where they are into the file $MOBFL_TEST_DIARY, for those who wait to send them one.
"""

import os
import signal
from pathlib import Path

from fake_task import CountingTask
from mobfl import SgdTerms, TaskRequest
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights


class Interrupted(CountingTask):
    """At `place`: building, evaluating or training; the first time that it is there."""

    def __init__(self, place: str = "", number: int = 0, step_s: float = 0.0) -> None:
        super().__init__(by_batches=True, step_s=step_s)
        self._place, self._number = place, number
        self._pass("building")

    def _pass(self, place: str) -> None:
        if diary := os.environ.get("MOBFL_TEST_DIARY"):
            with Path(diary).open("a") as file:
                file.write(f"{place}\n")
        if place == self._place:
            self._place = ""
            os.kill(os.getpid(), signal.Signals(self._number))

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        self._pass("training")
        return super().local_steps(model, batches, terms)

    def evaluate(self, model: Weights) -> dict[str, float]:
        self._pass("evaluating")
        return super().evaluate(model)


def interrupted(request: TaskRequest) -> Interrupted:
    """What interrupts is no option of the run: one that resumes has none."""
    place, _, number = os.environ.get("MOBFL_TEST_SIGNAL", "").partition(":")
    return Interrupted(place, int(number or 0), **request.options)
