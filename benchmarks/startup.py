"""What it costs to start and to begin from nothing: commands against `python -c "import numpy"`.

    python benchmarks/startup.py

Whole processes, run alternately with the peer; ratios are those of medians. "Cold" is with empty caches: no compiled
kernels and no generated street. `mobfl train` is README's line; its processor time counts all threads.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOBFL = str(Path(sys.executable).with_name("mobfl"))
NUMPY = [sys.executable, "-c", "import numpy"]
PLAN, SIMULATE = [MOBFL, "plan", "--json"], [MOBFL, "simulate", "--json"]
TRAIN = [MOBFL, "train", "beams", "--set", "training.loss_scale=sample", "--set", "training.duration_s=240"]
TRAIN += ["--seed", "1", "--json"]
WARM, COLD = 21, 3

Cost = tuple[float, float]  # wall-clock and processor seconds


def cost(command: list[str], caches: Path, cwd: Path) -> Cost:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(caches / "numba"), "MOBFL_CACHE": str(caches / "mobfl")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    told = subprocess.run(command, check=True, env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True).stdout
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    check(command, told)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check(command: list[str], told: str) -> None:
    """That the work was done which is reported."""
    if command[0] == MOBFL:
        result = json.loads(told)
        uploads = {"plan": "expected_uploads", "simulate": "mean_uploads", "train": "rounds_with_uploads"}[command[1]]
        assert result[uploads], f"{command[1]} must come to uploads, got {result}"


def cold(command: list[str]) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        caches = Path(folder) / "caches"
        return cost([*command, "--out", "run"] if command[1] == "train" else command, caches, Path(folder))


def warm(command: list[str]) -> Cost:
    return cost(command, Path(tempfile.gettempdir()) / "mobfl-startup", Path.cwd())


def medians(costs: list[Cost]) -> Cost:
    wall, cpu = (statistics.median(column) for column in zip(*costs, strict=True))
    return wall, cpu


def show(what: str, ours: list[Cost], peers: list[Cost]) -> None:
    (wall, cpu), (numpy, _) = medians(ours), medians(peers)
    print(f"{what:22} {wall:7.2f} s, {cpu:6.2f} s of CPU: {wall / numpy:6.1f} times import numpy ({numpy:.3f} s)")


def main() -> None:
    pairs = [(warm(PLAN), warm(NUMPY)) for _ in range(WARM)][1:]
    show("mobfl plan", *map(list, zip(*pairs, strict=True)))
    for what, command in (("plan", PLAN), ("simulate", SIMULATE), ("train beams", TRAIN)):
        pairs = [(cold(command), warm(NUMPY)) for _ in range(COLD)]
        show(f"mobfl {what}, cold", *map(list, zip(*pairs, strict=True)))


if __name__ == "__main__":
    main()
