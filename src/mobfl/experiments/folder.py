"""A sweep on disk: which runs it has, in their order, and what its studies call them.

OUT/sweep.json      the runs in their order, with the study that each belongs to
OUT/runs/NAME/      one folder per run, as `mobfl train` writes it
OUT/.stop.part      while workers are to save and end
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
