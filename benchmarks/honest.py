"""How long honest changes are beside the bound of `clip`, task by task, and whether any is ever shortened.

    python benchmarks/honest.py [NAME …]

Real training on generated data and, where `$MOBFL_DATA` (or ../shared/data) has it, on Raymobtime s010. Small batches
(16, trajectories 8) make changes as uneven as they get. For every upload, from the first round on, the length of its
change per local step is divided by the median that `clip` goes by: what exceeds `times` (3) would be shortened. Of
batch norm's statistics the array with the largest quotient is told; what exceeds 10 × `times` would be shortened. Every
run's loss at start and end is printed: one that does not learn says little.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mobfl import Job, Scenario, Task, TaskRequest, Upload, Weights, build_task, load_scenario
from mobfl.learning.rules import Chain, State
from mobfl.learning.rules.chain import Link
from mobfl.learning.rules.clip import Clip, _lengths, _lower_medians, _statistics
from mobfl.parts import Wish
from mobfl.runs.loop import fresh_start, learn
from mobfl.servers.names import server_of

DATA = Path(os.environ.get("MOBFL_DATA", "../shared/data"))


def _of(split: str, duration_s: float, **more: float) -> dict[str, Any]:
    given = {"split": split, "duration_s": duration_s, **more}
    return {f"training.{key}": value for key, value in given.items()}


BATCH = {"training.batch_size": 16, "training.dirichlet_alpha": 0.3, "training.loss_scale": "sample"}
TOWN = {"training.batch_size": 8, "training.samples_per_vehicle": 32, "training.duration_s": 400.0}
PICTURES = {**BATCH, "training.samples_per_vehicle": 128, "training.learning_rate": 0.05, "training.duration_s": 900.0}
TASKS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "s010": ("beams", {}, "raymobtime/s010.npz"),
    "street": ("beams", {"training_samples": 3000, "validation_samples": 200}, None),
    "town": ("trajectories", {"width": 16, "training_samples": 400, "validation_samples": 32}, None),
    "images": ("images", {"width": 8, "training_samples": 3000, "validation_samples": 300}, None),
}
# Of a task: the plan, and what else differs.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"s010 {split}": ("24,11.776", BATCH | _of(split, 800.0)) for split in ("random", "place", "dirichlet")},
    "s010 momentum": ("24,11.776", BATCH | _of("random", 500.0, momentum=0.9, learning_rate=0.02)),
    "s010 H=1": ("1,best", BATCH | _of("random", 300.0)),
    "s010 falling": ("24,11.776", BATCH | _of("random", 600.0, falling_to=0.2, decay_to=0.1)),
    "s010 adaptive": ("adaptive", BATCH | _of("place", 600.0)),
    "s010 fedasync": ("fedasync:24", BATCH | _of("place", 500.0)),
    **{f"street {split}": ("24,11.776", BATCH | _of(split, 500.0)) for split in ("random", "dirichlet")},
    **{
        f"town {split}": ("8,10", TOWN | _of(split, 400.0, learning_rate=0.05))
        for split in ("random", "place", "manoeuvre")
    },
    "town momentum": ("8,10", TOWN | _of("random", 400.0, momentum=0.9, learning_rate=0.005)),
    **{f"images {split}": ("10,10", PICTURES | _of(split, 900.0)) for split in ("random", "dirichlet", "class")},
    "images momentum": ("10,10", BATCH | _of("random", 900.0, momentum=0.9, learning_rate=0.02)),
    "images fedbuff": ("fedbuff:10,buffer=3", BATCH | _of("random", 400.0)),
    "images fedasync": ("fedasync:10", BATCH | _of("dirichlet", 400.0)),
}


class Measure:
    """A guard that lets all pass, and notes how long they are beside what `clip` would go by."""

    def __init__(self, clip: Clip, quotients: list[list[float]]) -> None:
        self._clip, self._quotients = clip, quotients

    def __deepcopy__(self, _: object) -> "Measure":
        return self  # its notes are read when the run is over

    def init(self, model: Weights) -> State:
        return self._clip.init(model)

    def guard(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Sequence[Upload]]:
        lengths = np.array([_lengths(upload, upload.base or model, _statistics(model)) for upload in uploads])
        medians = _lower_medians(np.concatenate([state["lengths"], lengths]))
        self._quotients += (lengths / medians).tolist()
        return self._clip.guard(state, model, uploads)[0], uploads


class Unscored:
    """The task, which is not evaluated after every step: only changes matter here."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def evaluate(self, model: Weights) -> dict[str, float]:  # noqa: ARG002
        return {"loss": 1.0, **{kpi.name: 0.0 for kpi in self._task.kpis}}


def road_of(name: str, values: dict[str, Any]) -> Scenario:
    return load_scenario("thesis" if name.startswith("town") else "paper").with_values(values)


def row(name: str, task: Task) -> str:
    plan, values = RUNS[name]
    road, quotients = road_of(name, values), list[list[float]]()
    rule = server_of(plan, "mean" if "fed" not in plan else plan.partition(":")[0], road, None).rule
    measured = Chain((Link.of(Measure(Clip(), quotients), Wish("measure")), *rule.links))
    job: Any = Job(Unscored(task), road, plan, 1, rule=measured)
    start, scores = fresh_start(job.task, job.seed)
    last = [each.checkpoint.model for each in learn(job, start, scores)][-1]
    losses = f"{task.evaluate(start.model)['loss']:.3g} → {task.evaluate(last)['loss']:.3g}"
    trained, statistics = np.array(quotients)[:, 0], np.array(quotients)[:, 1:]
    assert len(trained) > 20, "too few uploads to say anything"
    shortened = (trained > Clip().times) | (statistics > 10 * Clip().times).any(axis=1)
    shares = " | ".join(f"{np.percentile(trained, q):.2f}" for q in (50, 95, 99, 100))
    of_norm = f"{statistics.max():.1f}" if statistics.size else ""
    return f"| {name} | {len(trained)} | {losses} | {shares} | {int(shortened.sum())} | {of_norm} |"


def main() -> None:
    print("| run | uploads | loss | median | 95 % | 99 % | longest | shortened | statistics, longest |")
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|")
    built = dict[str, Task]()
    for name in sys.argv[1:] or RUNS:
        key, _, _ = name.partition(" ")
        task_name, options, data = TASKS[key]
        if data is not None and not (DATA / data).exists():
            print(f"| {name}: there is no {DATA / data} |")
            continue
        if key not in built:
            built[key] = build_task(task_name, TaskRequest(options, None if data is None else DATA / data))
        print(row(name, built[key]), flush=True)


if __name__ == "__main__":
    main()
