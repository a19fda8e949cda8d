"""Many runs, each in a folder named by what it computes, on all cores or on a Ray cluster.

A folder's name holds a digest of all that its result depends on, so a finished run is never repeated, a changed setting
never meets an old result, and a sweep that was stopped, however roughly, goes on where it was.

    OUT/sweep.json      the runs in their order, with the study that each belongs to
    OUT/runs/NAME/      one folder per run, as `mobfl train` writes it
"""

import hashlib
import json
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mobfl import run_folder, theory
from mobfl.atomic import replaced
from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.plan_names import resolve_plan
from mobfl.sweep_file import Request, Sweep
from mobfl.tasks.catalogue import build_task
from mobfl.training import CHECKPOINT_S, Job, check_job, train

SWEEP, RUNS = "sweep.json", "runs"
_DEATHS = 3  # so often a run may take its worker with it
_WATCH_S = 0.5
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

    status: str  # waiting, running, interrupted, failed, done
    share: float = 0.0
    reason: str | None = None


def name_runs(sweep: Sweep, progress: Callable[[int], None] = lambda _: None) -> list[Planned]:
    """The sweep's runs in order. Loads their data, so that mistakes show before anything is trained.

    Runs of several studies that compute the same have the same name, and are computed once.
    """
    named = list[Planned]()
    for done, request in enumerate(sweep.requests, start=1):
        job = _job(request)
        check_job(job)
        named.append(Planned(_name(request, job), request, _work(job)))
        progress(done)
    return named


def _work(job: Job) -> float:
    """The local steps that are expected, and an evaluation per round; servers without rounds are much the same."""
    plan, road = job.describe()["plan"], job.scenario
    h, t = plan["local_steps"], plan["round_s"] or road.dwell_s
    return road.training.duration_s / t * (float(theory.expected_uploads(road, h, t)) * h + _STEPS_PER_EVALUATION)


def _name(request: Request, job: Job) -> str:
    text = json.dumps(run_folder.plain(job.describe()), sort_keys=True)
    plan = re.sub(r"[^A-Za-z0-9.]+", "-", request.plan).strip("-")
    return f"{request.task}-{plan}-s{request.seed}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _job(request: Request) -> Job:
    task, crossings = _task(*_task_key(request)), _crossings(request.trace, request.section)
    plan = resolve_plan(request.plan, request.scenario, crossings)
    trace = None if request.trace is None else request.trace.name
    return Job(task, request.scenario, plan, request.seed, crossings, trace)


def _task_key(request: Request) -> tuple[Any, ...]:
    options = json.dumps(dict(request.options or {}), sort_keys=True)
    return request.task, options, request.data, request.scenario.training.loss_scale


@cache
def _task(name: str, options: str, data: Path | None, loss_scale: str) -> Task:
    """Once per process: its data are the same for all runs."""
    return build_task(name, json.loads(options), data, loss_scale)


@cache
def _crossings(trace: Path | None, section: str | None) -> Crossings | None:
    return None if trace is None else read_crossings(trace, parse_section(section) if section else None)


def state_of(folder: Path, duration_s: float) -> State:
    """As its files tell."""
    told = run_folder.read_status(folder)
    share = min((told["results"] or {}).get("virtual_s", 0.0) / duration_s, 1.0)
    return State(told["status"], 1.0 if told["status"] == "done" else share, told["reason"])


def states(out: Path, runs: Sequence[Planned]) -> dict[str, State]:
    return {run.name: state_of(out / RUNS / run.name, run.request.scenario.training.duration_s) for run in runs}


def run_sweep(
    sweep: Sweep,
    out: str | Path,
    *,
    runs: Sequence[Planned] | None = None,
    workers: int = 1,
    ray: str | None = None,
    checkpoint_s: float = CHECKPOINT_S,
    watch: Callable[[Mapping[str, State]], None] = lambda _: None,
) -> dict[str, State]:
    """Trains what is not done yet, and says how each run ended; `watch` is told twice a second how far they are.

    `runs` are the sweep's, if they have names already.
    """
    out, runs = Path(out), name_runs(sweep) if runs is None else runs
    if workers < 1:
        raise InputError(f"--workers must be >= 1, got {workers}")
    run_folder.make(out / RUNS)
    with run_folder.locked(out):
        _write_sweep(out, sweep, runs)
        with _watching(lambda: watch(states(out, runs))):
            _run_all(out, runs, workers, ray, checkpoint_s)
        return states(out, runs)


