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
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
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
from mobfl.plans import Plan
from mobfl.sweep_file import Request, Sweep
from mobfl.tasks.catalogue import build_task
from mobfl.training import CHECKPOINT_S, Job, check_job, train

SWEEP, RUNS = "sweep.json", "runs"
ALL = -1  # as many workers as a cluster has
_DEATHS = 3  # so often a run that is alone may take its worker with it
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

    status: str  # one of run_folder.STATUSES
    share: float = 0.0
    reason: str | None = None


def name_runs(sweep: Sweep, progress: Callable[[int], None] = lambda _: None) -> list[Planned]:
    """The sweep's runs in order. Loads their data, so that mistakes show before anything is trained.

    Runs of several studies that compute the same have the same name, and are computed once.
    """
    named, mistakes = list[Planned](), dict[str, None]()
    for done, request in enumerate(sweep.requests, start=1):
        try:
            job = _job(request)
            check_job(job)
            named.append(Planned(_name(job), request, _work(job)))
        except InputError as error:
            run = f"{request.task}, plan {request.plan}, seed {request.seed}"
            mistakes |= dict.fromkeys(f"{run}: {line}" for line in error.lines)
        progress(done)
    if mistakes:
        raise InputError(mistakes)
    return named


def _work(job: Job) -> float:
    """The local steps that are expected, and an evaluation per round; servers without rounds are much the same."""
    plan, road = job.describe()["plan"], job.scenario
    h, t = plan["local_steps"], plan["round_s"] or road.dwell_s
    return road.training.duration_s / t * (float(theory.expected_uploads(road, h, t)) * h + _STEPS_PER_EVALUATION)


def _name(job: Job) -> str:
    """Readable, and with a digest of all that the result depends on."""
    told = job.describe()
    text = json.dumps(run_folder.plain(told), sort_keys=True)
    plan = plan_label(told["plan"]).replace(",", "-").replace(":", "-").replace("=", "-")
    return f"{job.task.name}-{plan}-s{job.seed}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def plan_label(plan: Mapping[str, Any]) -> str:
    """The plan of a run.json as `--plan` would have it: 24,11.78 or fedasync:24,mixing=0.6."""
    if plan["policy"] == "rounds":
        return f"{plan['local_steps']},{plan['round_s']:.4g}"
    given = {key: value for key, value in plan.items() if key not in ("policy", "local_steps", "round_s")}
    return ",".join([f"{plan['policy']}:{plan['local_steps']}", *(f"{key}={value:g}" for key, value in given.items())])


def _job(request: Request) -> Job:
    task, crossings = _task(*_task_key(request)), _crossings(request.trace, request.section)
    plan = resolve_plan(request.plan, request.scenario, crossings)
    if isinstance(plan, Plan) and plan.reason is not None:
        raise InputError(f"no plan is possible: {plan.reason}")
    trace = None if request.trace is None else request.trace.name
    return Job(task, request.scenario, plan, request.seed, crossings, trace)


def _task_key(request: Request) -> tuple[Any, ...]:
    options = json.dumps(dict(request.options or {}), sort_keys=True, default=str)
    return request.task, options, request.data, request.scenario.training.loss_scale


@cache
def _task(name: str, options: str, data: Path | None, loss_scale: str) -> Task:
    """Once per process: its data are the same for all runs."""
    return build_task(name, json.loads(options), data, loss_scale)


@cache
def _crossings(trace: Path | None, section: str | None) -> Crossings | None:
    return None if trace is None else read_crossings(trace, parse_section(section) if section else None)


def states(out: Path, runs: Sequence[Planned]) -> dict[str, State]:
    return {run.name: _state(out / RUNS / run.name, run.request.scenario.training.duration_s) for run in runs}


