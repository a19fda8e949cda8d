"""Servers beside MOB-FL's: schedules against SimPy, rules by hand, and runs that resume to the same bytes."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy
from safetensors.numpy import load_file, save_file

from fake_task import CountingTask
from mobfl import Crossings, InputError, Job, Plan, Scenario, best_round_s, plan, theory, train
from mobfl.learning.fedasync import mix_in, share_of_upload
from mobfl.learning.fedbuff import apply_buffer
from mobfl.learning.rates import learning_rate
from mobfl.learning.task import Integers
from mobfl.learning.uploads import Upload, Weights, aggregate
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.trace import Trace
from mobfl.policies.falling import FallingSteps
from mobfl.rng import exponential, stream, vehicle_key
from mobfl.rounds.rules import FixedPlan
from mobfl.runs.history import Row
from mobfl.runs.loop import Learnt, fresh_start, learn, server_steps, training_site
from mobfl.servers.fedasync import FedAsync
from mobfl.servers.fedbuff import FedBuff
from mobfl.servers.names import AnyPlan, best_count, plan_name, resolve_plan
from mobfl.servers.rounds import PlannedRounds
from mobfl.servers.steps import Server, ServerStep
from mobfl.servers.wait_for_all import WaitForAll
from mobfl.theory import Conditions

# No jitter: a vehicle needs 1 + 3 · 0.2 + 1 = 2.6 s for H = 3.
STEADY = Scenario.from_dict(
    {
        "compute": {"extra_step_s": 0.0},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 15.0},
    }
)
BUSY = Scenario.from_dict(
    {
        "traffic": {"arrivals_per_s": 0.3},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 200.0},
    }
)


def crossings(*rows: tuple[str, float, float]) -> Crossings:
    """Those of the story between one that has left at 0 and one that enters at 20."""
    return Crossings.sorted(*zip(("first", -1.0, 0.0), *rows, ("last", 20.0, 30.0), strict=True))


STORY = crossings(("a", 0.5, 9.0), ("b", 1.0, 3.0), ("c", 4.0, 12.0))


def told(server: Server, scenario: Scenario = STEADY, traffic: Crossings | None = STORY) -> list[Learnt]:
    task = CountingTask()
    return list(learn(scenario, task, server, 7, fresh_start(task, 7), traffic))


def columns(learnt: list[Learnt], *names: str) -> list[tuple[float, ...]]:
    return [tuple(round(each.row[name], 9) for name in names) for each in learnt]


# ---- stories --------------------------------------------------------------------------------------


def test_waiting_for_all_who_were_there_at_the_start() -> None:
    assert columns(told(WaitForAll(3)), "start_s", "end_s", "present", "uploads", "count") == [
        (0.5, 3.1, 1, 1, 3.0),  # a, as it arrives; b comes too late for this round and is gone before the next
        (3.1, 5.7, 1, 1, 6.0),
        (5.7, 8.3, 2, 2, 9.0),  # with c, which has waited
        (8.3, 10.9, 2, 1, 12.0),  # a leaves during the round
        (10.9, 12.0, 1, 0, 12.0),  # c leaves, and nobody is waited for
    ]


def test_every_upload_is_a_step_of_fedasync() -> None:
    learnt = told(FedAsync(3, mixing=0.5, staleness_power=1.0))
    assert columns(learnt, "start_s", "end_s", "present", "uploads", "count") == [
        (0.0, 3.1, 2, 1, 1.5),  # a from version 0: half of 0 + 3
        (3.1, 5.7, 2, 1, 3.0),  # a from version 1: half of 4.5 and half of 1.5
        (5.7, 6.6, 2, 1, 3.375),  # c from version 1, one step stale: a quarter of 4.5
        (6.6, 8.3, 2, 1, 4.03125),  # a from version 2
        (8.3, 9.2, 2, 1, 4.6171875),  # c from version 3
        (9.2, 11.8, 1, 1, 6.1171875),  # c from version 5, alone: a has left at 9
    ]
    assert [sorted(each.versions) for each in learnt] == [[], [1], [2], [3], [], []]


def test_a_step_of_fedbuff_has_as_many_uploads_as_the_buffer() -> None:
    learnt = told(FedBuff(3, buffer=2))
    assert columns(learnt, "start_s", "end_s", "present", "uploads") == [
        (0.0, 5.7, 3, 2),  # a twice, both from version 0
        (5.7, 8.3, 2, 2),  # c from version 0, a from 1
        (8.3, 11.8, 2, 2),  # c from version 1, then from 2
    ]
    stale_and_fresh = 3 * (1 / math.sqrt(2) + 1) / 2
    assert [each.row["count"] for each in learnt] == pytest.approx(
        [3.0, 3.0 + stale_and_fresh, 3.0 + 2 * stale_and_fresh], rel=1e-6
    )
    assert [sorted(each.versions) for each in learnt] == [[0], [1], []]


def test_uploads_at_one_instant_are_in_the_model_that_is_downloaded_then() -> None:
    twins = crossings(("a", 1.0, 7.0), ("b", 1.0, 7.0))
    steps = list(server_steps(FedAsync(3), training_site(STEADY, 7, twins)))
    assert [step.uploads[0].version for step in steps] == [0, 0, 2, 2]


SERVERS = [WaitForAll(10), FedAsync(10), FedBuff(10, buffer=3)]
by_name = pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)


@pytest.mark.parametrize("shift_s", [0.0, 1e3, 1e6, 123456.789])
@pytest.mark.parametrize("server", [WaitForAll(9), FedAsync(9), FedBuff(9, buffer=1)])
def test_an_upload_completed_while_leaving_counts_at_any_time_of_the_day(shift_s: float, server: Server) -> None:
    """H = 9 takes 3.8 s, so a stay of 19 s has room for exactly five; nothing begins as a vehicle leaves.

    Thirty vehicles, each alone: sums of their times are rounded to either side.
    """
    enter = shift_s + 50.0 * np.arange(32) + np.random.default_rng(1).uniform(0, 20, 32)
    traffic = Crossings(np.arange(32), enter, enter + 19.0)
    steps = list(server_steps(server, training_site(STEADY.with_values({"training.duration_s": 9e9}), 0, traffic)))
    assert [len(step.uploads) for step in steps] == [1] * (30 * 5)
    assert [step.end_s for step in steps[4::5]] == pytest.approx(enter[1:31] - enter[0], abs=1e-6)


@by_name
def test_only_steps_that_end_by_the_end_of_training_are_rows(server: Server) -> None:
    all_of_them = list(server_steps(server, training_site(BUSY, 4, None)))
    third = all_of_them[2]
    for early, rows in ((0.0, 3), (1e-6, 2)):
        shorter = BUSY.with_values({"training.duration_s": third.end_s - early})
        assert len(list(server_steps(server, training_site(shorter, 4, None)))) == rows


def test_a_bad_upload_changes_nothing_and_counts_as_a_step() -> None:
    class Spoilt(CountingTask):
        """Whoever trains second sends a NaN."""

        def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
            second = len(self.trained) == 1
            new = super().local_steps(model, batches, learning_rate, momentum)
            return {"w": np.full(1, np.nan, np.float32)} if second else new

    task = Spoilt()
    learnt = list(learn(STEADY, task, FedAsync(3, 0.5, 1.0), 7, fresh_start(task, 7), STORY))
    assert columns(learnt[:3], "uploads", "rejected", "count") == [(1, 0, 1.5), (1, 1, 1.5), (1, 0, 2.25)]
    assert learnt[1].rejections == ("not finite",)
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


@pytest.mark.parametrize(("server", "per_step"), [(FedAsync(10), 1), (FedAsync(1), 1), (FedBuff(5, 4), 4)])
@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 6.0}, {"traffic.participation": 0.2}])
def test_simpy_agrees_on_every_asynchronous_upload(server: FedAsync, per_step: int, values: dict[str, float]) -> None:
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


@pytest.mark.parametrize("server", [FedAsync(10), FedBuff(5, 4)])
def test_versions_are_kept_for_as_long_as_somebody_trains_on_them_and_no_longer(server: Server) -> None:
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


# ---- rules ----------------------------------------------------------------------------------------


def weights(*values: float) -> dict[str, np.ndarray]:
    return {"w": np.array(values, np.float32)}


def test_fedasyncs_share_of_a_stale_upload() -> None:
    assert [share_of_upload(stale, 0.6, 0.5) for stale in (0, 3, 8)] == pytest.approx([0.6, 0.3, 0.2])
    assert share_of_upload(4, 0.6, 0.0) == 0.6
    assert (FedAsync(1).mixing, FedAsync(1).staleness_power) == (0.6, 0.5)
    fresh, stale = Upload(weights(10, 0), 5), Upload(weights(10, 0), 5, staleness=3)
    assert mix_in(weights(0, 1), [fresh], 0.5, 0.5)["w"].tolist() == [5.0, 0.5]
    assert mix_in(weights(0, 1), [stale], 0.5, 0.5)["w"].tolist() == [2.5, 0.75]
    assert mix_in(weights(0, 1), [fresh, stale], 0.5, 0.5)["w"].tolist() == [6.25, 0.375]


def test_fedbuff_moves_by_the_mean_of_weighted_changes() -> None:
    """From 10: a change of 2 counts whole, one of 8 that is three steps stale half; D_m does not matter."""
    uploads = [Upload(weights(12), 1, weights(10)), Upload(weights(12), 99, weights(4), staleness=3)]
    assert apply_buffer(weights(10), uploads, 1.0)["w"].tolist() == [13.0]
    assert apply_buffer(weights(10), uploads, 0.5)["w"].tolist() == [11.5]
    assert (FedBuff(1).buffer, FedBuff(1).server_rate) == (10, 1.0)


def test_fedbuff_keeps_a_variance_positive() -> None:
    """Added to a model that is at 0.1 already, the change from 1 to 0.2 of a stale upload would make it negative."""
    name = "norm.running_var"
    model, old, new = ({name: np.full(1, value, np.float32)} for value in (0.1, 1.0, 0.2))
    assert apply_buffer(model, [Upload(new, 1, old, staleness=3)], 1.0)[name] == pytest.approx([0.2])
    both = [Upload(new, 1, old, staleness=3), Upload(model, 1, model)]
    assert apply_buffer(model, both, 1.0)[name] == pytest.approx([(0.5 * 0.2 + 0.1) / 1.5])


@by_name
def test_bad_uploads_are_rejected_under_every_rule(server: Server) -> None:
    model = weights(4)
    bad, good = Upload(weights(np.inf), 5, model), Upload(weights(6), 5, model)
    assert aggregate(model, [bad], server.merge) == (model, ["not finite"])
    merged, reasons = aggregate(model, [bad, good], server.merge)
    assert (merged["w"].tolist(), reasons) == (aggregate(model, [good], server.merge)[0]["w"].tolist(), ["not finite"])


# ---- options --------------------------------------------------------------------------------------


class RateTask(CountingTask):
    """Notes the learning rates."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
        self.rates.append(learning_rate)
        return super().local_steps(model, batches, learning_rate, momentum)


