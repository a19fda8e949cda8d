"""Many roads as arrays: a table under the TOML's names becomes the theory's `Conditions`."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.scenario import FIELDS, LINK_BYTES, LINK_SIZES, MOST_STEPS, Scenario, most_steps, transfer_s
from mobfl.scenario.wording import unknown_key
from mobfl.theory import Conditions, Delays

_PLANNED_WITH = ("road.length_m", "traffic.speed_mps", "traffic.speed_sd_mps", "compute.min_step_s")
_SIZES = [f"link.{key}" for key in LINK_SIZES]
_WHOLE = {"link.model_bytes", *_SIZES, *(key for key, field in FIELDS.items() if field.annotation is int)}
# What would make a road another than the paper's: plan these one by one.
_ONE_LAW = {"compute.law", "compute.step_samples", "compute.extra_sd_s", "fleet"}


def conditions_from(table: Any) -> Conditions:
    """One road per row, from a mapping or data frame with columns such as `road.length_m`.

    Nested mappings work as in TOML, a single number counts for every row, and what is missing takes the
    paper's value. The rules are those of `Scenario`: the first row that breaks one is reported.
    """
    columns = _columns(table)
    for key in columns:
        if key.partition(".")[0] == "radio":
            raise InputError(f"a table of roads must have links of seconds or rates, got a column {key}")
    unknown = [unknown_key(key, FIELDS) for key in columns if key not in FIELDS and key != "fleet"]
    if unknown:
        raise InputError(unknown)
    for key in _ONE_LAW.intersection(columns):
        raise InputError(f"a table of roads must have one class of vehicles and the paper's law, got a column {key}")
    rows = _row_count(columns)
    first = _scenario(columns, 0) if rows else Scenario()
    for row in _rows_to_check(columns, rows):
        _scenario(columns, row)

    def column(key: str) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(columns.get(key, first.value(key)), float), rows)

    if "link.model_bytes" in columns:
        model_bytes, downlink_bps, uplink_bps = (column(f"link.{key}") for key in LINK_BYTES)
        down, up = (column(key) if key in columns else model_bytes for key in _SIZES)
        transfers = transfer_s(down, downlink_bps), transfer_s(up, uplink_bps)
    else:
        Delays.of(first)  # which refuses rates without sizes
        transfers = column("link.download_s"), column("link.upload_s")
    return Conditions(
        column("traffic.arrivals_per_s") * column("traffic.participation"),
        column("road.length_m"),
        column("traffic.speed_mps"),
        column("traffic.speed_sd_mps"),
        Delays.paper(*transfers, column("compute.min_step_s"), column("compute.extra_step_s")),
        column("training.noise_uploads"),
    )


def _rows_to_check(columns: dict[str, NDArray[Any]], rows: int) -> Iterator[int]:
    """Rows such that no other breaks a rule if none of these does; the scenario of such a row knows the words.

    A rule for one number is an interval, perhaps of whole numbers: its extremes and its odd ones decide.
    """
    defaults = Scenario()
    numbers = {key: np.asarray(columns.get(key, defaults.value(key))) for key in _PLANNED_WITH}
    for key, values in columns.items():
        if values.ndim == 0 or rows == 0:
            continue
        if values.dtype.kind in "fiu":
            odd = ~np.isfinite(values) | ((values != np.floor(values)) & (key in _WHOLE))
            yield from (int(np.argmax(odd)), int(np.argmin(values)), int(np.argmax(values)))
        else:  # text and objects: every value that occurs
            yield from {repr(value): row for row, value in enumerate(values.tolist())}.values()
    if all(values.dtype.kind in "fiu" for values in numbers.values()):
        length_m, speed_mps, sd_mps, step_s = numbers.values()
        broken = (most_steps(length_m, speed_mps, step_s) > MOST_STEPS) | (sd_mps > speed_mps)
        if broken.any():
            yield int(np.argmax(broken))


def _columns(table: Any) -> dict[str, NDArray[Any]]:
    names = table.keys() if isinstance(table, Mapping) else _names(table)
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        if isinstance(table[name], Mapping):
            columns |= {f"{name}.{key}": _column(f"{name}.{key}", value) for key, value in table[name].items()}
        else:
            columns[str(name)] = _column(str(name), table[name])
    return columns


def _column(key: str, values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"column {key} must hold one value per row, got lists of different lengths") from None


def _names(table: Any) -> Any:
    for attribute in ("column_names", "columns"):  # pyarrow; pandas and polars
        if hasattr(table, attribute):
            return getattr(table, attribute)
    names = getattr(getattr(table, "dtype", None), "names", None)  # a structured array
    if names is None:
        raise InputError(f"table must have columns under the scenario's names, got {type(table).__name__}")
    return names


def _row_count(columns: dict[str, NDArray[Any]]) -> int:
    counts = {key: len(values) for key, values in columns.items() if values.ndim == 1}
    if any(values.ndim > 1 for values in columns.values()) or len(set(counts.values())) > 1:
        shapes = ", ".join(f"{key} {values.shape}" for key, values in columns.items())
        raise InputError(f"table must have columns of one length, got {shapes}")
    return next(iter(counts.values()), 1)


def _scenario(columns: dict[str, NDArray[Any]], row: int) -> Scenario:
    """One row as a scenario, which says in its own words what is wrong with it."""
    values = {key: np.asarray(column[row] if column.ndim else column).tolist() for key, column in columns.items()}
    try:
        return Scenario().with_values(values)
    except InputError as error:
        raise InputError(f"row {row}: {line}" for line in error.lines) from None
