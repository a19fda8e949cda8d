"""Rounds of a fleet: every vehicle is of one class, and draws by its class's law."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import simpy
from scipy import stats

from mobfl import Scenario, load_scenario, simulate, theory
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import classes_of, exponential, stream, vehicle_keys
from mobfl.rounds.draws import Draws
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome, VehicleRows, joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.theory import Delays

LEVEL = 1e-6
SAMPLES = [0.2, 0.25, 0.25, 0.3, 0.9]
MIXED = {
    "fleet": [
        {"share": 0.5},
        {"share": 0.3, "min_step_s": 0.1, "law": "lognormal", "extra_sd_s": 0.1},
        {"share": 0.2, "step_samples": SAMPLES},
    ]
}


def rows_of(road: Scenario, traffic: Crossings, h: int, t: float, seed: int) -> VehicleRows:
    block = joined(list(simulate_rounds([traffic], FixedPlan(h, t), Delays.of(road), seed)))
    assert block.vehicles is not None
    return block.vehicles


def some_traffic(road: Scenario, count: int = 2000) -> Crossings:
    block = next(poisson_crossings(road, 4))
    return Crossings(block.vehicle[:count], block.enter_s[:count], block.leave_s[:count])


def test_simpy_agrees_about_two_classes() -> None:
    road, h, t, seed = load_scenario("mixed-fleet"), 40, 13.5, 4
    traffic = some_traffic(road, 300)
    keys = vehicle_keys(stream(seed, "compute"), traffic.keys)
    kinds = classes_of(stream(seed, "class"), keys, [0.7, 0.3])
    env, uploads = simpy.Environment(), set[tuple[int, int]]()

    def vehicle(i: int) -> Iterator[simpy.Event]:
        compute, leave, attempt = road.classes[kinds[i]].compute, float(traffic.leave_s[i]), 0
        yield env.timeout(max(float(traffic.enter_s[i]), 0.0))
        while env.now < leave:
            number = math.floor(env.now / t + 1e-12)
            took = h * (compute.min_step_s + compute.extra_step_s * exponential(keys[i], attempt))
            finish = env.now + 1.0 + took + 1.0
            if finish <= min(leave, (number + 1) * t):
                uploads.add((number, int(traffic.vehicle[i])))
            attempt += 1
            yield env.timeout(max((number + 1) * t - env.now, 0.0))

    for i in np.flatnonzero(traffic.leave_s > 0):
        env.process(vehicle(int(i)))
    env.run()
    rows = rows_of(road, traffic, h, t, seed)
    done = rows.outcome == Outcome.UPLOADED
    assert set(zip(rows.round[done].tolist(), rows.vehicle[done].tolist(), strict=True)) == uploads
    assert len(uploads) > 100


def test_a_vehicle_keeps_its_class_and_no_other_draw_shifts(paper: Scenario) -> None:
    equals = paper.with_values({"fleet": [{"share": 0.5}, {"share": 0.5}]})
    traffic = some_traffic(paper)
    one, two = (rows_of(road, traffic, 24, 6.0, 3) for road in (paper, equals))
    for name in ("round", "vehicle", "key", "attempt", "begin_s", "compute_s", "end_s", "outcome"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert not one.vehicle_class.any()
    classes: dict[int, set[int]] = {}
    for vehicle, kind in zip(two.vehicle.tolist(), two.vehicle_class.tolist(), strict=True):
        classes.setdefault(vehicle, set()).add(kind)
    assert {len(kinds) for kinds in classes.values()} == {1}
    ours = [next(iter(kinds)) for kinds in classes.values()]
    assert stats.binomtest(sum(ours), len(ours), 0.5).pvalue > LEVEL


def test_rows_name_the_class_where_there_are_several(paper: Scenario) -> None:
    road = load_scenario("mixed-fleet")
    traffic = some_traffic(road, 20)
    told = rows_of(road, traffic, 40, 13.5, 0).to_dicts(Delays.of(road))
    assert {row["class"] for row in told} == {"ordinary", "quick"}
    assert "class" not in rows_of(paper, traffic, 24, 11.8, 0).to_dicts(Delays.of(paper))[0]


def test_draws_follow_their_laws(paper: Scenario) -> None:
    road, h = paper.with_values(MIXED), 10
    draws = Draws(Delays.of(road), 7)
    keys = draws.keys(np.arange(60_000, dtype=np.uint64))
    kinds = draws.classes(keys)
    assert stats.chisquare(np.bincount(kinds), np.array([0.5, 0.3, 0.2]) * len(keys)).pvalue > LEVEL
    delays = np.array([draws.delay_s(key, 2, h) for key in keys])
    for kind, (_, law) in enumerate(Delays.of(road).by_class(h)):
        mine = delays[kinds == kind]
        if kind < 2:
            assert stats.kstest(mine, law.cdf).pvalue > LEVEL
        else:
            values, counts = np.unique(np.round(mine, 9), return_counts=True)
            assert values == pytest.approx([4.0, 4.5, 5.0, 11.0])
            assert stats.chisquare(counts, np.array([1, 2, 1, 1]) / 5 * len(mine)).pvalue > LEVEL


def test_rounds_and_schedules_draw_the_same(paper: Scenario) -> None:
    road = paper.with_values(MIXED)
    rows, draws = rows_of(road, some_traffic(road, 200), 12, 9.0, 5), Draws(Delays.of(road), 5)
    for i in range(len(rows)):
        assert draws.delay_s(rows.key[i], int(rows.attempt[i]), 12) == 2.0 + rows.compute_s[i]


@pytest.mark.parametrize("speed_sd_mps", [0.0, 5.0])
def test_simulation_tells_who_is_heard(speed_sd_mps: float) -> None:
    road = load_scenario("mixed-fleet").with_values({"traffic.speed_sd_mps": speed_sd_mps})
    found = simulate(road, 40, 13.519, 60_000, 2)
    assert sum(each.visits for each in found.classes) == pytest.approx(0.1 * 60_000 * 13.519, rel=0.02)
    total = sum(each.visits * each.uploads_per_visit for each in found.classes)
    assert total == pytest.approx(found.mean_uploads.value * found.rounds)
    for each in found.classes:
        error = math.sqrt(each.expected_heard * (1 - each.expected_heard) / each.visits)
        assert abs(each.heard - each.expected_heard) < 5 * error + 1e-4
        assert each.uploads_per_visit == pytest.approx(each.expected_uploads_per_visit, rel=0.03)
    assert [each["name"] for each in found.to_dict()["classes"]] == ["ordinary", "quick"]


def test_who_is_heard_is_counted_once_however_blocks_are_cut(paper: Scenario) -> None:
    """Against the rows of all rounds at once."""
    road, h, t = load_scenario("mixed-fleet"), 10, 4.0
    traffic = some_traffic(road, 3000)
    found = simulate(road, h, t, 10**6, 1, crossings=traffic)
    block = joined(list(simulate_rounds([traffic], FixedPlan(h, t), Delays.of(road), 1, start_s=traffic.observed_s[0])))
    rows = block.vehicles.of_rounds(0, found.rounds)
    for place, each in enumerate(found.classes):
        mine = rows.vehicle_class == place
        heard = np.unique(rows.key[mine & (rows.outcome == Outcome.UPLOADED)])
        assert each.visits == len(np.unique(rows.key[mine]))
        assert each.heard == len(heard) / each.visits
        assert each.expected_heard is None


def test_one_class_has_no_results_by_class(paper: Scenario) -> None:
    found = simulate(paper, 24, 11.8, 100, 0)
    assert found.classes == ()
    assert "classes" not in found.to_dict()
    assert theory.contributing_visits_by_class(paper, 24, 11.8) == [theory.contributing_visit_prob(paper, 24, 11.8)]
