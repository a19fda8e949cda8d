"""A sweep on disk: which runs it has, in their order, and what its studies call them.

OUT/sweep.json      the runs in their order, with the study that each belongs to
OUT/runs/NAME/      one folder per run, as `mobfl train` writes it
OUT/runs/NAME.damaged-1/     what could not be resumed, with the reason in NAME.damaged-1.txt
OUT/.stop.part      while workers are to save and end
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from mobfl.errors import InputError
from mobfl.files.atomic import PART
from mobfl.files.json import read_json, write_json

SWEEP, RUNS, STOP = "sweep.json", "runs", f".stop{PART}"


@dataclass(frozen=True)
class Entry:
    """A run as a study calls it."""

    run: str
    task: str
    study: str
    label: str


@dataclass(frozen=True)
class StoredSweep:
    title: str
    hopeless: int  # plans of its grids that were left out
    entries: tuple[Entry, ...]


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


def write_sweep(out: Path, title: str, hopeless: int, entries: Sequence[Entry]) -> None:
    write_json(out / SWEEP, {"title": title, "hopeless_plans": hopeless, "runs": [asdict(entry) for entry in entries]})


def read_sweep(out: Path) -> StoredSweep:
    content = read_json(out / SWEEP, "a sweep's folder")
    try:
        entries = tuple(Entry(**{key: str(each[key]) for key in asdict(_ANY)}) for each in content["runs"])
        return StoredSweep(str(content["title"]), int(content["hopeless_plans"]), entries)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{out / SWEEP} must list a sweep's runs, got {error!r}") from None


_ANY = Entry("", "", "", "")
