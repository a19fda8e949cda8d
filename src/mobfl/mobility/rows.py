"""Rows of tables, from CSV and Parquet alike: a line's number and its values by column, as text.

A row costs what it holds: lines, rows that go on over many lines, and names have a limit, and so has the number of rows
that a small Parquet file may claim.
"""

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from mobfl.errors import InputError, MissingExtraError, brief, broken_line
from mobfl.files.bounds import lines_of, opened

# SUMO numbers its vehicles or takes names from a route file; Argoverse's have 36 characters.
MOST_NAME_CHARACTERS = 256
# Text in quotes may go on over lines, which a table of traffic has no use for.
MOST_LINES_PER_ROW = 100
# Editors leave one or two behind.
MOST_BLANK_LINES = 10_000
# In Parquet equal rows cost next to nothing, but those of traffic differ: they take several bytes each.
MOST_ROWS_PER_BYTE, ROWS_FREELY = 10, 1_000_000
# Of Parquet's columns only these are read, so that no other one can be wrong.
_COLUMNS = {
    "vehicle", "enter_s", "leave_s", "vehicle_id", "global_time", "local_x", "local_y",
    "id", "frame", "x", "y", "width", "height", "time", "lane", "pos", "speed",
}  # fmt: skip
# Names that SUMO's converters put before a column's own name.
_PREFIXES = ("fcd-export_", "fcd_", "timestep_", "vehicle_")

Row = tuple[int, dict[str, str]]  # a line's number and its values by column


def csv_rows(file: Path) -> Iterator[Row]:
    with opened(file) as binary:
        lines = lines_of(file, binary)
        header = next(lines, "").strip()
        separator = ";" if ";" in header else ","
        names = [own_name(name) for name in header.split(separator)]
        line, blank = 1, 0

        def of_few_lines_each() -> Iterator[str]:
            for number, text in enumerate(lines, start=1):
                if number > line + MOST_LINES_PER_ROW:
                    raise broken_line(file, line + 1, f"rows of at most {MOST_LINES_PER_ROW} lines", "a longer one")
                yield text

        reader = csv.reader(of_few_lines_each(), delimiter=separator)
        try:
            for row in reader:
                line, blank = reader.line_num + 1, blank + (not row)
                if blank > MOST_BLANK_LINES:
                    raise broken_line(file, line, f"at most {MOST_BLANK_LINES} blank lines", "more")
                if row and len(row) != len(names):
                    raise broken_line(file, line, f"{len(names)} values, as in the header", len(row))
                if row:
                    yield line, dict(zip(names, row, strict=True))
        except csv.Error as error:
            raise broken_line(file, reader.line_num + 1, "rows of text", f"a row that is none ({error})") from None


def own_name(name: str) -> str:
    """Without what SUMO's converters put before it, in lower case."""
    name = name.strip().strip('"').lower()
    for prefix in _PREFIXES:
        if name != "vehicle_id":  # NGSIM has a vehicle_id of its own
            name = name.removeprefix(prefix)
    return name


def parquet_rows(file: Path, wanted: Collection[str] = _COLUMNS) -> Iterator[Row]:
    _, parquet = arrow()
    line = 0
    try:
        with parquet.ParquetFile(file) as opened_file:
            columns = _readable_columns(file, opened_file, wanted)
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


def _readable_columns(file: Path, opened_file: Any, wanted: Collection[str]) -> dict[str, bool]:
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
        if own_name(column.name) in wanted:
            if not (text or numbers or types.is_boolean(kind) or types.is_null(kind)):
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
