"""Reads scenarios of Argoverse 2 motion forecasting: a folder with tracks (Parquet) and their piece of map (JSON).

A scenario lasts 11 s, of which 5 s are observed. The five seconds around the end of the observed part make the same
recording as one of Argoverse 1: two observed, three to be predicted.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, MissingExtraError, brief
from mobfl.files.bounds import MOST_TEXT_BYTES, read_bytes
from mobfl.tasks.trajectories.argoverse1 import check_names, positions_by_track
from mobfl.tasks.trajectories.argoverse_maps import MOST_MAP_M, Lane, lane_map
from mobfl.tasks.trajectories.recordings import NO, OBSERVED, STEPS, UNKNOWN, YES, LaneMap, Recording

OBSERVED_STEPS = 50  # of the scenario
_FIRST = OBSERVED_STEPS - OBSERVED
_LINE_POINTS = 10  # of a centre line, as many as Argoverse 1 gives nearly all of its lanes
_NAMES = ("scenario_id", "city", "focal_track_id", "track_id")
_NUMBERS = ("timestep", "position_x", "position_y")
_MOST_ROWS = 1_000_000  # the fullest of the published scenarios have some 30,000
_AV = "AV"  # the track of the recording vehicle
_FLAGS = {False: NO, True: YES, None: UNKNOWN}


def read_scenario(folder: Path) -> tuple[Recording, LaneMap]:
    """A scenario's recording and map.

    Row 0 is the focal track, then comes the AV, then all others in the order of their track_id. Every scenario has
    a map of its own, so the recording's `city` is the city with the scenario's id.
    """
    recording = _recording(_only(folder, "scenario_*.parquet"))
    return recording, _map(_only(folder, "log_map_archive_*.json"))


def _only(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise InputError(f"{folder}: must hold one {pattern}, got {len(files)}")
    return files[0]


# ---- tracks ---------------------------------------------------------------------------------------


def _recording(file: Path) -> Recording:
    columns = _columns(file)
    scenario, city, focal = (_same_throughout(file, name, columns[name]) for name in _NAMES[:3])
    within = (columns["timestep"] >= _FIRST) & (columns["timestep"] < _FIRST + STEPS)
    step = columns["timestep"][within].astype(np.int64) - _FIRST
    tracks, track = np.unique(columns["track_id"][within], return_inverse=True)
    if focal not in tracks:
        rule = f"seen within the time steps {_FIRST} to {_FIRST + STEPS - 1}"
        raise InputError(f"{file}: focal_track_id must be a track {rule}, got {focal!r}")
    rank = np.where(tracks == focal, 0, np.where(tracks == _AV, 1, 2))
    xy = np.column_stack((columns["position_x"], columns["position_y"]))[within]
    return Recording(scenario, f"{city} {scenario}", positions_by_track(file, tracks, rank, track, step, xy))


def _columns(file: Path) -> dict[str, NDArray[Any]]:
    parquet = _parquet()
    try:
        with parquet.ParquetFile(file) as opened:
            if missing := [name for name in (*_NAMES, *_NUMBERS) if name not in opened.schema_arrow.names]:
                wanted = ", ".join((*_NAMES, *_NUMBERS))
                raise InputError(f"{file}: must have the columns {wanted}, got no {', '.join(missing)}")
            if (rows := opened.metadata.num_rows) > _MOST_ROWS:
                raise InputError(f"{file}: must have at most {_MOST_ROWS} rows, got {rows}")
            table = opened.read(columns=[*_NAMES, *_NUMBERS], use_threads=False)
        numbers = {name: table.column(name).to_numpy().astype(np.float64) for name in _NUMBERS}
    except InputError:
        raise
    except (OSError, ValueError, TypeError, NotImplementedError) as error:  # Arrow's own errors are of these kinds
        raise InputError(f"{file}: must be undamaged Parquet, got: {brief(str(error).splitlines()[0])}") from None
    for name, column in numbers.items():
        if not np.isfinite(column).all():
            raise InputError(f"{file}: {name} must be finite numbers, got {column[~np.isfinite(column)][0]}")
    return numbers | {name: _texts(file, name, table.column(name)) for name in _NAMES}


def _texts(file: Path, name: str, column: Any) -> NDArray[Any]:
    try:
        texts = [str(value) for value in column.to_pylist()]
    except (ValueError, KeyError, OverflowError) as error:  # dates of a zone or a year that nobody knows
        raise InputError(f"{file}: {name} must be text, got {column.type}: {error}") from None
    check_names(file, name, texts)
    return np.array(texts)


def _same_throughout(file: Path, name: str, column: NDArray[Any]) -> str:
    values = np.unique(column)
    if len(values) != 1:
        raise InputError(f"{file}: {name} must be the same in all rows, got {brief(', '.join(values)) or 'no rows'}")
    return str(values[0])


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("reading Argoverse", "train") from None
    return parquet


# ---- map ------------------------------------------------------------------------------------------


def _map(file: Path) -> LaneMap:
    try:
        segments = json.loads(read_bytes(file.open, MOST_TEXT_BYTES))["lane_segments"].values()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: must be undamaged JSON, got: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{file}: must hold lane_segments by their ids, got none") from None
    return lane_map(file, [_lane(file, segment) for segment in segments])


def _lane(file: Path, segment: Mapping[str, Any]) -> Lane:
    """A segment between its boundaries; Argoverse 2 tells of no turn and of no traffic control."""
    try:
        return Lane(
            str(segment["id"]),
            (_resampled(segment["left_lane_boundary"]) + _resampled(segment["right_lane_boundary"])) / 2,
            intersection=_FLAGS[segment.get("is_intersection")],
            successors=[str(name) for name in segment["successors"]],
            predecessors=[str(name) for name in segment["predecessors"]],
            left=_name(segment["left_neighbor_id"]),
            right=_name(segment["right_neighbor_id"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        name = brief(str(segment.get("id") if isinstance(segment, Mapping) else segment))
        fault = f"{type(error).__name__}: {brief(str(error))}"
        raise InputError(f"{file}: lane {name} must be as av2 writes it, got {fault}") from None


def _name(lane: int | None) -> str | None:
    return None if lane is None else str(lane)


def _resampled(boundary: list[Mapping[str, float]]) -> NDArray[np.float64]:
    """Points (10, 2) at equal distances along a boundary, from its first to its last."""
    xy = np.array([(point["x"], point["y"]) for point in boundary], np.float64)
    if len(xy) < 2:
        raise ValueError("a boundary of fewer than two points")
    if (np.abs(xy) > MOST_MAP_M).any():
        raise ValueError(f"a boundary farther than {MOST_MAP_M:g} m away")
    along_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    at_m = np.linspace(0.0, along_m[-1], _LINE_POINTS)
    return np.column_stack([np.interp(at_m, along_m, axis) for axis in xy.T])
