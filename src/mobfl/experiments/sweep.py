"""Many runs, each in a folder named by what it computes, on all cores or on a Ray cluster.

A folder's name holds a digest of all that its result depends on, so a finished run is never repeated, a changed setting
never meets an old result, and a sweep that was stopped, however roughly, goes on where it was.
"""

import hashlib
import json
import os
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from mobfl import theory
from mobfl.errors import InfeasibleError, InputError, counted
from mobfl.experiments.folder import (
    RUNS,
    STOP,
    Entry,
    StoredSweep,
    added_to,
    is_set_aside,
    set_aside,
    set_aside_so_far,
    write_sweep,
)
from mobfl.experiments.pool import ALL, Pool, watching
from mobfl.experiments.sweep_file import Request, Sweep, load_sweep
from mobfl.files.json import plain
from mobfl.learning.task import LOSS, Task, TaskRequest
from mobfl.mobility.cities import read_city
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.mobility.sources import crossings_of
from mobfl.progress import Progress, following
from mobfl.runs import folder as run_folder
from mobfl.runs.job import Job, check_job
from mobfl.runs.recording import is_whole, take_up
from mobfl.runs.training import CHECKPOINT_S, train
from mobfl.scenario import Scenario
from mobfl.servers.anytime import needs_tracks
from mobfl.servers.names import plan_name
from mobfl.tasks.catalogue import build_task

_DEATHS = 3  # so often a run that is alone may take its worker with it
_STEPS_PER_EVALUATION = 10  # as much time does it take


@dataclass(frozen=True)
class Planned:
    """A run with its folder's name, and roughly how much there is to compute, in local steps."""

    name: str
    request: Request
    work: float


@dataclass(frozen=True)
class State:
    """How far a run is: its status, the share of virtual time that is done, and why it failed."""

    status: str  # one of run_folder.STATUSES
    share: float = 0.0
    reason: str | None = None


def name_runs(sweep: Sweep, progress: Callable[[int], None] = lambda _: None) -> list[Planned]:
    """The sweep's runs in order. Loads their data, so that mistakes show before anything is trained.

    Runs of several studies that compute the same have the same name, and are computed once.
    """
    named, mistakes, scores = list[Planned](), dict[str, list[str]](), {LOSS.name: None}
    for done, request in enumerate(sweep.requests, start=1):
        try:
            job = _job(request)
            check_job(job)
            description = job.describe()
            named.append(Planned(_name(description), request, _work(description["plan"], job.road)))
            scores |= dict.fromkeys(kpi.name for kpi in job.task.kpis)
        except (InputError, InfeasibleError) as error:
            run = f"{request.task}, plan {request.plan}, seed {request.seed}"
            lines = error.lines if isinstance(error, InputError) else [f"no plan is possible: {error.reason}"]
            for line in lines:
                mistakes.setdefault(line, []).append(run)
        progress(done)
    if mistakes:
        raise InputError(f"{_first_of(runs)}: {line}" for line, runs in mistakes.items())
    _check_targets(sweep, [*scores])
    return named


def _first_of(runs: Sequence[str]) -> str:
    """A mistake that all runs share is said once."""
    return runs[0] if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more"


def _check_targets(sweep: Sweep, scores: Sequence[str]) -> None:
    """A target that one task has and another has not is fine; one that none has would never be seen."""
    unknown = [target.column for target in sweep.comparison.targets if target.column not in scores]
    if sweep.comparison.baseline and unknown:
        raise InputError(f"targets must be of {', '.join(scores)}, got {unknown[0]!r}")


def _work(plan: Mapping[str, Any], scenario: Scenario) -> float:
    """The local steps that are expected, and an evaluation per round; servers without rounds are much the same."""
    h, t = plan["local_steps"] or 1, plan["round_s"] or scenario.dwell_s
    return (
        scenario.training.duration_s / t * (float(theory.expected_uploads(scenario, h, t)) * h + _STEPS_PER_EVALUATION)
    )


def _name(description: Mapping[str, Any]) -> str:
    """Readable, and with a digest of all that the result depends on."""
    text = json.dumps(plain(description), sort_keys=True)
    plan = plan_name(description["plan"]).translate(str.maketrans(",:=", "---"))
    return f"{description['task']}-{plan}-s{description['seed']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _job(request: Request) -> Job:
    task, crossings = _task(*_task_key(request)), _crossings(request)
    trace = request.traffic if request.trace is None else request.trace.name
    job = Job(
        task, request.scenario, request.plan, request.seed, crossings, trace, request.rule, request.local, request.codec
    )
    for each in job.stations:
        _ = each.server  # which finds out whether there is a plan
    return job


def _task_key(request: Request) -> tuple[Any, ...]:
    options = json.dumps(dict(request.options or {}), sort_keys=True, default=str)
    return request.task, options, request.data, request.scenario.training.loss_scale


