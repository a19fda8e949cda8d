"""Plans for fleets, for laws that need a search, and the search over H that all of them share."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleets_at_random import alone, fleets
from mobfl import Crossings, InputError, Scenario, algorithm_1, best_round_s, load_scenario, plan, plan_many, theory
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.exact import best_rounds, branch_and_bound
from mobfl.planning.guarded import best_guarded_round
from mobfl.planning.search import Tried, best_steps
from mobfl.planning.trace import Trace
from mobfl.theory import Conditions
from roads_at_random import SOME_NOISE, log_uniform, scenarios

some_jitter = st.just(0.0) | log_uniform(1e-3, 30.0)
few_steps = scenarios(steps_that_fit=log_uniform(1.2, 20.0), rates=log_uniform(1e-4, 1e2))
SAMPLES = [0.2, 0.22, 0.25, 0.25, 0.3, 0.4, 0.4, 0.9]


def densely(road: Scenario, also: int, points: int, steps: int) -> float:
    """The greatest g on a dense grid of T between all classes' T_min, and beyond, for so many H and one more."""
    every = np.arange(1, int(theory.max_local_steps(road)) + 1)
    h = np.append(every[:: -(-len(every) // steps)], also)[:, np.newaxis]
    edges = [np.broadcast_to(each, h.shape) for each in Conditions.of(road).delays.least_by_class_s(h)]
    most = np.maximum(theory.max_round_s(road, h), Conditions.of(road).dwell.longest)
    shares = np.append(0, np.geomspace(1e-9, 1, points))
    starts = [(edge, np.minimum(nxt, most)) for edge in edges for nxt in (*edges, most)]
    best = 0.0
    for low, high in starts:
        t = low + np.maximum(high - low, 0.0) * shares
        best = max(best, float(theory.objective(road, h, t).max()))
    return best


# ---- fleets -----------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(fleets(few_steps, jitter=some_jitter, most=3))
def test_no_point_of_a_dense_grid_is_better(road: Scenario) -> None:
    best = plan(road)
    assume(best.reason is None)
    on_grid = densely(road, best.numbers[0], 600, 20)
    assert best.objective_error is None
    assert best.numbers[2] >= on_grid * (1 - 1e-9)
    assert best.numbers[2] <= on_grid * (1 + 5e-3)


@settings(max_examples=15)
@given(
    fleets(
        scenarios(steps_that_fit=log_uniform(1.2, 12.0), noise=SOME_NOISE, spread=st.floats(0.0, 0.4)), some_jitter, 3
    )
)
def test_nor_where_averaging_counts_or_speeds_spread(road: Scenario) -> None:
    best = plan(road)
    assume(best.reason is None)
    assert best.numbers[2] >= densely(road, best.numbers[0], 30, 5) * (1 - 1e-7)


def test_a_fleet_with_two_tops() -> None:
    road = load_scenario("mixed-fleet")
    best = plan(road)
    h, t, g = best.numbers
    assert (h, round(t, 3), round(g, 4)) == (40, 13.519, 1.636)
    fine = np.linspace(7.0, 20.0, 13_001)
    on_grid = theory.objective(road, h, fine)
    tops = fine[1:-1][(on_grid[1:-1] > on_grid[:-2]) & (on_grid[1:-1] > on_grid[2:])]
    assert tops == pytest.approx([9.012, 13.519], abs=2e-3)
    assert g == pytest.approx(on_grid.max(), rel=1e-7)
    busier = road.with_values({"traffic.arrivals_per_s": 0.4})  # where the first top is the higher one
    assert float(best_round_s(busier, 40)) < 10.0 == float(theory.min_delay_s(road, 40)) + 3.2


def test_the_classes_of_the_packaged_fleet() -> None:
    road = load_scenario("mixed-fleet")
    ordinary, quick = theory.uploads_by_class(road, 40, 13.519)
    assert (ordinary, quick) == (pytest.approx(0.2555, abs=1e-3), pytest.approx(0.5495, abs=1e-3))


def test_a_fleet_of_equals_has_the_plan_of_one_class(paper: Scenario) -> None:
    equals = plan(paper.with_values({"fleet": [{"share": 0.5}, {"share": 0.5}]}))
    assert equals.numbers == pytest.approx(plan(paper).numbers, rel=1e-12)


@settings(max_examples=25)
@given(fleets(scenarios(steps_that_fit=log_uniform(20.0, 300.0)), jitter=some_jitter, most=3))
def test_branch_and_bound_finds_what_trying_every_h_finds(road: Scenario) -> None:
    conditions = Conditions.of(road)
    most = int(theory.max_local_steps(conditions))
    assume(0 < most < 5000)
    g = best_rounds(conditions, np.arange(1, most + 1))[3]
    (h,), _ = branch_and_bound(conditions, np.array([most]))
    assert g[h - 1] == pytest.approx(g.max(), rel=1e-12) if h else not g.any()


@settings(max_examples=40)
@given(fleets(few_steps, most=3), st.integers(1, 40), st.integers(1, 40))
def test_the_bound_that_rules_out_ranges(road: Scenario, a: int, more: int) -> None:
    assume(theory.fits(road, a + more))
    g = best_rounds(Conditions.of(road), np.array([a, a + more]))[3]
    assert g[1] / (a + more) <= g[0] / a * (1 + 1e-9)


@given(fleets(few_steps, most=3))
def test_a_fleet_gets_no_more_than_if_all_were_its_best_class(road: Scenario) -> None:
    best = plan(road)
    assume(best.reason is None)
    assert best.numbers[2] <= max(plan(one).objective or 0.0 for _, one in alone(road)) * (1 + 1e-9)


def test_a_fleet_that_cannot_finish_says_so(paper: Scenario) -> None:
    none = plan(paper.with_values({"road.length_m": 40, "fleet": [{"share": 0.5}, {"share": 0.5, "min_step_s": 5}]}))
    assert none.reason is not None
    assert "one step with both transfers takes 2.2 s" in none.reason


# ---- other laws -------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [
    {"compute.law": "lognormal"},
    {"compute.law": "lognormal", "compute.extra_sd_s": 0.05},
    {"compute.law": "lognormal", "compute.extra_sd_s": 2.0, "traffic.arrivals_per_s": 0.01},
    {"compute.law": "lognormal", "traffic.speed_sd_mps": 4.0},
    {"compute.step_samples": SAMPLES},
    {"compute.step_samples": SAMPLES, "traffic.arrivals_per_s": 1.0},
    {"compute.step_samples": SAMPLES, "training.noise_uploads": 2.0},
    {"fleet": [{"share": 0.5, "step_samples": SAMPLES}, {"share": 0.3, "law": "lognormal"}, {"share": 0.2}]},
])  # fmt: skip
def test_a_guarded_plan_is_within_its_error(paper: Scenario, values: dict[str, object]) -> None:
    road = paper.with_values(values)
    best = plan(road)
    assert best.objective_error is not None
    assert best.objective_error <= 1e-3
    h = np.arange(1, int(theory.max_local_steps(road)) + 1)[:, np.newaxis]
    least, most = theory.min_delay_s(road, h), np.maximum(theory.max_round_s(road, h), 20.0)
    points = 150 if "traffic.speed_sd_mps" in values else 3000
    on_grid = max(
        float(theory.objective(road, h[i], np.geomspace(least[i], most[i], points)[:, 0]).max()) for i in range(len(h))
    )
    assert best.numbers[2] * (1 + best.objective_error) >= on_grid * (1 - 1e-12)
    assert best.to_dict()["objective_error"] == best.objective_error


@settings(max_examples=25)
@given(scenarios(steps_that_fit=log_uniform(1.2, 60.0), jitter=log_uniform(1e-2, 10.0)), st.floats(0, 1))
def test_the_guarded_search_finds_what_the_roots_find(road: Scenario, share: float) -> None:
    """On the paper's law, where the exact optimum is known."""
    conditions = Conditions.of(road)
    most = int(theory.max_local_steps(conditions))
    assume(most > 0)
    h = 1 + int(share * (most - 1))
    exact = float(best_rounds(conditions, np.array([h]))[3][0])
    found = best_guarded_round(conditions, h)
    assert found.objective <= exact * (1 + 1e-9)
    assert exact <= found.bound * (1 + 1e-9)
    assert found.bound <= found.objective * (1 + 2e-4)


def test_a_lognormal_law_of_many_steps_stays_quick(paper: Scenario) -> None:
    fine = {"compute.min_step_s": 2e-5, "compute.extra_step_s": 2e-5, "compute.law": "lognormal"}
    _, t, g = plan(paper.with_values(fine)).numbers
    coarse = plan(paper.with_values({"compute.law": "lognormal"})).numbers
    assert g == pytest.approx(1e4 * coarse[2], rel=2e-3)
    assert t == pytest.approx(coarse[1], rel=0.05)


def test_plans_without_a_search_say_nothing_of_an_error(paper: Scenario) -> None:
    assert "objective_error" not in plan(paper).to_dict()


# ---- the search over H ------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60), st.floats(0.0, 0.1))
def test_the_search_over_h_finds_the_best_within_its_gap(falls: list[float], gap: float) -> None:
    """Any g(H) of which g(H)/H never rises."""
    per_step = np.cumprod(falls)
    g = per_step * np.arange(1, len(falls) + 1)
    best = best_steps(lambda h: Tried(g[h - 1], g[h - 1]), len(falls), gap=gap)
    assert best.bound >= g.max() * (1 - 1e-12)
    assert best.found >= g.max() / (1 + gap) * (1 - 1e-12)
    if gap == 0:
        assert best.local_steps == 1 + int(np.argmax(g))


def test_what_was_known_stands_until_it_is_beaten() -> None:
    assert best_steps(lambda h: Tried(h, h), 4, known=5.0).local_steps is None
    assert best_steps(lambda h: Tried(h, h), 4, known=3.5)[:2] == (4, 4)


# ---- on recorded crossings --------------------------------------------------------------------------


@pytest.mark.parametrize("values", [
    {"fleet": [{"share": 0.7}, {"share": 0.3, "min_step_s": 0.12, "extra_step_s": 0.02}]},
    {"fleet": [{"share": 0.7}, {"share": 0.3, "min_step_s": 0.12, "extra_step_s": 0}]},
    {"compute.law": "lognormal"},
    {"compute.step_samples": SAMPLES},
])  # fmt: skip
def test_a_trace_of_poisson_traffic_agrees_with_the_theory(paper: Scenario, values: dict[str, object]) -> None:
    road = paper.with_values(values)
    block = next(poisson_crossings(road, 8))
    trace = Crossings(block.vehicle[:8000], block.enter_s[:8000], block.leave_s[:8000])
    for h, t in ((24, 11.8), (40, 13.5), (10, 30.0)):
        promised = Trace(trace, 1.0).promise(Conditions.of(road), h, t)
        assert promised.expected_uploads == pytest.approx(float(theory.expected_uploads(road, h, t)), rel=0.04)
        assert promised.valid_round_prob == pytest.approx(float(theory.valid_round_prob(road, h, t)), rel=0.04)
    assert plan(road, crossings=trace).numbers[2] == pytest.approx(plan(road).numbers[2], rel=0.03)


def test_the_chance_of_an_empty_round_by_hand(paper: Scenario) -> None:
    """One vehicle that is always there, of one of two classes."""
    road = paper.with_values(
        {"fleet": [{"share": 0.6, "extra_step_s": 0}, {"share": 0.4, "step_samples": [0.1, 0.3, 0.5, 0.7]}]}
    )
    trace = Crossings(np.arange(3), np.array([0.0, 1.0, 1000.0]), np.array([1.0, 1000.0, 1001.0]))
    for t, uploads in ((2.5, 0.0), (3.0, 0.1), (4.0, 0.7), (5.0, 0.8), (9.0, 1.0)):
        promised = Trace(trace, 1.0).promise(Conditions.of(road), 10, t)
        assert promised.expected_uploads == pytest.approx(uploads, abs=0.02)


# ---- who knows only one class -----------------------------------------------------------------------


def test_algorithm_1_knows_only_the_papers_vehicles(paper: Scenario) -> None:
    for values in ({"fleet": [{"share": 0.5}, {"share": 0.5}]}, {"compute.law": "lognormal"}):
        with pytest.raises(InputError, match="Algorithm 1 needs one class of vehicles and the paper's law"):
            algorithm_1(paper.with_values(values))


@pytest.mark.parametrize("table", [
    {"compute.law": ["lognormal"]}, {"compute": {"extra_sd_s": [0.1]}}, {"fleet": [[{"share": 1}]]},
])  # fmt: skip
def test_a_table_of_roads_knows_only_the_papers_vehicles(table: dict[str, object]) -> None:
    with pytest.raises(InputError, match="a table of roads must have one class of vehicles and the paper's law, got a"):
        plan_many(table)
