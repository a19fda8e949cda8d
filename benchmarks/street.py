"""How fast the street is generated, and how it compares with Raymobtime's.

    python benchmarks/street.py ../shared/data/raymobtime

Speed is that of one thread after compilation. The comparison needs the folder with s010.npz and, for the share of
receivers in sight, CoordVehiclesRxPerScene_s008.csv.gz; without an argument only the generated street is shown. What
is known of s009 (published, not computed here): the commonest pairs score 19.2/59.7/77.9 %, receive beam 4 has 82 %,
15 % of the receivers see the base station.
"""

import csv
import gzip
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.beams.samples import seen_from_above
from mobfl.tasks.beams.street import street_scenes

SCENES, SEED = 728, 77


def show(name: str, labels: NDArray[np.int64], seen: NDArray[np.int8], in_sight: float | None) -> None:
    counts = np.sort(np.bincount(labels, minlength=256))[::-1] / len(labels)
    receive = np.bincount(labels // 32, minlength=8) / len(labels)
    print(f"{name}: {len(labels)} samples")
    print("  commonest 1/5/10 pairs " + "/".join(f"{counts[:k].sum():.1%}" for k in (1, 5, 10)))
    print(f"  receive beam 4 {receive[4]:.1%}, classes that occur {(counts > 0).sum()}")
    print(f"  occupied cells, from above {(seen == 1).mean():.2%}")
    if in_sight is not None:
        print(f"  receivers in sight of the base station {in_sight:.0%}")


def generated() -> None:
    street_scenes(SEED, 0, 2)
    begin = time.perf_counter()
    samples = street_scenes(SEED, 0, SCENES)
    spent = time.perf_counter() - begin
    labels = samples.amplitude.reshape(len(samples.grid), 256).argmax(axis=1)
    show("generated", labels, seen_from_above(samples.grid), float(samples.line_of_sight.mean()))
    print(f"  {len(labels) / spent:.0f} samples/s")


def real(folder: Path) -> None:
    with np.load(folder / "s010.npz") as stored:
        show("s010", stored["Y"].argmax(axis=1), seen_from_above(stored["LIDAR"]), None)
    with gzip.open(folder / "CoordVehiclesRxPerScene_s008.csv.gz", "rt") as lines:
        sights = [row["LOS"] == "LOS=1" for row in csv.DictReader(lines) if row["Val"] == "V"]
    print(f"s008: {len(sights)} receivers, in sight of the base station {np.mean(sights):.0%}")


if __name__ == "__main__":
    generated()
    if len(sys.argv) > 1:
        real(Path(sys.argv[1]))