@pytest.mark.parametrize(
    ("server", "at_s"),
    [
        (PlannedRounds(FixedPlan(3, 5.0)), [0.0, 5.0, 5.0]),  # whoever comes later still has its round's rate
        (FedAsync(3), [0.5, 3.1, 4.0, 5.7, 6.6, 9.2]),
        (WaitForAll(3), [0.5, 3.1, 5.7, 5.7, 8.3]),
    ],
)
def test_the_learning_rate_falls_along_a_cosine_of_when_the_model_was_got(server: Server, at_s: list[float]) -> None:
    scenario, task = STEADY.with_values({"training.decay_to": 0.2}), RateTask()
    list(learn(scenario, task, server, 7, fresh_start(task, 7), STORY))
    assert task.rates == pytest.approx([0.1 * (0.6 + 0.4 * math.cos(math.pi * t / 15)) for t in at_s])


def test_the_cosine_from_one_end_to_the_other() -> None:
    training = STEADY.with_values({"training.decay_to": 0.2}).training
    assert [learning_rate(training, share) for share in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 0.06, 0.02])
    assert {learning_rate(STEADY.training, share) for share in (0.0, 0.3, 1.0)} == {0.1}


def test_an_average_over_time_is_served_and_training_goes_on_from_the_plain_model() -> None:
    scenario, task = STEADY.with_values({"training.average_s": 10.0}), CountingTask()
    learnt = list(learn(scenario, task, PlannedRounds(FixedPlan(3, 5.0)), 7, fresh_start(task, 7), STORY))
    keep, served, expected = math.exp(-0.5), 0.0, []
    for plain in (3.0, 6.0, 6.0):  # the last round has no upload, and the average still moves
        served = keep * served + (1 - keep) * plain
        expected.append(served)
    assert [each.row["count"] for each in learnt] == pytest.approx(expected, rel=1e-6)
    assert [float(each.model["w"][0]) for each in learnt] == pytest.approx(expected, rel=1e-6)
    assert [{k: v["w"].tolist() for k, v in each.versions.items()} for each in learnt] == [
        {1: [3.0]},
        {2: [6.0]},
        {3: [6.0]},
    ]