@cache
def _task(name: str, options: str, data: Path | None, loss_scale: str) -> Task:
    """Once per process: its data are the same for all runs."""
    return build_task(name, TaskRequest(json.loads(options), data, loss_scale))


def _crossings(request: Request) -> Crossings | Mapping[str, Crossings] | None:
    if request.scenario.is_city:
        return _crossings_of_city(request)
    if request.traffic is not None:
        return crossings_of(request.traffic, request.scenario, request.seed)
    return _read(request.trace, request.section, request.longest_stay_s, needs_tracks(request.plan, request.scenario))


def _crossings_of_city(request: Request) -> Mapping[str, Crossings] | None:
    for key in ("traffic", "section"):
        if (given := getattr(request, key)) is not None:
            raise InputError(f"{key} must not be given where the scenario lists its stations, got {given!r}")
    if request.trace is None:
        return None
    tracks = needs_tracks(request.plan, request.scenario)
    return _read_city(request.scenario.to_toml(), request.trace, request.longest_stay_s, tracks)


@cache
def _read_city(scenario: str, trace: Path, longest_stay_s: float | None, tracks: bool) -> Mapping[str, Crossings]:
    return read_city(Scenario.from_dict(tomllib.loads(scenario)), trace, longest_stay_s, tracks)


@cache
def _read(
    trace: Path | None, section: str | None, longest_stay_s: float | None, keep_tracks: bool = False
) -> Crossings | None:
    if trace is None:
        return None
    where = parse_section(section) if section else None
    return read_crossings(trace, where, keep_tracks=keep_tracks, longest_stay_s=longest_stay_s)


def stays_left_out(sweep: Sweep) -> list[str]:
    """A sentence for every trace of which long stays are left out."""
    asked = [each for each in sweep.requests if each.longest_stay_s and not each.scenario.is_city]
    cut = {(each.trace, each.section, each.longest_stay_s): None for each in asked}
    told = list[str]()
    for trace, section, longest_stay_s in cut:
        whole, kept = (_read(trace, section, most_s) or () for most_s in (None, longest_stay_s))
        out = f"{len(whole) - len(kept)} of {len(whole)} stays are longer than {longest_stay_s:g} s and left out"
        told.append(f"{trace}: {out}")
    return told


def states(out: Path, runs: Sequence[Planned]) -> dict[str, State]:
    return {run.name: _state(out / RUNS / run.name, run.request.scenario.training.duration_s) for run in runs}


def _state(folder: Path, duration_s: float) -> State:
    """As its files tell."""
    stored = run_folder.read_status(folder)
    share = 1.0 if stored.status == "done" else min(stored.virtual_s / duration_s, 1.0)
    return State(stored.status, share, stored.reason)