def _write_sweep(out: Path, sweep: Sweep, runs: Sequence[Planned]) -> None:
    entries = [{"run": run.name, "study": run.request.study, "label": run.request.label} for run in runs]
    content = {"title": sweep.title, "hopeless_plans": sweep.hopeless, "runs": entries}
    with replaced(out / SWEEP) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Entry:
    """A run as a study calls it."""

    run: str
    study: str
    label: str


def read_sweep(out: Path) -> list[Entry]:
    """A sweep's runs in their order."""
    try:
        return [Entry(str(each["run"]), str(each["study"]), str(each["label"])) for each in _stored(out)["runs"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"{out / SWEEP} must list a sweep's runs, got {error!r}") from None


def read_title(out: Path) -> str:
    return str(_stored(out).get("title", out.name))


def _stored(out: Path) -> dict[str, Any]:
    try:
        content = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{out} must be a sweep's folder with a {SWEEP}, got none") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{out / SWEEP} must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{out / SWEEP} must describe a sweep, got something else")
    return content


def _run_all(out: Path, runs: Sequence[Planned], workers: int, ray: str | None, checkpoint_s: float) -> None:
    """A worker that dies takes its pool with it: what is left then goes on in a new one."""
    deaths = _Deaths(out)
    while left := deaths.spared(_unfinished(out, runs)):
        before = states(out, left)
        try:
            _run_some(left, out / RUNS, workers, ray, checkpoint_s)
            return
        except (MobflError, KeyboardInterrupt):
            raise
        except Exception as error:  # joblib's and Ray's own: a run's exceptions end in its folder
            deaths.count(before, states(out, left), error)


def _unfinished(out: Path, runs: Sequence[Planned]) -> list[Planned]:
    once = {run.name: run for run in runs}
    return [run for name, run in once.items() if state_of(out / RUNS / name, 1.0).status != "done"]


class _Deaths:
    """How often each run was under way when a worker died: some kill their workers, for want of memory say."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._of = Counter[str]()
        self._in_vain = 0  # in a row, without anything having happened before

    def count(self, before: Mapping[str, State], after: Mapping[str, State], error: Exception) -> None:
        self._in_vain = self._in_vain + 1 if after == before else 0
        if self._in_vain == _DEATHS:
            raise MobflError(f"the workers die before any run gets on: {error}") from error
        for name in (name for name, state in after.items() if state.status == "running"):
            self._of[name] += 1
            if self._of[name] == _DEATHS:
                run_folder.write_failure(self._out / RUNS / name, f"its worker died {_DEATHS} times: {error}")

    def spared(self, runs: Sequence[Planned]) -> list[Planned]:
        """Without those that are given up."""
        return [run for run in runs if self._of[run.name] < _DEATHS]


def _run_some(runs: Sequence[Planned], folder: Path, workers: int, ray: str | None, checkpoint_s: float) -> None:
    if workers == 1 and ray is None:
        for run in runs:
            _run(run, folder, checkpoint_s)
        return
    from joblib import Parallel, delayed, parallel_config

    cluster, backend, parent = (nullcontext(), "loky", os.getpid()) if ray is None else (_ray_cluster(ray), "ray", None)
    with cluster, parallel_config(backend, n_jobs=workers):
        # One at a time and none ahead, so that they begin in their order.
        Parallel(batch_size=1, pre_dispatch=workers)(delayed(_run)(run, folder, checkpoint_s, parent) for run in runs)


@contextmanager
def _ray_cluster(address: str) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtraError("a sweep on a Ray cluster", "ray") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--ray must be the address of a running cluster, got {address!r}: {error}") from None
    register_ray()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        ray.shutdown()


def _run(run: Planned, runs: Path, checkpoint_s: float, parent: int | None = None) -> None:
    """In a worker: the run from wherever it is to its end. What goes wrong ends in its folder, not in the sweep."""
    if parent is not None:
        _live_no_longer_than(parent)
    folder = runs / run.name
    run_folder.make(folder)
    _wait_until_free(folder)
    try:
        train(_job(run.request), folder, resume=(folder / run_folder.RUN).exists(), checkpoint_s=checkpoint_s)
    except Exception as error:
        run_folder.write_failure(folder, str(error) or repr(error))


@cache
def _live_no_longer_than(parent: int) -> None:
    """A worker whose sweep was killed must not go on: the sweep's successor wants its run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _wait_until_free(folder: Path, patience_s: float = 20.0) -> None:
    """Until the worker of a sweep that was killed has noticed."""
    ends = time.monotonic() + patience_s
    while True:
        try:
            with run_folder.locked(folder):
                return
        except InputError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)


@contextmanager
def _watching(look: Callable[[], None]) -> Iterator[None]:
    """Looks twice a second, in a thread: joblib keeps this one until the last run is done."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_WATCH_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        look()