def test_an_average_counts_the_time_in_which_nobody_was_there() -> None:
    """Waiting for all begins at 0.5 s: the first step ends 3.1 s after the training's beginning."""
    learnt = told(WaitForAll(3), STEADY.with_values({"training.average_s": 10.0}))
    assert learnt[0].row["count"] == pytest.approx(3.0 * (1 - math.exp(-0.31)), rel=1e-6)


def test_an_average_that_has_not_moved_is_not_evaluated_again() -> None:
    nobody = STEADY.with_values({"training.average_s": 10.0, "traffic.participation": 1e-9})
    task = CountingTask()
    learnt = list(learn(nobody, task, PlannedRounds(FixedPlan(3, 5.0)), 7, fresh_start(task, 7), STORY))
    assert (len(learnt), len(task.evaluated)) == (3, 1)


def falling_rows(scenario: Scenario, chosen: AnyPlan, traffic: Crossings | None = None) -> list[tuple[int, float]]:
    job = Job(CountingTask(), scenario, chosen, crossings=traffic)
    return [(step.local_steps, step.start_s) for step in server_steps(job.server, job.site)]


def expected_rows(h: int, to: float, duration_s: float, round_s: dict[int, float] | float) -> list[tuple[int, float]]:
    """Round after round, each with the H of its start."""
    rows, now = list[tuple[int, float]](), 0.0
    while True:
        steps = max(1, math.floor(h * (1 - (1 - to) * now / duration_s) + 0.5))
        length = round_s if isinstance(round_s, float) else round_s[steps]
        if now + length > duration_s * (1 + 1e-9):
            return rows
        rows.append((steps, pytest.approx(now, abs=1e-9)))
        now += length


