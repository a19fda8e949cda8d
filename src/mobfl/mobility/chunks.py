"""Tables as chunks of columns: quickly by Arrow or a bare XML parser, or row by row with the words for what is wrong.

Both give the same values. The quick readers know no lines: what they do not like, they leave to the other, which reads
the file again and either names the line or finds that nothing is wrong.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from mobfl.errors import InputError, broken_line, shown
from mobfl.files.bounds import opened
from mobfl.files.xml import OtherTagError, Tags, xml_elements, xml_tags
from mobfl.mobility.rows import (
    MOST_NAME_CHARACTERS,
    Layout,
    Row,
    arrow,
    own_name,
    readable_columns,
)  # fmt: skip
from mobfl.mobility.samples import Array, Ints, Rows, empty_rows
from mobfl.scenario import MOST

_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE, _BLOCK_BYTES = 1 << 14, 1 << 22, 1 << 20
_MILLISECONDS_FROM = 1e11  # seconds since 1970 would be those of the year 5138


class NotCleanError(Exception):
    """Something that a quick reader does not like."""


class Chunk(Protocol):
    """Some rows of a table, by column."""

    @property
    def columns(self) -> Collection[str]: ...

    def __len__(self) -> int: ...

    def texts(self, column: str) -> list[str]: ...

    def codes(self, column: str, codes: dict[Any, int]) -> Ints:
        """The number of each name, by a dictionary that makes new ones itself."""

    def numbers(self, column: str, optional: bool = False) -> Array:
        """Finite numbers; NaN where there is none, if that may be."""

    def times_s(self, column: str) -> Array:
        """Seconds since 1970 from dates, milliseconds or seconds."""

    def broken(self, row: int, rule: str, value: object) -> Exception:
        """What is raised for a row that breaks a rule."""


@dataclass(frozen=True)
class RowChunk:
    """Text with its lines."""

    file: Path
    lines: list[int]
    values: Mapping[str, list[str]]

    @property
    def columns(self) -> Collection[str]:
        return self.values

    def __len__(self) -> int:
        return len(self.lines)

    def broken(self, row: int, rule: str, value: object) -> Exception:
        return broken_line(self.file, self.lines[row], rule, value)

    def texts(self, column: str) -> list[str]:
        return self.values[column]

    def codes(self, column: str, codes: dict[Any, int]) -> Ints:
        for row, name in enumerate(self.values[column]):
            if len(name) > MOST_NAME_CHARACTERS:
                rule = f"a name of at most {MOST_NAME_CHARACTERS} characters in {column}"
                raise self.broken(row, rule, f"{len(name)}")
        return np.fromiter(map(codes.__getitem__, self.values[column]), np.int64, len(self))

    def numbers(self, column: str, optional: bool = False) -> Array:
        texts = self.values[column]
        return self._each(column, lambda text: math.nan if optional and not text else float(text), "a number", texts)

    def times_s(self, column: str) -> Array:
        return self._each(column, _seconds, "seconds or a date", self.values[column])

    def _each(self, column: str, number: Callable[[str], float], what: str, texts: list[str]) -> Array:
        found = np.empty(len(texts))
        for row, text in enumerate(texts):
            try:
                found[row] = number(text)
            except (ValueError, OverflowError):
                raise self.broken(row, f"{what} in {column}", shown(text)) from None
        for row in np.flatnonzero(~(np.abs(found) <= MOST)).tolist():
            if not (math.isnan(found[row]) and not texts[row]):
                raise self.broken(row, f"a finite number of at most {MOST:g} in {column}", float(found[row]))
        return found


def _seconds(text: str) -> float:
    try:
        return _in_seconds(float(text))
    except ValueError:
        when = datetime.fromisoformat(text.strip())
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _in_seconds(number: Any) -> Any:
    """Of numbers that would be far in the future as seconds, milliseconds."""
    return np.where(np.abs(number) > _MILLISECONDS_FROM, np.divide(number, 1000), number)[()]


@dataclass(frozen=True)
class ArrowChunk:
    """Columns of Arrow."""

    values: Mapping[str, Any]

    @property
    def columns(self) -> Collection[str]:
        return self.values

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def broken(self, row: int, rule: str, value: object) -> Exception:
        return NotCleanError(f"{rule}, got {value} in row {row}")

    def texts(self, column: str) -> list[str]:
        return ["" if value is None else str(value) for value in self.values[column].to_pylist()]

    def codes(self, column: str, codes: dict[Any, int]) -> Ints:
        pyarrow, _ = arrow()
        column_of = self.values[column]
        try:
            coded = column_of if pyarrow.types.is_dictionary(column_of.type) else column_of.dictionary_encode()
        except pyarrow.ArrowException as error:
            raise NotCleanError(str(error)) from None
        names = ["" if name is None else str(name) for name in coded.dictionary.to_pylist()]
        if any(len(name) > MOST_NAME_CHARACTERS or '"' in name or "\n" in name for name in names):
            raise NotCleanError("a long name, or one with a quotation mark or over lines")
        numbers = np.fromiter(map(codes.__getitem__, [*names, ""]), np.int64, len(names) + 1)
        return numbers[coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)]

    def numbers(self, column: str, optional: bool = False) -> Array:
        values = self._cast(column)
        found = np.asarray(values.to_numpy(zero_copy_only=False), float)
        fine = np.abs(found) <= MOST
        if values.null_count and optional:
            fine |= values.is_null().to_numpy(zero_copy_only=False)
        if not fine.all():
            raise NotCleanError(f"no number in {column}")
        return found

    def times_s(self, column: str) -> Array:
        pyarrow, _ = arrow()
        kind = self.values[column].type
        if pyarrow.types.is_timestamp(kind):
            try:
                as_us = self.values[column].cast(pyarrow.timestamp("us", kind.tz)).cast(pyarrow.int64())
            except pyarrow.ArrowException as error:
                raise NotCleanError(str(error)) from None
            if as_us.null_count:
                raise NotCleanError(f"no date in {column}")
            return np.asarray(as_us.to_numpy() / 1e6)
        return np.asarray(_in_seconds(self.numbers(column)))

    def _cast(self, column: str) -> Any:
        pyarrow, _ = arrow()
        values = self.values[column]
        if pyarrow.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        try:
            return values.cast(pyarrow.float64())
        except pyarrow.ArrowException as error:
            raise NotCleanError(str(error)) from None


# ---- row by row -----------------------------------------------------------------------------------


def chunks_of(file: Path, rows: Iterator[Row]) -> Iterator[RowChunk]:
    """Of rows, not too many nor too long at once."""
    lines, values, characters = list[int](), dict[str, list[str]](), 0
    for line, row in rows:
        values = values or {name: [] for name in row}
        lines.append(line)
        for name, column in values.items():
            column.append(row[name])
            characters += len(row[name])
        if len(lines) >= _ROWS_AT_ONCE or characters > _CHARACTERS_AT_ONCE:
            yield RowChunk(file, lines, values)
            lines, values, characters = [], {}, 0
    if lines:
        yield RowChunk(file, lines, values)


def fcd_rows(file: Path) -> Iterator[Row]:
    """SUMO's floating-car data in XML as rows; a step without vehicles is one without a name."""
    names, now, time = ("id", "x", "y", "lane", "pos", "speed"), -math.inf, ""
    with opened(file) as binary:
        for line, name, values in xml_elements(file, binary):
            if name == "timestep":
                time = values.get("time", "")
                step_s = RowChunk(file, [line], {"time": [time]}).numbers("time")[0]
                if step_s <= now:
                    raise broken_line(file, line, "times in order", f"{step_s:g} s after {now:g} s")
                now = step_s
                yield line, {"time": time, **dict.fromkeys(names, "")}
            elif name == "vehicle":
                if not time:
                    raise broken_line(file, line, "a timestep around it", "<vehicle> alone")
                yield line, {"time": time, **{key: values.get(key, "") for key in names}}


