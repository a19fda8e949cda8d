"""A server that is killed before any one of its writes goes on: every line of the log is there, and none twice."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from test_deployed_rounds import ROAD, deployed

from deployed_road import deployment
from fake_task import CountingTask
from mobfl import Weights, read_history
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.station.evaluations import Evaluations
from mobfl.files import atomic

SHORT = ROAD.with_values({"training.duration_s": 30.0})
NEVER = 10**9


class Killed(BaseException):
    """Stands for kill -9: nothing is tidied up after it."""


@contextmanager
def killed_before(write: int) -> Iterator[list[int]]:
    """The write of this number, of a line or of a file, does not happen; how many there were."""
    count, append, sync = [0], EventLog._append, atomic._sync_names

    def counted(do: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: object) -> None:
            if count[0] == write:
                raise Killed
            count[0] += 1
            do(*args)

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventLog, "_append", counted(append))
        patch.setattr(atomic, "_sync_names", counted(sync))  # when a file has just got its name
        yield count


def run(out: Path, write: int = NEVER) -> int:
    """Until it is killed; how much it wrote."""
    settings = deployment(SHORT, out, "10,6", scale=4.0, resume=(out / "run.json").exists())
    with killed_before(write) as count, suppress(Killed):
        deployed(settings)
    return count[0]


def told(out: Path) -> Counter[tuple[object, ...]]:
    """All that is said, but when it was begun and what came late, which a server that begins again does not see."""
    kept = (each for each in read_events(out) if each["kind"] not in ("started", "late"))
    return Counter((each["kind"], each["round"], each.get("node"), str(each.get("rounds"))) for each in kept)


def assert_nothing_lost(folder: Path, last: int | None = None) -> None:
    """Whichever write it is killed before, of all or of so many last ones."""
    writes = run(folder / "whole")
    assert writes > 40
    whole = told(folder / "whole")
    assert max(whole.values()) == 1
    rows = read_history(folder / "whole").columns
    for write in range(0 if last is None else writes - last, writes):
        out = folder / str(write)
        run(out, write)
        run(out)
        assert told(out) == whole, f"killed before write {write}"
        for column in ("round", "uploads", "rejected", "count"):
            assert read_history(out).columns[column].tolist() == rows[column].tolist(), (column, write)


@pytest.fixture(autouse=True)
def _scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations do not race with rounds: all are done when they are asked for. Nor does the power fail."""
    done = Evaluations.done
    monkeypatch.setattr(Evaluations, "done", lambda evaluations, _=False: done(evaluations, True))
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_no_line_is_lost_or_doubled_at_the_end(tmp_path: Path) -> None:
    """In the last round, and after it."""
    assert_nothing_lost(tmp_path, last=18)


@pytest.mark.slow
def test_no_line_is_lost_or_doubled(tmp_path: Path) -> None:
    assert_nothing_lost(tmp_path)


@pytest.mark.parametrize(
    ("number", "loss", "last"),
    [
        (4, math.inf, 8),
        *(pytest.param(number, loss, 40, marks=pytest.mark.slow) for number in (3, 4) for loss in (math.nan, math.inf)),
    ],
)
def test_nor_is_one_of_a_model_that_was_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, loss: float, last: int
) -> None:
    """In the middle of the run, and after its last round."""
    run(tmp_path / "sound")
    bad = read_history(tmp_path / "sound").columns["count"][number]
    evaluate = CountingTask.evaluate

    def spoilt(task: CountingTask, model: Weights) -> dict[str, float]:
        scores = evaluate(task, model)
        return {**scores, "loss": loss} if abs(scores["count"] - bad) < 1e-4 else scores

    monkeypatch.setattr(CountingTask, "evaluate", spoilt)
    assert_nothing_lost(tmp_path, last)
    assert any(kind == "taken_back" for kind, *_ in told(tmp_path / "whole"))