@pytest.mark.parametrize("to", [0.25, 0.01])
def test_local_steps_fall_and_the_planner_chooses_t_anew(to: float) -> None:
    scenario = BUSY.with_values({"training.falling_to": to, "training.duration_s": 2000.0})
    best = plan(scenario)
    h, t, _ = best.numbers
    lengths = {each: float(best_round_s(scenario, each)) for each in range(1, h + 1)}
    rows = falling_rows(scenario, best)
    assert rows == expected_rows(h, to, 2000.0, lengths)
    assert rows[-1][0] == pytest.approx(max(1, h * to), abs=1)
    kept = falling_rows(scenario, (h, t))
    assert kept == expected_rows(h, to, 2000.0, t)
    assert kept != rows


def test_on_recorded_traffic_t_stays_while_h_falls() -> None:
    enter = 1e5 + np.arange(300) * 4.0
    traffic = Crossings(np.arange(300), enter, enter + 20.0)
    scenario = BUSY.with_values({"training.falling_to": 0.5, "training.duration_s": 900.0})
    best = plan(scenario, traffic)
    h, t, _ = best.numbers
    assert falling_rows(scenario, best, traffic) == expected_rows(h, 0.5, 900.0, t)


def test_an_order_lasts_for_as_long_as_h_stays_the_same() -> None:
    policy = FallingSteps(4, 0.5, 100.0, 80.0, lambda h: 2.0 * h)
    order = policy.next_order(None)
    assert (order.local_steps, order.round_s, order.rounds) == (4, 8.0, 3)  # 4 until 20 s: from 0, 8 and 16
    assert [policy.steps_at(t) for t in (0.0, 20.0, 20.1, 60.0, 60.1, 80.0, 999.0)] == [4, 4, 3, 3, 2, 2, 2]


