"""Schedules without rounds on a shared radio: by hand, and the same uploads as a constant link where nobody shares."""

import json
from pathlib import Path

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Crossings, InputError, Job, Scenario, train
from mobfl.rounds.air import delays_and_channel
from mobfl.servers.asynchronous import Asynchronous
from mobfl.servers.names import server_of
from mobfl.servers.site import Site
from mobfl.servers.steps import Effort, Schedule, ServerStep, server_steps
from mobfl.servers.wait_for_all import WaitForAll

# At the cap of 136.16 Mbit/s a model takes a second alone.
ONE_SECOND = round(20e6 * 0.92 * 7.4 / 8)
LOUD = {"shadowing_db": 0.0, "vehicle_dbm": 60.0, "station_dbm": 60.0}
STEADY = {"min_step_s": 0.5, "extra_step_s": 0.0}


def site(*times: tuple[float, float], until_s: float = 20.0, **radio: object) -> Site:
    road = Scenario.from_dict({"link": {"model_bytes": ONE_SECOND}, "radio": {**LOUD, **radio}, "compute": STEADY})
    delays, channel = delays_and_channel(road)
    crossings = Crossings.sorted(np.arange(len(times)), *np.array(times).T)
    return Site([crossings], delays, 0, 0.0, until_s, channel)


def told(schedule: Schedule, where: Site) -> list[tuple[object, ...]]:
    """Start, end, who is there, and of every upload its attempt, the version, and when it began to download."""
    return [
        (
            round(step.start_s, 3),
            round(step.end_s, 3),
            step.present,
            [(each.attempt, each.version, round(each.download_s, 3)) for each in step.uploads],
        )
        for step in server_steps(schedule, where)
    ]


def test_whoever_has_uploaded_begins_again_with_what_came_of_it() -> None:
    # Two downloads share until 2 s, steps until 4 s, both uploads are there at 6 s; then alone: 1 + 2 + 1 s each.
    where = site((0.0, 11.0), (0.0, 7.0))
    assert told(Asynchronous(4), where) == [
        (0.0, 6.0, 2, [(0, 0, 0.0)]),
        (6.0, 6.0, 2, [(0, 0, 0.0)]),
        # The second one downloads with it until it leaves at 7 s, which costs the first half a second.
        (6.0, 10.5, 2, [(1, 2, 6.0)]),
    ]
    buffered = told(Asynchronous(4, uploads=2), where)
    assert buffered == [(0.0, 6.0, 2, [(0, 0, 0.0), (0, 0, 0.0)])]


def test_versions_that_are_still_in_use_are_kept() -> None:
    where = site((0.0, 30.0), (3.5, 30.0), until_s=13.8)
    steps = list(server_steps(Asynchronous(4), where))
    assert [[each.version for each in step.uploads] for step in steps] == [[0], [0], [1], [2]]
    assert steps[0].still_in_use == {0}


def test_a_round_of_all_who_are_there_ends_with_the_last() -> None:
    where = site((0.0, 30.0), (0.0, 4.5), (1.0, 30.0))
    assert told(WaitForAll(4), where)[:2] == [
        # A broadcast of a second, two of steps, then two share the band until one leaves at 4.5 s: three quarters are
        # sent by then, and the rest takes a quarter of a second.
        (0.0, 4.75, 2, [(0, 0, 0.0)]),
        (4.75, 9.75, 2, [(1, 1, 4.75), (0, 1, 4.75)]),
    ]


def test_nothing_is_lost_of_what_it_took() -> None:
    (first, *_) = server_steps(WaitForAll(4), site((0.0, 30.0), (0.0, 4.5)))
    assert first.effort == Effort(2, 2, pytest.approx(4.0), pytest.approx(1.75 + 1.5))
    steps: list[ServerStep] = list(server_steps(Asynchronous(4), site((0.0, 11.0), (0.0, 7.0))))
    total = sum((step.effort.downloads for step in steps if step.effort), 0)
    assert total == 3 + 2  # the last one at 10.5 s, in vain
    assert steps[0].effort is not None
    assert steps[0].effort.sending_s == pytest.approx(4.0)


def test_schedules_that_know_no_radio_say_so() -> None:
    road = Scenario.from_dict({"link": {"model_bytes": 1000}, "radio": LOUD})
    for plan in ("stay-aware:2", "early:10,8", "selected:10,8"):
        schedule = server_of(plan, None, road, None).schedule
        with pytest.raises(InputError, match=r"got a scenario with a radio: choose rounds, anytime, wait-for-all or"):
            next(server_steps(schedule, site((0.0, 9.0))))


@pytest.mark.parametrize("plan", ["10,8", "anytime:8", "async:10", "wait-for-all:10"])
def test_runs_resume_to_the_same_bytes_and_count_what_was_sent(
    tmp_path: Path, plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mobfl.rounds.rules._ROUNDS_AT_ONCE", 8)  # two blocks, none of thousands
    road = Scenario.from_dict(
        {
            "radio": {"path_loss": "urban-nlos"},
            "traffic": {"arrivals_per_s": 0.3},
            "training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 120.0},
        }
    )
    job = Job(CountingTask(), road, plan, 1)
    train(job, tmp_path / "whole")
    rows = list[object]()
    with pytest.raises(KeyboardInterrupt):
        train(job, tmp_path / "cut", progress=rows.append, stop=lambda: len(rows) == 3)
    train(job, tmp_path / "cut", resume=True)
    for name in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes(), name
    stored = json.loads((tmp_path / "whole" / "run.json").read_text())
    assert stored["scenario"]["radio"]["path_loss"] == "urban-nlos"
    assert stored["scenario"]["link"]["model_bytes"] > 0
    assert stored["results"]["energy_j"] > 0
