"""Plans for rounds with at least m uploads: against grids, 40-digit arithmetic, and simulated rounds."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from fleets_at_random import fleets
from mobfl import GuaranteedPlan, InputError, LeastUploads, Scenario, plan, simulate, theory
from mobfl.planning.at_least import least_round_s
from mobfl.planning.exact import best_rounds
from mobfl.theory import Conditions
from oracle import Road
from roads_at_random import SOME_NOISE, log_uniform, scenarios

promises = st.builds(LeastUploads, st.integers(1, 60), st.floats(0.01, 0.999))
rates = log_uniform(1e-4, 1e2)
other_laws = st.sampled_from(
    [
        {"compute.law": "lognormal"},
        {"compute.step_samples": [0.11, 0.12, 0.12, 0.2, 0.35, 0.8]},
    ]
)


SPREAD_LOGNORMAL = {"compute.law": "lognormal", "traffic.speed_sd_mps": 4.0}


def on_grid(scenario: Scenario, least: LeastUploads, cells: int) -> float:
    """The greatest g of all H and of a coarse grid of T, among those whose Poisson tail, by SciPy, is heavy enough."""
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)[:, np.newaxis]
    t_min, far = theory.min_delay_s(scenario, h), float(Conditions.of(scenario).dwell.longest)
    c0, c1 = theory.long_round_line(scenario, h)
    rate = scenario.traffic.arrivals_per_s * scenario.traffic.participation
    enough = 3 * least.uploads + 60  # a mean that keeps any of these promises
    most = np.maximum(far, np.minimum((enough / rate - c1) / np.maximum(c0, 1e-12), 1e12)) * 2
    t = t_min + (most - t_min) * np.append(0, np.geomspace(1e-12, 1, cells))
    uploads = theory.expected_uploads(scenario, h, t)
    allowed = stats.poisson.sf(least.uploads - 1, uploads) >= least.prob
    return float(np.where(allowed, theory.objective(scenario, h, t), 0.0).max())


# ---- the mean that is enough ---------------------------------------------------------------------


@given(promises)
def test_the_least_mean_is_where_the_poisson_tail_reaches_the_probability(least: LeastUploads) -> None:
    """The sum of the law's first m terms at 40 digits, a little below and a little above."""

    def tail(mean: mpf) -> mpf:
        return 1 - mp.fsum(mp.exp(-mean) * mean**k / mp.factorial(k) for k in range(least.uploads))

    with mp.workdps(40):
        assert tail(mpf(least.mean) * (1 - mpf("1e-10"))) < least.prob <= tail(mpf(least.mean) * (1 + mpf("1e-13")))
    assert least.prob_at(least.mean) == pytest.approx(stats.poisson.sf(least.uploads - 1, least.mean), rel=1e-10)


@given(scenarios(rates=rates, jitter=log_uniform(1e-2, 30.0)), promises, st.floats(0.0, 1.0))
def test_the_shortest_round_is_where_lambda_reaches_it(road: Scenario, least: LeastUploads, share: float) -> None:
    most = int(theory.max_local_steps(road))
    assume(most > 0)
    h, exact = max(1, round(share * most)), Road.of(road)
    assume(exact.spare(h, road.dwell_s) > mpf("1e-6") * exact.t0)
    t = float(least_round_s(Conditions.of(road), h, least.mean))
    assert exact.uploads(h, t * (1 + 1e-8)).value >= mpf(least.mean) * (1 - mpf("1e-12"))
    assert exact.uploads(h, t * (1 - 1e-7)).value < mpf(least.mean)


# ---- the plan ------------------------------------------------------------------------------------


@settings(max_examples=120)
@given(scenarios(rates=rates, steps_that_fit=log_uniform(1.2, 60.0), noise=SOME_NOISE), promises)
def test_no_point_of_a_grid_that_keeps_the_promise_is_better(road: Scenario, least: LeastUploads) -> None:
    best = plan(road, least=least)
    assume(best.reason is None)
    grid = on_grid(road, least, 500)
    assert grid * (1 - 1e-9) <= best.numbers[2] <= grid * 1.08
    assert best.least_uploads_prob >= least.prob * (1 - 1e-12)


@settings(max_examples=60)
@given(
    scenarios(rates=rates, steps_that_fit=log_uniform(1.2, 12.0), spread=st.floats(0.02, 0.5))
    | fleets(scenarios(rates=rates, steps_that_fit=log_uniform(1.2, 10.0))),
    promises,
)
def test_fleets_and_spread_speeds(road: Scenario, least: LeastUploads) -> None:
    best = plan(road, least=least)
    assume(best.reason is None and int(theory.max_local_steps(road)) <= 100)
    grid = on_grid(road, least, 200)
    assert grid * (1 - 1e-9) <= best.numbers[2] <= grid * 1.2
    assert best.least_uploads_prob >= least.prob * (1 - 1e-12)