@by_name
def test_h_falls_only_with_planned_rounds(tmp_path: Path, server: Server) -> None:
    job = Job(CountingTask(), BUSY.with_values({"training.falling_to": 0.5}), server)
    with pytest.raises(InputError, match=f"training.falling_to must be 1 for {server.name}, got 0.5"):
        train(job, tmp_path / "run")


# ---- runs -----------------------------------------------------------------------------------------


class SpoiltByBatch(CountingTask):
    """Some batches give a NaN, whoever computes them when."""

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
        new = super().local_steps(model, batches, learning_rate, momentum)
        return {"w": new["w"] * np.nan} if batches.sum() % 3 == 0 else new


JOBS = {
    **{server.name: Job(CountingTask(by_batches=True), BUSY, server, 3) for server in SERVERS},
    "spoilt": Job(SpoiltByBatch(by_batches=True), BUSY, FedAsync(10), 3),
    "averaged": Job(CountingTask(by_batches=True), BUSY.with_values({"training.average_s": 30.0}), (10, 6.0), 3),
    "both": Job(
        CountingTask(by_batches=True),
        BUSY.with_values({"training.average_s": 30.0, "training.decay_to": 0.1}),
        FedBuff(10, buffer=3),
        3,
    ),
    "falling": Job(CountingTask(by_batches=True), BUSY.with_values({"training.falling_to": 0.2}), (10, 6.0), 3),
}
FILES = ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors")
each_job = pytest.mark.parametrize("name", JOBS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name, job in JOBS.items():
        train(job, folder / name)
    return folder


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


class Stop(Exception):  # noqa: N818
    """What cuts a run off."""


def stop_at(number: int):  # type: ignore[no-untyped-def]
    def stop(row: Row) -> None:
        if row["round"] == number:
            raise Stop(number)

    return stop


@each_job
def test_two_workers_write_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    train(JOBS[name], tmp_path / "run", workers=2)
    assert_same_bytes(whole / name, tmp_path / "run")


@each_job
def test_cut_off_twice_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    for at, resume in ((4, False), (9, True)):
        with pytest.raises(Stop):
            train(JOBS[name], out, resume=resume, progress=stop_at(at))
        kept = [tensor for tensor in load_file(out / "last.safetensors") if tensor.startswith("version/")]
        assert bool(kept) == (name not in ("wait-for-all", "falling"))
    train(JOBS[name], out, resume=True, workers=2)
    assert_same_bytes(whole / name, out)
    assert list(load_file(out / "last.safetensors")) == ["w"]  # nothing that was only needed to go on


@pytest.mark.parametrize("dies_at", [*FILES, "timing.json"])
@pytest.mark.parametrize("last_checkpoint", [False, True])
def test_a_checkpoint_cut_in_half_resumes_to_the_same_bytes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str, last_checkpoint: bool
) -> None:
    """As kill -9 may cut it, in the middle of a run and in the checkpoint that ends it."""
    from mobfl.files import json as json_files
    from mobfl.runs import folder as run_folder

    rounds = json.loads((whole / "both" / "run.json").read_text())["results"]["rounds"]
    real, rows = run_folder.replaced, list[Row]()

    def dying(file: Path):  # type: ignore[no-untyped-def]
        if file.name == dies_at and len(rows) >= (rounds if last_checkpoint else 5):
            raise Stop(file.name)
        return real(file)

    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "replaced", dying)
        patched.setattr(json_files, "replaced", dying)
        with pytest.raises(Stop):
            train(JOBS["both"], tmp_path / "run", checkpoint_s=1e9 if last_checkpoint else 0.0, progress=rows.append)
    train(JOBS["both"], tmp_path / "run", resume=True)
    assert_same_bytes(whole / "both", tmp_path / "run")


