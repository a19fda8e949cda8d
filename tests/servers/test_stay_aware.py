"""Asynchronous training whose steps follow the stay: vehicles placed by hand, and SimPy's own account of many."""

from collections.abc import Iterator

import numpy as np
import pytest
import simpy

from mobfl import Crossings, InputError, Scenario
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import exponential, stream, vehicle_key
from mobfl.runs.job import training_site
from mobfl.servers.names import plan_name, server_of
from mobfl.servers.steps import ServerStep, server_steps
from stories import BUSY, STEADY, STORY, columns, story

COLUMNS = ("start_s", "end_s", "local_steps", "present", "uploads")


def test_a_stay_has_two_uploads_and_none_comes_too_late() -> None:
    """A step takes 0.2 s and both transfers 2 s; a stays from 0.5 to 9, b from 1 to 3, c from 4 to 12."""
    learnt = story("stay-aware:2", rule="damped:damping=0.5,staleness_power=1")
    assert columns(learnt, *COLUMNS, "count") == [
        (0.0, 4.7, 11, 3, 1, 5.5),  # a until 4.75: 2.25 s for steps; half of 11. b has 2 s, and needs 2.2
        (4.7, 8.0, 10, 2, 1, 8.0),  # c until 8, one step stale: a quarter of 10
        (8.0, 8.9, 11, 2, 1, 10.75),  # a from 4.7 until 9, one stale: a quarter of 11
        (8.9, 12.0, 10, 2, 1, 13.25),  # c from 8 until 12, one stale
    ]
    assert [sorted(each.checkpoint.versions) for each in learnt] == [[0], [1], [2], []]


def test_undivided_it_uploads_as_it_leaves() -> None:
    assert columns(story("stay-aware:1"), *COLUMNS) == [(0.0, 8.9, 32, 3, 1), (8.9, 12.0, 30, 2, 1)]


def test_a_part_too_short_for_a_step_is_joined_with_the_next() -> None:
    """The mean stay is 5.9 s, so a third has no room for both transfers and a step, and two thirds have."""
    assert columns(story("stay-aware:3,knows=mean"), *COLUMNS) == [
        (0.0, 4.3, 9, 3, 1),  # a until 4.43; b, which is gone at 3, is lost
        (4.3, 7.8, 9, 2, 1),  # c until 7.93; the last thirds are too short
    ]


def test_who_knows_nothing_uploads_after_a_fixed_time_for_as_long_as_it_is_there() -> None:
    assert columns(story("stay-aware:2,knows=nothing,part_s=4"), *COLUMNS) == [
        (0.0, 4.5, 10, 3, 1),  # a
        (4.5, 8.0, 10, 2, 1),  # c
        (8.0, 8.5, 10, 2, 1),  # a again
        (8.5, 12.0, 10, 2, 1),  # c, done as it leaves; a begins again at 8.5 and is lost
    ]
    slow = STEADY.with_values({"compute.min_step_s": 3.0})
    assert columns(story("stay-aware:2,knows=nothing,part_s=4", slow), "end_s", "local_steps") == [(5.5, 1), (9.0, 1)]


def test_effort_counts_lost_work_in_the_step_in_which_it_began() -> None:
    site = training_site(STEADY, 7, STORY)
    schedule = server_of("stay-aware:2,knows=nothing,part_s=4", None, STEADY, STORY).schedule
    efforts = [
        (e.downloads, e.uploads, round(e.compute_s, 9)) for e in (s.effort for s in server_steps(schedule, site))
    ]
    assert efforts == [
        (3, 1, 3.0),  # a, b and c download; a's 2 s from 1.5, b's last second from 2; c's begin at 5
        (1, 2, 4.0),  # a downloads at 4.5, trains from 5.5 and sends from 7.5; c trains from 5 and sends from 7
        (1, 0, 0.0),  # c downloads at 8
        (1, 1, 2.0),  # a downloads at 8.5 and leaves at 9, before a step; c trains from 9
    ]


@pytest.mark.parametrize("shift_s", [0.0, 1e3, 1e6, 123456.789])
def test_an_upload_completed_while_leaving_counts_at_any_time_of_the_day(shift_s: float) -> None:
    """A stay of 19 s has room for exactly 85 steps. Thirty vehicles, each alone: sums are rounded to either side."""
    enter = shift_s + 50.0 * np.arange(32) + np.random.default_rng(1).uniform(0, 20, 32)
    traffic = Crossings(np.arange(32), enter, enter + 19.0)
    road = STEADY.with_values({"training.duration_s": 9e9})
    for plan in ("stay-aware:1", "selected:fit,999,by=all", "early:99,1e4"):
        schedule = server_of(f"{plan},knows=leaving", None, road, traffic).schedule
        steps = list(server_steps(schedule, training_site(road, 0, traffic)))[:40]
        taken = [each.local_steps for step in steps for each in step.uploads]
        assert taken == ([85] * 30 if plan[:2] == "st" else [85] * len(taken)), plan


# ---- against SimPy ---------------------------------------------------------------------------------------------------


def visits(scenario: Scenario, seed: int) -> list[tuple[np.uint64, float, float]]:
    block, draws = next(poisson_crossings(scenario, seed)), stream(seed, "compute")
    rows = zip(block.keys, block.enter_s.tolist(), block.leave_s.tolist(), strict=True)
    return [
        (np.uint64(vehicle_key(draws, key)), max(enter, 0.0), leave)
        for key, enter, leave in rows
        if leave > 0 and enter <= scenario.training.duration_s
    ]


