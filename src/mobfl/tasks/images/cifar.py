"""Reads CIFAR-10 in its binary layout: records of a label byte and 3,072 bytes, the red, green and blue 32 × 32.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. The pickled layout is not read: to
unpickle a file is to run it.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.tasks.images.pictures import CLASSES, SHAPE, Pictures

FOLDER = "cifar-10-batches-bin"
_TRAINING, _VALIDATION = tuple(f"data_batch_{number}.bin" for number in range(1, 6)), ("test_batch.bin",)
_RECORD_BYTES = 1 + SHAPE[0] * SHAPE[1] * SHAPE[2]


def read_cifar10(folder: Path) -> tuple[Pictures, Pictures]:
    """Training and validation pictures; those that CIFAR-10 calls test are the latter."""
    place = _place(folder)
    return _joined(place, _TRAINING), _joined(place, _VALIDATION)


def _place(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"data must be a folder with CIFAR-10, got {folder}")
    place = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    if missing := [name for name in (*_TRAINING, *_VALIDATION) if not (place / name).is_file()]:
        raise InputError(_what_is_missing(place, missing))
    return place


def _what_is_missing(place: Path, missing: list[str]) -> str:
    pickled = [found for found in (place, place / "cifar-10-batches-py") if (found / "data_batch_1").exists()]
    if pickled and len(missing) == len(_TRAINING) + len(_VALIDATION):
        return (
            "data must be CIFAR-10's binary version (cifar-10-binary.tar.gz), for the pickled one is not read,"
            f" got {pickled[0]}"
        )
    return f"data must hold data_batch_1.bin to data_batch_5.bin and test_batch.bin, got {place} without {missing[0]}"


def _joined(place: Path, names: tuple[str, ...]) -> Pictures:
    records = [_records(place / name) for name in names]
    pixels = np.concatenate([each[:, 1:] for each in records]).reshape(-1, *SHAPE)
    return Pictures(pixels, np.concatenate([each[:, 0] for each in records]).astype(np.int64))


def _records(file: Path) -> NDArray[np.uint8]:
    try:
        values = np.fromfile(file, np.uint8)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    if not len(values) or len(values) % _RECORD_BYTES:
        raise InputError(f"{file} must have a multiple of {_RECORD_BYTES} bytes, got {len(values)}")
    records = values.reshape(-1, _RECORD_BYTES)
    if (wrong := np.flatnonzero(records[:, 0] >= CLASSES)).size:
        first = int(wrong[0])
        raise InputError(f"{file} must have labels from 0 to {CLASSES - 1}, got {records[first, 0]} in record {first}")
    return records
