"""Recorded traffic as crossings: our own tables, SUMO's trip and floating-car files, NGSIM and highD.

Files are read as streams, plain or gzipped. What is wrong with one is said in a sentence with file, line and rule.
"""

import itertools
import math
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError, broken_line, shown
from mobfl.files.bounds import opened
from mobfl.files.xml import Element, xml_elements
from mobfl.mobility.crossings import COLUMNS, BrokenRowError, Crossings, named
from mobfl.mobility.rows import MOST_NAME_CHARACTERS, Row, csv_rows, parquet_rows
from mobfl.mobility.sections import Edge, Sample, Section, Step, Tracker, follow
from mobfl.mobility.stored import with_tracks, write_table, write_tracks
from mobfl.mobility.tracks import TrackKeeper
from mobfl.scenario import MOST

_METRES_PER_FOOT = 0.3048
_HIGHD_FRAMES_PER_S = 25.0


def read_crossings(
    file: Path,
    section: Section | None = None,
    kind: str | None = None,
    keep_tracks: bool = False,
    longest_stay_s: float | None = None,
) -> Crossings:
    """The crossings in a file of any known kind.

    Args:
        file: `.csv`, `.parquet` or `.xml`, also `.gz`: crossings, SUMO's trips or floating-car data, NGSIM or highD.
        section: Which part of the road counts; only for files that hold positions, which need one.
        kind: The ending that says what the file is, if not its own name.
        keep_tracks: Whether to keep where vehicles were, if the file says so, or for crossings a file beside it.
        longest_stay_s: Longer stays are left out, as those of parked vehicles; by default none is.
    """
    if "\0" in str(file):
        raise InputError(f"trace must be a file's name, got {str(file)!r}")
    try:
        kind = kind or "".join(suffix for suffix in file.suffixes if suffix != ".gz").lower()
        if kind.endswith(".xml"):
            crossings = _read_xml(file, section, keep_tracks)
        elif kind.endswith((".parquet", ".pq")):
            crossings = _read_rows(file, parquet_rows(file), section, keep_tracks)
        elif kind.endswith((".csv", ".txt")):
            crossings = _read_rows(file, csv_rows(file), section, keep_tracks)
        else:
            raise InputError(f"trace must be a .csv, .parquet or .xml file (.gz allowed), got {str(file)!r}")
    except OSError as error:
        raise InputError(f"trace {str(file)!r} cannot be read: {error.strerror or error}") from None
    except (EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"trace {str(file)!r} must be complete text, got {error}") from None
    except MemoryError:
        raise InputError(f"trace {str(file)!r} must fit into memory, got more than there is") from None
    except BrokenRowError as error:
        raise InputError(f"trace {str(file)!r} must have {error.rule}, got {error.value}") from None
    if not len(crossings):
        raise broken_line(file, 1, "at least one crossing of the section", "none")
    return crossings if longest_stay_s is None else crossings.up_to(longest_stay_s)


def check_crossings_file(file: Path) -> None:
    """Whether crossings can be written there, before hours are spent on making them."""
    if file.suffix not in (".csv", ".parquet"):
        raise InputError(f"crossings are written to .csv or .parquet, got {str(file)!r}")
    if not file.parent.is_dir():
        raise InputError(f"crossings cannot be written to {str(file)!r}: there is no folder {str(file.parent)!r}")


def write_crossings(crossings: Crossings, file: Path) -> None:
    """Writes CSV or Parquet; tracks, if there are some, into a file of their own beside it."""
    check_crossings_file(file)
    write_tracks(crossings.tracks, file)
    write_table({name: getattr(crossings, name) for name in COLUMNS}, file)


def _needed(file: Path, section: Section | None) -> Section:
    if section is None:
        raise InputError(f"trace {str(file)!r} holds positions: a section must say which part of the road counts")
    return section


# ---- tables ---------------------------------------------------------------------------------------