def run_sweep(
    sweep: Sweep | str | os.PathLike[str],
    out: str | Path,
    *,
    runs: Sequence[Planned] | None = None,
    workers: int = 1,
    ray: str | None = None,
    checkpoint_s: float = CHECKPOINT_S,
    add: bool = False,
    progress: Progress[Mapping[str, State]] = False,
    notice: Callable[[str], None] = lambda _: None,
) -> dict[str, State]:
    """Trains what is not done yet, and says how each run ended.

    Args:
        sweep: As `load_sweep` gives it, a file, or a packaged sweep's name.
        out: The sweep's folder. What is finished in it is not repeated, what was begun goes on.
        runs: The sweep's, if they have names already.
        workers: Processes that train at once.
        ray: The address of a Ray cluster to train on; None trains here.
        checkpoint_s: Seconds of wall-clock time between a run's checkpoints.
        add: Keep what the folder's report shows already, so that a sweep can be run piece by piece; runs of other code
            are left out.
        progress: True shows how far it is; a function is told twice a second how far each run is.
        notice: Is told a sentence for every run that was damaged, and was set aside and computed again; and one if the
            folder has runs that another state of the code made.
    """
    sweep = sweep if isinstance(sweep, Sweep) else load_sweep(sweep)
    out, runs = Path(out), name_runs(sweep) if runs is None else runs
    if workers < 1 and not (ray is not None and workers == ALL):
        raise InputError(f"workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"checkpoint_s must be >= 0, got {checkpoint_s:g}")
    run_folder.make(out / RUNS)
    with run_folder.locked(out):
        before = set_aside_so_far(out)
        entries, code = tuple(map(_entry, runs)), run_folder.versions()["code"]
        stored = StoredSweep(sweep.title, sweep.hopeless, entries, sweep.comparison, code)
        write_sweep(out, added_to(out, stored) if add else stored)
        for sentence in _of_other_code(out, [run.name for run in runs]):
            notice(sentence)
        work = {run.name: run.work for run in runs}
        with (
            following(progress, "training", sum(work.values()), partial(_told, work)) as watch,
            watching(lambda: watch(states(out, runs))),
        ):
            _run_all(out, runs, workers, ray, checkpoint_s)
        for name, reason in set_aside_so_far(out).items():
            if name not in before:
                notice(f"{name} was set aside, and its run was computed again: {reason}")
        return states(out, runs)


def _of_other_code(out: Path, names: Sequence[str]) -> list[str]:
    """A sentence if runs in the folder were made by other code. Having other names, they never meet the sweep's own."""
    others = (file.parent for file in sorted((out / RUNS).glob(f"*/{run_folder.RUN}")) if file.parent.name not in names)
    found = [run_folder.legible_run(place).get("versions") for place in others if not is_set_aside(Path(place.name))]
    now = run_folder.versions()["code"]
    count = sum(isinstance(versions, dict) and versions.get("code") != now for versions in found)
    if not count:
        return []
    made_by = f"{'was' if count == 1 else 'were'} made by another state of mobfl's code"
    kept = "stays as it is and is left out" if count == 1 else "stay as they are and are left out"
    rest = f"all that this sweep asks for is computed by today's, {now}"
    return [f"{counted(count, 'run')} in {out / RUNS} {made_by}, {kept}: {rest}"]


def _told(work: Mapping[str, float], states: Mapping[str, State]) -> tuple[float, str]:
    """How much of the work is done, and of how many runs all."""
    done = sum(state.status == "done" for state in states.values())
    return sum(state.share * work[name] for name, state in states.items()), f"{done} of {len(states)} runs"


def _entry(run: Planned) -> Entry:
    asked = run.request
    return Entry(run.name, asked.task, asked.study, asked.label, asked.plan, asked.rule or "")


def _run_all(out: Path, runs: Sequence[Planned], workers: int, ray: str | None, checkpoint_s: float) -> None:
    """A worker that dies takes its pool with it. Whoever was under way then runs alone, to see who it was."""
    work = _Work({run.name: run.request for run in runs}, out / RUNS, checkpoint_s)
    left = [name for name in work.requests if not _is_finished(work.folder / name)]
    while left:
        pool = Pool(work, workers, ray, work.stop)
        if pool.run(left) is None:
            return
        for name in pool.begun:
            if run_folder.read_status(out / RUNS / name).status not in ("done", "failed"):
                _run_alone(name, work, ray)
        left = [name for name in left if name not in pool.begun]


def _is_finished(folder: Path) -> bool:
    """Whether the run is done, nothing of it is damaged, and it is the one that the folder's name says."""
    if run_folder.read_status(folder).status != "done" or not is_whole(folder):
        return False
    try:
        return _name(run_folder.settings_of(run_folder.legible_run(folder))) == folder.name
    except Exception:  # whatever a file that is not ours does to us: the run looks closer
        return False


def _run_alone(name: str, work: "_Work", ray: str | None) -> None:
    for _ in range(_DEATHS):
        died = Pool(work, 1, ray, work.stop, own_process=True).run([name])
        if died is None:
            return
    reason = str(died).partition("\n")[0]
    run_folder.write_failure(work.folder / name, f"its worker died {_DEATHS} times: {reason}")


@dataclass(frozen=True)
class _Work:
    """What workers do."""

    requests: Mapping[str, Request]
    folder: Path
    checkpoint_s: float

    @property
    def stop(self) -> Path:
        return self.folder.parent / STOP

    def __call__(self, name: str) -> None:
        """The run from wherever it is to its end. What goes wrong ends in its folder, not in the sweep."""
        folder = self.folder / name
        if os.path.lexists(folder) and not folder.is_dir():
            set_aside(folder, f"{folder} must be a run's folder, got something else")
        run_folder.make(folder)
        if not _is_free_soon(folder):
            return  # somebody else is at it
        try:
            job = _job(self.requests[name])
            if _name(job.describe()) != name:
                raise InputError("its data or versions are no longer those that the sweep began with")
            begun = run_folder.has_begun(folder) and self._is_sound(job, folder)
            if not begun:  # it failed before its first round was
                (folder / run_folder.RUN).unlink(missing_ok=True)
            train(job, folder, resume=begun, checkpoint_s=self.checkpoint_s, stop=self.stop.exists)
        except Exception as error:
            run_folder.write_failure(folder, str(error) or repr(error))

    def _is_sound(self, job: Job, folder: Path) -> bool:
        """Else it is set aside: the folder's name says that it is this run, so it is damaged if it cannot be."""
        try:
            with run_folder.locked(folder):
                take_up(job.describe(), job.task, job.seed, folder)
        except (InputError, OSError) as error:
            set_aside(folder, str(error))
            run_folder.make(folder)
            return False
        return True


def _is_free_soon(folder: Path, patience_s: float = 20.0) -> bool:
    """Whether nobody else trains this run; the worker of a sweep that was killed takes a moment to notice."""
    ends = time.monotonic() + patience_s
    while True:
        try:
            with run_folder.locked(folder):
                return True
        except InputError:
            if time.monotonic() > ends:
                return False
            time.sleep(0.1)
