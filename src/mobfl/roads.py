"""Many roads as arrays: a table under the TOML's names becomes the theory's `Conditions`."""

import operator
from collections.abc import Mapping
from typing import Any

import annotated_types
import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.scenario import FIELDS, LINK_BYTES, MOST_STEPS, Scenario, most_steps, transfer_s
from mobfl.theory import Conditions

_BOUNDS = (
    (annotated_types.Gt, "gt", operator.gt),
    (annotated_types.Ge, "ge", operator.ge),
    (annotated_types.Lt, "lt", operator.lt),
    (annotated_types.Le, "le", operator.le),
)


def conditions_from(table: Any) -> Conditions:
    """One road per row, from a mapping or data frame with columns such as `road.length_m`.

    Nested mappings work as in TOML, a single number counts for every row, and what is missing takes the
    paper's value. The rules are those of `Scenario`: the first row that breaks one is reported.
    """
    columns = _columns(table)
    rows = _row_count(columns)
    first = _scenario(columns, 0) if rows else Scenario()

    def column(key: str) -> NDArray[np.float64]:
        table, name = key.split(".")
        value = columns.get(key, getattr(getattr(first, table), name))
        try:
            return np.broadcast_to(np.asarray(value, float), rows)
        except (TypeError, ValueError):
            raise InputError(f"column {key} must hold numbers, got {np.asarray(value).dtype} values") from None

    if "link.model_bytes" in columns:
        model_bytes, downlink_bps, uplink_bps = (column(f"link.{key}") for key in LINK_BYTES)
        transfers = transfer_s(model_bytes, downlink_bps) + transfer_s(model_bytes, uplink_bps)
    else:
        transfers = column("link.download_s") + column("link.upload_s")
    road = Conditions(
        column("traffic.arrivals_per_s") * column("traffic.participation"),
        column("road.length_m"),
        column("traffic.speed_mps"),
        column("traffic.speed_sd_mps"),
        transfers,
        column("compute.min_step_s"),
        column("compute.extra_step_s"),
    )
    keeps = np.full(rows, True)
    for key, values in columns.items():
        keeps &= _keeps_rules(key, values)
    with np.errstate(all="ignore"):
        keeps &= most_steps(road.length_m, road.speed_mps, road.min_step_s) <= MOST_STEPS
    if not keeps.all():
        _scenario(columns, int(np.argmin(keeps)))
    return road


def _columns(table: Any) -> dict[str, NDArray[Any]]:
    names = table.keys() if isinstance(table, Mapping) else _names(table)
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        if isinstance(table[name], Mapping):
            columns |= {f"{name}.{key}": np.asarray(value) for key, value in table[name].items()}
        else:
            columns[name] = np.asarray(table[name])
    return columns


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


def _keeps_rules(key: str, values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind not in "fiu":
        return np.full(values.shape, True)
    keeps = np.isfinite(values)
    for rule in FIELDS[key].metadata:
        for kind, bound, holds in _BOUNDS:
            if isinstance(rule, kind):
                keeps &= holds(values, getattr(rule, bound))
    return keeps


def _scenario(columns: dict[str, NDArray[Any]], row: int) -> Scenario:
    """One row as a scenario, which says in its own words what is wrong with it."""
    values = {key: column[row] if column.ndim else column[()] for key, column in columns.items()}
    try:
        return Scenario().with_values(values)
    except InputError as error:
        raise InputError(f"row {row}: {line}" for line in error.lines) from None