def test_rejections_are_counted_across_an_interruption(whole: Path) -> None:
    results = json.loads((whole / "spoilt" / "run.json").read_text())["results"]
    assert results["rejections"]["not finite"] > 2
    assert results["rounds_with_uploads"] == results["rounds"] - results["rejections"]["not finite"]


def test_a_state_without_a_version_that_is_needed_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(JOBS["fedasync"], tmp_path / "run", progress=stop_at(4))
    last = tmp_path / "run" / "last.safetensors"
    state = json.dumps({"rounds": 5, "rejections": {}})
    save_file({"w": load_file(last)["w"]}, last, metadata={"mobfl": state})
    with pytest.raises(InputError, match=r"the last model must come with version \d+, on which a vehicle trains"):
        train(JOBS["fedasync"], tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("wait-for-all", {"policy": "wait-for-all", "local_steps": 10, "round_s": None}),
        (
            "fedasync",
            {"policy": "fedasync", "local_steps": 10, "round_s": None, "mixing": 0.6, "staleness_power": 0.5},
        ),
        ("fedbuff", {"policy": "fedbuff", "local_steps": 10, "round_s": None, "buffer": 3, "server_rate": 1.0}),
        ("falling", {"policy": "rounds", "local_steps": 10, "round_s": 6.0}),
    ],
)
def test_a_run_says_which_policy_it_followed(whole: Path, name: str, written: dict[str, object]) -> None:
    assert json.loads((whole / name / "run.json").read_text())["plan"] == written


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (WaitForAll(10), "training.duration_s must be at least as long as its first round takes, got 4"),
        (FedAsync(10), "training.duration_s must be at least as long as its first upload takes, got 4"),
        (FedBuff(10), "training.duration_s must be at least as long as its first 10 uploads take, got 4"),
    ],
)
def test_a_training_too_short_for_a_step_leaves_nothing_behind(tmp_path: Path, server: Server, line: str) -> None:
    with pytest.raises(InputError, match=line):
        train(Job(CountingTask(), BUSY.with_values({"training.duration_s": 4.0}), server), tmp_path / "run")
    assert not list(tmp_path.iterdir())


@by_name
def test_recorded_traffic_is_the_same_at_any_time_of_the_day(server: Server) -> None:
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


# ---- names ----------------------------------------------------------------------------------------


def numbers(named: AnyPlan) -> tuple[int, float]:
    assert isinstance(named, Plan | tuple)
    return named.numbers[:2] if isinstance(named, Plan) else named


@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 5.0}, {"compute.extra_step_s": 0.0}])
@pytest.mark.parametrize(("name", "share"), [("best,T0", 1.0), ("best, T0/2", 0.5), ("best,7.5", 0.375)])
def test_the_best_h_for_a_given_t_is_that_of_all(
    paper: Scenario, values: dict[str, float], name: str, share: float
) -> None:
    scenario = paper.with_values(values)
    h, t = numbers(resolve_plan(name, scenario))
    assert t == share * 20.0
    assert h == 1 + int(np.argmax(theory.objective(scenario, np.arange(1, 120), t)))


@pytest.mark.parametrize(("name", "h"), [("1,best", 1), ("epoch,best", 16), ("24,best", 24)])
def test_the_best_t_for_a_given_h(paper: Scenario, name: str, h: int) -> None:
    found = resolve_plan(name, paper)
    assert found == Plan.at(paper, h, float(best_round_s(paper, h)))


def test_an_epoch_is_one_pass_over_the_middle_of_a_range(paper: Scenario) -> None:
    ranged = paper.with_values({"training.samples_per_vehicle": [100, 400]})
    assert resolve_plan("epoch,9", ranged) == (4, 9.0)  # 250/64 = 3.9
    assert resolve_plan("epoch,9", paper.with_values({"training.samples_per_vehicle": 80})) == (1, 9.0)


@pytest.mark.parametrize(
    "name",
    ["24,11.78", "3,5", "wait-for-all:7", "fedasync:24,mixing=0.3", "fedbuff:5,buffer=3", "adaptive:memory_s=300"],
)
def test_the_name_of_a_run_names_its_plan(paper: Scenario, name: str) -> None:
    def told(plan: AnyPlan) -> dict[str, Any]:
        return dict(Job(CountingTask(), paper, plan).describe()["plan"])

    written = told(resolve_plan(name, paper))
    assert told(resolve_plan(plan_name(written), paper)) == written
    assert plan_name(written).startswith(name.partition(",")[0])


