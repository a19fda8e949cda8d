"""Rows of tables, from CSV and Parquet alike: a line's number and its values by column, as text.

A row costs what it holds: lines, rows that go on over many lines, and names have a limit, and so has the number of rows
that a small Parquet file may claim.
"""

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mobfl.errors import InputError, MissingExtraError, brief, broken_line, shown
from mobfl.files.bounds import lines_of, opened
from mobfl.scenario import MOST

# SUMO numbers its vehicles or takes names from a route file; Argoverse's have 36 characters.
MOST_NAME_CHARACTERS = 256
# Text in quotes may go on over lines, which a table of traffic has no use for.
MOST_LINES_PER_ROW = 100
# Editors leave one or two behind.
MOST_BLANK_LINES = 10_000
# In Parquet equal rows cost next to nothing, but those of traffic differ: they take several bytes each.
MOST_ROWS_PER_BYTE, ROWS_FREELY = 10, 1_000_000
# The usual names of who was where when, in degrees.
IDS = (
    "id", "vehicle_id", "vehicle", "veh_id", "vehicleid", "vehid", "track_id", "trackid", "taxi_id", "taxiid", "cab_id",
    "driver_id", "driverid", "device_id", "deviceid", "object_id", "user_id", "car_id", "name",
)  # fmt: skip
TIMES = ("time", "timestamp", "datetime", "date_time", "gps_time", "unix_time", "epoch", "time_s", "t", "date")
LONGITUDES = ("lon", "longitude", "lng", "long")
LATITUDES = ("lat", "latitude")
# Of a table's columns only these are read, so that no other one can be wrong.
_COLUMNS = {
    "vehicle", "enter_s", "leave_s", "cut", "vehicle_id", "global_time", "local_x", "local_y",
    "id", "frame", "x", "y", "width", "height", "time", "lane", "pos", "speed", "depart", "arrival",
    "trackid", "xcenter", "ycenter", "polyline", "point",
    *IDS, *TIMES, *LONGITUDES, *LATITUDES,
}  # fmt: skip
# Names that SUMO's converters put before a column's own name.
_PREFIXES = ("fcd-export_", "fcd_", "timestep_", "vehicle_", "tripinfos_", "tripinfo_")
_NUMBER, _DATE = r"-?\d+(\.\d*)?(e[-+]?\d+)?", r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*"
# Tables without a header that are known by their first line: its separator and what the columns are.
_WITHOUT_HEADER = {
    rf"\d+,{_DATE},{_NUMBER},{_NUMBER}": (",", ("id", "time", "lon", "lat")),  # T-Drive
    rf"{_NUMBER} {_NUMBER} [01] \d+": (" ", ("lat", "lon", "occupied", "time")),  # Cabspotting, a file per cab
    rf"\d+;{_DATE};POINT\({_NUMBER} {_NUMBER}\)": (";", ("id", "time", "point")),  # roma/taxi
    rf"{_NUMBER} [^ ]+ {_NUMBER} {_NUMBER} {_NUMBER}": (" ", ("time", "id", "x", "y", "speed")),  # koln.tr
}

Row = tuple[int, dict[str, str]]  # a line's number and its values by column


class Value(NamedTuple):
    """The values of a row, and the words for what is wrong with one."""

    file: Path
    line: int
    row: Mapping[str, str]

    def number(self, column: str) -> float:
        try:
            value = float(self.row[column])
        except (KeyError, ValueError):
            raise broken_line(self.file, self.line, f"a number in {column}", shown(self.row.get(column))) from None
        if not abs(value) <= MOST:
            raise broken_line(self.file, self.line, f"a finite number of at most {MOST:g} in {column}", value)
        return value

    def name(self, column: str) -> str:
        name = self.row.get(column, "")
        if len(name) > MOST_NAME_CHARACTERS:
            rule = f"a name of at most {MOST_NAME_CHARACTERS} characters in {column}"
            raise broken_line(self.file, self.line, rule, f"{len(name)}")
        return name


@dataclass(frozen=True)
class Layout:
    """How a table of text is laid out."""

    separator: str
    names: tuple[str, ...]
    has_header: bool = True
    uneven: bool = False  # rows may be longer than the header, as pNEUMA's are


def layout_of(file: Path) -> Layout:
    """By the first line: a header, or a row of a kind that has none."""
    with opened(file) as binary, closing(lines_of(file, binary)) as lines:
        first = next(lines, "").strip()
    for line, (separator, names) in _WITHOUT_HEADER.items():
        if re.fullmatch(line, first):
            return Layout(separator, names, has_header=False)
    separator = next((each for each in ";,\t" if each in first), "," if " " not in first else " ")
    names = tuple(own_name(name) for name in first.split(separator))
    return Layout(separator, names, uneven=names[:4] == PNEUMA)


PNEUMA = ("track_id", "type", "traveled_d", "avg_speed")


