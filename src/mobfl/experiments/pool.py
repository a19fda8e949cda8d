"""Runs of a sweep in processes of their own, on this machine or on a Ray cluster: joblib does both."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import resource_tracker
from pathlib import Path

from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.interrupts import handled, interrupt, keep_from_children

ALL = -1  # as many workers as a cluster has
_LOOK_S = 0.5
_PATIENCE_S = 60.0  # for the rounds that are under way when a signal comes; a second one does not wait

# Trains the run of that name to its end. What goes wrong ends in the run's folder, not here.
Work = Callable[[str], None]


@dataclass
class Pool:
    """Processes that train one run after the other."""

    work: Work
    workers: int
    ray: str | None
    stop: Path  # a file: once it is there, workers save and end
    own_process: bool = False  # even if there is one worker only
    begun: list[str] = field(default_factory=list)

    def run(self, names: Sequence[str]) -> Exception | None:
        """Returns how a worker has died, if one has: then what was begun may not be done."""
        if self.workers == 1 and self.ray is None and not self.own_process:
            for name in names:
                self.work(name)
            return None
        came = _beside(partial(self._run_in_workers, names))
        try:
            with handled(interrupt):
                return came.result()
        except KeyboardInterrupt:
            self.stop.touch()
            try:
                with handled(interrupt), suppress(TimeoutError):
                    came.result(_PATIENCE_S)
            finally:
                self.stop.unlink(missing_ok=True)
            raise

    def _run_in_workers(self, names: Sequence[str]) -> Exception | None:
        from joblib import Parallel, delayed, parallel_config

        # With one job joblib would not leave this process.
        count = max(self.workers, 2) if self.own_process else self.workers
        parent = os.getpid() if self.ray is None else None
        calls = (delayed(_work)(self.work, name, parent) for name in self._noted(names))
        try:
            with (
                _quiet_tracker(),
                self._backend(),
                parallel_config("loky" if self.ray is None else "ray", n_jobs=count),
            ):
                # One at a time and none ahead, so that they begin in their order.
                Parallel(batch_size=1, pre_dispatch="n_jobs")(calls)
        except MobflError:
            raise
        except Exception as error:  # joblib's or Ray's own
            return error
        return None

    def _noted(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            if self.stop.exists():
                return
            self.begun.append(name)
            yield name

    def _backend(self) -> AbstractContextManager[None]:
        return nullcontext() if self.ray is None else _ray_cluster(self.ray)


@contextmanager
def _quiet_tracker() -> Iterator[None]:
    """loky's tracker tidies up after a sweep that had to leave at once, and warns of what it found."""
    before = os.environ.get("PYTHONWARNINGS")
    quiet = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = quiet if before is None else f"{before},{quiet}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


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
        raise InputError(f"ray must be the address of a running cluster, got {address!r}: {error}") from None
    register_ray()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        ray.shutdown()


def _beside(run: Callable[[], Exception | None]) -> "Future[Exception | None]":
    """In a thread, so that this one hears signals, and its processes do not: they learn of them from a file."""
    came: Future[Exception | None] = Future()

    def thread() -> None:
        keep_from_children()
        resource_tracker.ensure_running()  # whose start lets the signals through again
        keep_from_children()
        try:
            came.set_result(run())
        except Exception as error:  # whoever waits gets it
            came.set_exception(error)

    threading.Thread(target=thread, daemon=True).start()
    return came


def _work(work: Work, name: str, parent: int | None) -> None:
    """In a worker."""
    if parent is not None:
        _live_no_longer_than(parent)
    with suppress(KeyboardInterrupt):  # it was told to stop, and has saved
        work(name)


@cache
def _live_no_longer_than(parent: int) -> None:
    """A worker whose sweep was killed must not go on: the sweep's successor wants its run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Looks twice a second, in a thread: joblib keeps this one until the last run is done."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        look()
