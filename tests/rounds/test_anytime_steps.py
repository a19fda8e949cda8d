"""Anytime rounds are rounds: a slow simulator of one vehicle after the other, stories told row by row, and effort."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from mobfl import AsManyAsFit, Crossings, InputError, Order, Scenario
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import normal, stream, vehicle_key
from mobfl.rounds.orders import FixedPlan, Steps
from mobfl.rounds.rows import Outcome, Rounds, VehicleRows, joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.servers.rounds import PlannedRounds, efforts_of
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, Effort, ServerStep
from mobfl.theory import Delays

KNOWN = [
    AsManyAsFit(),
    AsManyAsFit("mean", mean_stay_s=19.0),
    AsManyAsFit("leaving"),
    AsManyAsFit("leaving", error=0.2),
]
ROADS = [
    {},
    {"traffic.speed_sd_mps": 5.0, "traffic.arrivals_per_s": 0.4, "traffic.participation": 0.7},
    {"compute.law": "lognormal", "compute.extra_sd_s": 0.3},
    {"compute.extra_step_s": 0.0, "link.download_s": 0.3},
    {"fleet": [{"share": 0.6}, {"share": 0.3, "min_step_s": 0.1, "extra_step_s": 0}, {"share": 0.1}]},
]


# ---- against a loop over vehicles ---------------------------------------------------------------------


def one_after_the_other(asked: AsManyAsFit, round_s: float, site: Site) -> Iterator[ServerStep]:
    """The same rounds in plain Python, with the same draws."""
    vehicles, attempts = list(site.vehicles()), dict[int, int]()
    for number in count():
        start_s, end_s = number * round_s, (number + 1) * round_s
        there = [each for each in vehicles if each.enter_s < end_s and each.can_begin_at(start_s)]
        uploads = list[Contribution]()
        for vehicle in there:
            attempt = attempts.get(vehicle.order, 0)
            attempts[vehicle.order] = attempt + 1
            begin_s = max(vehicle.enter_s, start_s)
            stop_s = min(end_s, expected_leave_s(asked, vehicle, site.seed))
            steps, done_s = steps_until(site, vehicle, attempt, begin_s, stop_s)
            if steps and vehicle.can_finish_at(done_s):
                uploads.append(Contribution(vehicle.key, attempt, number, begin_s, steps))
        longest = max((each.local_steps for each in uploads), default=0)
        yield ServerStep(number, start_s, end_s, longest, len(there), tuple(uploads))


def expected_leave_s(asked: AsManyAsFit, vehicle: Vehicle, seed: int) -> float:
    if asked.knows == "nothing":
        return math.inf
    if asked.knows == "mean":
        return vehicle.enter_s + asked.mean_stay_s
    key = np.uint64(vehicle_key(stream(seed, "predicted leaving"), vehicle.key))
    return vehicle.leave_s + asked.error * float(normal(key, 0)) * (vehicle.leave_s - vehicle.enter_s)


def steps_until(site: Site, vehicle: Vehicle, attempt: int, begin_s: float, stop_s: float) -> tuple[int, float]:
    transfer_s = site.delays.transfer_s
    step_s = site.delay_s(vehicle, attempt, 1) - transfer_s
    steps = max(math.floor((stop_s - begin_s - transfer_s + vehicle.rounding_s) / step_s), 0)
    return steps, begin_s + transfer_s + steps * step_s


@pytest.mark.parametrize("values", ROADS, ids=lambda values: "-".join(values) or "paper")
@pytest.mark.parametrize("asked", KNOWN, ids=lambda asked: f"{asked.knows}-{asked.error}")
def test_a_loop_over_vehicles_finds_the_same_uploads(paper: Scenario, asked: AsManyAsFit, values: dict) -> None:
    scenario, round_s = paper.with_values(values), 7.3
    traffic = next(poisson_crossings(scenario, 5)).between(-100.0, 900.0)
    site = Site([traffic], Delays.of(scenario), 5, 33.0, 600.0)
    rounds = int(600.0 / round_s)
    ours, theirs = (
        [step for step, _ in zip(steps, range(rounds), strict=False)]
        for steps in (PlannedRounds(FixedPlan(asked, round_s)).steps(site), one_after_the_other(asked, round_s, site))
    )
    told = [
        [(each.number, each.local_steps, each.present, len(each.uploads)) for each in steps] for steps in (ours, theirs)
    ]
    assert told[0] == told[1]
    for mine, other in zip(
        (upload for step in ours for upload in step.uploads),
        (upload for step in theirs for upload in step.uploads),
        strict=True,
    ):
        assert (mine.key, mine.attempt, mine.version, mine.local_steps) == (
            other.key, other.attempt, other.version, other.local_steps,
        )  # fmt: skip
        assert mine.download_s == pytest.approx(other.download_s, abs=1e-9)
    assert sum(len(step.uploads) for step in ours) > 50


# ---- stories ----------------------------------------------------------------------------------------


def crossings(*rows: tuple[str, float, float]) -> Crossings:
    vehicle, enter, leave = zip(*rows, ("last", 40.0, 40.0), strict=True)
    return Crossings(np.array(vehicle), np.array(enter, float), np.array(leave, float))


def run(
    scenario: Scenario, traffic: Crossings, asked: Steps, round_s: float, seed: int = 0
) -> tuple[Rounds, VehicleRows]:
    block = joined(list(simulate_rounds([traffic], FixedPlan(asked, round_s), Delays.of(scenario), seed)))
    assert block.vehicles is not None
    return block, block.vehicles


STORY = crossings(("ann", -3.0, 20.0), ("bob", 5.0, 8.6), ("cy", 7.9, 30.0))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (AsManyAsFit(), [
            (0, "ann", 40, 0.0, 1.0, 9.0, 10.0, "uploaded"),
            (0, "bob", 15, 5.0, 6.0, None, 8.6, "left_early"),  # it would have been done at 10
            (0, "cy", 0, None, None, None, 10.0, "sat_out"),  # 2.1 s, and it needs 2.2
            (1, "ann", 40, 10.0, 11.0, 19.0, 20.0, "uploaded"),
            (1, "cy", 40, 10.0, 11.0, 19.0, 20.0, "uploaded"),
            (2, "cy", 40, 20.0, 21.0, 29.0, 30.0, "uploaded"),
        ]),
        (AsManyAsFit("mean", mean_stay_s=12.0), [
            (0, "ann", 40, 0.0, 1.0, 9.0, 10.0, "uploaded"),
            (0, "bob", 15, 5.0, 6.0, None, 8.6, "left_early"),
            (0, "cy", 0, None, None, None, 10.0, "sat_out"),
            (1, "ann", 0, None, None, None, 20.0, "sat_out"),  # known to be there since 0, it expects to leave at 12
            (1, "cy", 39, 10.0, 11.0, 18.8, 19.8, "uploaded"),  # it expects to leave at 19.9
            (2, "cy", 0, None, None, None, 30.0, "sat_out"),
        ]),
        (AsManyAsFit("leaving"), [
            (0, "ann", 40, 0.0, 1.0, 9.0, 10.0, "uploaded"),
            (0, "bob", 8, 5.0, 6.0, 7.6, 8.6, "uploaded"),  # as it leaves
            (0, "cy", 0, None, None, None, 10.0, "sat_out"),
            (1, "ann", 40, 10.0, 11.0, 19.0, 20.0, "uploaded"),
            (1, "cy", 40, 10.0, 11.0, 19.0, 20.0, "uploaded"),
            (2, "cy", 40, 20.0, 21.0, 29.0, 30.0, "uploaded"),
        ]),
    ],
    ids=lambda value: value.knows if isinstance(value, AsManyAsFit) else "",
)  # fmt: skip
def test_three_vehicles_row_by_row(paper: Scenario, asked: AsManyAsFit, told: list[tuple]) -> None:
    """Download 1 s, 0.2 s per step, upload 1 s; T = 10 s."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    names = ("round", "vehicle", "steps", "download_s", "train_s", "upload_s", "end_s", "outcome")
    block, rows = run(steady, STORY, asked, 10.0)
    found = [tuple(row[name] for name in names) for row in rows.to_dicts(Delays.of(steady))]
    rounded = [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in found]
    assert rounded == told
    for number in range(3):
        mine = [row for row in told if row[0] == number]
        done = [row[2] for row in mine if row[-1] == "uploaded"]
        assert (block.present[number], block.uploads[number]) == (len(mine), len(done))
        assert block.started[number] == sum(row[2] > 0 for row in mine)
        assert (block.steps[number], block.longest[number]) == (sum(done), max(done, default=0))


