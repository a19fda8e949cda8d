"""What an upload costs in a city of ten stations, against what it costs at one.

Both train `beams` on generated data with the planner's H and T, alternately in one process, on one thread; CPU time per
upload, from the run's beginning to its last file. Ten stations train a tenth of the time, so both have about as many
uploads. Both compute as many local steps per upload and one evaluation per round.

    python benchmarks/city.py
    python benchmarks/city.py --seconds 1000 --pairs 5
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from mobfl import Job, Scenario, TaskRequest, build_task, train

STATIONS = 10


def cpu_per_upload(task: Any, scenario: Scenario, seed: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        history = train(Job(task, scenario, "mobfl", seed), Path(folder) / "run", checkpoint_s=1e9)
        spent_s = time.process_time() - began
    rows = history.of_vehicles.columns
    uploads = int(rows["uploads"].sum())
    steps = int(rows["steps"].sum())
    assert uploads > 0, "somebody must have uploaded"
    assert steps == 24 * uploads, "every upload must have taken the plan's H steps"
    return spent_s / uploads, uploads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="of the single station's training")
    parser.add_argument("--pairs", type=int, default=3)
    asked = parser.parse_args()
    task = build_task("beams", TaskRequest({"training_samples": 2048, "validation_samples": 256}))
    single = Scenario.from_dict({"training": {"duration_s": asked.seconds}})
    city = Scenario.from_dict(
        {
            "training": {"duration_s": asked.seconds / STATIONS + 12},
            "corridor": {"stations": STATIONS, "turns_off": 0.2},
            "cloud": {"every_rounds": 2},
        }
    )
    cpu_per_upload(task, Scenario.from_dict({"training": {"duration_s": 120.0}}), 1)  # which compiles
    ratios = list[float]()
    for seed in range(1, asked.pairs + 1):
        one, few = cpu_per_upload(task, single, seed)
        ten, many = cpu_per_upload(task, city, seed)
        ratios.append(ten / one)
        print(
            f"seed {seed}: one station {one:.3f} s per upload ({few}), ten {ten:.3f} s ({many}), {ten / one:.3f} times"
        )
    print(f"median of {asked.pairs} pairs: {statistics.median(ratios):.3f} times (target: at most 1.1)")


if __name__ == "__main__":
    main()
