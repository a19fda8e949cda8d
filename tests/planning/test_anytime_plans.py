import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobfl import Crossings, InputError, Scenario, plan, plan_anytime, theory
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.trace import Trace
from mobfl.theory import KNOWLEDGE, Knows
from roads_at_random import log_uniform, scenarios

SOME_JITTER = st.just(0.0) | log_uniform(1e-3, 30.0)


@pytest.mark.parametrize(("knows", "t", "v"), [("nothing", 10.0969, 1.94460), ("leaving", 14.2814, 2.22277)])
def test_the_papers_road(paper: Scenario, knows: Knows, t: float, v: float) -> None:
    best = plan_anytime(paper, knows)
    assert (best.status, best.schedule, best.knows, best.reason) == ("ok", "anytime", knows, None)
    assert best.round_s == pytest.approx(t, abs=1e-4)
    assert best.objective == pytest.approx(v, abs=1e-5)
    assert best.local_steps == pytest.approx(t * v, abs=1e-3)
    assert best.expected_uploads == pytest.approx(float(theory.uploads_of_steps(paper, 1, best.round_s, knows)))
    assert best.valid_round_prob == pytest.approx(1 - np.exp(-best.expected_uploads))
    assert plan(paper).objective < best.averaged_objective < best.objective


@pytest.mark.parametrize(("rate", "times"), [(0.03, 2.11), (0.1, 1.83), (0.5, 1.39)])
def test_how_much_is_gained(paper: Scenario, rate: float, times: float) -> None:
    road = paper.with_values({"traffic.arrivals_per_s": rate})
    assert plan_anytime(road, "leaving").objective / plan(road).objective == pytest.approx(times, abs=0.005)


@pytest.mark.parametrize("knows", KNOWLEDGE)
@given(scenarios(rates=log_uniform(1e-5, 30.0), jitter=SOME_JITTER, steps_that_fit=log_uniform(1.2, 120.0)))
@settings(max_examples=50)
def test_no_round_of_a_fine_grid_is_better(knows: Knows, road: Scenario) -> None:
    best = plan_anytime(road, knows)
    bends = theory.min_delay_s(road, np.arange(1, 125))
    near = best.round_s * (1 + np.linspace(-1e-2, 1e-2, 41))
    grid = np.concatenate([np.geomspace(bends[0], 6 * max(best.round_s, road.dwell_s), 1500), bends, near])
    v = theory.anytime_objective(road, grid, knows)
    assert best.objective >= v.max() * (1 - 1e-9)
    assert best.objective_error is None


@given(scenarios(rates=log_uniform(1e-3, 3.0), steps_that_fit=log_uniform(2.0, 20.0), spread=st.floats(0.05, 0.4)))
@settings(max_examples=15)
def test_spread_speeds(road: Scenario) -> None:
    for knows in KNOWLEDGE:
        best = plan_anytime(road, knows)
        grid = np.geomspace(float(theory.min_delay_s(road, 1)), 4 * best.round_s, 120)
        assert best.objective >= theory.anytime_objective(road, grid, knows).max() * (1 - 1e-9)


FLEET = {
    "fleet": [
        {"name": "slow", "share": 0.7, "min_step_s": 0.5, "extra_step_s": 0.3},
        {"name": "quick", "share": 0.3, "min_step_s": 0.07, "extra_step_s": 0.02},
    ]
}
LOGNORMAL = {"compute": {"law": "lognormal", "min_step_s": 0.2, "extra_step_s": 0.2, "extra_sd_s": 0.3}}


@pytest.mark.parametrize("tables", [FLEET, LOGNORMAL, {"compute": {"min_step_s": 1e-6}}], ids=["fleet", "law", "many"])
@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_fleets_other_laws_and_very_many_steps(tables: dict[str, object], knows: Knows) -> None:
    road = Scenario.from_dict(tables)
    best = plan_anytime(road, knows)
    grid = np.geomspace(float(theory.min_delay_s(road, 1)), 3 * best.round_s, 400)
    slack = best.objective_error or 1e-9
    assert slack <= 2e-4
    assert best.objective * (1 + slack) >= theory.anytime_objective(road, grid, knows).max()


def test_where_nobody_can_upload(paper: Scenario) -> None:
    road = paper.with_values({"road.length_m": 30})
    found = plan_anytime(road)
    assert (found.status, found.round_s, found.local_steps) == ("infeasible", None, None)
    assert found.reason == plan(road).reason


def test_nonsense_is_named(paper: Scenario) -> None:
    with pytest.raises(InputError, match="knows must be one of nothing, mean, leaving, got 'all'"):
        plan_anytime(paper, "all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"training.noise_uploads must be 0 for anytime rounds, got 2"):
        plan_anytime(paper.with_values({"training.noise_uploads": 2}))


@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_on_poisson_traffic_a_trace_promises_what_theory_does(paper: Scenario, knows: Knows) -> None:
    block = next(poisson_crossings(paper, seed=3))
    crossings = Crossings(block.vehicle[:12_000], block.enter_s[:12_000], block.leave_s[:12_000])
    found, best = plan_anytime(paper, knows, crossings), plan_anytime(paper, knows)
    assert found.objective == pytest.approx(best.objective, rel=0.03)
    assert float(theory.anytime_objective(paper, found.round_s, knows)) >= 0.98 * best.objective
    assert found.expected_uploads == pytest.approx(
        float(theory.uploads_of_steps(paper, 1, found.round_s, knows)), rel=0.05
    )
    assert found.averaged_objective is None
    there = Trace(crossings, 1.0).longest_steps(theory.Conditions.of(paper), best.round_s, knows)
    assert there[0] == pytest.approx(float(theory.longest_steps(paper, best.round_s, knows)), rel=0.03)


def test_vehicles_placed_by_hand(paper: Scenario) -> None:
    """Steps of 0.2 s: one who is there for 10 s of every 100 s and knows it fits 40 steps, once in a round of 50 s."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    times = 100.0 * np.arange(101)
    trace = Trace(Crossings(np.arange(101), times, times + 10.0), 1.0)
    steps, uploads, valid = trace.longest_steps(theory.Conditions.of(steady), 50.0, "leaving")
    whole, cut = 40 / 100 * (50 - 10), 2 * sum(0.2 for n in range(1, 41) for _ in range(n)) / 100
    assert steps == pytest.approx(whole + cut, rel=0.02)
    assert uploads == valid == pytest.approx((50 + 10 - 2 * 2.2) / 100, rel=0.02)
    nothing = trace.longest_steps(theory.Conditions.of(steady), 50.0, "nothing")
    assert nothing[1] == pytest.approx((10 - 2.2) / 100, rel=0.05)  # only who is there at the round's end
