"""Where vehicles were when, in columns: what every kind of source becomes before it is followed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = TypeVar("Columns", bound=tuple[Any, ...])
Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NOBODY = -1  # a vehicle that is none: at this time nobody was seen
ELSEWHERE, JUNCTION = -1, -2  # edges that no section names, and those within junctions


class Rows(NamedTuple):
    """Samples, one after the other."""

    vehicle: Ints
    time_s: Array
    x: Array
    y: Array
    edge: Ints
    along_m: Array
    speed_mps: Array
    step: Ints


def every(columns: Columns, act: Callable[[Any], Any]) -> Columns:
    """With each column changed in the same way."""
    kind: Any = type(columns)
    return kind(*map(act, columns))


def joined(parts: Sequence[Columns]) -> Columns:
    """One after the other."""
    kind: Any = type(parts[0])
    return kind(*map(np.concatenate, zip(*parts, strict=True)))


def empty_rows(length: int) -> Rows:
    """Nobody, nowhere."""
    nowhere = np.full(length, np.nan)
    nobody = np.full(length, NOBODY)
    return Rows(nobody, nowhere, nowhere, nowhere, np.full(length, ELSEWHERE), nowhere, nowhere, nobody)