def test_rounds_of_one_h_count_the_same_way(paper: Scenario) -> None:
    """H = 10 takes 4 s of T = 10 s: Bob has 3.6 s, Cy 2.1 s of the first round."""
    block, rows = run(paper.with_values({"compute.extra_step_s": 0}), STORY, 10, 10.0)
    assert rows.steps.tolist() == [10] * 6
    assert (block.started[:3].tolist(), block.steps[:3].tolist()) == ([3, 2, 1], [10, 20, 10])
    assert block.longest.tolist()[:3] == [10, 10, 10]
    assert np.array_equal(block.first(1).longest, [10])


def test_a_policy_may_order_as_many_as_fit_and_go_back(paper: Scenario) -> None:
    steady = paper.with_values({"compute.extra_step_s": 0})

    class Changing:
        def next_order(self, seen: Rounds | None) -> Order:
            before = None if seen is None else seen.local_steps
            return Order(5 if isinstance(before, AsManyAsFit) else AsManyAsFit(), 10.0)

    blocks = list(simulate_rounds([STORY], Changing(), Delays.of(steady), 0))
    assert [int(block.longest[0]) for block in blocks[:3]] == [40, 5, 40]


def test_the_clock_does_not_spoil_equality(paper: Scenario) -> None:
    """90 steps need exactly the stay of 20 s, at any time of the day."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    for shift_s in (0.0, 1e3, 1e6, 123456.789):
        enter = shift_s + np.append(np.arange(0.1, 40, 1.7), 90.0)
        traffic = Crossings(np.arange(len(enter)), enter, enter + 20.0)
        plan = FixedPlan(AsManyAsFit("leaving"), 300.0)
        block = next(simulate_rounds([traffic], plan, Delays.of(steady), 0, start_s=shift_s - 240.0))
        within = int(np.sum(enter + 20.0 <= shift_s + 60.0))
        assert block.vehicles is not None
        assert (block.vehicles.steps[:within] == 90).all()
        assert block.uploads[0] == within + np.sum((enter + 2.2 <= shift_s + 60.0) & (enter + 20.0 > shift_s + 60.0))


# ---- effort -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [12, KNOWN[0], KNOWN[1], KNOWN[3]], ids=str)
def test_effort_is_what_the_rows_tell(paper: Scenario, asked: Steps) -> None:
    scenario = paper.with_values({"traffic.arrivals_per_s": 0.5, "traffic.speed_sd_mps": 5.0})
    traffic = next(poisson_crossings(scenario, 2)).between(0.0, 300.0)
    site = Site([traffic], Delays.of(scenario), 2, 0.0, 100.0)
    plan = FixedPlan(asked, 6.0)
    _, rows = run(scenario, traffic, asked, 6.0, site.seed)
    efforts = [Effort() for _ in range(20)]
    for row in rows.to_dicts(site.delays):
        if row["round"] < len(efforts) and row["download_s"] is not None:
            trained_s = 0.0 if row["train_s"] is None else (row["upload_s"] or row["end_s"]) - row["train_s"]
            efforts[row["round"]] += Effort(1, int(row["upload_s"] is not None), trained_s)
    steps = [step for step, _ in zip(PlannedRounds(plan).steps(site), efforts, strict=False)]
    assert any(effort.uploads < effort.downloads for effort in efforts)
    for step, effort in zip(steps, efforts, strict=True):
        assert (step.effort.downloads, step.effort.uploads) == (effort.downloads, effort.uploads)
        assert step.effort.compute_s == pytest.approx(effort.compute_s)


def test_what_nobody_knows_the_end_of_was_cut_off(paper: Scenario) -> None:
    """As on real nodes, where no answer came: Bob was there for 3.6 s, for 1 s of which he downloaded."""
    block, rows = run(paper.with_values({"compute.extra_step_s": 0}), STORY, 10, 10.0)
    lost = rows.outcome == Outcome.LEFT_EARLY
    unknown = replace(rows, compute_s=np.where(lost, np.nan, rows.compute_s))
    first = next(efforts_of(block, unknown, Delays.of(paper)))
    assert (first.downloads, first.uploads) == (3, 1)  # Cy trains until the round's end, 1.1 s
    assert first.compute_s == pytest.approx(2.0 + 2.6 + 1.1)


def test_what_makes_no_sense_is_refused() -> None:
    for wrong, sentence in (
        (lambda: AsManyAsFit("all"), "knows one of nothing, mean, predicted, leaving, got 'all'"),  # type: ignore[arg-type]
        (lambda: AsManyAsFit("mean"), "a mean stay > 0 s with knows=mean, got inf"),
        (lambda: AsManyAsFit("leaving", error=math.nan), "an error >= 0 and <= 100, with knows=leaving, got nan"),
        (lambda: AsManyAsFit("nothing", error=0.1), "an error .*, with knows=leaving, got 0.1 with knows=nothing"),
        (lambda: Order(AsManyAsFit(), 0.0), "plan anytime must have T > 0 s, got 0"),
        (lambda: FixedPlan(AsManyAsFit(), math.inf), "plan anytime must have T > 0 s, got inf"),
    ):
        with pytest.raises(InputError, match=sentence):
            wrong()
