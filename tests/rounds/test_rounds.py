"""Who uploads when: stories told by hand, other simulators, and draws that nothing shifts."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from mobfl import InputError, Scenario
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import exponential, stream, vehicle_key
from mobfl.rounds.orders import FixedPlan, Order
from mobfl.rounds.rows import Outcome, Rounds, VehicleRows
from mobfl.rounds.rules import simulate_rounds
from mobfl.theory import Delays


def crossings(*rows: tuple[object, float, float]) -> Crossings:
    vehicle, enter, leave = zip(*rows, strict=True)
    return Crossings(np.array(vehicle), np.array(enter, float), np.array(leave, float))


def all_rows(scenario: Scenario, traffic: list[Crossings], plan: FixedPlan, seed: int = 0) -> list[dict[str, object]]:
    blocks = simulate_rounds(traffic, plan, Delays.of(scenario), seed)
    return [row for block in blocks for row in kept(block).to_dicts(Delays.of(scenario))]


def kept(block: Rounds) -> VehicleRows:
    assert block.vehicles is not None
    return block.vehicles


@pytest.fixture
def steady(paper: Scenario) -> Scenario:
    """No jitter: download 1 s, 0.2 s per step, upload 1 s."""
    return paper.with_values({"compute.extra_step_s": 0})


# ---- stories --------------------------------------------------------------------------------------


def test_three_vehicles(steady: Scenario) -> None:
    """H = 10 takes 4 s, T = 10 s: Ann is there from the start, Bob comes too late for the round, Cy is too quick."""
    traffic = crossings(("ann", -3.0, 20.0), ("bob", 7.0, 15.0), ("cy", 11.0, 14.0), ("last", 20.0, 20.0))
    row = dict.fromkeys(
        ("round", "vehicle", "attempt", "download_s", "train_s", "upload_s", "end_s", "steps", "outcome")
    )
    told = [tuple(row.values()) for row in all_rows(steady, [traffic], FixedPlan(10, 10.0))]
    assert list(row) == list(all_rows(steady, [traffic], FixedPlan(10, 10.0))[0])
    assert told == [
        (0, "ann", 0, 0.0, 1.0, 3.0, 4.0, 10, "uploaded"),
        (0, "bob", 0, 7.0, 8.0, 10.0, 10.0, 10, "round_over"),
        (1, "ann", 1, 10.0, 11.0, 13.0, 14.0, 10, "uploaded"),
        (1, "bob", 1, 10.0, 11.0, 13.0, 14.0, 10, "uploaded"),
        (1, "cy", 0, 11.0, 12.0, 14.0, 14.0, 10, "left_early"),
    ]


def test_a_deadline_met_exactly_is_met(steady: Scenario) -> None:
    """S = 4 s: one vehicle finishes as it leaves, one as the round ends, one would need a moment more."""
    moment = 1e-9
    traffic = crossings((1, 1.0, 5.0), (2, 6.0, 99.0), (3, 6.0 + moment, 9.9), (9, 20.0, 20.0))
    first = [row["outcome"] for row in all_rows(steady, [traffic], FixedPlan(10, 10.0)) if row["round"] == 0]
    assert first == ["uploaded", "uploaded", "left_early"]


@pytest.mark.parametrize("shift_s", [0.0, 1e3, 1e6, 123456.789])
def test_the_clock_does_not_spoil_equality(steady: Scenario, shift_s: float) -> None:
    """H = 90 needs exactly the dwell of 20 s, at any time of the day."""
    enter = shift_s + np.append(np.arange(0.1, 40, 1.7), 90.0)
    traffic = Crossings(np.arange(len(enter)), enter, enter + 20.0)
    blocks = simulate_rounds([traffic], FixedPlan(90, 300.0), Delays.of(steady), 0, start_s=shift_s - 240.0)
    assert next(blocks).uploads.tolist() == [np.sum(enter + 20.0 <= shift_s + 60.0)]


def test_a_vehicle_that_spans_four_rounds(steady: Scenario) -> None:
    traffic = crossings((7, 5.0, 33.0), (8, 40.0, 40.0))
    rows = all_rows(steady, [traffic], FixedPlan(10, 10.0))
    assert [(row["round"], row["attempt"], row["outcome"]) for row in rows] == [
        (0, 0, "uploaded"),
        (1, 1, "uploaded"),
        (2, 2, "uploaded"),
        (3, 3, "left_early"),
    ]


def test_who_left_before_the_first_round_is_not_there(steady: Scenario) -> None:
    traffic = crossings((1, -30.0, -10.0), (2, -5.0, 0.0), (3, -5.0, 8.0), (4, 10.0, 10.0))
    assert [row["vehicle"] for row in all_rows(steady, [traffic], FixedPlan(10, 10.0))] == [3]


def test_a_policy_sees_what_happened_and_decides(steady: Scenario) -> None:
    """Twice the steps after a round with an upload, one after an empty one; T follows H."""

    class Doubling:
        def next_order(self, seen: Rounds | None) -> Order:
            h = 1 if seen is None or seen.uploads[-1] == 0 else 2 * seen.local_steps
            return Order(h, 2.0 + 0.2 * h)

    traffic = crossings((1, 0.0, 10.0), (2, 30.0, 31.0))
    blocks = list(simulate_rounds([traffic], Doubling(), Delays.of(steady), 0))
    assert [(block.local_steps, round(float(block.start_s[0]), 9)) for block in blocks[:5]] == [
        (1, 0.0),
        (2, 2.2),
        (4, 4.6),
        (8, 7.4),
        (1, 11.0),
    ]
    assert [len(block) for block in blocks] == [1] * len(blocks)


def test_a_policy_sees_its_whole_order_however_traffic_is_cut(paper: Scenario) -> None:
    class Watching:
        def __init__(self) -> None:
            self.seen = list[tuple[list[int], int]]()

        def next_order(self, seen: Rounds | None) -> Order:
            if seen is not None:
                self.seen.append((seen.uploads.tolist(), len(kept(seen))))
            return Order(5, 10.0, 10)

    whole = next(poisson_crossings(paper, 6)).between(-100.0, 3000.0)
    columns = (whole.vehicle, whole.enter_s, whole.leave_s)
    parts = [Crossings(*(column[i : i + 30] for column in columns)) for i in range(0, len(whole), 30)]
    told = []
    for traffic in ([whole], parts):
        policy = Watching()
        list(simulate_rounds(traffic, policy, Delays.of(paper), 6))
        told.append(policy.seen)
    assert told[0] == told[1]
    assert all(len(uploads) == 10 for uploads, _ in told[0])


@pytest.mark.parametrize(("h", "t"), [(0, 1.0), (1, 0.0), (1, math.inf), (3, math.nan)])
def test_meaningless_plans_are_refused(h: int, t: float) -> None:
    with pytest.raises(InputError, match="plan must have a whole H >= 1 and T > 0"):
        FixedPlan(h, t)


# ---- against other simulators -----------------------------------------------------------------------


def simpy_rows(
    scenario: Scenario, traffic: Crossings, h: int, t: float, rounds: int, seed: int
) -> set[tuple[int, int]]:
    """The same rounds in SimPy, with the same draws: which vehicle uploads in which round."""
    env, uploads = simpy.Environment(), set[tuple[int, int]]()
    draws = stream(seed, "compute")

    def vehicle(name: int, key: np.uint64, enter: float, leave: float) -> Iterator[simpy.Event]:
        yield env.timeout(max(enter, 0.0))
        attempt = 0
        while env.now < leave:
            number = math.floor(env.now / t + 1e-12)
            end = min(leave, (number + 1) * t)
            draw = exponential(np.uint64(vehicle_key(draws, key)), attempt)
            compute = h * (scenario.compute.min_step_s + scenario.compute.extra_step_s * draw)
            finish = env.now + scenario.link.download_s + compute + scenario.link.upload_s
            if finish <= end and number < rounds:
                yield env.timeout(finish - env.now)
                uploads.add((number, name))
            attempt += 1
            yield env.timeout(max((number + 1) * t - env.now, 0.0))

    for row in range(len(traffic)):
        if traffic.leave_s[row] > 0:
            env.process(
                vehicle(
                    int(traffic.vehicle[row]), traffic.keys[row],
                    float(traffic.enter_s[row]), float(traffic.leave_s[row]),
                )
            )  # fmt: skip
    env.run(until=rounds * t + 1)
    return uploads


@pytest.mark.parametrize(("h", "t", "values"), [
    (24, 11.776, {}), (5, 3.5, {}), (60, 40.0, {}), (10, 6.0, {"traffic.speed_sd_mps": 6.0}),
])  # fmt: skip
def test_simpy_agrees_vehicle_by_vehicle(paper: Scenario, h: int, t: float, values: dict[str, float]) -> None:
    scenario, rounds = paper.with_values(values), 200
    traffic = next(poisson_crossings(scenario, 4))
    ours = set[tuple[int, int]]()
    for block in simulate_rounds([traffic], FixedPlan(h, t), Delays.of(scenario), 4):
        rows = kept(block)
        done = (rows.outcome == Outcome.UPLOADED) & (rows.round < rounds)
        ours |= set(zip(rows.round[done].tolist(), rows.vehicle[done].tolist(), strict=True))
    assert len(ours) > 20
    assert ours == simpy_rows(scenario, traffic.between(-1e9, rounds * t), h, t, rounds, 4)


def test_rounds_and_rows_tell_the_same(paper: Scenario) -> None:
    traffic = next(poisson_crossings(paper, 2))
    for block in simulate_rounds([traffic], FixedPlan(24, 11.776), Delays.of(paper), 2):
        rows = kept(block)
        first = block.round[0]
        present = np.bincount(rows.round - first, minlength=len(block))
        uploads = np.bincount(rows.round[rows.outcome == Outcome.UPLOADED] - first, minlength=len(block))
        assert np.array_equal(present, block.present)
        assert np.array_equal(uploads, block.uploads)
    lean = simulate_rounds([traffic], FixedPlan(24, 11.776), Delays.of(paper), 2, keep_vehicles=False)
    assert np.array_equal(np.concatenate([b.uploads for b in lean])[first : first + len(block)], block.uploads)


# ---- draws ----------------------------------------------------------------------------------------


def computed(scenario: Scenario, traffic: list[Crossings], plan: FixedPlan) -> dict[tuple[int, int], float]:
    """Each vehicle's and attempt's compute time per step."""
    found = {}
    for block in simulate_rounds(traffic, plan, Delays.of(scenario), 3):
        rows = kept(block)
        keys = zip(rows.vehicle.tolist(), rows.attempt.tolist(), strict=True)
        found |= dict(zip(keys, rows.compute_s / plan.local_steps, strict=True))
    return found


rows_at_random = st.lists(
    st.tuples(st.integers(0, 10**6), st.floats(0, 300), st.floats(0.1, 60)),
    min_size=2,
    max_size=25,
    unique_by=lambda r: r[0],
).map(lambda rows: sorted(((v, e, e + d) for v, e, d in rows), key=lambda row: row[1]))


@given(rows_at_random, st.data())
def test_a_vehicle_more_or_another_plan_shifts_no_draw(paper: Scenario, rows: list[tuple], data: st.DataObject) -> None:
    fewer = list(rows)
    fewer.pop(data.draw(st.integers(0, len(rows) - 1)))
    everyone = computed(paper, [crossings(*rows)], FixedPlan(10, 7.0))
    for others in (
        computed(paper, [crossings(*fewer)], FixedPlan(10, 7.0)),
        computed(paper, [crossings(*rows)], FixedPlan(33, 12.5)),
    ):
        assert all(others[key] == pytest.approx(everyone[key], rel=1e-12) for key in others.keys() & everyone.keys())


@given(rows_at_random, st.integers(1, 24))
def test_how_traffic_is_cut_into_blocks_does_not_matter(paper: Scenario, rows: list[tuple], cut: int) -> None:
    whole = crossings(*rows, (10**7, 400.0, 460.0))
    cut = min(cut, len(whole) - 1)
    parts = [
        Crossings(*(c[s] for c in (whole.vehicle, whole.enter_s, whole.leave_s)))
        for s in (slice(cut), slice(cut, None))
    ]
    assert all_rows(paper, parts, FixedPlan(10, 7.0)) == all_rows(paper, [whole], FixedPlan(10, 7.0))


def test_a_returning_vehicle_draws_again() -> None:
    visits = crossings(("a", 0.0, 5.0), ("b", 1.0, 5.0), ("a", 9.0, 15.0))
    assert len(set(visits.keys.tolist())) == 3
    assert visits.keys[1] == crossings(("b", 3.0, 4.0)).keys[0]


def test_traffic_is_the_same_for_every_plan_and_participation_thins_it(paper: Scenario) -> None:
    everyone = next(poisson_crossings(paper, 5))
    some = next(poisson_crossings(paper.with_values({"traffic.participation": 0.3}), 5))
    where = np.searchsorted(everyone.vehicle, some.vehicle)
    assert np.array_equal(everyone.enter_s[where], some.enter_s)
    assert len(some) / len(everyone) == pytest.approx(0.3, abs=0.02)


def test_memory_does_not_grow_with_the_duration(paper: Scenario) -> None:
    """What a block holds is bounded, however many came before."""
    sizes = []
    for block in simulate_rounds(poisson_crossings(paper, 1), FixedPlan(24, 11.776), Delays.of(paper), 1):
        sizes.append(len(kept(block)))
        if len(sizes) == 12:
            break
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])


def test_crossings_that_cannot_be() -> None:
    for rows, rule in (
        (((1, 5.0, 4.0),), "leave_s >= enter_s, got 5.0 to 4.0 in row 0"),
        (((1, 5.0, 9.0), (2, 4.0, 9.0)), "enter_s in order, got 4.0 to 9.0 in row 1"),
        (((1, 5.0, math.nan),), "finite times"),
        (((1, 5.0, math.inf),), "finite times"),
    ):
        with pytest.raises(InputError, match=rule):
            crossings(*rows)