# ---- quickly --------------------------------------------------------------------------------------


def quick_csv(
    file: Path, layout: Layout, numbers: Collection[str], texts: Collection[str], dates: Collection[str]
) -> Iterator[ArrowChunk]:
    """Those columns of a table that it has; dates as whatever Arrow takes them for."""
    from pyarrow import csv

    pyarrow, _ = arrow()
    names = layout.names
    if len(set(names)) < len(names):
        raise NotCleanError("two columns of one name")
    wanted = [name for name in names if name in (*numbers, *texts, *dates)]
    kinds = dict.fromkeys(numbers, pyarrow.float64())
    kinds |= dict.fromkeys(texts, pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    with opened(file) as binary:
        if layout.has_header:
            binary.readline(_BLOCK_BYTES)
        try:
            reader = csv.open_csv(
                binary,
                csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=list(names)),
                csv.ParseOptions(delimiter=layout.separator),
                csv.ConvertOptions(
                    column_types=kinds, include_columns=wanted, null_values=[""], strings_can_be_null=False
                ),
            )
            for batch in reader:
                if len(batch):
                    yield ArrowChunk(dict(zip(wanted, batch.columns, strict=True)))
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise NotCleanError(str(error)) from None


def quick_parquet(file: Path, wanted: Collection[str]) -> Iterator[ArrowChunk]:
    pyarrow, parquet = arrow()
    try:
        with parquet.ParquetFile(file) as opened_file:
            columns = readable_columns(file, opened_file, wanted)
        names = [own_name(name) for name in columns]
        if len(set(names)) < len(names):
            raise NotCleanError("two columns of one name")
        texts = [column for column, text in columns.items() if text]
        with parquet.ParquetFile(file, read_dictionary=texts) as opened_file:
            for batch in opened_file.iter_batches(columns=list(columns), use_threads=False):
                by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield ArrowChunk({name: by_name[column] for name, column in zip(names, columns, strict=True)})
    except InputError:
        raise
    except (pyarrow.ArrowException, ValueError, TypeError, KeyError, NotImplementedError, OSError) as error:
        raise NotCleanError(str(error)) from None