def _read_rows(file: Path, rows: Iterator[Row], section: Section | None, keep_tracks: bool) -> Crossings:
    first = next(rows, None)
    if first is None:
        raise broken_line(file, 1, "a header and rows", "an empty file")
    columns = first[1].keys()
    table = _Table(file, itertools.chain([first], rows))
    if columns & set(COLUMNS[1:]):
        if section is not None:
            raise InputError(f"trace {str(file)!r} holds crossings, which have no positions for a section")
        crossings = _own_table(table.with_columns(columns, COLUMNS))
        return with_tracks(crossings, file) if keep_tracks else crossings
    section = _needed(file, section)
    if "global_time" in columns:
        table = table.with_columns(columns, ("vehicle_id", "global_time", "local_x", "local_y"))
        return _ngsim(table, section, keep_tracks)
    if "frame" in columns:
        return _highd(table.with_columns(columns, ("id", "frame", "x", "y")), section, keep_tracks)
    return _fcd_table(table, columns, section, keep_tracks)


@dataclass(frozen=True)
class _Table:
    """Rows with their lines, and the words for what is wrong with one."""

    file: Path
    rows: Iterator[Row]

    def with_columns(self, columns: Iterable[str], wanted: tuple[str, ...]) -> "_Table":
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise broken_line(self.file, 1, f"the columns {', '.join(wanted)}", f"no {', '.join(missing)}")
        return self

    def number(self, line: int, row: Mapping[str, str], column: str) -> float:
        try:
            value = float(row[column])
        except (KeyError, ValueError):
            raise broken_line(self.file, line, f"a number in {column}", shown(row.get(column))) from None
        if not abs(value) <= MOST:
            raise broken_line(self.file, line, f"a finite number of at most {MOST:g} in {column}", value)
        return value

    def name(self, line: int, row: Mapping[str, str], column: str) -> str:
        name = row.get(column, "")
        if len(name) > MOST_NAME_CHARACTERS:
            rule = f"a name of at most {MOST_NAME_CHARACTERS} characters in {column}"
            raise broken_line(self.file, line, rule, f"{len(name)}")
        return name


def _own_table(table: _Table) -> Crossings:
    lines, vehicle, enter, leave = [], [], [], []
    for line, row in table.rows:
        lines.append(line)
        vehicle.append(table.name(line, row, "vehicle"))
        enter.append(table.number(line, row, "enter_s"))
        leave.append(table.number(line, row, "leave_s"))
    try:
        return Crossings(_numbers_or_names(vehicle), np.array(enter), np.array(leave))
    except BrokenRowError as error:
        raise broken_line(table.file, lines[error.row], error.rule, error.value) from None


def _numbers_or_names(names: list[str]) -> Any:
    """Whole numbers where all are, else text."""
    try:
        return np.array([int(name) for name in names], np.int64)
    except (ValueError, OverflowError):
        return named(names)


def _fcd_table(table: _Table, columns: Collection[str], section: Section, keep_tracks: bool) -> Crossings:
    """SUMO's floating-car data as CSV or Parquet: rows in the order of time."""
    name = "id" if "id" in columns else "vehicle_id"
    table.with_columns(
        columns, ("time", name, *(("lane", "pos", "speed") if isinstance(section, Edge) else ("x", "y")))
    )

    def steps() -> Iterator[Step]:
        now, seen = -math.inf, dict[Any, Sample]()
        for line, row in table.rows:
            time_s = table.number(line, row, "time")
            if time_s < now:
                raise broken_line(table.file, line, "times in order", f"{time_s:g} s after {now:g} s")
            if time_s > now and seen:
                yield seen
                seen = {}
            now = time_s
            if row[name]:  # a time step without vehicles has an empty row
                values = {key: table.number(line, row, key) for key in ("x", "y", "pos", "speed") if row.get(key)}
                seen[table.name(line, row, name)] = _sample(time_s, values, row.get("lane", ""))
        yield seen

    return follow(section, steps(), keep_tracks)


def _sample(time_s: float, values: Mapping[Any, float], lane: str) -> Sample:
    nan = math.nan
    x, y, along, speed = (values.get(key, nan) for key in ("x", "y", "pos", "speed"))
    return Sample(time_s, x, y, lane.rpartition("_")[0], along, speed)


def _ngsim(table: _Table, section: Section, keep_tracks: bool) -> Crossings:
    """NGSIM trajectories: milliseconds and feet, one vehicle after the other."""

    def samples() -> Iterator[tuple[int, Any, Sample]]:
        for line, row in table.rows:
            time_s = table.number(line, row, "global_time") / 1000
            x, y = (_METRES_PER_FOOT * table.number(line, row, axis) for axis in ("local_x", "local_y"))
            yield line, int(table.number(line, row, "vehicle_id")), Sample(time_s, x, y)

    return _by_vehicle(table, section, samples(), keep_tracks, longest_gap_s=0.35)


