"""Reads Argoverse 1 motion forecasting as published: a folder of CSVs, each five seconds around one AGENT."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, MissingExtraError, brief
from mobfl.files.bounds import read_bytes
from mobfl.tasks.trajectories.recordings import STEPS, Recording

_MOST_BYTES = 64 << 20  # the longest of the published sequences has 2 MB
_MOST_NAME_CHARACTERS = 256  # of a track; the published ones have 36
_NUMBERS = ("TIMESTAMP", "X", "Y")
_NAMES = ("TRACK_ID", "OBJECT_TYPE", "CITY_NAME")
_COLUMNS = ("TIMESTAMP", "TRACK_ID", "OBJECT_TYPE", "X", "Y", "CITY_NAME")


def sequence_files(source: Path) -> list[Path]:
    """The CSVs of a folder, or of its subfolder `data`, in the order of their numbers."""
    for folder in (source, source / "data"):
        # A name with a leading dot is what some systems leave behind when they unpack an archive.
        files = [file for file in folder.glob("*.csv") if not file.name.startswith(".")]
        if files:
            return sorted(files, key=_natural_order)
    raise InputError(f"{source}: must be a folder of Argoverse sequences (.csv) or hold one called data, got none")


def read_sequence(file: Path | str, data: bytes | None = None) -> Recording:
    """One sequence, from the file or from its content where that is already in memory.

    Row 0 is the AGENT, then comes the AV, then all others in the order of their TRACK_ID. Time stamps count only by
    their order: as published they lie 0.03 s to 0.3 s apart.
    """
    file = Path(file)
    numbers, names = _columns(file, _content(file) if data is None else data)
    _check_finite(file, numbers)
    stamps, step = np.unique(numbers["TIMESTAMP"], return_inverse=True)
    if len(stamps) != STEPS:
        raise InputError(f"{file}: TIMESTAMP must have {STEPS} different values, got {len(stamps)}")
    tracks, track = names["TRACK_ID"]
    kinds, kind = names["OBJECT_TYPE"]
    rank = np.full(len(tracks), 2)
    for place, name in ((1, "AV"), (0, "AGENT")):
        rank[track[(kinds == name)[kind]]] = place
    if (agents := np.count_nonzero(rank == 0)) != 1:
        raise InputError(f"{file}: OBJECT_TYPE must be AGENT for exactly one TRACK_ID, got {agents}")
    xy = np.column_stack((numbers["X"], numbers["Y"]))
    city = _city(file, names["CITY_NAME"][0])
    return Recording(file.stem, city, positions_by_track(file, tracks, rank, track, step, xy))


def positions_by_track(
    file: Path,
    names: NDArray[Any],
    rank: NDArray[np.integer[Any]],
    track: NDArray[np.integer[Any]],
    step: NDArray[np.integer[Any]],
    xy: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Positions (actors, 50, 2) from one row per sighting, NaN where somebody was not seen.

    Tracks have a name and a rank, by which they are ordered; the first must be seen throughout. A sighting has a track
    (its index among the names), a time step and a place.
    """
    seen = np.bincount(track * STEPS + step, minlength=len(names) * STEPS).reshape(len(names), STEPS)
    if seen.max() > 1:
        twice = names[seen.max(axis=1).argmax()]
        raise InputError(f"{file}: a track must have one position per time step, got two for {twice}")
    order = np.lexsort((names, rank))
    if not (seen_agent := seen[order[0]]).all():
        rule = f"must be seen at all {STEPS} time steps"
        raise InputError(f"{file}: the track to be predicted, {names[order[0]]}, {rule}, got {seen_agent.sum()}")
    row = np.empty_like(order)
    row[order] = np.arange(len(order))
    positions = np.full((len(names), STEPS, 2), np.nan)
    positions[row[track], step] = xy
    return positions


def _natural_order(file: Path) -> tuple[list[tuple[str, int]], str]:
    """By the numbers in the name (2 before 10), as the data set counts its sequences."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", file.stem)], file.name


def _content(file: Path) -> bytes:
    try:
        return read_bytes(file.open, _MOST_BYTES)
    except ValueError as error:
        raise InputError(f"{file}: must be a sequence of five seconds, got {error}") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None


def _columns(
    file: Path, data: bytes
) -> tuple[dict[str, NDArray[np.float64]], dict[str, tuple[NDArray[Any], NDArray[np.int32]]]]:
    """Columns of numbers, and of names as (different names, which of them each row has)."""
    arrow, csv = _arrow()
    types = dict.fromkeys(_NUMBERS, arrow.float64())
    types |= dict.fromkeys(_NAMES, arrow.dictionary(arrow.int32(), arrow.string()))
    try:
        table = csv.read_csv(
            arrow.BufferReader(data),
            # One block, hence one dictionary of names; a thread would cost more than it saves on so short a file.
            read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1),
            convert_options=csv.ConvertOptions(include_columns=_COLUMNS, column_types=types),
        )
    except KeyError:  # Arrow's word for a column that is not there
        header = data.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip().split(",")
        missing = ", ".join(name for name in _COLUMNS if name not in header)
        raise InputError(f"{file}: must have the columns {', '.join(_COLUMNS)}, got no {missing}") from None
    except ValueError as error:  # Arrow's other errors are of this kind
        raise InputError(f"{file}: must be an undamaged CSV, got: {brief(str(error).splitlines()[0])}") from None
    if not table.num_rows:
        raise InputError(f"{file}: must have rows, got only a header")
    columns = {name: table.column(name).chunk(0) for name in _COLUMNS}
    return (
        {name: columns[name].to_numpy(zero_copy_only=False) for name in _NUMBERS},
        {name: (_names(file, name, columns[name]), columns[name].indices.to_numpy()) for name in _NAMES},
    )


def _names(file: Path, column: str, values: Any) -> NDArray[Any]:
    names = values.dictionary.to_pylist()
    check_names(file, column, names)
    return np.array(names)


def check_names(file: Path, column: str, names: Iterable[str]) -> None:
    """Refuses what is no name: an array of text has the longest one's width in every row."""
    longest = max(map(len, names), default=0)
    if longest > _MOST_NAME_CHARACTERS:
        raise InputError(f"{file}: {column} must have at most {_MOST_NAME_CHARACTERS} characters, got {longest}")


def _check_finite(file: Path, numbers: dict[str, NDArray[np.float64]]) -> None:
    for name, column in numbers.items():
        finite = np.isfinite(column)
        if not finite.all():
            row = int(finite.argmin())
            raise InputError(f"{file}: {name} must be a finite number, got {column[row]} in row {row + 1}")


def _city(file: Path, cities: NDArray[Any]) -> str:
    if len(cities) != 1 or not cities[0]:
        raise InputError(f"{file}: CITY_NAME must be one city throughout, got {', '.join(map(repr, cities.tolist()))}")
    return str(cities[0])


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import csv
    except ImportError:
        raise MissingExtraError("reading Argoverse", "train") from None
    return pyarrow, csv