def test_names_that_leave_everything_to_the_planner(paper: Scenario) -> None:
    assert resolve_plan("mobfl", paper) == resolve_plan(" best,best ", paper) == plan(paper)
    assert resolve_plan("24,11.776", paper) == (24, 11.776)
    assert resolve_plan("1e1,T0", paper) == (10, 20.0)


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("wait-for-all", WaitForAll(24)),
        ("wait-for-all:7", WaitForAll(7)),
        ("fedasync", FedAsync(24)),
        ("fedasync:best", FedAsync(24)),
        ("fedasync:epoch", FedAsync(16)),
        ("fedasync:5,mixing=0.3, staleness_power=1", FedAsync(5, 0.3, 1)),
        ("fedasync:mixing=0.3", FedAsync(24, 0.3)),
        ("fedbuff", FedBuff(24)),
        ("fedbuff:5,buffer=4,server_rate=0.5", FedBuff(5, 4, 0.5)),
    ],
)
def test_other_servers_by_name(paper: Scenario, name: str, server: Server) -> None:
    assert resolve_plan(name, paper) == server


HT = "--plan must be H,T with a whole H >= 1, best or epoch, and T > 0 s, best, T0 or T0/2"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("", "--plan must be mobfl, adaptive, H,T, wait-for-all, fedasync, fedbuff, got ''"),
        ("24", "--plan must be mobfl, adaptive, H,T, wait-for-all, fedasync, fedbuff, got '24'"),
        ("mobfl:3", "--plan must be mobfl, adaptive, H,T, wait-for-all, fedasync, fedbuff, got 'mobfl:3'"),
        ("1,2,3", "--plan must be mobfl, adaptive, H,T, wait-for-all, fedasync, fedbuff, got '1,2,3'"),
        ("0,5", HT),
        ("2.5,5", HT),
        ("nan,5", HT),
        ("inf,5", HT),
        ("5,0", HT),
        ("5,nan", HT),
        ("5,1e13", HT),
        ("5,T1", HT),
        ("T0,best", HT),
        ("adaptive:24", "--plan adaptive must go on with :NAME=NUMBER,… where NAME is memory_s or worth"),
        ("adaptive:memory_s=0", "adaptive's memory_s must be > 0, got 0"),
        ("fedasync:0", "--plan fedasync must go on with :H,NAME=NUMBER,…"),
        ("fedasync:5,6", "NAME is mixing or staleness_power, got '5,6'"),
        ("fedasync:5,buffer=6", "NAME is mixing or staleness_power, got '5,buffer=6'"),
        ("fedasync:5,mixing=much", "NAME is mixing or staleness_power, got '5,mixing=much'"),
        ("wait-for-all:5,mixing=0.1", "NAME is none, got '5,mixing=0.1'"),
        ("fedasync:5,mixing=0", "fedasync must have a mixing > 0 and <= 1, got 0"),
        ("fedasync:5,mixing=nan", "fedasync must have a mixing > 0 and <= 1, got nan"),
        ("fedasync:5,staleness_power=-1", "fedasync must have a staleness_power >= 0, got -1"),
        ("fedbuff:5,buffer=2.5", "fedbuff must have a whole buffer >= 1, got 2.5"),
        ("fedbuff:5,buffer=0", "fedbuff must have a whole buffer >= 1, got 0"),
        ("fedbuff:5,server_rate=inf", "fedbuff must have a server_rate > 0, got inf"),
    ],
)
def test_names_that_mean_nothing_get_one_sentence(paper: Scenario, name: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        resolve_plan(name, paper)
    assert line in str(error.value)
    assert len(error.value.lines) == 1


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("100,best", {}, "H = 100 with both transfers takes at least 22 s and nobody has more than 20 s for it"),
        ("best,2", {}, "H = 1 with both transfers takes at least 2.2 s and nobody has more than 2 s for it"),
        ("best,T0", {"link.download_s": 30.0}, "H = 1 with both transfers takes at least 31.2 s"),
        ("mobfl", {"link.download_s": 30.0}, "the vehicles leave after 20 s"),
        ("fedbuff", {"link.download_s": 30.0}, "the vehicles leave after 20 s"),
    ],
)
def test_what_is_infeasible_is_a_plan_that_says_why(
    paper: Scenario, name: str, values: dict[str, float], reason: str
) -> None:
    found = resolve_plan(name, paper.with_values(values))
    assert isinstance(found, Plan)
    assert found.status == "infeasible"
    assert reason in str(found.reason)


