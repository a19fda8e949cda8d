"""What an upload costs in a city of ten stations, against what it costs at one.

Both train `beams` on generated data with the planner's H and T, alternately in one process; CPU time of all threads per
upload, from the run's beginning to its last file. By default ten stations train a tenth of the time, so both have about
as many uploads. Both compute as many local steps per upload and one evaluation per round.

With `--whole` ten stations train as long as the single one, which trains once before and once after them. Small batches
and few validation samples make 10,000 s feasible: about 7,700 uploads. They also make everything else weigh more.

    python benchmarks/city.py
    python benchmarks/city.py --seconds 1000 --pairs 5
    python benchmarks/city.py --whole --seconds 10000 --pairs 1 --batch 16 --validation 64 --workers 2
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mobfl import Job, Scenario, TaskRequest, build_task, train

STATIONS = 10


@dataclass(frozen=True)
class Cost:
    """What a run took, and how much it did for that."""

    uploads: int
    cpu_s: float
    wall_s: float

    @property
    def per_upload_s(self) -> float:
        return self.cpu_s / self.uploads

    def __str__(self) -> str:
        return f"{self.per_upload_s:.4f} s of CPU per upload ({self.uploads} uploads, {self.wall_s:.0f} s of waiting)"


def cost(task: Any, scenario: Scenario, seed: int, workers: int) -> Cost:
    job = Job(task, scenario, "mobfl", seed)
    with tempfile.TemporaryDirectory() as folder:
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        history = train(job, Path(folder) / "run", workers=workers)
        spent_s, spent_cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    rows = history.of_vehicles.columns
    uploads, steps = int(rows["uploads"].sum()), int(rows["steps"].sum())
    assert uploads > 0, "somebody must have uploaded"
    assert steps == 24 * uploads, "every upload must have taken the plan's H steps"
    assert all(len(history.of_station(name)) > 0 for name in history.stations), "every station must have had rounds"
    return Cost(uploads, spent_cpu_s, spent_s)


def road(duration_s: float, batch: int, **tables: Any) -> Scenario:
    return Scenario.from_dict({"training": {"duration_s": duration_s, "batch_size": batch}, **tables})


def pair(single: Callable[[], Cost], city: Callable[[], Cost], both_sides: bool) -> float:
    """How many times as much an upload costs in the city."""
    before = single()
    print(f"  one station: {before}", flush=True)
    ten = city()
    print(f"  ten: {ten}", flush=True)
    if not both_sides:
        return ten.per_upload_s / before.per_upload_s
    after = single()
    print(f"  one station again: {after}", flush=True)
    return ten.per_upload_s / statistics.fmean([before.per_upload_s, after.per_upload_s])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="of the single station's training")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="ten stations train as long as one")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--validation", type=int, default=256, help="samples that every round is scored on")
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    task = build_task("beams", TaskRequest({"training_samples": 2048, "validation_samples": asked.validation}))
    single = road(asked.seconds, asked.batch)
    city = road(
        asked.seconds if asked.whole else asked.seconds / STATIONS + 12,
        asked.batch,
        corridor={"stations": STATIONS, "turns_off": 0.2},
        cloud={"every_rounds": 2},
    )
    cost(task, road(120.0, asked.batch), 1, asked.workers)  # which compiles
    ratios = list[float]()
    for seed in range(1, asked.pairs + 1):
        print(f"seed {seed}")
        one, ten = (partial(cost, task, scenario, seed, asked.workers) for scenario in (single, city))
        ratios.append(pair(one, ten, asked.whole))
        print(f"  {ratios[-1]:.3f} times", flush=True)
    print(f"median of {asked.pairs} pairs: {statistics.median(ratios):.3f} times (target: at most 1.1)")


if __name__ == "__main__":
    main()
