"""A run as it grows, kept in its folder: begun or taken up again, with a row per round and checkpoints.

What a run consists of is the same wherever its uploads come from: simulated vehicles or real nodes.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.task import Task
from mobfl.learning.weights import Weights
from mobfl.runs import folder
from mobfl.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from mobfl.runs.folder import BEST, LAST
from mobfl.runs.history import History, Row, kpis_of
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
    wall_s: float = 0.0  # until the process that runs now began
    began: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    @property
    def history(self) -> History:
        return History.of_rows(self.description["initial"], self.rows, kpis_of(self.description))

    @property
    def scores(self) -> dict[str, float]:
        """What the model scores that is served now."""
        latest = self.rows[-1] if self.rows else self.description["initial"]
        return {name: latest[name] for name in self.description["initial"]}

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

        Rows, best and last are written in this order: whenever the process dies, the rows reach at least as far as the
        last model, and what they have beyond it is computed again, to the same bytes.
        """
        self.status = status
        if status == "done":
            self.last = self.last.settled.alone
        folder.write_rows(self.folder, self.history)
        write_checkpoint(self.folder / BEST, self.best)
        write_checkpoint(self.folder / LAST, self.last)
        progress = {"status": status, "reason": reason, "results": _results(self.history, self.last)}
        folder.write_run(self.folder, self.description | progress)
        wall_s = self.wall_s + time.monotonic() - self.began
        folder.write_timing(self.folder, {"wall_s": wall_s, "workers": workers})
        self.saved = time.monotonic()


def _results(history: History, last: Checkpoint) -> dict[str, Any]:
    uploads = history.columns["uploads"] - history.columns["rejected"]
    taken_back = {"taken_back": list(last.taken_back)} if last.taken_back else {}
    return {
        "rounds": len(history),
        "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
        "rounds_with_uploads": int((uploads > 0).sum()),
        "rejections": dict(sorted(last.rejections.items())),
        **taken_back,
        "min_loss": history.min_loss(),
        "best": {kpi.name: history.best(kpi.name) for kpi in history.kpis},
        "final": {name: history.final(name) for name in ("loss", *(kpi.name for kpi in history.kpis))},
        "notices": verdict(history, last.taken_back),
    }


def begin(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    start, scores = fresh_start(task, seed)
    described = {**description, "initial": scores}
    folder.write_run(out, described | {"status": "running", "reason": None, "results": None})
    return Recording(out, described, [], start, start, scores["loss"])


def take_up(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    """The run at its last checkpoint. Rows beyond it, left by a process that died while saving, are dropped."""
    stored = folder.read_run(out, [kpi.name for kpi in task.kpis])
    folder.check_same(stored, description)
    if not (out / LAST).exists():  # it died before its first checkpoint
        return begin(description, task, seed, out)
    reference = task.initial_weights(seed)
    best, last = (read_checkpoint(out / name, reference) for name in (BEST, LAST))
    rows: list[Row] = list(folder.read_rows(out, task.kpis)[: last.rounds])
    if len(rows) < last.rounds:
        raise InputError(f"{out} must have rows of the {last.rounds} rounds of its last model, got {len(rows)}")
    described = {**description, "initial": stored["initial"]}
    least = History.of_rows(stored["initial"], rows, task.kpis).min_loss()
    wall_s = float(folder.read_timing(out).get("wall_s", 0.0))
    return Recording(out, described, rows, best, last, least, stored["status"], wall_s)
