"""A run as it grows, kept in its folder: begun or taken up again, with a row per round and checkpoints.

What a run consists of is the same wherever its uploads come from: simulated vehicles or real nodes.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.task import Task
from mobfl.learning.uploads import Weights
from mobfl.runs import folder as run_folder
from mobfl.runs.folder import BEST, LAST, Model
from mobfl.runs.history import History, Row
from mobfl.runs.loop import Learnt, Start, fresh_start
from mobfl.runs.verdict import verdict


@dataclass
class Recording:
    """A run as it grows, and its folder."""

    folder: Path
    description: dict[str, Any]  # the part of run.json that does not change
    rows: list[Row]
    best: Model
    last: Model
    least_loss: float
    status: str = "running"
    wall_s: float = 0.0  # until the process that runs now began
    began: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    @property
    def history(self) -> History:
        return History.of_rows(self.description["initial"], self.rows, self.description["kpis"])

    @property
    def start(self) -> Start:
        latest = self.rows[-1] if self.rows else self.description["initial"]
        scores = {name: latest[name] for name in self.description["initial"]}
        return Start(len(self.rows), self.last.weights, scores, self.last.versions)

    def add(self, learnt: Learnt) -> None:
        self.rows.append(learnt.row)
        rejections = Counter(self.last.rejections) + Counter(learnt.rejections)
        self.last = Model(learnt.model, len(self.rows), rejections, learnt.versions)
        if learnt.row["loss"] < self.least_loss:
            self.best, self.least_loss = replace(self.last, versions={}), learnt.row["loss"]

    def score(self, rounds: Sequence[int], weights: Weights, scores: Mapping[str, float]) -> None:
        """What the model of these rounds scores, where that is known only later."""
        for number in rounds:
            self.rows[number] = {**self.rows[number], **scores}
        if scores["loss"] < self.least_loss:
            self.best = Model(weights, rounds[0] + 1, self.last.rejections)
            self.least_loss = scores["loss"]

    def save(self, status: str, workers: int, reason: str | None = None) -> None:
        """A checkpoint of the rounds so far; what is only needed to go on does not outlast the run."""
        self.status = status
        if status == "done":
            self.last = replace(self.last, versions={})
        run_folder.write_checkpoint(self.folder, self.history, self.best, self.last)
        progress = {"status": status, "reason": reason, "results": _results(self.history, self.last)}
        run_folder.write_run(self.folder, self.description | progress)
        wall_s = self.wall_s + time.monotonic() - self.began
        run_folder.write_timing(self.folder, {"wall_s": wall_s, "workers": workers})
        self.saved = time.monotonic()


def _results(history: History, last: Model) -> dict[str, Any]:
    uploads = history.columns["uploads"] - history.columns["rejected"]
    return {
        "rounds": len(history),
        "virtual_s": float(history.columns["end_s"][-1]) if len(history) else 0.0,
        "rounds_with_uploads": int((uploads > 0).sum()),
        "rejections": dict(sorted(last.rejections.items())),
        "min_loss": history.min_loss(),
        "best": {kpi: history.best(kpi) for kpi in history.kpis},
        "final": {name: history.final(name) for name in ("loss", *history.kpis)},
        "notices": verdict(history),
    }


def begin(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    start = fresh_start(task, seed)
    model = Model(start.model, 0, {})
    described = {**description, "initial": dict(start.scores)}
    run_folder.write_run(out, described | {"status": "running", "reason": None, "results": None})
    return Recording(out, described, [], model, model, start.scores["loss"])


def take_up(description: Mapping[str, Any], task: Task, seed: int, out: Path) -> Recording:
    """The run at its last checkpoint. Rows beyond it, left by a process that died while saving, are dropped."""
    stored = run_folder.read_run(out, task.kpis)
    run_folder.check_same(stored, description)
    if not (out / LAST).exists():  # it died before its first checkpoint
        return begin(description, task, seed, out)
    reference = task.initial_weights(seed)
    best, last = (run_folder.read_model(out / name, reference) for name in (BEST, LAST))
    rows: list[Row] = list(run_folder.read_rows(out, task.kpis)[: last.rounds])
    if len(rows) < last.rounds:
        raise InputError(f"{out} must have rows of the {last.rounds} rounds of its last model, got {len(rows)}")
    described = {**description, "initial": stored["initial"]}
    least = History.of_rows(stored["initial"], rows, stored["kpis"]).min_loss()
    wall_s = float(run_folder.read_timing(out).get("wall_s", 0.0))
    return Recording(out, described, rows, best, last, least, stored["status"], wall_s)
