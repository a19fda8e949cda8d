"""One training run in a folder: begun or resumed, saved as it goes, and finished to the same bytes either way."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mobfl import run_folder
from mobfl.errors import InputError
from mobfl.experiment import Learnt, Start, fresh_start, learn, server_steps, training_site
from mobfl.history import History, Row
from mobfl.learning.holdings import check_samples
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.planner import best_round_s
from mobfl.plans import Plan
from mobfl.rng import stream
from mobfl.rounds import FixedPlan
from mobfl.run_folder import BEST, LAST, Model
from mobfl.scenario import Scenario
from mobfl.servers.falling import FallingSteps
from mobfl.servers.planned_rounds import PlannedRounds
from mobfl.servers.site import Site
from mobfl.servers.steps import Baseline, Server

CHECKPOINT_S = 30.0


@dataclass(frozen=True)
class Job:
    """All that a run's result depends on. The plan is the planner's, just (H, T), or another server."""

    task: Task
    scenario: Scenario
    plan: Plan | tuple[int, float] | Baseline
    seed: int = 0
    crossings: Crossings | None = None
    trace: str | None = None  # the crossings' file

    @property
    def server(self) -> Server:
        if not isinstance(self.plan, Plan | tuple):
            return self.plan
        h, t = self.plan.numbers[:2] if isinstance(self.plan, Plan) else self.plan
        fixed = FixedPlan(h, t)
        return PlannedRounds(self._falling(h, t) if self.scenario.training.falling_to < 1 else fixed)

    @property
    def site(self) -> Site:
        return training_site(self.scenario, self.seed, self.crossings)

    def _falling(self, h: int, t: float) -> FallingSteps:
        """A T that the planner chose is chosen anew for every H; one that was given stays, as on recorded traffic."""
        chosen, site = isinstance(self.plan, Plan) and self.crossings is None, self.site

        def round_s(local_steps: int) -> float:
            return float(best_round_s(self.scenario, local_steps)) if chosen else t

        return FallingSteps(h, self.scenario.training.falling_to, site.start_s, site.duration_s, round_s)

    def describe(self) -> dict[str, Any]:
        """The part of run.json that is known before the first round."""
        return {
            "task": self.task.name,
            "plan": self._promised(),
            "seed": self.seed,
            "trace": None
            if self.crossings is None
            else {"file": self.trace, "fingerprint": self.crossings.fingerprint()},
            "scenario": self.scenario.to_dict(),
            "data": dict(self.task.record),
            "versions": run_folder.versions(),
            "kpis": dict(self.task.kpis),
            "baselines": {name: dict(scores) for name, scores in self.task.baselines.items()},
        }

    def _promised(self) -> dict[str, Any]:
        if isinstance(self.plan, Plan):
            known = {key: value for key, value in self.plan.to_dict().items() if key not in ("status", "reason")}
            return {"policy": "rounds", **known}
        if isinstance(self.plan, tuple):
            return {"policy": "rounds", "local_steps": self.plan[0], "round_s": self.plan[1]}
        known = {"policy": self.plan.name, "local_steps": self.plan.local_steps, "round_s": None}
        return {**known, **self.plan.parameters}


def check_job(job: Job) -> float:
    """How many seconds of virtual time the job trains; raises if it cannot take a single server step."""
    stream(job.seed, "")  # which checks it
    training, site = job.scenario.training, job.site
    check_samples(job.task.pool, training)
    used = job.task.record.get("loss_scale")
    if used is not None and used != training.loss_scale:
        raise InputError(f"training.loss_scale must be the task's, {used!r}, got {training.loss_scale!r}")
    if training.falling_to < 1 and not isinstance(job.plan, Plan | tuple):
        raise InputError(f"training.falling_to must be 1 for {job.plan.name}, got {training.falling_to:g}")
    if next(server_steps(job.server, site), None) is None:
        raise InputError(f"training.duration_s must be at least {job.server.least}, got {site.duration_s:g}")
    return site.duration_s


def check_settings(out: Path, resume: bool, workers: int, checkpoint_s: float) -> None:
    """What can be said before any data are there."""
    if workers < 1:
        raise InputError(f"--workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"--checkpoint must be >= 0 s, got {checkpoint_s:g}")
    there = (out / run_folder.RUN).exists()
    if resume and not there:
        raise InputError(f"--out {out} must hold a run to resume, got none")
    if not resume and not run_folder.is_free(out):
        what = "a run, which --resume continues" if there else "something else"
        raise InputError(f"--out {out} must be a new or empty folder, got {what}")


def train(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    workers: int = 1,
    checkpoint_s: float = CHECKPOINT_S,
    progress: Callable[[Row], None] = lambda _: None,
) -> History:
    """Runs the job into the folder and returns its history; `progress` gets every new round's row.

    Ctrl-C ends it after the round that is being computed; a second one at once, as of the last checkpoint.
    """
    out = Path(out)
    check_job(job)
    check_settings(out, resume, workers, checkpoint_s)
    run_folder.make(out)
    with run_folder.locked(out), _interrupts_noted() as interrupted:
        run = _resumed(job, out) if resume else _begun(job, out)
        if run.status != "done":
            _go_on(run, job, workers, checkpoint_s, progress, interrupted)
        return run.history


@contextmanager
def _interrupts_noted() -> Iterator[Callable[[], bool]]:
    """Tells whether there was a Ctrl-C: an exception in the middle of compiled code or of saving does harm."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted = False

    def note(*_: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)


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
        scores = {name: latest[name] for name in self.description["initial"]}
        return Start(len(self.rows), self.last.weights, scores, self.last.versions)

    def add(self, learnt: Learnt) -> None:
        self.rows.append(learnt.row)
        rejections = Counter(self.last.rejections) + Counter(learnt.rejections)
        self.last = Model(learnt.model, len(self.rows), rejections, learnt.versions)
        if learnt.row["loss"] < self.least_loss:
            self.best, self.least_loss = replace(self.last, versions={}), learnt.row["loss"]

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
    }