def _highd(table: _Table, section: Section, keep_tracks: bool) -> Crossings:
    """highD tracks: 25 frames a second, metres, the corner of each vehicle's box."""

    def samples() -> Iterator[tuple[int, Any, Sample]]:
        for line, row in table.rows:
            time_s = table.number(line, row, "frame") / _HIGHD_FRAMES_PER_S
            x, y = (
                table.number(line, row, axis) + (table.number(line, row, size) / 2 if size in row else 0.0)
                for axis, size in (("x", "width"), ("y", "height"))
            )
            yield line, int(table.number(line, row, "id")), Sample(time_s, x, y)

    return _by_vehicle(table, section, samples(), keep_tracks, longest_gap_s=0.1)


def _by_vehicle(
    table: _Table,
    section: Section,
    samples: Iterator[tuple[int, Any, Sample]],
    keep_tracks: bool,
    longest_gap_s: float,
) -> Crossings:
    """From samples in which each vehicle's times are in order; after a gap it counts as another visit."""
    tracker = Tracker(section, keeper=TrackKeeper() if keep_tracks else None)
    for line, vehicle, sample in samples:
        before = tracker.last.get(vehicle)
        if before is not None and sample.time_s < before.time_s:
            rule = f"times in order for vehicle {vehicle}"
            raise broken_line(table.file, line, rule, f"{sample.time_s:g} s after {before.time_s:g} s")
        if before is not None and sample.time_s - before.time_s > longest_gap_s:
            tracker.lose(vehicle)
        tracker.see(vehicle, sample)
    return tracker.finish()


# ---- XML ------------------------------------------------------------------------------------------


def _read_xml(file: Path, section: Section | None, keep_tracks: bool) -> Crossings:
    elements = _elements(file)
    root = next(elements, None)
    match root and root[1]:
        case "tripinfos":
            if section is not None:
                raise InputError(f"trace {str(file)!r} holds whole trips, which have no positions for a section")
            return _tripinfos(file, elements)
        case "fcd-export":
            return follow(_needed(file, section), _fcd_steps(file, elements), keep_tracks)
        case other:
            line = root[0] if root else 1
            raise broken_line(file, line, "tripinfos or fcd-export", f"<{other}>" if other else "an empty file")


def _elements(file: Path) -> Iterator[Element]:
    with opened(file) as binary:
        yield from xml_elements(file, binary)


def _tripinfos(file: Path, elements: Iterator[tuple[int, str, dict[str, str]]]) -> Crossings:
    table, vehicle, enter, leave = _Table(file, iter(())), [], [], []
    for line, name, values in elements:
        if name != "tripinfo":
            continue
        depart, arrival = (table.number(line, values, key) for key in ("depart", "arrival"))
        if arrival == -1:  # SUMO's word for a vehicle that was still under way at the end
            continue
        if arrival < depart:
            raise broken_line(file, line, "arrival >= depart", f"{arrival:g} < {depart:g}")
        vehicle.append(table.name(line, values, "id"))
        enter.append(depart)
        leave.append(arrival)
    return Crossings.sorted(_numbers_or_names(vehicle), enter, leave)


def _fcd_steps(file: Path, elements: Iterator[tuple[int, str, dict[str, str]]]) -> Iterator[Step]:
    table, now, seen = _Table(file, iter(())), -math.inf, dict[Any, Sample]()
    for line, name, values in elements:
        if name == "timestep":
            time_s = table.number(line, values, "time")
            if time_s <= now:
                raise broken_line(file, line, "times in order", f"{time_s:g} s after {now:g} s")
            if now > -math.inf:
                yield seen
            now, seen = time_s, {}
        elif name == "vehicle":
            if now == -math.inf:
                raise broken_line(file, line, "a timestep around it", "<vehicle> alone")
            numbers = {key: table.number(line, values, key) for key in ("x", "y", "pos", "speed") if key in values}
            seen[table.name(line, values, "id")] = _sample(now, numbers, values.get("lane", ""))
    yield seen
