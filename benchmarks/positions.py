"""How fast files of positions are read, and in how much memory: rows per second of CPU time beside a bare reader.

    python benchmarks/positions.py size [MB] [KIND …]   csv, parquet and xml of that size (1000) and a tenth of it
    python benchmarks/positions.py stations FILE        one section and ten, alternately, of floating-car data

`size` makes the files in a temporary folder: vehicles on a ring that pass a section again and again. Every file is read
in a process of its own, whose peak memory is told. The peers make columns of the same file and follow nobody: pyarrow's
streaming readers, and for XML expat with a handler that does nothing. Both must find the same number of rows, and the
reader the crossings that the ring has. For `stations`, SUMO writes a file, for example

    sumo -c run.sumocfg --end 900 --step-length 0.5 --fcd-output FILE.xml
"""

import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.parsers import expat

import numpy as np
import pyarrow
from pyarrow import csv, parquet

from mobfl import read_stations
from mobfl.mobility.sections import Box, Circle, Section

VEHICLES, SPEED_MPS, RING_M, TURNS = 2000, 10.0, 30_000.0, 3
SECTION = Box(-5.0, -5.0, 200.0, 5.0)  # 205 m of which the ring has 200


def steps(rows: int) -> Iterator[pyarrow.Table]:
    """The ring: a way along the x axis that begins again after 30 km, everybody 15 m behind the next."""
    names = pyarrow.array([f"veh.{i}" for i in range(VEHICLES)])
    lanes = pyarrow.array([f"edge{i % 97}_0" for i in range(VEHICLES)])
    for step in range(-(-rows // VEHICLES)):
        x = np.round((np.arange(VEHICLES) * RING_M / VEHICLES + SPEED_MPS * step) % RING_M, 2)
        columns = [np.full(VEHICLES, float(step)), names, x, np.zeros(VEHICLES), lanes, x, np.full(VEHICLES, SPEED_MPS)]
        yield pyarrow.table(columns, names=["time", "id", "x", "y", "lane", "pos", "speed"])


def batched(tables: Iterator[pyarrow.Table], count: int) -> Iterator[list[pyarrow.Table]]:
    while some := list(itertools.islice(tables, count)):
        yield some


def write(file: Path, megabytes: float) -> None:
    rows = int(megabytes * 1e6 / {".csv": 41.5, ".parquet": 4.4, ".xml": 87}[file.suffix])
    if file.suffix == ".xml":
        with file.open("w") as out:
            out.write("<fcd-export>\n")
            for table in steps(rows):
                out.write(f'<timestep time="{table["time"][0]}">\n')
                columns = (table[name].to_pylist() for name in ("id", "x", "lane", "pos"))
                for name, x, lane, pos in zip(*columns, strict=True):
                    out.write(f'<vehicle id="{name}" x="{x}" y="0.0" lane="{lane}" pos="{pos}" speed="10.0"/>\n')
                out.write("</timestep>\n")
            out.write("</fcd-export>\n")
        return
    schema = next(steps(1)).schema
    kind = csv.CSVWriter if file.suffix == ".csv" else parquet.ParquetWriter
    with kind(file, schema) as writer:
        for some in batched(steps(rows), 50):
            writer.write_table(pyarrow.concat_tables(some))


def bare(file: Path) -> int:
    """Columns of the file and nothing else."""
    if file.suffix == ".csv":
        options = csv.ReadOptions(use_threads=False, block_size=1 << 20)
        return sum(len(batch) for batch in csv.open_csv(file, options))
    if file.suffix == ".parquet":
        return sum(len(batch) for batch in parquet.ParquetFile(file).iter_batches(use_threads=False))
    parser, count = expat.ParserCreate(), [0]

    def start(name: str, _: list[str]) -> None:
        count[0] += name == "vehicle"

    parser.ordered_attributes, parser.StartElementHandler = True, start
    with file.open("rb") as binary:
        parser.ParseFile(binary)
    return count[0]


def ours(file: Path) -> int:
    """How many crossings; every vehicle comes once in a round of 3000 s, and those between are there at the start."""
    return len(read_stations(file, {"s": SECTION})["s"])


def measure(name: str, file: Path) -> None:
    """In a process of its own: seconds of CPU time, what was found, and the peak memory."""
    work: Callable[[Path], int] = {"bare": bare, "ours": ours}[name]
    if name == "ours":  # compiled, or taken from the cache, before the clock runs
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "small.csv", 1)
            ours(Path(folder) / "small.csv")
    begin = time.process_time()
    found = work(file)
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "found": found, "peak_mib": peak}))


def in_a_process(name: str, file: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "measure", name, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout)
    return told


def sizes(megabytes: float, kinds: Sequence[str]) -> None:
    for suffix in (f".{kind}" for kind in kinds):
        for size in (megabytes / 10, megabytes):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / f"fcd{suffix}"
                write(file, size)
                turns = [(in_a_process("bare", file), in_a_process("ours", file)) for _ in range(TURNS)]
                theirs, own = zip(*turns, strict=True)
                rows = int(theirs[0]["found"])
                lasts_s = rows / VEHICLES - 1
                # A vehicle is on the section for 20 s of every 3000: so many pass, and 14 are there at the start.
                passed = VEHICLES * SPEED_MPS * lasts_s / RING_M + 14
                assert math.isclose(own[0]["found"], passed, abs_tol=3), (own[0]["found"], passed)
                best, peer = (min(each["seconds"] for each in runs) for runs in (own, theirs))
                peaks = [max(each["peak_mib"] for each in runs) for runs in (own, theirs)]
                print(
                    f"{suffix[1:]:8} {file.stat().st_size / 1e6:7,.0f} MB {rows:12,} rows {rows / best:12,.0f} rows/s "
                    f" {peer / best:.2f} of the bare reader   peak {peaks[0]:,.0f} MiB (bare {peaks[1]:,.0f})",
                    flush=True,
                )


def stations(file: Path) -> None:
    seen = read_stations(file, {"all": Box(-1e7, -1e7, 1e7, 1e7)}, keep_tracks=True)["all"].tracks
    assert seen is not None
    places = np.stack([seen.x_m, seen.y_m], axis=1)
    chosen = places[np.random.default_rng(0).choice(len(places), 10, replace=False)]
    ten: dict[str, Section] = {f"s{i}": Circle(float(x), float(y), 150.0) for i, (x, y) in enumerate(chosen)}
    spent = dict[int, list[float]]()
    for _ in range(2 * TURNS):
        for count in (1, 10):
            begin = time.process_time()
            found = read_stations(file, dict(list(ten.items())[:count]))
            spent.setdefault(count, []).append(time.process_time() - begin)
            assert len(found) == count
            assert all(map(len, found.values()))
    one, all_ten = (min(each) for each in spent.values())
    print(f"{file.name}: one station {one:.2f} s, ten {all_ten:.2f} s, {all_ten / one:.2f} times one")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", name, file]:
            measure(name, Path(file))
        case ["stations", file]:
            stations(Path(file))
        case ["size", *rest]:
            sizes(float(rest[0]) if rest else 1000.0, rest[1:] or ("csv", "parquet", "xml"))
        case _:
            sys.exit(__doc__)
