"""A run as it grows, kept in its folder: begun or taken up again, with a row per round and checkpoints.

What a run consists of is the same wherever its uploads come from: simulated vehicles or real nodes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl.errors import DamagedRunError, InputError
from mobfl.learning.task import Task
from mobfl.learning.weights import Weights
from mobfl.runs import folder
from mobfl.runs.by_station import by_station
from mobfl.runs.checkpoint import Checkpoint, Kept, read_checkpoint, read_last, rounds_of, write_checkpoint
from mobfl.runs.divergence import Diverged
from mobfl.runs.folder import BEST, LAST
from mobfl.runs.history import History, Row, kpis_of, stations_of
from mobfl.runs.loop import Learnt, fresh_start
from mobfl.runs.verdict import verdict


@dataclass
class Recording:
    """A run as it grows, and its folder."""

    folder: Path
    description: dict[str, Any]  # the part of run.json that does not change
    rows: list[Row]
    best: Checkpoint
    last: Checkpoint
    least_loss: float
    status: str = "running"
    more_results: Callable[[int], Mapping[str, Any]] = lambda _: {}  # after so many rounds
    wall_s: float = 0.0  # until the process that runs now began
    began: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)
    stopped: Diverged | None = None  # why it ends before its time
    remarks: dict[str, Any] = field(default_factory=dict)  # what else belongs to the results,
    notices: list[str] = field(default_factory=list)  # and what else a person should read

    @property
    def history(self) -> History:
        known = kpis_of(self.description), stations_of(self.description)
        return History.of_rows(self.description["initial"], self.rows, *known)

    @property
    def scores(self) -> dict[str, float]:
        """What the model scores that is served now."""
        latest = self.rows[-1] if self.rows else self.description["initial"]
        return {name: latest[name] for name in self.description["initial"]}

    @property
    def _kept(self) -> Kept:
        run, initial = folder.identity(self.description), self.description["initial"]
        return Kept(run, initial, self.history.columns, self.best)

    def add(self, learnt: Learnt) -> None:
        self.rows.append(learnt.row)
        self.last = learnt.checkpoint
        if learnt.row["loss"] < self.least_loss:
            self.best, self.least_loss = self.last.alone, learnt.row["loss"]

    def score(self, rounds: Sequence[int], weights: Weights, scores: Mapping[str, float]) -> None:
        """What the model of these rounds scores, where that is known only later."""
        for number in rounds:
            self.rows[number] = {**self.rows[number], **scores}
        if scores["loss"] < self.least_loss:
            self.best = Checkpoint(rounds[0] + 1, weights, rejections=self.last.rejections)
            self.least_loss = scores["loss"]

    def save(self, status: str, workers: int, reason: str | None = None) -> None:
        """A checkpoint of the rounds so far; what is only needed to go on does not outlast the run.

        Until then the last checkpoint alone is what a run goes on from, and the other files are for whoever looks at
        it. They are written before it, for a run that is done has nothing but them: whenever the process dies, rows
        and best are at least as new as the last model.
        """
        self.status = status
        folder.write_rows(self.folder, self.history)
        write_checkpoint(self.folder / BEST, self.best)
        if status == "done":
            self.last = self.last.settled.ended
        write_checkpoint(self.folder / LAST, self.last, None if status == "done" else self._kept)
        progress = {"status": status, "reason": reason, "results": self._results()}
        folder.write_run(self.folder, self.description | progress)
        wall_s = self.wall_s + time.monotonic() - self.began
        folder.write_timing(self.folder, {"wall_s": wall_s, "workers": workers})
        self.saved = time.monotonic()

    def _results(self) -> dict[str, Any]:
        results = (
            _results(self.history, self.last, self.stopped) | self.remarks | dict(self.more_results(len(self.rows)))
        )
        return results | {"notices": [*results["notices"], *self.notices]}


def _results(history: History, last: Checkpoint, stopped: Diverged | None) -> dict[str, Any]:
    on_roads = history.of_vehicles
    uploads = on_roads.columns["uploads"] - on_roads.columns["rejected"]
    taken_back = {"taken_back": list(last.taken_back)} if last.taken_back else {}
    return {
        "rounds": len(history),
        "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
        "rounds_with_uploads": int((uploads > 0).sum()),
        "rejections": dict(sorted(last.rejections.items())),
        **taken_back,
        **({} if stopped is None else {"diverged": {"round": stopped.round, "at_s": stopped.at_s}}),
        "min_loss": history.min_loss(),
        "best": {kpi.name: history.best(kpi.name) for kpi in history.kpis},
        "final": {name: history.final(name) for name in ("loss", *(kpi.name for kpi in history.kpis))},
        **{name: total for name in ("bytes", "energy_j") if (total := on_roads.total(name)) is not None},
        **({"stations": by_station(history)} if history.stations else {}),
        "notices": verdict(on_roads, last.taken_back, stopped),
    }


def begin(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    start, scores = fresh_start(task, seed)
    described = {**description, "initial": scores}
    folder.write_run(out, described | {"status": "running", "reason": None, "results": None})
    return Recording(out, described, [], start, start, scores["loss"])


def take_up(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    """The run at its last checkpoint: from that alone, unless it is of a run that is done or of an older mobfl."""
    try:
        folder.check_files(out)
        if not (out / LAST).exists():
            return _from_the_start(description, task, seed, out)
        last, kept = read_last(out / LAST, task.initial_weights(seed))
        if kept is None:
            return _from_its_files(description, task, out, last)
    except folder.OtherRunError:
        raise
    except InputError as error:
        raise DamagedRunError(out, error) from None
    if kept.run != folder.identity(description):
        if stored := folder.legible_run(out):
            folder.check_same(stored, description)
        raise folder.OtherRunError(f"{out / LAST} must be of the run to be resumed, got another run's")
    rows: list[Row] = [
        dict(zip(kept.columns, row, strict=True))
        for row in zip(*(column.tolist() for column in kept.columns.values()), strict=True)
    ]
    return _taken_up(description, kept.initial, task, out, rows, kept.best, last, "running")


def _taken_up(
    description: Mapping[str, Any],
    initial: Mapping[str, float],
    task: Task,
    out: Path,
    rows: list[Row],
    best: Checkpoint,
    last: Checkpoint,
    status: str,
) -> Recording:
    least = History.of_rows(initial, rows, task.kpis).min_loss()
    wall_s = float(folder.read_timing(out).get("wall_s", 0.0))
    return Recording(out, {**description, "initial": dict(initial)}, rows, best, last, least, status, wall_s=wall_s)


def _from_the_start(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    """It died before its first checkpoint was whole."""
    stored = folder.read_run(out, [kpi.name for kpi in task.kpis])
    folder.check_same(stored, description)
    if stored.get("results") is not None and any((out / name).exists() for name in (BEST, folder.ROUNDS)):
        raise InputError(f"{out / LAST} must be there to resume, got none")
    return begin(description, task, seed, out)


def _from_its_files(description: Mapping[str, Any], task: Task, out: Path, last: Checkpoint) -> Recording:
    """Rows beyond the last model, left by a process that died while saving, are dropped."""
    stored = folder.read_run(out, [kpi.name for kpi in task.kpis])
    folder.check_same(stored, description)
    best, rows = (
        read_checkpoint(out / BEST, last.model),
        folder.read_rows(out, task.kpis, stations_of(stored))[: last.rounds],
    )
    if len(rows) < last.rounds:
        raise InputError(f"{out / folder.ROUNDS} must have a row for each of {last.rounds} rounds, got {len(rows)}")
    wanted = History.of_rows(stored["initial"], rows, task.kpis).best_round()
    if best.rounds != wanted and best.rounds <= last.rounds:  # a newer one is found again
        raise InputError(f"{out / BEST} must be the model after {wanted} rounds, got that after {best.rounds}")
    is_done = stored["status"] == "done" and (stored.get("results") or {}).get("rounds") == last.rounds
    return _taken_up(description, stored["initial"], task, out, [*rows], best, last, "done" if is_done else "running")


def is_whole(out: Path) -> bool:
    """Whether the files of a run that is done can be read and belong together."""
    try:
        folder.check_files(out)
        history = folder.read_history(out)
        best, last = (rounds_of(out / name) for name in (BEST, LAST))
    except InputError:
        return False
    return last == len(history) and best == history.best_round()
