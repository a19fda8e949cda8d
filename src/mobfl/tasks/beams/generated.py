"""Samples of the generated street, made once per seed and size and then read from a cache."""

import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.files.atomic import replaced
from mobfl.files.cache import cache_folder
from mobfl.tasks.beams.samples import BeamSamples, seen_from_above, targets_of
from mobfl.tasks.beams.street import street_scenes

Array = NDArray[Any]
Arrays = tuple[Array, ...]

# As many as the paper's set, Raymobtime s008, has for training and for validation.
TRAINING_SAMPLES, VALIDATION_SAMPLES = 9234, 1960
_SCENES_AT_ONCE = 32
_NAMES = ("grids", "amplitudes", "places")
_VERSION = 1  # of the generator: raise it when its samples change


def generated_samples(
    seed: int, training: int, validation: int, targets: str, progress: Callable[[int], None] = lambda _: None
) -> tuple[BeamSamples, BeamSamples]:
    """Training and validation samples from different scenes; `progress` is told how many there are."""
    file = cache_folder() / f"street-{_VERSION}-{seed}-{training}-{validation}.npz"
    stored = _read(file)
    if stored is None:
        stored = _drawn(seed, training, validation, progress)
        _write(file, *stored)
    grids, amplitudes, places = stored
    target = targets_of(amplitudes, targets)
    parts = (slice(training), slice(training, None))
    first, second = (BeamSamples(grids[part], target[part], places[part]) for part in parts)
    return first, second


def _drawn(seed: int, training: int, validation: int, progress: Callable[[int], None]) -> Arrays:
    """Whole scenes until there are enough for training, then further scenes for validation."""
    parts: list[Arrays] = []
    scene = made = 0
    for wanted in (training, validation):
        while wanted:
            some = street_scenes(seed, scene, _SCENES_AT_ONCE)
            kept = slice(wanted)
            parts.append((seen_from_above(some.grid[kept]), some.amplitude[kept], some.position_m[kept, 1]))
            wanted -= len(parts[-1][0])
            scene, made = scene + _SCENES_AT_ONCE, made + len(parts[-1][0])
            progress(made)
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _read(file: Path) -> Arrays | None:
    """What the cache holds; None if that is nothing, or damaged, so that it must be made again."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return tuple(stored[name] for name in _NAMES)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        return None


def _write(file: Path, *arrays: Array) -> None:
    # A cache that cannot be written costs time at the next run, nothing else.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced(file) as temporary, temporary.open("wb") as out:
            np.savez_compressed(out, allow_pickle=False, **dict(zip(_NAMES, arrays, strict=True)))