def simpy_uploads(
    scenario: Scenario, seed: int, parts: int, part_s: float | None
) -> list[tuple[float, int, int, int, int]]:
    """Vehicles as processes that watch the clock: (end, key, attempt, version, steps).

    Step after step is taken for as long as another one and the upload end before the part does.
    """
    env, uploads = simpy.Environment(), list[tuple[float, int, int, int, int]]()
    down_s, up_s = scenario.link.download_s, scenario.link.upload_s

    def vehicle(key: np.uint64, enter: float, leave: float) -> Iterator[simpy.Event]:
        yield env.timeout(enter)
        attempt, ends = 0, [enter + (leave - enter) * (part + 1) / parts for part in range(parts)]
        while env.now < leave:
            step_s = scenario.compute.min_step_s + scenario.compute.extra_step_s * exponential(key, attempt)
            if part_s is None:
                ends = [end for end in ends if env.now + down_s + step_s + up_s <= end]
                if not ends:
                    return
                end = ends.pop(0)
            else:
                end = max(env.now + part_s, env.now + down_s + step_s + up_s)
            version, steps = len(uploads), 0
            yield env.timeout(down_s)
            while env.now + step_s + up_s <= end + 1e-9:
                yield env.timeout(step_s)
                steps += 1
            yield env.timeout(up_s)
            if env.now > leave + 1e-9:
                return
            uploads.append((env.now, int(key), attempt, version, steps))
            attempt += 1

    for visit in visits(scenario, seed):
        env.process(vehicle(*visit))
    env.run(until=scenario.training.duration_s)
    return uploads


@pytest.mark.parametrize(
    ("plan", "parts", "part_s"),
    [("stay-aware:2", 2, None), ("stay-aware:7", 7, None), ("stay-aware:1,knows=nothing,part_s=6", 1, 6.0)],
)
def test_simpy_agrees_on_every_upload_of_two_hundred_vehicles(plan: str, parts: int, part_s: float | None) -> None:
    scenario = BUSY.with_values({"traffic.speed_sd_mps": 6.0, "training.duration_s": 700.0})
    assert len(visits(scenario, 5)) > 200
    steps = list(server_steps(server_of(plan, None, scenario, None).schedule, training_site(scenario, 5, None)))
    peer = simpy_uploads(scenario, 5, parts, part_s)
    assert len(peer) > 200
    ours = [(int(u.key), u.attempt, u.version, u.local_steps) for step in steps for u in step.uploads]
    assert ours == [row[1:] for row in peer]
    assert [step.end_s for step in steps] == pytest.approx([row[0] for row in peer])
    assert max(step.number - u.version for step in steps for u in step.uploads) > 3  # some are stale
    assert_in_use(steps)


def assert_in_use(steps: list[ServerStep]) -> None:
    for i, step in enumerate(steps):
        later = {each.version for rest in steps[i + 1 :] for each in rest.uploads}
        assert {version for version in later if version <= i} <= step.still_in_use


@pytest.mark.parametrize("parts", [1, 3])
def test_who_knows_its_leaving_is_never_lost(parts: int) -> None:
    """But for those who are under way at the end, about as many as there are on the road."""
    scenario = BUSY.with_values({"traffic.speed_sd_mps": 6.0, "training.duration_s": 700.0})

    def lost(plan: str) -> int:
        steps = server_steps(server_of(plan, None, scenario, None).schedule, training_site(scenario, 5, None))
        return sum(step.effort.downloads - len(step.uploads) for step in steps)

    assert lost(f"stay-aware:{parts}") < 15
    assert lost(f"stay-aware:{parts},error=0.3") > 50


def test_names_go_there_and_back(paper: Scenario) -> None:
    for given, said in [
        ("stay-aware", "stay-aware:2,knows=leaving,error=0,uploads=1"),
        ("stay-aware:3,knows=mean", "stay-aware:3,knows=mean,uploads=1"),
        ("stay-aware:4,knows=nothing", "stay-aware:4,knows=nothing,part_s=5,uploads=1"),
    ]:
        described = server_of(given, None, paper, None).describe()
        assert plan_name(described) == said
        assert server_of(said, None, paper, None).describe() == described


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("stay-aware:x", "plan stay-aware must go on with :n,NAME=VALUE, the number of parts, got 'x'"),
        ("stay-aware:0", "plan stay-aware must have a whole number of parts >= 1 and <= 1000, got 0"),
        ("stay-aware:1.5", "plan stay-aware must have a whole number of parts >= 1 and <= 1000, got 1.5"),
        ("stay-aware:1e300", "plan stay-aware must have a whole number of parts >= 1 and <= 1000, got 1e.300"),
        ("stay-aware:2,knows=all", "plan stay-aware must have knows one of nothing, mean, leaving, got 'all'"),
        ("stay-aware:2,knows=mean,error=1", "error >= 0 and <= 100, with knows=leaving, got 1 with knows=mean"),
        ("stay-aware:2,error=1e308", "error >= 0 and <= 100, with knows=leaving, got 1e.308 with knows=leaving"),
        ("stay-aware:2,part_s=3", "a part_s >= 0, with knows=nothing, got 3 with knows=leaving"),
        ("stay-aware:2,knows=nothing,part_s=-1", "a part_s >= 0, with knows=nothing, got -1"),
        ("stay-aware:2,parts=3", "plan stay-aware must give parts once, got it twice"),
        ("stay-aware:2,uploads=0", "stay-aware must have a whole number of uploads >= 1 in a step, got 0"),
    ],
)
def test_nonsense_is_named(paper: Scenario, given: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        server_of(given, None, paper, None)


def test_damped_changes_need_stale_uploads(paper: Scenario) -> None:
    with pytest.raises(InputError, match="weighs uploads by their staleness"):
        server_of("24,12", "damped", paper, None)
    for rule in ("damped:damping=0", "damped:staleness_power=-1"):
        with pytest.raises(InputError, match="damped must have a"):
            server_of("stay-aware", rule, paper, None)
