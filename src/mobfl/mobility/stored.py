"""Tables written to files, and tracks beside their crossings: those of `road.csv` are in `road.tracks.csv`.

A row of a file of tracks is a sample: the crossing's row (from 0), and `time_s, x_m, y_m, way_m`.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError, broken_line, shown
from mobfl.mobility import tracks as of_tracks
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.rows import arrow, csv_rows, parquet_rows
from mobfl.mobility.tracks import Tracks

_SAMPLE_COLUMNS = ("crossing", *of_tracks.COLUMNS)


def write_tracks(tracks: Tracks | None, file: Path) -> None:
    """Beside the file of crossings; none takes away what lies there."""
    beside = tracks_file(file)
    beside.unlink(missing_ok=True)
    if tracks is not None:
        row = np.repeat(np.arange(len(tracks)), np.diff(tracks.first))
        write_table(dict(zip(_SAMPLE_COLUMNS, (row, *tracks.columns), strict=True)), beside)


def write_table(columns: Mapping[str, Any], file: Path) -> None:
    """Writes CSV or Parquet, beside the file first, so that an interruption leaves the old file or the new one."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        if file.suffix == ".csv":
            with part.open("w", newline="", encoding="utf-8") as out:
                writer = csv.writer(out)
                writer.writerow(columns)
                writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        else:
            pyarrow, parquet = arrow()
            table = pyarrow.table({name: column.tolist() for name, column in columns.items()})
            parquet.write_table(table, part, compression="zstd")
        part.replace(file)
    except OSError as error:
        raise InputError(f"crossings cannot be written to {str(file)!r}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def tracks_file(file: Path) -> Path:
    """Where the tracks of crossings in this file are."""
    return file.with_name(f"{file.stem}.tracks{file.suffix}")


def with_tracks(crossings: Crossings, file: Path) -> Crossings:
    """With the tracks that lie beside the file; without, as they are."""
    beside = tracks_file(file)
    if not beside.is_file():
        return crossings
    rows = parquet_rows(beside, _SAMPLE_COLUMNS) if beside.suffix == ".parquet" else csv_rows(beside)
    owner, samples = list[int](), list[tuple[float, ...]]()
    for line, row in rows:
        try:
            samples.append(tuple(float(row[name]) for name in of_tracks.COLUMNS))
            owner.append(int(row["crossing"]))
        except (KeyError, ValueError):
            got = ", ".join(shown(row.get(name)) for name in _SAMPLE_COLUMNS)
            raise broken_line(beside, line, f"numbers in {', '.join(_SAMPLE_COLUMNS)}", got) from None
        if not 0 <= owner[-1] < len(crossings):
            raise broken_line(beside, line, f"a crossing from 0 to {len(crossings) - 1}", owner[-1])
    counts = np.bincount(np.array(owner, np.int64), minlength=len(crossings))
    if not counts.all():
        missing = int(np.argmin(counts))
        must = f"must hold a track of every crossing of {file.name}"
        raise InputError(f"{str(beside)!r} {must}, got none of row {missing}")
    if any(a > b for a, b in pairwise(owner)):
        raise broken_line(beside, 1, "the samples of one crossing after those of another", "others between them")
    first = np.append(0, np.cumsum(counts, dtype=np.int64))
    try:
        return replace(crossings, tracks=Tracks(first, *np.array(samples, float).reshape(-1, 4).T.copy()))
    except InputError as error:
        raise InputError(f"{str(beside)!r} must hold the tracks of {file.name}: {error}") from None