def quick_fcd(file: Path, codes: dict[Any, int], lanes: dict[str, int]) -> Iterator[Rows]:
    """SUMO's floating-car data in XML, as long as all vehicles have the same attributes."""
    now_s, step, others = -math.inf, -1, {"fcd-export", "person", "container"}
    with opened(file) as binary:
        for tags, marks in _tags(file, binary, others):
            try:
                times_s = np.array([now_s, *(float(values[values.index("time") + 1]) for _, values in marks)])
                rows = _tag_rows(tags, codes, lanes)
            except (ValueError, KeyError) as error:
                raise NotCleanError(str(error)) from None
            if not (np.abs(times_s[1:]) <= MOST).all() or not (np.diff(times_s) > 0).all():
                raise NotCleanError("times in order")
            ends = np.array([*(position for position, _ in marks), len(tags)])
            if step < 0 and ends[0] > 0:
                raise NotCleanError("a vehicle outside of every step")
            of_step = np.repeat(np.arange(len(times_s)), np.diff(ends, prepend=0))
            rows = rows._replace(time_s=times_s[of_step], step=step + of_step)
            blank = empty_rows(len(marks))._replace(time_s=times_s[1:], step=step + np.arange(1, len(times_s)))
            now_s, step = float(times_s[-1]), step + len(marks)
            yield Rows(*(np.insert(a, ends[:-1], b) for a, b in zip(rows, blank, strict=True)))


def _tags(file: Path, binary: BinaryIO, others: Collection[str]) -> Iterator[Tags]:
    try:
        yield from xml_tags(file, binary, "vehicle", "timestep", others)
    except OtherTagError as error:
        raise NotCleanError(str(error)) from None


def _tag_rows(tags: list[list[str]], codes: dict[Any, int], lanes: dict[str, int]) -> Rows:
    """Of tags that have the same attributes in the same order."""
    if not tags:
        return empty_rows(0)
    columns, seen = list(zip(*tags, strict=True)), dict[str, tuple[str, ...]]()
    for name, values in zip(columns[::2], columns[1::2], strict=True):
        if len(set(name)) > 1:
            raise ValueError("other attributes")
        seen[name[0]] = values
    if max(map(len, seen["id"])) > MOST_NAME_CHARACTERS:
        raise ValueError("a long name")
    numbers: dict[str, Any] = {
        field: np.fromiter(map(float, seen[name]), float, len(tags))
        for name, field in (("x", "x"), ("y", "y"), ("pos", "along_m"), ("speed", "speed_mps"))
        if name in seen
    }
    if not all((np.abs(column) <= MOST).all() for column in numbers.values()):
        raise ValueError("a number that is none")
    numbers["vehicle"] = np.fromiter(map(codes.__getitem__, seen["id"]), np.int64, len(tags))
    if "lane" in seen:
        numbers["edge"] = np.fromiter(map(lanes.__getitem__, seen["lane"]), np.int64, len(tags))
    return empty_rows(len(tags))._replace(**numbers)
