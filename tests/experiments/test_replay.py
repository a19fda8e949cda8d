"""Effective steps: the same numbers that a task which only counts would learn, without training it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, theory, train
from mobfl.experiments.heard import by_class, by_speed, shares
from mobfl.experiments.replay import Replay
from mobfl.experiments.runs import Run
from mobfl.runs.folder import read_run
from mobfl.servers.names import server_of

ROAD = Scenario.from_dict({"training": {"duration_s": 400.0, "samples_per_vehicle": (16, 48), "batch_size": 4}})
MIXED = ROAD.with_values(
    {
        "traffic.speed_sd_mps": 5.0,
        "fleet": [{"name": "quick", "share": 0.5, "min_step_s": 0.1}, {"name": "slow", "share": 0.5}],
    }
)


def trained(folder: Path, scenario: Scenario, plan: Any, rule: str | None = None, seed: int = 3) -> Run:
    train(Job(CountingTask(), scenario, plan, seed, rule=rule), folder)
    return Run(folder, folder.name, read_run(folder))


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        ("mobfl", None),
        ("anytime:8", None),
        ("anytime:8,knows=leaving", "clip+cap+fednova"),
        ("anytime:8", "steps:power=2"),
        ("fedasync", None),
        ("fedbuff:12,buffer=3", None),
        ("wait-for-all", None),
        ("mobfl", "mean+momentum:beta=0.5"),
        ("10,8", "afl"),
        ("async:10", "clip+afl"),
    ],
)
def test_a_task_that_counts_learns_the_effective_steps(tmp_path: Path, plan: str, rule: str | None) -> None:
    run = trained(tmp_path / "run", MIXED, plan, rule)
    for replay in (Replay.of(run), Replay.of(run, plan, rule or "")):
        found = replay.effective_steps()
        assert found.steps[:, 0] == pytest.approx(run.history.columns["count"], rel=1e-5)
        assert found.until(run.history.columns["end_s"][4])[0] == pytest.approx(run.history.columns["count"][4])
        assert found.until(0.0).tolist() == [0.0]


def test_in_rounds_of_one_h_they_are_the_valid_local_steps_that_g_predicts() -> None:
    long = ROAD.with_values({"training.duration_s": 30_000.0})
    replay = Replay(long, server_of((24, 11.776), None, long, None), 1)
    steps = replay.effective_steps().until(np.inf)[0]
    assert steps == pytest.approx(24 * np.count_nonzero(replay.uploads), rel=1e-4)
    # 2,547 rounds, of which neighbours share vehicles: the standard error is 1 %.
    assert steps / 30_000 == pytest.approx(float(theory.objective(long, 24, 11.776)), rel=0.04)


@pytest.mark.parametrize(
    ("rule", "reason"), [("mean+adam", "not linear"), ("trimmed", "not linear"), ("median", "not linear")]
)
def test_a_rule_that_is_not_linear_has_none(rule: str, reason: str) -> None:
    busy = ROAD.with_values({"traffic.arrivals_per_s": 0.5})
    with pytest.raises(InputError, match=reason):
        Replay(busy, server_of("mobfl", rule, busy, None), 1).effective_steps()
    with pytest.raises(InputError, match="needs more than numbers"):
        Replay(busy, server_of("mobfl", "private:clip=1,noise=1,uploads=3", busy, None), 1).effective_steps()


def test_a_run_whose_schedule_is_another_today_is_not_replayed(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", ROAD, (10, 6.0))
    with pytest.raises(InputError, match="not those that today's schedule has"):
        Replay.of(run, "12,7")


def test_weights_by_steps_hear_the_quick_more_than_their_uploads_say() -> None:
    """On a road whose classes and speeds differ; the shares of each kind add up to one."""
    long = MIXED.with_values({"training.duration_s": 4000.0})
    by_steps, by_samples = (Replay(long, server_of("anytime:8", rule, long, None), 2) for rule in ("steps", "mean"))
    quick, slow = shares(by_steps, by_class(by_steps))
    assert (quick.group, slow.group) == ("quick", "slow")
    assert quick.local_steps > quick.uploads
    assert quick.moved > shares(by_samples, by_class(by_samples))[0].moved
    speeds = by_speed(by_steps)
    assert speeds is not None
    thirds = shares(by_steps, speeds)
    assert [round(each.visits, 2) for each in thirds] == pytest.approx([1 / 3] * 3, abs=0.02)
    assert thirds[0].uploads > thirds[2].uploads  # whoever stays longer is heard more often
    for rows in (thirds, [quick, slow]):
        for name in ("visits", "uploads", "local_steps", "moved"):
            assert sum(getattr(each, name) for each in rows) == pytest.approx(1.0)
    same = Replay(ROAD, server_of("anytime:8", None, ROAD, None), 2)
    assert by_speed(same) is None
