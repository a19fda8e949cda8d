"""What a file of positions holds, before its sections are known: where it lies, which edges, which classes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mobfl.errors import InputError
from mobfl.files.bounds import in_sentences, opened
from mobfl.files.xml import xml_elements
from mobfl.mobility.networks import Bounds
from mobfl.mobility.rows import Row, Value, csv_rows, parquet_rows

_COLUMNS = {"id", "vehicle_id", "x", "y", "lane", "type"}


@dataclass
class Scan:
    """Of a whole file.

    Args:
        bounds: x0, y0, x1 and y1 around all positions.
        edges: By their names, those within junctions left out.
        class_of: Each vehicle's type, where it is told.
    """

    bounds: Bounds = (math.inf, math.inf, -math.inf, -math.inf)
    edges: dict[str, None] = field(default_factory=dict)
    class_of: dict[str, str] = field(default_factory=dict)

    def take(self, value: Value) -> None:
        row = value.row
        if row.get("x") and row.get("y"):
            x, y = value.number("x"), value.number("y")
            x0, y0, x1, y1 = self.bounds
            self.bounds = min(x, x0), min(y, y0), max(x, x1), max(y, y1)
        if (edge := row.get("lane", "").rpartition("_")[0]) and not edge.startswith(":"):
            self.edges[edge] = None
        if kind := row.get("type"):
            self.class_of[value.name("id" if "id" in row else "vehicle_id")] = kind


def scan(file: Path) -> Scan:
    """Reads SUMO's floating-car data, or any table with columns x and y."""
    found = Scan()
    with in_sentences("trace", file):
        for line, row in _rows(file):
            found.take(Value(file, line, row))
    if not math.isfinite(found.bounds[0]):
        raise InputError(f"trace {str(file)!r} must have positions in columns x and y, got none")
    return found


def _rows(file: Path) -> Iterator[Row]:
    kind = file.name.lower().removesuffix(".gz")
    if kind.endswith(".xml"):
        with opened(file) as binary:
            yield from ((line, values) for line, name, values in xml_elements(file, binary) if name == "vehicle")
    elif kind.endswith((".parquet", ".pq")):
        yield from parquet_rows(file, _COLUMNS)
    elif kind.endswith((".csv", ".txt")):
        yield from csv_rows(file)
    else:
        raise InputError(f"trace must be a .csv, .parquet or .xml file (.gz allowed), got {str(file)!r}")
