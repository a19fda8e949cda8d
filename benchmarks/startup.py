"""What it costs to start, plan and end: `mobfl plan --json` against `python -c "import numpy"`.

    python benchmarks/startup.py

Whole processes, run alternately; the ratio is that of the medians.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

MOBFL = [str(Path(sys.executable).with_name("mobfl")), "plan", "--json"]
NUMPY = [sys.executable, "-c", "import numpy"]


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    pairs = [(seconds(MOBFL), seconds(NUMPY)) for _ in range(21)][1:]
    ours, numpy = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"mobfl plan --json {ours:.3f} s, import numpy {numpy:.3f} s: {ours / numpy:.2f} times")


if __name__ == "__main__":
    main()
