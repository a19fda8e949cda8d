"""Arrays of .npz archives, of which nothing is unpickled and none is larger than it may be."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, brief


def npz_array(file: Path, key: str, most_bytes: int) -> NDArray[Any]:
    """The array of that name, of any kind of numbers or text and any shape."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _member(file, archive, key, most_bytes)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"data {file} must be a file or a folder: there is none") from None
    except MemoryError:
        raise InputError(f"{file}: {key} must fit into memory, got more than there is") from None
    except Exception as error:  # a flipped bit may raise anything in the libraries that unpack it
        reason = next(iter(str(error).splitlines()), "an end too early")
        raise InputError(f"{file}: must be an undamaged .npz archive, got {brief(reason)}") from None


def _member(file: Path, archive: zipfile.ZipFile, key: str, most_bytes: int) -> NDArray[Any]:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    if key not in names:
        raise InputError(f"{file}: must hold the array {key}, got {brief(', '.join(names)) or 'none'}")
    stored = archive.infolist()[names.index(key)]
    if stored.file_size > most_bytes:  # of which zipfile unpacks no more, whatever comes
        raise InputError(f"{file}: {key} must have at most {most_bytes >> 20} MiB, got {stored.file_size >> 20}")
    with archive.open(stored) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array
