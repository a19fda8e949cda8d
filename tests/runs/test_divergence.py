"""A run that falls apart ends by itself and says so; an honest one never does, however noisy."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_task import CountingTask
from mobfl import Job, Scenario, TaskRequest, build_task, train
from mobfl.learning.weights import Weights
from mobfl.runs.divergence import STEPS, TIMES, Diverged, divergence
from mobfl.runs.history import Row
from mobfl.runs.verdict import verdict
from stories import BUSY, run

FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")
ROAD = BUSY.with_values({"training.duration_s": 600.0})


def rows_of(losses: list[float], uploads: int = 1) -> list[Row]:
    return [{"round": k, "end_s": 2.0 * k, "uploads": uploads, "loss": loss} for k, loss in enumerate(losses)]


def found(losses: list[float], initial: float = 2.0) -> Diverged | None:
    return divergence(initial, rows_of(losses))


# ---- what divergence is ----------------------------------------------------------------------------------------------


def test_it_is_certain_after_so_many_steps_far_above_the_start() -> None:
    losses = [1.0, 1.5, *[21.0 + k for k in range(60)]]
    stopped = found(losses)
    assert stopped is not None
    assert (stopped.round, stopped.at_s) == (STEPS + 1, 2.0 * (STEPS + 1))
    assert stopped.why == "from round 2 on its loss was more than 10 times the initial 2 and did not fall"
    assert found([*losses[:STEPS], 1.9, *losses[STEPS:-5]]) is None  # once it was back
    assert found([math.nan] * STEPS) is not None  # where there was nothing to go back to
    assert found([-1.0 + k for k in range(60)], initial=-1.0) is not None  # a loss may be below zero


@pytest.mark.parametrize(
    ("what", "losses", "initial"),
    [
        ("high, but coming down", [200.0 - k for k in range(150)], 2.0),
        ("stuck at the start", [2.0] * 200, 2.0),
        ("noisy around four times the start", [8.0 + 7.0 * math.sin(k) for k in range(200)], 2.0),
        ("hopeless, but found again and again", [*[50.0] * 30, 3.0] * 5, 2.0),
        ("no number from the start", [math.nan] * 200, math.nan),
        ("a start that could not be better", [5.0] * 200, 0.0),
        ("one in three taken back", [math.nan, 1.0, 0.9] * 3 + [math.nan, 0.8, 0.7] * 50, 2.0),
    ],
)
def test_what_is_not(what: str, losses: list[float], initial: float) -> None:
    assert found(losses, initial) is None, what


def test_steps_without_uploads_say_nothing() -> None:
    assert divergence(2.0, rows_of([50.0] * 500, uploads=0)) is None
    mixed = [row for k in range(STEPS) for row in (rows_of([50.0])[0], rows_of([50.0], uploads=0)[0])]
    assert divergence(2.0, mixed[:-2]) is None
    assert divergence(2.0, mixed) is not None


def test_nothing_but_models_that_are_taken_back() -> None:
    stopped = found([1.0, 0.9, *[math.nan, 0.9] * STEPS])
    assert stopped is not None
    assert stopped.why == "from round 1 on no step led to a sound model, and 20 were taken back"


@given(st.lists(st.floats(0.001, TIMES * 2.0), max_size=120))
def test_no_run_below_the_bound_is_stopped(losses: list[float]) -> None:
    assert found(losses) is None


@given(st.lists(st.floats(0.0, 1e9) | st.just(math.nan), max_size=100), st.integers(0, 100))
def test_the_same_row_ends_it_whatever_comes_after(losses: list[float], more: int) -> None:
    stopped = found(losses)
    if stopped is not None:
        assert found(losses[: stopped.round + 1]) == found([*losses, *[0.0] * more]) == stopped
        assert found(losses[: stopped.round]) is None


# ---- runs ------------------------------------------------------------------------------------------------------------


class Runaway(CountingTask):
    """What is added makes the loss grow with its square."""

    def evaluate(self, model: Weights) -> dict[str, float]:
        scores = super().evaluate(model)
        return {**scores, "loss": 1.0 + scores["count"] ** 2 / 100}


PLANS = ("fedasync:10", "stay-aware:2", "selected:10,6,by=bandit,slots=1", "early:10,5")


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


@pytest.mark.parametrize("plan", PLANS)
def test_a_run_that_falls_apart_ends_and_says_so(tmp_path: Path, plan: str) -> None:
    job = Job(Runaway(), ROAD, plan, 3)
    history = train(job, tmp_path / "whole")
    everything = [each.row for each in run(job)]
    last = int(history.columns["round"][-1])
    assert STEPS <= len(history) < len(everything)
    stored = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert stored["status"] == "done"
    assert stored["results"]["diverged"] == {"round": last, "at_s": history.columns["end_s"][-1]}
    (notice,) = stored["results"]["notices"]
    assert notice.startswith(f"The model has diverged, and training was stopped after round {last}, at ")
    assert len(train(job, tmp_path / "whole", resume=True)) == len(history)  # it is done

    train(job, tmp_path / "two", workers=2)
    assert_same_bytes(tmp_path / "whole", tmp_path / "two")
    for at in (5, last):

        def stop(row: Row, at: int = at) -> None:
            if row["round"] == at:
                raise Stop

        with pytest.raises(Stop):
            train(job, tmp_path / f"{at}", progress=stop)
        train(job, tmp_path / f"{at}", resume=True, workers=2)
        assert_same_bytes(tmp_path / "whole", tmp_path / f"{at}")


def test_a_base_station_orders_no_more_rounds_either() -> None:
    """Rows whose model is still evaluated have no loss yet, and say nothing."""
    from mobfl.deploy.station.base_station import BaseStation

    class Asked(Exception):  # noqa: N818
        """For the next round."""

    def refuse(*_: object) -> None:
        raise Asked

    for losses, ends in (([50.0] * STEPS, True), ([50.0] * (STEPS - 1) + [math.nan] * STEPS, False)):
        station: Any = BaseStation.__new__(BaseStation)
        station._recording = SimpleNamespace(rows=rows_of(losses), description={"initial": {"loss": 2.0}}, stopped=None)
        station._site, station._work = SimpleNamespace(start_s=0.0), refuse
        if ends:
            assert station.next_work() is None
            assert station._recording.stopped.round == STEPS - 1
        else:
            with pytest.raises(Asked):
                station.next_work()


def test_without_it_nothing_is_said(tmp_path: Path) -> None:
    train(Job(CountingTask(), BUSY, (10, 6.0), 3), tmp_path / "run")
    assert "diverged" not in json.loads((tmp_path / "run" / "run.json").read_text())["results"]


OPTIONS = {
    "beams": {"training_samples": 200, "validation_samples": 20},
    "images": {"width": 4, "training_samples": 400, "validation_samples": 40},
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["3,6", "fedasync:3", "fedbuff:3,buffer=3", "stay-aware:2", "early:5,6"])
@pytest.mark.parametrize("split", ["random", "dirichlet"])
@pytest.mark.parametrize("name", OPTIONS)
def test_honest_runs_on_the_packaged_tasks_go_on_to_the_end(name: str, split: str, plan: str, tmp_path: Path) -> None:
    road = Scenario.from_dict(
        {
            "traffic": {"arrivals_per_s": 0.3},
            "training": {
                "samples_per_vehicle": 24, "batch_size": 8, "duration_s": 400.0, "learning_rate": 0.1, "split": split,
            },
        }
    )  # fmt: skip
    history = train(Job(build_task(name, TaskRequest(OPTIONS[name])), road, plan, 5), tmp_path / "run")
    assert len(history) >= STEPS
    assert history.columns["end_s"][-1] > 370
    assert verdict(history) == []
    assert np.isfinite(history.columns["loss"]).all()
