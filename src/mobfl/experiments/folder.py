"""A sweep on disk: which runs it has, in their order, and what its studies call them.

OUT/sweep.json      the runs in their order, with the study that each belongs to
OUT/runs/NAME/      one folder per run, as `mobfl train` writes it
OUT/runs/NAME.damaged-1/     what could not be resumed, with the reason in NAME.damaged-1.txt
OUT/.stop.part      while workers are to save and end
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.experiments.targets import NO_COMPARISON, Comparison
from mobfl.files.atomic import PART
from mobfl.files.json import read_json, write_json

SWEEP, RUNS, STOP = "sweep.json", "runs", f".stop{PART}"


@dataclass(frozen=True)
class Entry:
    """A run as a study calls it, and what it was asked for with, where that is told."""

    run: str
    task: str
    study: str
    label: str
    plan: str = ""
    rule: str = ""


@dataclass(frozen=True)
class StoredSweep:
    title: str
    hopeless: int  # plans of its grids that were left out
    entries: tuple[Entry, ...]
    comparison: Comparison = NO_COMPARISON
    code: str = ""  # the state of mobfl's sources that computes them, where that is told


_DAMAGED = ".damaged-"


def set_aside(place: Path, reason: str) -> None:
    """Renames what cannot be resumed, so that its run can begin again, and says why in a file beside it."""
    names = (f"{place.name}{_DAMAGED}{number}" for number in count(1))
    aside = next(free for name in names if not os.path.lexists(free := place.with_name(name)))
    place.rename(aside)
    aside.with_name(f"{aside.name}.txt").write_text(f"{reason}\n", encoding="utf-8", errors="replace")


def is_set_aside(place: Path) -> bool:
    return any(_DAMAGED in part for part in place.parts)


def set_aside_so_far(out: Path) -> dict[str, str]:
    """The reasons, by the name that a damaged run has now."""
    files = sorted((out / RUNS).glob(f"*{_DAMAGED}*.txt"))
    return {file.stem: file.read_text(encoding="utf-8", errors="replace").strip() for file in files if file.is_file()}


def write_sweep(out: Path, sweep: StoredSweep) -> None:
    entries = [asdict(each) for each in sweep.entries]
    content = {"title": sweep.title, "hopeless_plans": sweep.hopeless, "code": sweep.code, "runs": entries}
    comparison = {"baseline": sweep.comparison.baseline, "targets": [str(each) for each in sweep.comparison.targets]}
    write_json(out / SWEEP, content | (comparison if sweep.comparison.baseline else {}))


def added_to(out: Path, sweep: StoredSweep) -> StoredSweep:
    """The sweep, with the runs that the folder already has; of two with the same place the new one counts.

    Runs of other code are left out: they do not compare.
    """
    before = read_sweep(out) if (out / SWEEP).exists() else None
    if before is None or before.code != sweep.code:
        return sweep
    entries = _by_place(before.entries) | _by_place(sweep.entries)
    return replace(sweep, entries=tuple(chain.from_iterable(entries.values())))


def _by_place(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """By run and study; a study may call one run by several labels."""
    found = dict[tuple[str, str], list[Entry]]()
    for each in entries:
        found.setdefault((each.run, each.study), []).append(each)
    return found


def read_sweep(out: Path) -> StoredSweep:
    content = read_json(out / SWEEP, "a sweep's folder")
    try:
        entries = tuple(_entry(each) for each in content["runs"])
        comparison = Comparison.of(str(content.get("baseline", "")), map(str, content.get("targets", ())))
        code = str(content.get("code", ""))
        return StoredSweep(str(content["title"]), int(content["hopeless_plans"]), entries, comparison, code)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{out / SWEEP} must list a sweep's runs, got {error!r}") from None


def _entry(told: Mapping[str, Any]) -> Entry:
    asked = {key: str(told.get(key, "")) for key in ("plan", "rule")}
    return Entry(*(str(told[key]) for key in ("run", "task", "study", "label")), **asked)
