"""One training run in a folder: begun or resumed, saved as it goes, and finished to the same bytes either way."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path

from mobfl.errors import InputError, MobflError, PartError
from mobfl.interrupts import handled, interrupt, interrupts_noted
from mobfl.learning.task import Task, leading
from mobfl.progress import Progress, following
from mobfl.runs import folder
from mobfl.runs.divergence import Watch
from mobfl.runs.history import History, Row
from mobfl.runs.job import Job, check_job
from mobfl.runs.loop import Learnt, learn
from mobfl.runs.privacy import privacy_of
from mobfl.runs.recording import Recording, begin, take_up

CHECKPOINT_S = 30.0
_AT_FIRST = "starting (the first run compiles for some seconds)"


def check_settings(out: Path, resume: bool, workers: int, checkpoint_s: float) -> None:
    """What can be said before any data are there."""
    if workers < 1:
        raise InputError(f"workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"checkpoint_s must be >= 0, got {checkpoint_s:g}")
    there = any((out / name).exists() for name in (folder.RUN, folder.LAST))
    if resume and not there:
        raise InputError(f"out {out} must hold a run to resume, got none")
    if not resume and not folder.is_free(out):
        what = "a run, which can be resumed" if there else "something else"
        raise InputError(f"out {out} must be a new or empty folder, got {what}")


def train(
    job: Job,
    out: str | Path,
    *,
    resume: bool = False,
    workers: int = 1,
    checkpoint_s: float = CHECKPOINT_S,
    progress: Progress[Row] = False,
    stop: Callable[[], bool] = lambda: False,
) -> History:
    """Runs the job into a folder and returns its history.

    Ctrl-C, SIGTERM and SIGHUP end it with a KeyboardInterrupt after the round that is being computed, which is saved; a
    second one at once, as of the last checkpoint. Handlers of your own for these signals stay as they are. A run that
    has diverged ends early, and its notices say so.

    Args:
        job: What is computed.
        out: The run's folder: new or empty, unless the run is resumed.
        resume: Go on with the run in `out`, which must be of the same job.
        workers: Threads that train and evaluate; the result does not depend on their number.
        checkpoint_s: Seconds of wall-clock time between checkpoints.
        progress: True shows how far it is; a function is given every new round's row of `rounds.parquet`.
        stop: Is asked after every round whether to save and end, as Ctrl-C does: for threads and other processes.

    Raises:
        KeyboardInterrupt: It was interrupted, and can be resumed.
        InputError: The job or the folder is wrong.
        InfeasibleError: Nobody could ever upload with the plan that is asked for.
    """
    out, duration_s = Path(out), check_job(job)
    check_settings(out, resume, workers, checkpoint_s)
    folder.make(out)
    with folder.locked(out), handled(interrupt):
        begun = take_up if resume else begin
        run = begun(job.describe(), job.task, job.seed, out)
        run.more_results = privacy_of(job)
        if run.status != "done":
            told = partial(_told, duration_s, job.task)
            with following(progress, "training", duration_s, told, _AT_FIRST) as follow:
                _go_on(run, job, workers, checkpoint_s, follow, stop)
        return run.history


def _told(duration_s: float, task: Task, row: Row) -> tuple[float, str]:
    """How far it is after a round: virtual time, round, loss and the leading KPI."""
    scores = dict.fromkeys(("loss", leading(task.kpis).name))
    told = "  ".join(f"{name} {row[name]:.4g}" for name in scores)
    return row["end_s"], f"{row['end_s']:.0f}/{duration_s:.0f} s  round {row['round'] + 1}  {told} "


def _blaming(job: Job, steps: Iterator[Learnt]) -> Iterator[Learnt]:
    """Says whose fault it is where a part of somebody's own breaks in the middle of a run."""
    try:
        yield from steps
    except MobflError:
        raise
    except Exception as error:
        frames = [(Path(frame.filename).name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        mine = [f"{file}, line {line}" for file, line in frames if file in job.own_files]
        if not mine:
            raise
        raise PartError(f"a part of your own broke: {type(error).__name__}: {error} ({mine[-1]})") from error


def _go_on(
    run: Recording,
    job: Job,
    workers: int,
    checkpoint_s: float,
    progress: Callable[[Row], None],
    stop: Callable[[], bool],
) -> None:
    watch = Watch(run.description["initial"]["loss"])
    for row in run.rows:
        run.stopped = watch.add(row)
    if run.stopped is not None:  # it was cut off just before it would have ended
        run.save("done", workers)
        return
    run.save("running", workers)
    with _failure_recorded(run, workers):
        steps = _begun(run, _blaming(job, learn(job, run.last, run.scores, workers)), workers)
    with interrupts_noted() as interrupted:
        with _failure_recorded(run, workers):
            for learnt in steps:
                run.add(learnt)
                progress(learnt.row)
                run.stopped = watch.add(learnt.row)
                if run.stopped is not None:
                    break
                if interrupted() or stop():
                    run.save("interrupted", workers)
                    raise KeyboardInterrupt
                if time.monotonic() - run.saved >= checkpoint_s:
                    run.save("running", workers)
        run.save("done", workers)


@contextmanager
def _failure_recorded(run: Recording, workers: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        run.save("failed", workers, str(error))
        raise


def _begun(run: Recording, steps: Iterator[Learnt], workers: int) -> Iterator[Learnt]:
    """With the first step computed, which may compile for a while: until then there is nothing to wait for."""
    try:
        return chain(list(islice(steps, 1)), steps)
    except KeyboardInterrupt:
        run.save("interrupted", workers)
        raise
