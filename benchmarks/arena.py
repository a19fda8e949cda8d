"""What the arena's engine costs per upload, against `train` alone.

    python benchmarks/arena.py [--repeats 5] [--duration 600]

The same four algorithms on the same generated street, as runs of an arena with one worker and one after the other by
`mobfl.train`, alternately, each time into new folders. Both train the same uploads, which is asserted of every run:
the same bytes in rounds and models. What is compiled and generated once is there before the first measurement.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mobfl import Task, TaskRequest, build_task, train
from mobfl.experiments.arena import Wanted
from mobfl.experiments.folder import RUNS
from mobfl.experiments.sweep import Planned, name_runs, run_sweep
from mobfl.experiments.sweep_file import Sweep, load_sweep
from mobfl.runs.folder import read_history
from mobfl.runs.job import Job


def asked(duration_s: float) -> Sweep:
    return Wanted(seeds=[1], settings={"training.duration_s": duration_s}).of(load_sweep("arena-quick"))


def by_arena(sweep: Sweep, runs: Sequence[Planned], out: Path) -> float:
    began = time.process_time()
    came = run_sweep(sweep, out, runs=runs, workers=1)
    assert all(state.status == "done" for state in came.values())
    return time.process_time() - began


def by_train(runs: Sequence[Planned], task: Task, out: Path) -> float:
    began = time.process_time()
    for run in runs:
        request = run.request
        train(Job(task, request.scenario, request.plan, request.seed), out / run.name)
    return time.process_time() - began


def same_work(runs: Sequence[Planned], arena: Path, alone: Path) -> int:
    """How many uploads there were, once it is certain that both trained the same."""
    uploads = 0
    for run in runs:
        for name in ("rounds.parquet", "best.safetensors", "last.safetensors"):
            assert (arena / RUNS / run.name / name).read_bytes() == (alone / run.name / name).read_bytes(), name
        uploads += int(read_history(alone / run.name).columns["uploads"].sum())
    return uploads


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--duration", type=float, default=600.0)
    given = parser.parse_args()
    sweep = asked(given.duration)
    runs = name_runs(sweep)  # which prepares the data
    request = runs[0].request
    task = build_task(request.task, TaskRequest(dict(request.options or {}), None, "sample"))
    pairs, uploads = list[tuple[float, float]](), 0
    for repeat in range(1 + given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            arena, alone = Path(folder) / "arena", Path(folder) / "alone"
            calls = partial(by_arena, sweep, runs, arena), partial(by_train, runs, task, alone)
            spent = {place: calls[place]() for place in ((0, 1) if repeat % 2 else (1, 0))}
            uploads = same_work(runs, arena, alone)
        pairs.append((spent[0] / uploads, spent[1] / uploads))
    pairs = pairs[1:]  # the first one compiled
    ratios = sorted(arena / alone for arena, alone in pairs)
    print(f"{uploads} uploads of {len(runs)} runs; CPU time per upload (ms), arena and train:")
    print(", ".join(f"{1e3 * arena:.2f} and {1e3 * alone:.2f}" for arena, alone in pairs))
    print(f"the arena costs {statistics.median(ratios):.3f} [{ratios[0]:.3f}, {ratios[-1]:.3f}] times as much")


if __name__ == "__main__":
    main()
