"""How far many runs are, for a person who waits: a table on a terminal, elsewhere a line for every run that ends."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mobfl.cli.options import working
from mobfl.errors import counted

if TYPE_CHECKING:
    from rich.console import Group

    from mobfl.experiments.sweep import Planned, State

    Watch = Callable[[Mapping[str, State]], None]

# In the order in which the live table has them.
MARKS = {"running": "bold", "failed": "red", "interrupted": "yellow", "waiting": "dim", "done": "green"}
_SHOWN = 20  # runs in the live table
_SILENT_S = 60.0  # after so long without a line there is one


@contextmanager
def preparing(runs: int) -> Iterator[Callable[[int], None]]:
    """Data are read or generated, and mistakes are looked for."""
    if not sys.stderr.isatty():
        _say("preparing the runs and their data")  # of which some may be the same
    with working("preparing", runs) as progress:
        yield progress


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """What is done for a report: on a terminal each stage as it begins, elsewhere a line."""
    if not sys.stderr.isatty():
        _say("writing the report")
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("writing the report") as status:
        yield lambda text: status.update(text)


@contextmanager
def followed(runs: Sequence["Planned"], out: Path, workers: int) -> Iterator["Watch"]:
    """What is to be told again and again how far each run is."""
    if not sys.stderr.isatty():
        yield _Lines(runs, out, workers)
        return
    from rich.console import Console
    from rich.live import Live

    work = {run.name: run.work for run in runs}
    began, first = time.monotonic(), list[float]()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def watch(run_states: Mapping[str, "State"]) -> None:
            first.append(_share(run_states, work))
            live.update(_table(run_states, _left(time.monotonic() - began, first[-1], first[0])), refresh=True)

        yield watch


class _Lines:
    """A line for every run that ends, and one now and then where none does."""

    def __init__(self, runs: Sequence["Planned"], out: Path, workers: int) -> None:
        from mobfl.experiments.folder import RUNS
        from mobfl.runs.folder import read_status

        self._work, self._folders = (
            {run.name: run.work for run in runs},
            {run.name: out / RUNS / run.name for run in runs},
        )
        self._before = {name: _written_ns(folder) for name, folder in self._folders.items()}
        self._told, self._said_s = set[str](), time.monotonic()
        left = sum(read_status(folder).status != "done" for folder in self._folders.values())
        if left:
            _say(f"training {counted(left, 'run')}, {workers if workers > 0 else 'many'} at once")

    def __call__(self, run_states: Mapping[str, "State"]) -> None:
        ended = [name for name, state in run_states.items() if self._has_ended(name, state.status)]
        fresh = [name for name in ended if name not in self._told]
        before = sum(state.status == "done" or name in ended for name, state in run_states.items()) - len(fresh)
        for number, name in enumerate(fresh, start=before + 1):
            click.echo(f"{number} of {len(run_states)}: {name} {self._outcome(name, run_states[name])}", err=True)
        self._told.update(fresh)
        now_s = time.monotonic()
        if fresh:
            self._said_s = now_s
        elif now_s - self._said_s >= _SILENT_S:
            running = sum(state.status == "running" for state in run_states.values())
            _say(f"{counted(running, 'run')} under way, {_share(run_states, self._work):.0%} of all steps taken")
            self._said_s = now_s

    def _has_ended(self, name: str, status: str) -> bool:
        """Since this began: one that had failed before says so until it is its turn."""
        return status in ("done", "failed") and _written_ns(self._folders[name]) != self._before[name]

    def _outcome(self, name: str, state: "State") -> str:
        from mobfl.runs.folder import read_run

        if state.status == "failed":
            return f"failed: {state.reason}"
        run = read_run(self._folders[name])
        told = f"done, loss {run['initial']['loss']:.4g} → {run['results']['min_loss']:.4g}"
        return ": ".join(filter(None, [told, " ".join(run["results"]["notices"])]))


def _written_ns(folder: Path) -> int | None:
    from mobfl.runs.folder import RUN

    try:
        return (folder / RUN).stat().st_mtime_ns
    except OSError:  # there is none yet
        return None


def _say(stage: str) -> None:
    click.echo(f"{stage} …", err=True)


def _share(run_states: Mapping[str, "State"], work: Mapping[str, float]) -> float:
    return sum(state.share * work[name] for name, state in run_states.items()) / sum(work.values())


def _left(elapsed_s: float, share: float, at_first: float) -> str:
    if share <= at_first:
        return "time left not known yet"
    seconds = round(elapsed_s * (1 - share) / (share - at_first))
    return f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


def _table(run_states: Mapping[str, "State"], left: str) -> "Group":
    from rich.console import Group
    from rich.table import Table

    counts = Counter(state.status for state in run_states.values())
    title = ", ".join(f"{counts[status]} {status}" for status in ("done", "running", "failed", "waiting"))
    table = Table(box=None, show_header=False)
    order = sorted(run_states.items(), key=lambda item: list(MARKS).index(item[1].status))
    for name, state in order[:_SHOWN]:
        mark = MARKS[state.status]
        table.add_row(name, f"[{mark}]{state.status}[/]", f"{state.share:.0%}")
    if len(order) > _SHOWN:
        table.add_row(f"and {len(order) - _SHOWN} more", "", "")
    return Group(f"{title}; {left}", table)
