"""One training run in a folder: begun or resumed, saved as it goes, and finished to the same bytes either way."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobfl import run_folder
from mobfl.errors import InputError
from mobfl.experiment import Learnt, Start, fresh_start, learn, whole_rounds
from mobfl.history import History, Row
from mobfl.learning.holdings import check_samples
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.rounds import FixedPlan
from mobfl.run_folder import BEST, LAST, Model
from mobfl.scenario import Scenario

CHECKPOINT_S = 30.0


@dataclass(frozen=True)
class Job:
    """All that a run's result depends on."""

    task: Task
    scenario: Scenario
    plan: Mapping[str, Any]  # with local_steps and round_s, and what they promise if the planner chose them
    seed: int = 0
    crossings: Crossings | None = None
    trace: str | None = None  # the crossings' file

    def describe(self) -> dict[str, Any]:
        """The part of run.json that is known before the first round."""
        return {
            "task": self.task.name,
            "plan": dict(self.plan),
            "seed": self.seed,
            "trace": self.trace,
            "scenario": self.scenario.to_dict(),
            "data": dict(self.task.record),
            "versions": run_folder.versions(),
            "kpis": dict(self.task.kpis),
            "baselines": {name: dict(scores) for name, scores in self.task.baselines.items()},
        }


def check_job(job: Job) -> int:
    """How many rounds the job has; raises if it cannot have any."""
    check_samples(job.task.pool, job.scenario.training)
    return whole_rounds(job.scenario, job.plan["round_s"], job.crossings)


def train(
    job: Job,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    checkpoint_s: float = CHECKPOINT_S,
    progress: Callable[[Row], None] = lambda _: None,
) -> History:
    """Runs the job into the folder and returns its history; `progress` gets every new round's row."""
    check_job(job)
    if workers < 1:
        raise InputError(f"--workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"--checkpoint must be >= 0 s, got {checkpoint_s:g}")
    _check_folder(out, resume)
    out.mkdir(parents=True, exist_ok=True)
    with run_folder.locked(out):
        run = _resumed(job, out) if resume else _begun(job, out)
        if run.status != "done":
            _go_on(run, job, workers, checkpoint_s, progress)
        return run.history


def _check_folder(out: Path, resume: bool) -> None:
    there = (out / run_folder.RUN).exists()
    if resume and not there:
        raise InputError(f"--out {out} must hold a run to resume, got none")
    if not resume and not run_folder.is_free(out):
        what = "a run, which --resume continues" if there else "something else"
        raise InputError(f"--out {out} must be a new or empty folder, got {what}")


@dataclass
class _Run:
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
        return Start(len(self.rows), self.last.weights, {name: latest[name] for name in self.description["initial"]})

    def add(self, learnt: Learnt) -> None:
        self.rows.append(learnt.row)
        rejections = Counter(self.last.rejections) + Counter(learnt.rejections)
        self.last = Model(learnt.model, len(self.rows), rejections)
        if learnt.row["loss"] < self.least_loss:
            self.best, self.least_loss = self.last, learnt.row["loss"]

    def save(self, status: str, workers: int, reason: str | None = None) -> None:
        """A checkpoint of the rounds so far."""
        self.status = status
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
        "rounds_with_uploads": int((uploads > 0).sum()),
        "rejections": dict(sorted(last.rejections.items())),
        "min_loss": history.min_loss(),
        "best": {kpi: history.best(kpi) for kpi in history.kpis},
        "final": {name: history.final(name) for name in ("loss", *history.kpis)},
    }


def _begun(job: Job, out: Path) -> _Run:
    start = fresh_start(job.task, job.seed)
    model = Model(start.model, 0, {})
    description = job.describe() | {"initial": dict(start.scores)}
    return _Run(out, description, [], model, model, start.scores["loss"])


def _resumed(job: Job, out: Path) -> _Run:
    """The run at its last checkpoint. Rows beyond it, left by a process that died while saving, are dropped."""
    stored = run_folder.read_run(out)
    run_folder.check_same(stored, job.describe())
    best, last = (run_folder.read_model(out / name) for name in (BEST, LAST))
    rows: list[Row] = list(run_folder.read_rows(out)[: last.rounds])
    if len(rows) < last.rounds:
        raise InputError(f"{out} must have rows of the {last.rounds} rounds of its last model, got {len(rows)}")
    description = job.describe() | {"initial": stored["initial"]}
    least = History.of_rows(stored["initial"], rows, stored["kpis"]).min_loss()
    wall_s = run_folder.read_timing(out).get("wall_s", 0.0)
    return _Run(out, description, rows, best, last, least, stored["status"], wall_s)


def _go_on(run: _Run, job: Job, workers: int, checkpoint_s: float, progress: Callable[[Row], None]) -> None:
    policy = FixedPlan(job.plan["local_steps"], job.plan["round_s"])
    run.save("running", workers)
    try:
        for learnt in learn(job.scenario, job.task, policy, job.seed, run.start, job.crossings, workers):
            run.add(learnt)
            progress(learnt.row)
            if time.monotonic() - run.saved >= checkpoint_s:
                run.save("running", workers)
    except KeyboardInterrupt:
        run.save("interrupted", workers)
        raise
    except Exception as error:
        run.save("failed", workers, str(error))
        raise
    run.save("done", workers)