@settings(max_examples=15)
@given(other_laws, log_uniform(0.01, 10.0), promises)
def test_other_laws(law: dict[str, object], rate: float, least: LeastUploads) -> None:
    road = Scenario().with_values({"traffic.arrivals_per_s": rate, "road.length_m": 120.0, **law})
    best = plan(road, least=least)
    grid = on_grid(road, least, 200)
    assert grid <= best.numbers[2] * (1 + (best.objective_error or 0) + 2e-4)
    assert best.numbers[2] <= grid * 1.2
    assert best.least_uploads_prob >= least.prob * (1 - 1e-9)


def test_another_law_and_spread_speeds() -> None:
    road = Scenario().with_values({"road.length_m": 80.0, **SPREAD_LOGNORMAL})
    best, least = plan(road, least=LeastUploads(4, 0.7)), LeastUploads(4, 0.7)
    assert on_grid(road, least, 40) <= best.numbers[2] * (1 + (best.objective_error or 0) + 2e-4)
    assert best.least_uploads_prob == pytest.approx(0.7, abs=1e-6)


@settings(max_examples=50)
@given(scenarios(rates=rates, noise=SOME_NOISE, spread=st.just(0.0) | st.floats(0.02, 0.5)), promises)
def test_the_bound_that_rules_out_ranges_holds_under_a_promise(road: Scenario, least: LeastUploads) -> None:
    most = int(theory.max_local_steps(road))
    assume(most > 1)
    h = np.unique(np.geomspace(1, most, 12).astype(np.int64))
    per_step = best_rounds(Conditions.of(road), h, least.mean)[3] / h
    assert (np.diff(per_step) <= 1e-12 * per_step[:-1]).all()


@settings(max_examples=30)
@given(scenarios(rates=rates, steps_that_fit=log_uniform(401.0, 3e3), jitter=log_uniform(1e-2, 10.0)), promises)
def test_branch_and_bound_finds_what_trying_every_h_finds(road: Scenario, least: LeastUploads) -> None:
    h = np.arange(1, int(theory.max_local_steps(road)) + 1)
    g = best_rounds(Conditions.of(road), h, least.mean)[3]
    assert plan(road, least=least).numbers[2] == pytest.approx(g.max(), rel=1e-12)


@given(scenarios(rates=rates), st.floats(1.0, 50.0), st.floats(1.0, 50.0))
def test_lambda_never_falls_in_t(road: Scenario, one: float, more: float) -> None:
    h = max(1, int(theory.max_local_steps(road)) // 2)
    t = float(theory.min_delay_s(road, h)) * np.array([one, one * more])
    short, long = theory.expected_uploads(road, h, t)
    assert short <= long * (1 + 1e-12)


def test_a_promise_that_the_free_plan_keeps_costs_nothing(paper: Scenario) -> None:
    free = plan(paper)
    kept = plan(paper, least=LeastUploads(1, 0.59))
    assert isinstance(kept, GuaranteedPlan)
    assert (kept.numbers, kept.price) == (free.numbers, 0.0)
    dear = plan(paper, least=LeastUploads(5, 0.9))
    assert dear.price == pytest.approx(1 - dear.numbers[2] / free.numbers[2])
    assert (dear.free_objective, dear.least_uploads, dear.with_prob) == (free.objective, 5, 0.9)


def test_an_infeasible_road_says_why(paper: Scenario) -> None:
    found = plan(paper.with_values({"road.length_m": 20}), least=LeastUploads(5))
    assert found.status == "infeasible"
    assert "lengthen the section" in found.reason
    assert found.price is None


def test_simulated_rounds_keep_the_promise(paper: Scenario) -> None:
    """So many of 20,000 rounds have at least five uploads, at a false-alarm rate of 1e-6."""
    best = plan(paper, least=LeastUploads(5, 0.8))
    h, t, _ = best.numbers
    kept = int(simulate(paper, h, t, 20_000, seed=1).histogram[5:].sum())
    assert stats.binomtest(kept, 20_000, best.least_uploads_prob).pvalue > 1e-6


@pytest.mark.parametrize(
    ("uploads", "prob", "line"),
    [
        (0, 0.9, "least_uploads must be a whole number from 1 to 1000000, got 0"),
        (2.5, 0.9, "least_uploads must be a whole number from 1 to 1000000, got 2.5"),
        (float("nan"), 0.9, "least_uploads must be a whole number from 1 to 1000000, got nan"),
        (5, 1.0, "with_prob must be > 0 and < 1, got 1"),
        (5, 0.0, "with_prob must be > 0 and < 1, got 0"),
        (5, float("nan"), "with_prob must be > 0 and < 1, got nan"),
    ],
)
def test_a_promise_that_makes_no_sense_gets_a_sentence(uploads: float, prob: float, line: str) -> None:
    with pytest.raises(InputError, match=line):
        LeastUploads(uploads, prob)
