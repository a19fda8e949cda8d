"""One training run in a folder: begun or resumed, saved as it goes, and finished to the same bytes either way."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.holdings import check_samples
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.planning.planner import best_round_s
from mobfl.planning.plans import Plan
from mobfl.policies.falling import FallingSteps
from mobfl.rng import stream
from mobfl.rounds.rules import FixedPlan
from mobfl.runs import folder as run_folder
from mobfl.runs.history import History, Row
from mobfl.runs.loop import learn, server_steps, training_site
from mobfl.runs.recording import Recording, begin, take_up
from mobfl.scenario import Scenario
from mobfl.servers.rounds import PlannedRounds
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
    for each in job.scenario.classes:
        check_samples(job.task.pool, each.training)
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
    with run_folder.locked(out), interrupts_noted() as interrupted:
        begun = take_up if resume else begin
        run = begun(job.describe(), job.task, job.seed, out)
        if run.status != "done":
            _go_on(run, job, workers, checkpoint_s, progress, interrupted)
        return run.history


@contextmanager
def interrupts_noted() -> Iterator[Callable[[], bool]]:
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


def _go_on(
    run: Recording,
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
