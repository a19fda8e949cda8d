"""How fast traces are read: rows per second of CPU time, and the ratio to a bare loop of Python's or Arrow's reader.

    python benchmarks/reading.py [ROWS]

The peers do no more than make numbers of the columns: csv.reader for CSV, ElementTree.iterparse for XML, and
pyarrow's read_table with to_pylist for Parquet. They have no limits, no line numbers and no sentences. Both take
turns, the best of five counts, and both must find the same crossings.
"""

import csv
import gzip
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from pyarrow import parquet

from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings, write_crossings

ROWS, TURNS = 200_000, 5
Rows = list[tuple[str, float, float]]


def crossings(rows: int) -> Crossings:
    enter_s = [1.5 * i for i in range(rows)]
    return Crossings.sorted([f"flow.{i}" for i in range(rows)], enter_s, [each + 20.25 for each in enter_s])


def write_trips(made: Crossings, file: Path) -> None:
    columns = zip(made.vehicle.tolist(), made.enter_s.tolist(), made.leave_s.tolist(), strict=True)
    trips = (f'<tripinfo id="{v}" depart="{a}" arrival="{b}" departLane="e_0"/>\n' for v, a, b in columns)
    file.write_text("<tripinfos>\n" + "".join(trips) + "</tripinfos>\n")


def bare_csv(file: Path) -> Rows:
    with gzip.open(file, "rt", newline="") if file.suffix == ".gz" else file.open(newline="") as lines:
        rows = csv.reader(lines)
        next(rows)
        return [(vehicle, float(enter), float(leave)) for vehicle, enter, leave in rows]


def bare_xml(file: Path) -> Rows:
    found = Rows()
    for _, element in ElementTree.iterparse(file):
        if element.tag == "tripinfo":
            found.append((element.attrib["id"], float(element.attrib["depart"]), float(element.attrib["arrival"])))
            element.clear()
    return found


def bare_parquet(file: Path) -> Rows:
    table = parquet.read_table(file)
    return list(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))


def seconds(read: Callable[[Path], object], file: Path) -> tuple[float, object]:
    begin = time.process_time()
    found = read(file)
    return time.process_time() - begin, found


def compare(file: Path, peer: Callable[[Path], Rows], made: Crossings) -> None:
    ours, theirs = list[float](), list[float]()
    for _ in range(TURNS):
        spent, found = seconds(read_crossings, file)
        ours.append(spent)
        assert isinstance(found, Crossings)
        assert found.fingerprint() == made.fingerprint()
        spent, rows = seconds(peer, file)
        theirs.append(spent)
        assert rows == list(zip(made.vehicle.tolist(), made.enter_s.tolist(), made.leave_s.tolist(), strict=True))
    print(f"{file.name:12} {len(made) / min(ours):12,.0f} rows/s   {min(theirs) / min(ours):.2f} of {peer.__name__}")


def main(rows: int) -> None:
    made = crossings(rows)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("own.csv", "own.parquet"):
            write_crossings(made, place / name)
        (place / "own.csv.gz").write_bytes(gzip.compress((place / "own.csv").read_bytes(), 1))
        write_trips(made, place / "trips.xml")
        for name, peer in (
            ("own.csv", bare_csv), ("own.csv.gz", bare_csv), ("trips.xml", bare_xml), ("own.parquet", bare_parquet)
        ):  # fmt: skip
            compare(place / name, peer, made)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
