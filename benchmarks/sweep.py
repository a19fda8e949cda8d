"""How much faster two workers finish a sweep than one.

    python benchmarks/sweep.py [--repeats 3]

The same eight runs of beam selection on the generated street, with one worker and with two, alternately, each time into
a new folder. What is compiled and generated once is there before the first measurement.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from mobfl.experiments.sweep import name_runs, run_sweep
from mobfl.experiments.sweep_file import Sweep, sweep_from_dict


def asked(seeds: list[int], duration_s: float) -> Sweep:
    settings = {"training.loss_scale": "sample", "training.duration_s": duration_s}
    return sweep_from_dict({"runs": [{"tasks": ["beams"], "plans": ["mobfl"], "seeds": seeds, "set": settings}]})


def wall_s(sweep: Sweep, workers: int) -> float:
    runs = name_runs(sweep)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        came = run_sweep(sweep, Path(folder), runs=runs, workers=workers)
        spent = time.perf_counter() - began
    assert all(state.status == "done" for state in came.values())
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    wall_s(asked([0, 1], 30.0), workers=2)
    sweep = asked(list(range(8)), 300.0)
    pairs = [(wall_s(sweep, 1), wall_s(sweep, 2)) for _ in range(given.repeats)]
    ratios = sorted(one / two for one, two in pairs)
    print("one worker, two workers (s):", ", ".join(f"{one:.1f}, {two:.1f}" for one, two in pairs))
    print(f"two workers: {statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}] times as fast")


if __name__ == "__main__":
    main()
