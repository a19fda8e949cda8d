"""Files of positions as crossings: read quickly if they are clean, otherwise row by row, and followed in one pass."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.chunks import Chunk, NotCleanError, chunks_of, fcd_rows, quick_csv, quick_fcd, quick_parquet
from mobfl.mobility.clocks import Clock, Codes, Lanes, clock_of, ways_of
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.degrees import Plane, looks_like_degrees
from mobfl.mobility.following import Follower, OutOfOrderError
from mobfl.mobility.formats import Format, Source, fcd, format_of
from mobfl.mobility.rows import Layout, csv_rows, parquet_rows
from mobfl.mobility.samples import Rows, every, joined
from mobfl.mobility.sections import Section

Sections = Mapping[str, Section]
Reader = Callable[[Source], Iterator[Rows]]

_FIRST_ROWS = 100_000  # which show how vehicles are sampled, and in what


def read_positions(
    file: Path,
    columns: Collection[str],
    layout: Layout | None,
    sections: Sections,
    keep_tracks: bool,
    gap_s: float | None,
) -> dict[str, Crossings]:
    """From a table, of text if it has a layout, else Parquet."""
    form = format_of(file, columns, sections.values())

    def quick(source: Source) -> Iterator[Rows]:
        if not form.columns:
            raise NotCleanError("no quick reader")
        if layout is None:
            return _read(form, source, quick_parquet(file, form.columns))
        return _read(form, source, quick_csv(file, layout, form.numbers, form.texts, form.dates))

    def slow(source: Source) -> Iterator[Rows]:
        rows = parquet_rows(file) if layout is None else csv_rows(file, layout)
        return _read(form, source, chunks_of(file, rows))

    return _first_clean((quick, slow), file, form, sections, keep_tracks, gap_s)


def read_xml_positions(file: Path, sections: Sections, keep_tracks: bool, gap_s: float | None) -> dict[str, Crossings]:
    """From SUMO's floating-car data."""
    return _first_clean(
        (
            lambda source: quick_fcd(file, source.codes, source.lanes),
            lambda source: _read(Format(fcd), source, chunks_of(file, fcd_rows(file))),
        ),
        file, Format(fcd), sections, keep_tracks, gap_s,
    )  # fmt: skip


def _read(form: Format, source: Source, chunks: Iterator[Chunk]) -> Iterator[Rows]:
    for chunk in chunks:
        yield form.read(chunk, source)


def _first_clean(
    readers: Collection[Reader], file: Path, form: Format, sections: Sections, keep_tracks: bool, gap_s: float | None
) -> dict[str, Crossings]:
    """By the first reader that likes the file; the last one says what is wrong with it."""

    def stream(reader: Reader) -> tuple[Source, Iterator[Rows]]:
        source = Source(file, sections.values(), Codes(), Lanes(sections.values()))
        return source, reader(source)

    for reader in readers:
        try:
            try:
                return _follow(*stream(reader), form, sections, keep_tracks, gap_s)
            except OutOfOrderError:
                source, rows = stream(reader)
                return _follow(source, iter([_in_order(list(rows))]), form, sections, keep_tracks, gap_s)
        except NotCleanError:
            continue
    raise AssertionError("the last reader likes every file or says why not")


def _in_order(parts: list[Rows]) -> Rows:
    """All rows, each vehicle's in the order of time; this takes the memory that the whole file needs."""
    rows = joined(parts)
    order = np.lexsort((rows.time_s, rows.vehicle))
    return every(rows, lambda column: column[order])._replace(step=np.arange(len(order)))


def _follow(
    source: Source, stream: Iterator[Rows], form: Format, sections: Sections, keep_tracks: bool, gap_s: float | None
) -> dict[str, Crossings]:
    first, count = list[Rows](), 0
    while count < _FIRST_ROWS and (rows := next(stream, None)) is not None:
        first.append(rows)
        count += len(rows.vehicle)
    if not first:
        return Follower(sections, source.codes, source.lanes, keep_tracks).finish()
    seen = joined(first)
    ways = ways_of(seen)
    in_degrees = form.in_degrees or looks_like_degrees(seen, ways)
    plane = _plane(source.file, sections) if in_degrees else None
    follower = Follower(plane.sections if plane else sections, source.codes, source.lanes, keep_tracks)
    follower.clock = _clock(form, seen, ways, gap_s)
    for rows in itertools.chain([seen], stream):
        follower.see(plane.rows(rows) if plane else rows)
    try:
        return follower.finish()
    except InputError as error:
        raise InputError(f"trace {str(source.file)!r}: {error}") from None


def _plane(file: Path, sections: Sections) -> Plane | None:
    if all(section.along_edges for section in sections.values()):
        return None
    try:
        return Plane(sections)
    except InputError as error:
        raise InputError(f"trace {str(file)!r} holds positions in degrees: {error}") from None


def _clock(form: Format, seen: Rows, ways: tuple[np.ndarray, np.ndarray], gap_s: float | None) -> Clock:
    if form.clock is None:
        return clock_of(seen, ways, steps_are_common=not form.sortable, gap_s=gap_s)
    return form.clock if gap_s is None else form.clock._replace(gap_s=gap_s)