def csv_rows(file: Path, layout: Layout | None = None) -> Iterator[Row]:
    """The rows of a table of text; without a layout, as its first line says."""
    layout = layout or layout_of(file)
    names = layout.names
    with opened(file) as binary, closing(lines_of(file, binary)) as lines:
        if layout.has_header:
            next(lines, "")
        first = 1 if layout.has_header else 0
        line, blank = first, 0

        def of_few_lines_each() -> Iterator[str]:
            for number, text in enumerate(lines, start=first):
                if number > line + MOST_LINES_PER_ROW:
                    raise broken_line(file, line + 1, f"rows of at most {MOST_LINES_PER_ROW} lines", "a longer one")
                yield text

        reader = csv.reader(of_few_lines_each(), delimiter=layout.separator)
        try:
            for row in reader:
                line, blank = reader.line_num + first, blank + (not row)
                if blank > MOST_BLANK_LINES:
                    raise broken_line(file, line, f"at most {MOST_BLANK_LINES} blank lines", "more")
                if row and len(row) != len(names) and not layout.uneven:
                    raise broken_line(file, line, f"{len(names)} values, as in the header", len(row))
                if row:
                    yield line, _by_name(names, row, layout.uneven)
        except csv.Error as error:
            raise broken_line(file, reader.line_num + first, "rows of text", f"a row that is none ({error})") from None


def _by_name(names: Sequence[str], row: list[str], uneven: bool) -> dict[str, str]:
    if not uneven:
        return dict(zip(names, row, strict=True))
    return {"id": row[0].strip(), "samples": ";".join(row[len(PNEUMA) :])}


def own_name(name: str) -> str:
    """Without what SUMO's converters put before it, in lower case."""
    name = name.strip().strip('"').lower()
    for prefix in _PREFIXES:
        if name != "vehicle_id":  # NGSIM has a vehicle_id of its own
            name = name.removeprefix(prefix)
    return name


def parquet_columns(file: Path) -> list[str]:
    """The names of those that may count."""
    _, parquet = arrow()
    try:
        with parquet.ParquetFile(file) as opened_file:
            return [own_name(name) for name in readable_columns(file, opened_file, _COLUMNS)]
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InputError(f"trace {str(file)!r} must be Parquet: {_first_line(error)}") from None


def parquet_rows(file: Path, wanted: Collection[str] = _COLUMNS) -> Iterator[Row]:
    _, parquet = arrow()
    line = 0
    try:
        with parquet.ParquetFile(file) as opened_file:
            columns = readable_columns(file, opened_file, wanted)
        # Names come as numbers and a list of the different ones, each of which is there once.
        texts = [column for column, text in columns.items() if text]
        with parquet.ParquetFile(file, read_dictionary=texts) as opened_file:
            for batch in opened_file.iter_batches(columns=list(columns)):
                names = [own_name(name) for name in batch.schema.names]
                for values in zip(*(_values(file, column) for column in batch.columns), strict=True):
                    line += 1
                    yield line, {name: "" if v is None else str(v) for name, v in zip(names, values, strict=True)}
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:  # Arrow's own errors are of these kinds
        raise InputError(f"trace {str(file)!r} must be Parquet: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return brief(next(iter(str(error).splitlines()), type(error).__name__))


def readable_columns(file: Path, opened_file: Any, wanted: Collection[str]) -> dict[str, bool]:
    """The columns that may count, and whether each is text; none has dates or other things that are no numbers."""
    pyarrow, _ = arrow()
    types, found = pyarrow.types, dict[str, bool]()
    rows, most = opened_file.metadata.num_rows, ROWS_FREELY + MOST_ROWS_PER_BYTE * file.stat().st_size
    if rows > most:
        raise InputError(f"trace {str(file)!r} must have at most {most} rows for its size, got {rows}")
    for column in opened_file.schema_arrow:
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        text = types.is_string(kind) or types.is_large_string(kind)
        numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if (name := own_name(column.name)) in wanted:
            dates = name in TIMES and types.is_timestamp(kind)
            if not (dates or text or numbers or types.is_boolean(kind) or types.is_null(kind)):
                raise InputError(f"trace {str(file)!r} must have numbers or text in {column.name}, got {kind}")
            found[column.name] = text
    return found


def _values(file: Path, column: Any) -> list[Any]:
    pyarrow, _ = arrow()
    if not pyarrow.types.is_dictionary(column.type):
        plain = column.null_count == 0 and column.type in (pyarrow.float64(), pyarrow.int64())
        return list(column.to_numpy().tolist() if plain else column.to_pylist())  # the first is quicker
    from pyarrow import compute

    longest = compute.max(compute.utf8_length(column.dictionary)).as_py() or 0
    if longest > MOST_NAME_CHARACTERS:
        rule = f"text of at most {MOST_NAME_CHARACTERS} characters"
        raise InputError(f"trace {str(file)!r} must have {rule}, got {longest}")
    return list(column.dictionary_decode().to_pylist())


def arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading and writing Parquet", "simulate") from None
    return pyarrow, parquet
