"""Recorded traffic as crossings: our own tables, SUMO's trips, and positions of any known kind.

Files are read as streams, plain or gzipped. What is wrong with one is said in a sentence with file, line and rule.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError, broken_line
from mobfl.files.bounds import in_sentences, opened
from mobfl.files.xml import xml_elements
from mobfl.mobility.crossings import COLUMNS, BrokenRowError, Crossings, named
from mobfl.mobility.rows import Row, Value, csv_rows, layout_of, parquet_columns, parquet_rows
from mobfl.mobility.sections import Section, Tentative, parse_section
from mobfl.mobility.stored import with_tracks, write_table, write_tracks

Sections = Mapping[str, Section]  # by the names of their stations


def read_crossings(
    file: str | os.PathLike[str],
    section: Section | str | None = None,
    kind: str | None = None,
    keep_tracks: bool = False,
    longest_stay_s: float | None = None,
    gap_s: float | None = None,
) -> Crossings:
    """The crossings in a file of any known kind.

    Args:
        file: `.csv`, `.parquet` or `.xml`, also `.gz`: crossings, SUMO's trips, or positions of any known kind.
        section: Which part of the road counts, such as `circle:0,0,200`; only for files that hold positions, which
            need one.
        kind: The ending that says what the file is, if not its own name.
        keep_tracks: Whether to keep where vehicles were, if the file says so, or for crossings a file beside it.
        longest_stay_s: Longer stays are left out, as those of parked vehicles; by default none is.
        gap_s: For how long a vehicle may not be seen and still count as under way between the two places. By default
            what suits the kind of file: one step where all vehicles share them, otherwise three usual intervals.
    """
    file = Path(file)
    crossings = _read(file, {"": section} if section else {}, kind, keep_tracks, gap_s)[""]
    if not len(crossings):
        raise broken_line(file, 1, "at least one crossing of the section", "none")
    return crossings if longest_stay_s is None else crossings.up_to(longest_stay_s)


def read_stations(
    file: str | os.PathLike[str],
    sections: Mapping[str, Section | str],
    kind: str | None = None,
    keep_tracks: bool = False,
    longest_stay_s: float | None = None,
    gap_s: float | None = None,
) -> dict[str, Crossings]:
    """The crossings of several sections, from one pass over a file that holds positions.

    A vehicle has the same name in all of them. A section that nobody crosses has an empty table.

    Args:
        file: As for `read_crossings`.
        sections: By the names of their stations.
        kind: The ending that says what the file is, if not its own name.
        keep_tracks: Whether to keep where vehicles were.
        longest_stay_s: Longer stays are left out, as those of parked vehicles; by default none is.
        gap_s: For how long a vehicle may not be seen and still count as under way between the two places. By default
            what suits the kind of file: one step where all vehicles share them, otherwise three usual intervals.
    """
    if not sections:
        raise InputError("sections must name at least one section, got none")
    file = Path(file)
    found = _read(file, sections, kind, keep_tracks, gap_s)
    if not any(map(len, found.values())):
        raise broken_line(file, 1, f"at least one crossing of one of {len(found)} sections", "none")
    if longest_stay_s is None:
        return found
    return {name: each.up_to(longest_stay_s, or_none=True) for name, each in found.items()}


def _read(
    file: Path, given: Mapping[str, Section | str], kind: str | None, keep_tracks: bool, gap_s: float | None
) -> dict[str, Crossings]:
    """By section; those of a file without positions, which has none, by an empty name."""
    if "\0" in str(file):
        raise InputError(f"trace must be a file's name, got {str(file)!r}")
    if gap_s is not None and not gap_s > 0:
        raise InputError(f"gap_s must be > 0, got {gap_s:g}")
    parsed = {name: parse_section(each) if isinstance(each, str) else each for name, each in given.items()}
    sections = Tentative(parsed) if isinstance(given, Tentative) else parsed
    with in_sentences("trace", file):
        try:
            return _read_kind(file, kind or ending(file), sections, keep_tracks, gap_s)
        except BrokenRowError as error:
            raise InputError(f"trace {str(file)!r} must have {error.rule}, got {error.value}") from None


def _read_kind(
    file: Path, kind: str, sections: Sections, keep_tracks: bool, gap_s: float | None
) -> dict[str, Crossings]:
    if kind.endswith(".xml"):
        return _read_xml(file, sections, keep_tracks, gap_s)
    if kind.endswith((".parquet", ".pq")):
        return _read_table(file, sections, keep_tracks, gap_s, parquet=True)
    if kind.endswith((".csv", ".txt", ".tr")):
        return _read_table(file, sections, keep_tracks, gap_s, parquet=False)
    raise InputError(f"trace must be a .csv, .parquet or .xml file (.gz allowed), got {str(file)!r}")


def ending(file: Path) -> str:
    """What a file's name says that it is, whether it is packed or not."""
    return "".join(suffix for suffix in file.suffixes if suffix != ".gz").lower()


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
    columns = {name: getattr(crossings, name) for name in COLUMNS}
    write_table(columns if crossings.cut is None else columns | {"cut": crossings.cut}, file)


