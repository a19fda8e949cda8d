"""Reads Raymobtime's beam-selection data: the organisers' folder (s008), or one archive of a whole set (s010).

The organisers' layout is lidar_{train,validation}.npz (`input`), beams_output_{train,validation}.npz
(`output_classification`, amplitudes) and, if there, coord_{train,validation}.npz (`coordinates`) or the table
CoordVehiclesRxPerScene_*.csv, plain or gzipped, at any depth of the folder. The archive holds LIDAR, Y (one-hot) and
POS of all samples in the order of their scenes; its last fifth is kept for validation, for neighbouring rows share a
scene.
"""

import csv
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.files.arrays import npz_array
from mobfl.files.bounds import lines_of, opened
from mobfl.tasks.beams.conventions import (
    BASE_BEAMS,
    GRID_ORIGIN_M,
    GRID_SHAPE,
    GRID_STEP_M,
    PAIRS,
    RECEIVER,
    RECEIVER_BEAMS,
)
from mobfl.tasks.beams.samples import BeamSamples, odd_samples, one_hot_targets, seen_from_above, targets_of

TRAINING_SHARE = 0.8
MOST_ARRAY_BYTES = 8 << 30  # the largest published set's grids as doubles are 3.6 GB
_NATIVE = tuple(map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "f4", "f8")))  # what is read without being copied


def read_raymobtime(source: Path, targets: str) -> tuple[BeamSamples, BeamSamples]:
    """Training and validation samples."""
    if source.is_dir():
        archives = sorted(source.rglob("lidar_train.npz"))
        if archives:
            train, validation = (_organisers(source, part, targets) for part in ("train", "validation"))
            return _with_table(source, train, validation)
        archives = sorted(source.glob("*.npz"))
        if len(archives) != 1:
            raise InputError(
                f"data {source} must hold lidar_train.npz or exactly one .npz archive, got {len(archives)} archives"
            )
        source = archives[0]
    if targets == "soft":
        raise InputError(f"option targets must be one-hot for {source}, which holds no amplitudes, got 'soft'")
    return _archive(source)


def _organisers(folder: Path, part: str, targets: str) -> BeamSamples:
    lidar, beams = (_find(folder, f"{name}_{part}.npz") for name in ("lidar", "beams_output"))
    grids = _grids(lidar, "input")
    amplitudes = np.abs(_array(beams, "output_classification", (RECEIVER_BEAMS, BASE_BEAMS), kinds="c"))
    _same_length(lidar, len(grids), beams, len(amplitudes))
    _check(beams, "output_classification", "finite", np.isfinite(amplitudes))
    silent = amplitudes.reshape(len(amplitudes), PAIRS).max(axis=1) > 0
    _check(beams, "output_classification", "positive for some beam pair of each sample", silent)
    coordinates = sorted(folder.rglob(f"coord_{part}.npz"))
    places = _along_the_street(grids)
    if coordinates:
        positions = _array(coordinates[0], "coordinates")
        _same_length(lidar, len(grids), coordinates[0], len(positions))
        places = _places(coordinates[0], "coordinates", positions)
    return BeamSamples(grids, targets_of(amplitudes, targets), places)


def _with_table(folder: Path, train: BeamSamples, validation: BeamSamples) -> tuple[BeamSamples, BeamSamples]:
    """With exact places from the table of receivers, if there is one: its valid rows are the samples in order."""
    tables = sorted(folder.rglob("CoordVehiclesRxPerScene_*.csv*"))
    if not tables or any(folder.rglob("coord_train.npz")):
        return train, validation
    places = _valid_receivers(tables[0])
    if len(places) != len(train) + len(validation):
        samples = f"{len(train)} + {len(validation)}"
        raise InputError(f"{tables[0]}: must have as many rows with Val = V as samples ({samples}), got {len(places)}")
    return replace(train, places=places[: len(train)]), replace(validation, places=places[len(train) :])


