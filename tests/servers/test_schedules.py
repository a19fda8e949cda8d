"""Schedules: stories told by hand, and SimPy's own account of the same vehicles."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import simpy

from fake_task import CountingTask
from mobfl import Crossings, Job, Scenario, SgdTerms
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import exponential, stream, vehicle_key
from mobfl.runs.job import training_site
from mobfl.servers.asynchronous import Asynchronous
from mobfl.servers.names import server_of
from mobfl.servers.steps import Schedule, ServerStep, server_steps
from mobfl.servers.wait_for_all import WaitForAll
from stories import BUSY, STEADY, STORY, columns, crossings, run, story


def test_waiting_for_all_who_were_there_at_the_start() -> None:
    assert columns(story("wait-for-all:3"), "start_s", "end_s", "present", "uploads", "count") == [
        (0.5, 3.1, 1, 1, 3.0),  # a, as it arrives; b comes too late for this round and is gone before the next
        (3.1, 5.7, 1, 1, 6.0),
        (5.7, 8.3, 2, 2, 9.0),  # with c, which has waited
        (8.3, 10.9, 2, 1, 12.0),  # a leaves during the round
        (10.9, 12.0, 1, 0, 12.0),  # c leaves, and nobody is waited for
    ]


def test_every_upload_is_a_step_of_fedasync() -> None:
    learnt = story("fedasync:3,mixing=0.5,staleness_power=1")
    assert columns(learnt, "start_s", "end_s", "present", "uploads", "count") == [
        (0.0, 3.1, 2, 1, 1.5),  # a from version 0: half of 0 + 3
        (3.1, 5.7, 2, 1, 3.0),  # a from version 1: half of 4.5 and half of 1.5
        (5.7, 6.6, 2, 1, 3.375),  # c from version 1, one step stale: a quarter of 4.5
        (6.6, 8.3, 2, 1, 4.03125),  # a from version 2
        (8.3, 9.2, 2, 1, 4.6171875),  # c from version 3
        (9.2, 11.8, 1, 1, 6.1171875),  # c from version 5, alone: a has left at 9
    ]
    assert [sorted(each.checkpoint.versions) for each in learnt] == [[], [1], [2], [3], [], []]


def test_a_step_of_fedbuff_has_as_many_uploads_as_the_buffer() -> None:
    learnt = story("fedbuff:3,buffer=2")
    assert columns(learnt, "start_s", "end_s", "present", "uploads") == [
        (0.0, 5.7, 3, 2),  # a twice, both from version 0
        (5.7, 8.3, 2, 2),  # c from version 0, a from 1
        (8.3, 11.8, 2, 2),  # c from version 1, then from 2
    ]
    stale_and_fresh = 3 * (1 / math.sqrt(2) + 1) / 2
    assert [each.row["count"] for each in learnt] == pytest.approx(
        [3.0, 3.0 + stale_and_fresh, 3.0 + 2 * stale_and_fresh], rel=1e-6
    )
    assert [sorted(each.checkpoint.versions) for each in learnt] == [[0], [1], []]


def efforts(plan: str) -> list[tuple[int, int, float]]:
    steps = server_steps(server_of(plan, None, STEADY, STORY).schedule, training_site(STEADY, 7, STORY))
    return [(s.effort.downloads, s.effort.uploads, round(s.effort.compute_s, 9)) for s in steps]


def test_effort_is_what_was_begun_since_the_step_before_whether_or_not_it_was_lost() -> None:
    assert efforts("async:3") == [
        (2, 2, 1.2),  # a, and b, which leaves as it uploads
        (2, 2, 1.2),  # a and c, whose upload begins at 5.6
        (1, 0, 0.0),  # a downloads
        (1, 2, 1.2),  # a trains; c downloads, trains and begins to upload
        (1, 0, 0.0),  # a downloads, and leaves before it can train
        (1, 1, 0.6),
    ]
    assert efforts("async:3,uploads=2") == [(4, 4, 2.4), (2, 2, 1.2), (2, 1, 0.6)]
    assert efforts("wait-for-all:3") == [
        (1, 1, 0.6),
        (1, 1, 0.6),
        (2, 2, 1.2),
        (2, 1, 0.6),  # a leaves at 9, before it can train
        (1, 0, 0.1),  # c trains from 11.9 on, and leaves at 12
    ]


def test_uploads_at_one_instant_are_in_the_model_that_is_downloaded_then() -> None:
    twins = crossings(("a", 1.0, 7.0), ("b", 1.0, 7.0))
    steps = list(server_steps(Asynchronous(3), training_site(STEADY, 7, twins)))
    assert [step.uploads[0].version for step in steps] == [0, 0, 2, 2]


by_name = pytest.mark.parametrize("server", [WaitForAll(10), Asynchronous(10), Asynchronous(10, 3)], ids=str)


@pytest.mark.parametrize("shift_s", [0.0, 1e3, 1e6, 123456.789])
@pytest.mark.parametrize("server", [WaitForAll(9), Asynchronous(9)])
def test_an_upload_completed_while_leaving_counts_at_any_time_of_the_day(shift_s: float, server: Schedule) -> None:
    """H = 9 takes 3.8 s, so a stay of 19 s has room for exactly five; nothing begins as a vehicle leaves.

    Thirty vehicles, each alone: sums of their times are rounded to either side.
    """
    enter = shift_s + 50.0 * np.arange(32) + np.random.default_rng(1).uniform(0, 20, 32)
    traffic = Crossings(np.arange(32), enter, enter + 19.0)
    steps = list(server_steps(server, training_site(STEADY.with_values({"training.duration_s": 9e9}), 0, traffic)))
    assert [len(step.uploads) for step in steps] == [1] * (30 * 5)
    assert [step.end_s for step in steps[4::5]] == pytest.approx(enter[1:31] - enter[0], abs=1e-6)


@by_name
def test_only_steps_that_end_by_the_end_of_training_are_rows(server: Schedule) -> None:
    all_of_them = list(server_steps(server, training_site(BUSY, 4, None)))
    third = all_of_them[2]
    for early, rows in ((0.0, 3), (1e-6, 2)):
        shorter = BUSY.with_values({"training.duration_s": third.end_s - early})
        assert len(list(server_steps(server, training_site(shorter, 4, None)))) == rows


def test_a_bad_upload_changes_nothing_and_counts_as_a_step() -> None:
    class Spoilt(CountingTask):
        """Whoever trains second sends a NaN."""

        def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
            second = len(self.trained) == 1
            new = super().local_steps(model, batches, terms)
            return {"w": np.full(1, np.nan, np.float32)} if second else new

    task = Spoilt()
    learnt = run(Job(task, STEADY, "fedasync:3,mixing=0.5,staleness_power=1", 7, STORY))
    assert columns(learnt[:3], "uploads", "rejected", "count") == [(1, 0, 1.5), (1, 1, 1.5), (1, 0, 2.25)]
    assert [dict(each.checkpoint.rejections) for each in learnt[:2]] == [{}, {"not finite": 1}]
    assert len(task.evaluated) == len(learnt)  # the initial model too, but not the one that stayed as it was


# ---- against SimPy --------------------------------------------------------------------------------


def delay_s(scenario: Scenario, key: np.uint64, attempt: int, h: int) -> float:
    draw = exponential(key, attempt)
    compute = scenario.compute.min_step_s * h + scenario.compute.extra_step_s * h * draw
    return scenario.link.download_s + scenario.link.upload_s + compute


def visits(scenario: Scenario, seed: int) -> list[tuple[np.uint64, float, float]]:
    block, draws = next(poisson_crossings(scenario, seed)), stream(seed, "compute")
    rows = zip(block.keys, block.enter_s.tolist(), block.leave_s.tolist(), strict=True)
    return [
        (np.uint64(vehicle_key(draws, key)), max(enter, 0.0), leave)
        for key, enter, leave in rows
        if leave > 0 and enter <= scenario.training.duration_s
    ]


def simpy_uploads(scenario: Scenario, seed: int, h: int, per_step: int) -> list[tuple[float, int, int, int]]:
    """Whoever passes trains and uploads again and again: (end, key, attempt, version at the download)."""
    env, uploads = simpy.Environment(), list[tuple[float, int, int, int]]()

    def vehicle(key: np.uint64, enter: float, leave: float) -> Iterator[simpy.Event]:
        yield env.timeout(enter)
        attempt = 0
        while env.now + (needed := delay_s(scenario, key, attempt, h)) <= leave:
            version = len(uploads) // per_step
            yield env.timeout(needed)
            uploads.append((env.now, int(key), attempt, version))
            attempt += 1

    for visit in visits(scenario, seed):
        env.process(vehicle(*visit))
    env.run(until=scenario.training.duration_s)
    return uploads


@pytest.mark.parametrize(("server", "per_step"), [(Asynchronous(10), 1), (Asynchronous(1), 1), (Asynchronous(5, 4), 4)])
@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 6.0}, {"traffic.participation": 0.2}])
def test_simpy_agrees_on_every_asynchronous_upload(
    server: Asynchronous, per_step: int, values: dict[str, float]
) -> None:
    scenario = BUSY.with_values(values)
    steps = list(server_steps(server, training_site(scenario, 5, None)))
    peer = simpy_uploads(scenario, 5, server.local_steps, per_step)
    assert len(steps) == len(peer) // per_step > 5
    ours = [(int(each.key), each.attempt, each.version) for step in steps for each in step.uploads]
    assert ours == [row[1:] for row in peer[: len(ours)]]
    assert [step.end_s for step in steps] == pytest.approx([row[0] for row in peer[per_step - 1 :: per_step]])
    assert any(step.number > each.version for step in steps for each in step.uploads)  # some are stale
    there = visits(scenario, 5)
    for step in steps:
        assert step.present == sum(enter < step.end_s and leave > step.start_s for _, enter, leave in there)


@pytest.mark.parametrize("server", [Asynchronous(10), Asynchronous(5, 4)])
def test_versions_are_kept_for_as_long_as_somebody_trains_on_them_and_no_longer(server: Schedule) -> None:
    steps = list(server_steps(server, training_site(BUSY, 5, None)))
    for i, step in enumerate(steps):
        later = {each.version for rest in steps[i + 1 :] for each in rest.uploads}
        assert {version for version in later if version <= i} <= step.still_in_use
        assert all(version <= i for version in step.still_in_use)
    assert max(len(step.still_in_use) for step in steps) < 12  # about as many as there are vehicles, not all


def simpy_rounds(scenario: Scenario, seed: int, h: int) -> list[tuple[float, float, int, list[tuple[int, int]]]]:
    """A server process that waits for all: (start, end, present, uploads)."""
    env, rounds = simpy.Environment(), list[tuple[float, float, int, list[tuple[int, int]]]]()
    there, attempts, arrival = dict[int, float](), dict[int, int](), [env.event()]

    def vehicle(key: np.uint64, enter: float, leave: float) -> Iterator[simpy.Event]:
        yield env.timeout(enter)
        there[int(key)] = leave
        arrival[0].succeed()
        arrival[0] = env.event()
        yield env.timeout(leave - env.now)
        del there[int(key)]

    def training(key: int, leave: float) -> Iterator[simpy.Event]:
        attempt = attempts.get(key, 0)
        attempts[key] = attempt + 1
        needed = delay_s(scenario, np.uint64(key), attempt, h)
        done = env.now + needed <= leave
        yield env.timeout(needed if done else leave - env.now)
        return (key, attempt) if done else None

    def server() -> Iterator[simpy.Event]:
        while True:
            if not there:
                yield arrival[0]
            start, everyone = env.now, [env.process(training(*each)) for each in sorted(there.items())]
            yield env.all_of(everyone)
            rounds.append((start, env.now, len(everyone), sorted(each.value for each in everyone if each.value)))
            yield env.timeout(0)  # whoever leaves at this instant is gone

    def late() -> Iterator[simpy.Event]:
        yield env.timeout(0)  # after all who are there at the start
        env.process(server())

    for visit in visits(scenario, seed):
        env.process(vehicle(*visit))
    env.process(late())
    env.run(until=scenario.training.duration_s)
    return rounds


@pytest.mark.parametrize("h", [1, 10, 40])
@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 6.0}, {"traffic.arrivals_per_s": 0.02}])
def test_simpy_agrees_on_every_round_that_waits_for_all(h: int, values: dict[str, float]) -> None:
    scenario = BUSY.with_values({"training.duration_s": 400.0, **values})
    steps = list(server_steps(WaitForAll(h), training_site(scenario, 6, None)))
    peer = simpy_rounds(scenario, 6, h)
    assert len(steps) > 5
    assert [(step.start_s, step.end_s) for step in steps] == [pytest.approx(row[:2]) for row in peer]
    ours = [(step.present, sorted((int(each.key), each.attempt) for each in step.uploads)) for step in steps]
    assert ours == [row[2:] for row in peer]


@by_name
def test_recorded_traffic_is_the_same_at_any_time_of_the_day(server: Schedule) -> None:
    def steps(shift_s: float) -> list[ServerStep]:
        enter = np.sort(np.random.default_rng(2).uniform(0, 120, 30))
        names = np.array([f"v{i}" for i in range(30)])
        traffic = Crossings(names, enter + shift_s, enter + 18.0 + shift_s)
        thinned = BUSY.with_values({"traffic.participation": 0.7})
        return list(server_steps(server, training_site(thinned, 3, traffic)))

    today, tomorrow = steps(0.0), steps(86400.0)
    assert len(today) > 5
    assert [step.end_s for step in today] == pytest.approx([step.end_s for step in tomorrow])
    who = [[[(int(u.key), u.attempt, u.version) for u in step.uploads] for step in day] for day in (today, tomorrow)]
    assert who[0] == who[1]