def _begun(job: Job, out: Path) -> _Run:
    start = fresh_start(job.task, job.seed)
    model = Model(start.model, 0, {})
    description = job.describe() | {"initial": dict(start.scores)}
    run_folder.write_run(out, description | {"status": "running", "reason": None, "results": None})
    return _Run(out, description, [], model, model, start.scores["loss"])


def _resumed(job: Job, out: Path) -> _Run:
    """The run at its last checkpoint. Rows beyond it, left by a process that died while saving, are dropped."""
    stored = run_folder.read_run(out, job.task.kpis)
    run_folder.check_same(stored, job.describe())
    if not (out / LAST).exists():  # it died before its first checkpoint
        return _begun(job, out)
    reference = job.task.initial_weights(job.seed)
    best, last = (run_folder.read_model(out / name, reference) for name in (BEST, LAST))
    rows: list[Row] = list(run_folder.read_rows(out, job.task.kpis)[: last.rounds])
    if len(rows) < last.rounds:
        raise InputError(f"{out} must have rows of the {last.rounds} rounds of its last model, got {len(rows)}")
    description = job.describe() | {"initial": stored["initial"]}
    least = History.of_rows(stored["initial"], rows, stored["kpis"]).min_loss()
    wall_s = float(run_folder.read_timing(out).get("wall_s", 0.0))
    return _Run(out, description, rows, best, last, least, stored["status"], wall_s)


def _go_on(
    run: _Run,
    job: Job,
    workers: int,
    checkpoint_s: float,
    progress: Callable[[Row], None],
    interrupted: Callable[[], bool],
) -> None:
    run.save("running", workers)
    try:
        for learnt in learn(job.scenario, job.task, job.server, job.seed, run.start, job.crossings, workers):
            run.add(learnt)
            progress(learnt.row)
            if interrupted():
                run.save("interrupted", workers)
                raise KeyboardInterrupt
            if time.monotonic() - run.saved >= checkpoint_s:
                run.save("running", workers)
    except Exception as error:
        run.save("failed", workers, str(error))
        raise
    run.save("done", workers)
