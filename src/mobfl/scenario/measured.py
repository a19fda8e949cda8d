"""Measured seconds per local step, from a file with a number per line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobfl.errors import InputError, brief, shown
from mobfl.files.bounds import read_text
from mobfl.scenario.compute import MOST_STEP_S, MOST_STEP_SAMPLES
from mobfl.scenario.values import LEAST

_KEY = "step_samples"
_MOST_BYTES = 1 << 20  # a line of a number has about 20 characters, and more than 10,000 lines are not taken


def with_samples_read(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Tables, or values under dotted keys, in which numbers stand where `step_samples` named a file in the folder.

    Only what a person loads goes through here: a scenario that came over a network never opens a file.
    """
    read = dict(values)
    for name, value in values.items():
        if name == f"compute.{_KEY}":
            read[name] = _numbers(name, value, folder)
        elif name == "compute":
            read[name] = _table_read(name, value, folder)
        elif name == "fleet" and isinstance(value, list | tuple):
            read[name] = [_table_read(f"fleet.{i}", table, folder) for i, table in enumerate(value)]
    return read


def _table_read(name: str, table: Any, folder: Path) -> Any:
    if not isinstance(table, Mapping) or _KEY not in table:
        return table
    return {**table, _KEY: _numbers(f"{name}.{_KEY}", table[_KEY], folder)}


def _numbers(key: str, value: Any, folder: Path) -> Any:
    if not isinstance(value, str):
        return value
    try:
        lines = read_text(folder / value, _MOST_BYTES).splitlines()
    except OSError as error:
        raise InputError(
            f"{key} must be numbers or a file with one per line, got {value!r}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{key} must be a file of text, got other bytes in {value!r}") from None
    except ValueError as error:
        raise InputError(f"{key} must be a file with one number per line, got {error} in {value!r}") from None
    filled = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if filled and not _is_number(filled[0][1]):
        filled = filled[1:]  # the name of the column
    for number, text in filled:
        if not _is_number(text):
            raise InputError(
                f"{key} must be a file with one number per line, got {shown(text)} in line {number} of {value}"
            )
        if not LEAST <= float(text) <= MOST_STEP_S:
            rule = f"seconds, each > 0 and <= {MOST_STEP_S:g}"
            raise InputError(f"{key} must be a file of {rule}, got {brief(text)} in line {number} of {value}")
    if not 0 < len(filled) <= MOST_STEP_SAMPLES:
        raise InputError(f"{key} must be a file of 1 to {MOST_STEP_SAMPLES} numbers, got {len(filled)} in {value}")
    return [float(text) for _, text in filled]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