def _needed(file: Path, sections: Sections) -> Sections:
    if not sections:
        raise InputError(f"trace {str(file)!r} holds positions: a section must say which part of the road counts")
    return sections


def _read_table(
    file: Path, sections: Sections, keep_tracks: bool, gap_s: float | None, parquet: bool
) -> dict[str, Crossings]:
    layout = None if parquet else layout_of(file)
    columns = layout.names if layout else parquet_columns(file)
    rows = parquet_rows(file) if parquet else csv_rows(file, layout)
    if {"enter_s", "leave_s"} & set(columns):
        _refuse_sections(file, sections, "crossings")
        crossings = _own_table(file, _columns(file, rows, columns, COLUMNS))
        return {"": with_tracks(crossings, file) if keep_tracks else crossings}
    if {"depart", "arrival"} <= set(columns):
        _refuse_sections(file, sections, "whole trips")
        return {"": _trips(file, _columns(file, rows, columns, ("id", "depart", "arrival")))}
    if next(rows, None) is None:
        raise broken_line(file, 1, "a header and rows", "an empty file")
    from mobfl.mobility.positions import read_positions

    return read_positions(file, columns, layout, _needed(file, sections), keep_tracks, gap_s)


def _refuse_sections(file: Path, sections: Sections, what: str) -> None:
    if sections:
        raise InputError(f"trace {str(file)!r} holds {what}, which have no positions for a section")


def _columns(file: Path, rows: Iterator[Row], columns: Collection[str], wanted: tuple[str, ...]) -> Iterator[Row]:
    """Rows of a table that must have some and these columns."""
    first = next(rows, None)
    if first is None:
        raise broken_line(file, 1, "a header and rows", "an empty file")
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise broken_line(file, 1, f"the columns {', '.join(wanted)}", f"no {', '.join(missing)}")
    yield first
    yield from rows


def _own_table(file: Path, rows: Iterator[Row]) -> Crossings:
    table = CrossingRows(file)
    for line, row in rows:
        table.take(line, row)
    try:
        return Crossings(table.vehicle, np.array(table.enter_s), np.array(table.leave_s), cut=table.cut)
    except BrokenRowError as error:
        raise broken_line(file, table.lines[error.row], error.rule, error.value) from None


class CrossingRows:
    """Takes the rows of a table of crossings, one after the other."""

    def __init__(self, file: Path) -> None:
        self._file, self._names, self._cut = file, list[str](), list[float]()
        self.lines, self.enter_s, self.leave_s = list[int](), list[float](), list[float]()

    def take(self, line: int, row: Mapping[str, str]) -> None:
        value = Value(self._file, line, row)
        self.lines.append(line)
        self._names.append(value.name("vehicle"))
        self.enter_s.append(value.number("enter_s"))
        self.leave_s.append(value.number("leave_s"))
        if self.leave_s[-1] < self.enter_s[-1]:
            times = f"{self.enter_s[-1]} to {self.leave_s[-1]}"
            raise broken_line(self._file, line, "leave_s >= enter_s", times)
        if "cut" in row:
            self._cut.append(value.number("cut"))
            if self._cut[-1] not in range(16):
                raise broken_line(self._file, line, "a sum of 1, 2, 4 and 8 in cut", f"{self._cut[-1]:g}")

    @property
    def vehicle(self) -> Any:
        return _numbers_or_names(self._names)

    @property
    def cut(self) -> Any:
        """None where the table does not tell it."""
        return np.array(self._cut, np.int8) if self._cut else None


def _numbers_or_names(names: list[str]) -> Any:
    """Whole numbers where all are, else text."""
    try:
        return np.array([int(name) for name in names], np.int64)
    except (ValueError, OverflowError):
        return named(names)


def _trips(file: Path, rows: Iterator[Row]) -> Crossings:
    """SUMO's trips, whole: from depart to arrival."""
    vehicle, enter, leave = list[str](), list[float](), list[float]()
    for line, row in rows:
        value = Value(file, line, row)
        depart, arrival = value.number("depart"), value.number("arrival")
        if arrival == -1:  # SUMO's word for a vehicle that was still under way at the end
            continue
        if arrival < depart:
            raise broken_line(file, line, "arrival >= depart", f"{arrival:g} < {depart:g}")
        vehicle.append(value.name("id"))
        enter.append(depart)
        leave.append(arrival)
    return Crossings.sorted(_numbers_or_names(vehicle), enter, leave)


def _read_xml(file: Path, sections: Sections, keep_tracks: bool, gap_s: float | None) -> dict[str, Crossings]:
    with opened(file) as binary:
        elements = xml_elements(file, binary)
        root = next(elements, None)
        match root and root[1]:
            case "tripinfos":
                _refuse_sections(file, sections, "whole trips")
                return {"": _trips(file, ((line, row) for line, name, row in elements if name == "tripinfo"))}
            case "fcd-export":
                pass
            case other:
                line = root[0] if root else 1
                raise broken_line(file, line, "tripinfos or fcd-export", f"<{other}>" if other else "an empty file")
    from mobfl.mobility.positions import read_xml_positions

    return read_xml_positions(file, _needed(file, sections), keep_tracks, gap_s)
