"""A whole beam run against the classes of the paper's first author, on the same vehicles and samples.

    pip install pytorch-ignite
    python benchmarks/first_author.py CHECKOUT [--seconds 600] [--repeats 2]

CHECKOUT is a copy of the public repository MOX233/FL_for_IoV_Simulation_Platform, of which four files are used: from
`task_utils/beam_select_utils` Lidar2D (`nets.py`), the local training (`update.py`) and the evaluation
(`evaluator.py`), and the average (`utils/federate_learning_avg.py`). They are called as its platform calls them:
whoever uploads trains one after the other, the model is averaged, and evaluated if somebody uploaded. What the platform
draws and writes every round is left out, in its favour. PyTorch has all cores, as there; so has mobfl (a worker per
core). Both sides begin with an evaluation and alternate in this one process; the samples are the generated street's, as
many as the paper has.
"""

import argparse
import contextlib
import copy
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset

from mobfl import Job, load_scenario
from mobfl.learning.holdings import held_samples
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import generator, stream
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome
from mobfl.rounds.rules import simulate_rounds
from mobfl.runs.loop import fresh_start, learn
from mobfl.tasks.beams.generated import generated_samples
from mobfl.tasks.beams.task import BeamTask
from mobfl.theory import Delays

H, T, BATCH, SEED = 24, 11.776, 64, 1
_AVERAGE = "utils.federate_learning_avg"
SAMPLES = generated_samples(0, 9234, 1960, "auto")

Holdings = list[list[NDArray[np.int64]]]  # by round the samples of those who upload


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("checkout", type=Path)
    given.add_argument("--seconds", type=float, default=600)
    given.add_argument("--repeats", type=int, default=2)
    asked = given.parse_args()
    task, job = our_job(asked.seconds)
    uploads = who_uploads(task, job)
    count = sum(map(len, uploads))
    assert count >= asked.seconds / 60, f"the run must have an upload a minute to be worth comparing, got {count}"
    theirs = Theirs(asked.checkout, job.road.training.learning_rate)

    ours_s, theirs_s = [], []
    run_ours(task, job, count)  # compiles
    for _ in range(asked.repeats):
        ours_s.append(timed(lambda: run_ours(task, job, count)))
        theirs_s.append(timed(lambda: theirs.run(uploads)))
    ratios = [slow / quick for slow, quick in zip(theirs_s, ours_s, strict=True)]
    print(f"{os.cpu_count()} cores; {asked.seconds:g} s of road, {len(uploads)} rounds, {count} uploads of {H} steps")
    print(f"theirs {said(theirs_s)} s, ours {said(ours_s)} s: {said(ratios)} times as fast")


def said(numbers: Sequence[float]) -> str:
    return f"{statistics.median(numbers):.1f} [{min(numbers):.1f}, {max(numbers):.1f}]"


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def our_job(seconds: float) -> tuple[BeamTask, Job]:
    road = load_scenario("paper").with_values({"training.duration_s": seconds})
    task = BeamTask(SAMPLES, loss_scale=road.training.loss_scale)
    return task, Job(task, road, (H, T), SEED)


def run_ours(task: BeamTask, job: Job, uploads: int) -> None:
    start, scores = fresh_start(task, SEED)
    rows = [learnt.row for learnt in learn(job, start, scores, os.cpu_count() or 1)]
    assert sum(row["uploads"] for row in rows) == uploads
    assert min(row["loss"] for row in rows) < scores["loss"], "nothing was learnt"


def who_uploads(task: BeamTask, job: Job) -> Holdings:
    samples, road = stream(SEED, "samples"), job.road
    block = next(simulate_rounds(poisson_crossings(road, SEED), FixedPlan(H, T), Delays.of(road), SEED))
    found: Holdings = [[] for _ in range(int(road.training.duration_s / T))]
    rows = block.vehicles
    assert rows is not None
    for i in np.flatnonzero(rows.outcome == Outcome.UPLOADED):
        if rows.round[i] < len(found):
            found[rows.round[i]].append(held_samples(generator(samples, rows.key[i]), task.pool, road.training))
    return found


class Theirs:
    """The first author's classes, called as his platform does."""

    def __init__(self, checkout: Path, learning_rate: float) -> None:
        sys.path[:0] = [str(checkout)]
        nets, update, evaluator = (
            importlib.import_module(f"task_utils.beam_select_utils.{name}") for name in ("nets", "update", "evaluator")
        )
        self._net, self._local = nets.Lidar2D, update.LocalUpdate_for_beam_select
        self._test, self._average = evaluator.test_beam_select, importlib.import_module(_AVERAGE).FedAvg
        self._said: Any = SimpleNamespace(lr=learning_rate, momentum=0.0, device="cpu", verbose=False)
        self._train, self._validation = (
            TensorDataset(torch.from_numpy(each.grids).float(), torch.from_numpy(each.targets)) for each in SAMPLES
        )

    def run(self, uploads: Holdings) -> None:
        torch.set_num_threads(os.cpu_count() or 1)
        torch.manual_seed(SEED)
        net = self._net(self._said)
        first = self._evaluated(net)
        least = first
        for holdings in uploads:
            if not holdings:
                continue
            weights = []
            for held in holdings:
                local = self._local(self._said, self._train, held, BATCH)
                learnt, _ = local.train(copy.deepcopy(net), H)
                weights.append(copy.deepcopy(learnt))
            net.load_state_dict(self._average(weights))
            least = min(least, self._evaluated(net))
        assert least < first, "nothing was learnt"

    def _evaluated(self, net: Any) -> float:
        with contextlib.redirect_stdout(None):
            return float(self._test(net, self._validation, self._said)[1])


if __name__ == "__main__":
    main()
