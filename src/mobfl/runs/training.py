"""One training run in a folder: begun or resumed, saved as it goes, and finished to the same bytes either way."""

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mobfl.errors import InputError, MobflError, PartError
from mobfl.runs import folder
from mobfl.runs.history import History, Row
from mobfl.runs.job import Job, check_job
from mobfl.runs.loop import Learnt, learn
from mobfl.runs.privacy import privacy_of
from mobfl.runs.recording import Recording, begin, take_up

CHECKPOINT_S = 30.0


def check_settings(out: Path, resume: bool, workers: int, checkpoint_s: float) -> None:
    """What can be said before any data are there."""
    if workers < 1:
        raise InputError(f"workers must be >= 1, got {workers}")
    if not checkpoint_s >= 0:
        raise InputError(f"checkpoint_s must be >= 0, got {checkpoint_s:g}")
    there = (out / folder.RUN).exists()
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
    progress: Callable[[Row], None] = lambda _: None,
) -> History:
    """Runs the job into a folder and returns its history.

    Ctrl-C ends it after the round that is being computed; a second one at once, as of the last checkpoint.

    Args:
        job: What is computed.
        out: The run's folder: new or empty, unless the run is resumed.
        resume: Go on with the run in `out`, which must be of the same job.
        workers: Threads that train and evaluate; the result does not depend on their number.
        checkpoint_s: Seconds of wall-clock time between checkpoints.
        progress: Is given every new round's row of `rounds.parquet`.

    Raises:
        InputError: The job or the folder is wrong.
        InfeasibleError: Nobody could ever upload with the plan that is asked for.
    """
    out = Path(out)
    check_job(job)
    check_settings(out, resume, workers, checkpoint_s)
    folder.make(out)
    with folder.locked(out), interrupts_noted() as interrupted:
        begun = take_up if resume else begin
        run = begun(job.describe(), job.task, job.seed, out)
        run.more_results = privacy_of(job)
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
    interrupted: Callable[[], bool],
) -> None:
    run.save("running", workers)
    try:
        for learnt in _blaming(job, learn(job, run.last, run.scores, workers)):
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