def platoons() -> Crossings:
    """Six vehicles every 60 s, as behind a signal."""
    enter = np.sort((60.0 * np.arange(40)[:, None] + np.arange(6) * 2.0).ravel())
    return Crossings(np.arange(len(enter)), enter, enter + np.where(np.arange(len(enter)) % 2, 18.0, 22.0))


def test_names_on_recorded_traffic_follow_its_own_law(paper: Scenario) -> None:
    traffic = platoons()
    trace, road = Trace(traffic, 1.0), Conditions.of(paper)
    h, t = numbers(resolve_plan("best,T0", paper, traffic))
    assert t == pytest.approx(20.0)
    promised = [trace.promise(road, each, t).numbers[2] for each in range(1, 100)]
    assert h == 1 + int(np.argmax(promised))
    best = resolve_plan("10,best", paper, traffic)
    assert isinstance(best, Plan)
    grid = [trace.promise(road, 10, each).numbers[2] for each in np.arange(5.0, 80.0, 2.5)]
    assert best.numbers[2] >= max(grid) * 0.999
    assert resolve_plan("fedasync", paper, traffic) == FedAsync(plan(paper, traffic).numbers[0])
    hopeless = resolve_plan("200,best", paper, traffic)
    assert isinstance(hopeless, Plan)
    assert hopeless.status == "infeasible"
    with pytest.raises(InputError, match=r"training.noise_uploads must be 0 for a plan from crossings"):
        resolve_plan("best,T0", paper.with_values({"training.noise_uploads": 2.0}), traffic)


def test_the_best_count_is_found_without_trying_all() -> None:
    tried = list[int]()

    def objective(h: int) -> float:
        tried.append(h)
        return h * math.exp(-h / 5000)

    assert best_count(objective, 10**9) == (5000, 5000 / math.e)
    assert len(tried) < 500
    assert best_count(lambda h: float(h <= 3), 5) == (1, 1.0)
    assert best_count(lambda _: 0.0, 1) == (1, 0.0)


def mobfl(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mobfl", *arguments], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (("train", "beams", "--plan", "adaptive:5", "--out", "run"), 2, "--plan adaptive must go on with :NAME=NUMBER"),
        (("train", "beams", "--plan", "200,best", "--out", "run"), 3, "No plan is possible: H = 200"),
        (
            ("simulate", "--plan", "fedasync"),
            2,
            "--plan must have rounds of a length T to be simulated, got 'fedasync'",
        ),
        (("train", "beams", "--set", "training.decay_to=0", "--out", "run"), 2, "training.decay_to must be > 0, got 0"),
        (("train", "beams", "--set", "training.falling_to=2", "--out", "run"), 2, "training.falling_to must be <= 1"),
        (("train", "beams", "--set", "training.average_s=-1", "--out", "run"), 2, "training.average_s must be >= 0"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, arguments: tuple[str, ...], status: int, line: str
) -> None:
    done = mobfl(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_command_line_simulates_plans_by_name(tmp_path: Path) -> None:
    done = mobfl("simulate", "--plan", "epoch,T0", "--rounds", "50", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    came = json.loads(done.stdout)
    assert (came["local_steps"], came["round_s"]) == (16, 20.0)


def test_another_server_is_another_run(whole: Path, tmp_path: Path) -> None:
    for file in (whole / "fedasync").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(InputError, match=r"plan.mixing must be as in the run to be resumed \(0.6\), got 0.5"):
        train(replace(JOBS["fedasync"], plan=FedAsync(10, mixing=0.5)), tmp_path, resume=True)
