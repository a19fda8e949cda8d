"""A table for a paper: LaTeX with booktabs, a mean with its spread in one cell."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": r"\ensuremath{-}", "±": r"\ensuremath{\pm}", "≥": r"\ensuremath{\geq}", "≤": r"\ensuremath{\leq}",
}  # fmt: skip
_MEAN, _SD, _SEEDS = "mean", "sd", "seeds"
_SPREAD, _COUNT = "mean ± sd", "n"
_SHOWN = {_MEAN: _SPREAD, _SEEDS: _COUNT}


def with_spread(names: Sequence[str]) -> list[str]:
    """The columns as a person reads them: the standard deviation stands beside its mean, and n seeds are n."""
    if not {_MEAN, _SD} <= set(names):
        return list(names)
    shown = _SHOWN if _COUNT not in names else {_MEAN: _SPREAD}
    return [shown.get(name, name) for name in names if name != _SD]


def spread_cell(row: Mapping[str, Any], name: str) -> str | None:
    """`0.881 ± 0.032`, the mean to the digits that its spread allows, or n; None where this is another column."""
    if name == _COUNT and _SEEDS in row and _COUNT not in row:
        return str(row[_SEEDS])
    if name != _SPREAD:
        return None
    mean, sd = row[_MEAN], row[_SD]
    if mean is None or not math.isfinite(mean):
        return "–"
    if sd is None or not math.isfinite(sd):
        return f"{mean:.5g}"
    if sd == 0:
        return f"{mean:.5g} ± 0"
    digits = max(0, 1 - math.floor(math.log10(sd)))
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def booktabs(table: pa.Table) -> str:
    """The whole table as a `tabular`, numbers to the right."""
    rows = table.flatten().to_pylist()
    names = with_spread(table.flatten().column_names)
    numeric = [
        any(isinstance(row.get(name), int | float) for row in rows) or name in (_SPREAD, _COUNT) for name in names
    ]
    lines = [
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{''.join('r' if each else 'l' for each in numeric)}}}",
        "\\toprule",
        _line([_escaped(name) for name in names]),
        "\\midrule",
        *(_line([_escaped(spread_cell(row, name) or _cell(row.get(name))) for name in names]) for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:.5g}".replace("-", "−") if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split())).replace("–", "--")