def _state(folder: Path, duration_s: float) -> State:
    """As its files tell."""
    told = run_folder.read_status(folder)
    share = 1.0 if told.status == "done" else min(told.virtual_s / duration_s, 1.0)
    return State(told.status, share, told.reason)


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
    if workers < 1 and not (ray is not None and workers == ALL):
        raise InputError(f"--workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"--checkpoint must be >= 0 s, got {checkpoint_s:g}")
    run_folder.make(out / RUNS)
    with run_folder.locked(out):
        _write_sweep(out, sweep, runs)
        with _watching(lambda: watch(states(out, runs))):
            _run_all(out, runs, workers, ray, checkpoint_s)
        return states(out, runs)


def _write_sweep(out: Path, sweep: Sweep, runs: Sequence[Planned]) -> None:
    entries = [asdict(Entry(run.name, run.request.task, run.request.study, run.request.label)) for run in runs]
    content = {"title": sweep.title, "hopeless_plans": sweep.hopeless, "runs": entries}
    with replaced(out / SWEEP) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Entry:
    """A run as a study calls it."""

    run: str
    task: str
    study: str
    label: str


_ENTRY = tuple(Entry.__dataclass_fields__)


def read_sweep(out: Path) -> list[Entry]:
    """A sweep's runs in their order."""
    try:
        return [Entry(**{key: str(each[key]) for key in _ENTRY}) for each in _stored(out)["runs"]]
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
    """A worker that dies takes its pool with it. Whoever was under way then runs alone, to see who it was."""
    once, came = {run.name: run for run in runs}, states(out, runs)
    left = [run for name, run in once.items() if came[name].status != "done"]
    while left:
        pool = _Pool(out / RUNS, workers, ray, checkpoint_s)
        if pool.run(left) is None:
            return
        for run in pool.begun:
            if states(out, [run])[run.name].status not in ("done", "failed"):
                _run_alone(run, _Pool(out / RUNS, 1, ray, checkpoint_s, own_process=True))
        left = [run for run in left if run not in pool.begun]


def _run_alone(run: Planned, pool: "_Pool") -> None:
    for _ in range(_DEATHS):
        died = pool.run([run])
        if died is None:
            return
    run_folder.write_failure(pool.folder / run.name, f"its worker died {_DEATHS} times: {_first_line(died)}")


def _first_line(error: Exception | None) -> str:
    return str(error).partition("\n")[0]


@dataclass
class _Pool:
    """Processes that train one run after the other."""

    folder: Path
    workers: int
    ray: str | None
    checkpoint_s: float
    own_process: bool = False  # even if there is one worker only
    begun: list[Planned] = field(default_factory=list)

    def run(self, runs: Sequence[Planned]) -> Exception | None:
        """Returns how a worker has died, if one has: what a run itself raises ends in its folder."""
        if self.workers == 1 and self.ray is None and not self.own_process:
            for run in runs:
                _run(run, self.folder, self.checkpoint_s)
            return None
        from joblib import Parallel, delayed, parallel_config

        parent = os.getpid() if self.ray is None else None
        calls = (delayed(_run)(run, self.folder, self.checkpoint_s, parent) for run in self._noted(runs))
        try:
            # With one job joblib would not leave this process.
            count = max(self.workers, 2) if self.own_process else self.workers
            with self._backend(), parallel_config("loky" if self.ray is None else "ray", n_jobs=count):
                # One at a time and none ahead, so that they begin in their order.
                Parallel(batch_size=1, pre_dispatch="n_jobs")(calls)
        except MobflError:
            raise
        except Exception as error:  # joblib's or Ray's own
            return error
        return None

    def _noted(self, runs: Sequence[Planned]) -> Iterator[Planned]:
        for run in runs:
            self.begun.append(run)
            yield run

    def _backend(self) -> AbstractContextManager[None]:
        return nullcontext() if self.ray is None else _ray_cluster(self.ray)


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
    try:
        run_folder.make(folder)
        _wait_until_free(folder)
    except InputError:
        return  # somebody else is at it
    try:
        job = _job(run.request)
        if _name(job) != run.name:
            raise InputError("its data or versions are no longer those that the sweep began with")
        begun = run_folder.read_status(folder).begun
        if not begun:  # it failed before its first round was
            (folder / run_folder.RUN).unlink(missing_ok=True)
        train(job, folder, resume=begun, checkpoint_s=checkpoint_s)
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