def _valid_receivers(table: Path) -> NDArray[np.float64]:
    try:
        with opened(table) as binary, closing(lines_of(table, binary)) as lines:
            places = [float(row["y"]) for row in csv.DictReader(lines) if row["Val"] == "V"]
    except InputError:
        raise
    except (OSError, EOFError, ValueError, TypeError, KeyError, zlib.error, csv.Error) as error:
        raise InputError(f"{table}: must be a table with Val and y, got {type(error).__name__} {error}") from None
    found = np.array(places)
    if not np.isfinite(found).all():
        raise InputError(f"{table}: y must be finite, got something else in row {int(np.argmin(np.isfinite(found)))}")
    return found


def _archive(file: Path) -> tuple[BeamSamples, BeamSamples]:
    grids = _grids(file, "LIDAR")
    one_hot, positions = _array(file, "Y", (PAIRS,)), _array(file, "POS", (3,))
    for array in (one_hot, positions):
        _same_length(file, len(grids), file, len(array))
    _check(file, "Y", "one-hot, a single 1 among zeros", np.sort(one_hot, axis=1) == np.eye(PAIRS)[-1])
    samples = BeamSamples(grids, one_hot_targets(one_hot.argmax(axis=1)), _places(file, "POS", positions))
    cut = int(TRAINING_SHARE * len(samples))
    if not 0 < cut < len(samples):
        raise InputError(f"{file}: LIDAR must hold at least 2 samples, got {len(samples)}")
    return _part(samples, slice(cut)), _part(samples, slice(cut, None))


def _part(samples: BeamSamples, rows: slice) -> BeamSamples:
    return BeamSamples(samples.grids[rows], samples.targets[rows], samples.places[rows])


def _find(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if not found:
        raise InputError(f"data {folder} must hold {name}, got none")
    return found[0]


def _grids(file: Path, key: str) -> NDArray[np.int8]:
    grids = _array(file, key, GRID_SHAPE)
    _check(file, key, "-2, -1, 0 or 1 in every cell", ~odd_samples(grids))
    return seen_from_above(grids)


def _along_the_street(grids: NDArray[np.int8]) -> NDArray[np.float64]:
    """Where the grid shows the receiver, for want of coordinates."""
    cell = (grids == RECEIVER).any(axis=1).argmax(axis=1)
    return GRID_ORIGIN_M[1] + GRID_STEP_M[1] * cell  # the second axis runs along the street


def _places(file: Path, key: str, positions: NDArray[Any]) -> NDArray[np.float64]:
    _check(file, key, "finite", np.isfinite(positions))
    if positions.ndim != 2 or positions.shape[1] < 2:
        raise InputError(f"{file}: {key} must have the shape (samples, 2 or 3), got {positions.shape}")
    return positions[:, 1].astype(np.float64)


def _array(file: Path, key: str, shape: tuple[int, ...] | None = None, kinds: str = "") -> NDArray[Any]:
    """An array of an archive, each of whose rows has this shape; nothing is unpickled."""
    array = npz_array(file, key, MOST_ARRAY_BYTES)
    if array.dtype.kind not in "biuf" + kinds or array.ndim == 0 or (shape is not None and array.shape[1:] != shape):
        wanted = "" if shape is None else f" with the shape {('samples', *shape)}".replace("'", "")
        raise InputError(f"{file}: {key} must be numbers{wanted}, got {array.dtype} {array.shape}")
    if not len(array):
        raise InputError(f"{file}: {key} must have at least one sample, got none")
    return array if array.dtype in _NATIVE else array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _check(file: Path, key: str, rule: str, kept: NDArray[np.bool_]) -> None:
    if not kept.all():
        row = int(np.argmin(kept.reshape(len(kept), -1).all(axis=1)))
        raise InputError(f"{file}: {key} must be {rule}, got something else in sample {row}")


def _same_length(one: Path, samples: int, other: Path, others: int) -> None:
    if samples != others:
        raise InputError(f"{other}: must have as many samples as {one} ({samples}), got {others}")
