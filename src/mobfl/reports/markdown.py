"""The arena's table, as its file has it, in words for a page: a table per study, a row per algorithm."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

BEGIN, END = "<!-- arena: begin -->", "<!-- arena: end -->"


def read_rows(files: Iterable[Path]) -> list[Row]:
    """The rows of files that `mobfl arena --table` wrote."""
    found = list[Row]()
    for file in files:
        with file.open(encoding="utf-8", newline="") as stored:
            found += csv.DictReader(stored)
    return found


def arena_markdown(rows: Sequence[Row]) -> str:
    """Tables in Markdown, in the order of the rows."""
    if not rows:
        return "No runs have been measured yet.\n"
    studies = dict.fromkeys((row["task"], row["study"]) for row in rows)
    parts = [_study(*name, [row for row in rows if (row["task"], row["study"]) == name]) for name in studies]
    return "\n".join(parts)


def _study(task: str, study: str, rows: Sequence[Row]) -> str:
    targets = {row["target"]: row["value"] for row in rows}
    title = study if task in study else f"{task}, {study}"
    kpi = rows[0]["kpi"]
    heads = [f"s to loss {_short(value, 3)}" if "loss" in name else f"s to {name}" for name, value in targets.items()]
    header = ["", "seeds", *(word for head in heads for word in (head, "times as fast")), "L_min", f"last {kpi}"]
    lines = [f"**{title}**", "", _line(header), _line(["---"] * len(header))]
    by_label = dict.fromkeys(row["label"] for row in rows)
    lines += [_line(_algorithm([row for row in rows if row["label"] == label])) for label in by_label]
    return "\n".join([*lines, ""])


def _algorithm(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    times = [
        word for row in rows for word in (f"{_short(row['mean_s'], 3)} ({row['reached']}/{row['runs']})", _faster(row))
    ]
    return [first["label"], first["runs"], *times, _against(first, "min_loss"), _against(first, "last_kpi")]


def _faster(row: Row) -> str:
    if row["faster"] == row["faster_low"] == row["faster_high"] == "1":
        return "1"
    found = _interval(row, "faster")
    return f"{row['bound']} {found}".strip()


def _against(row: Row, name: str) -> str:
    """The mean, and in brackets the interval of how much it is above the baseline's."""
    if name not in row or not row[name]:
        name = "last_loss"
    low, high = (float(row[f"{name}_above_{end}"]) for end in ("low", "high"))
    mean = f"{float(row[name]):.3f}"
    return mean if low == high == 0 or math.isinf(high) else f"{mean} [{low:+.3f}, {high:+.3f}]"


def _interval(row: Row, name: str) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if math.isinf(high) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _short(number: str, digits: int) -> str:
    return f"{float(number):.{digits}g}" if float(number) < 10**digits else f"{float(number):.0f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def filled_in(page: str, section: str) -> str:
    """The page with this section between its two marks."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page must hold {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{section}\n{END}{after}"
