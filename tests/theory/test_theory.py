from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mpf
from scipy.stats import poisson

from mobfl import InputError, Scenario, theory
from oracle import Road, worth, worth_slope
from roads_at_random import SOME_NOISE, log_uniform, scenarios

# Where T lies: below T_min, between T_min and T0, at T0, above.
round_shares = st.floats(0.01, 5.0) | st.just(1.0)


def steps(scenario: Scenario, share: float) -> int:
    return max(1, round(share * int(theory.max_local_steps(scenario))))


def near_a_jump(scenario: Scenario, h: int, t: float) -> bool:
    """At β = 0 Λ jumps at T_min, and for a tiny β nearly so: there the rounding of L/v and αH + τ decides."""
    road = Road.of(scenario)
    layer = road.beta * h
    return bool(layer < mpf("1e-6") * road.t0 and abs(road.spare(h, t)) < max(mpf("1e-12") * road.t0, 40 * layer))


@given(scenarios(noise=SOME_NOISE), st.floats(0.0, 1.3), round_shares)
def test_uploads_and_objective_agree_with_forty_digits(scenario: Scenario, share: float, of_dwell: float) -> None:
    h, t = steps(scenario, share), of_dwell * scenario.dwell_s
    assume(not near_a_jump(scenario, h, t))
    road = Road.of(scenario)
    assert road.uploads(h, t).agrees(theory.expected_uploads(scenario, h, t))
    assert road.objective(h, t).agrees(theory.objective(scenario, h, t))


@given(scenarios(noise=SOME_NOISE), st.floats(0.0, 1.0), round_shares)
def test_slope_agrees_with_forty_digits(scenario: Scenario, share: float, of_dwell: float) -> None:
    h, t = steps(scenario, share), of_dwell * scenario.dwell_s
    road = Road.of(scenario)
    if road.spare(h, t) <= 0:
        assert theory.objective_slope(scenario, h, 0.999 * float(road.t_min(h))) == 0
    else:
        assume(not near_a_jump(scenario, h, t))
        assert road.objective_slope(h, t).agrees(theory.objective_slope(scenario, h, t))


@given(scenarios(), st.floats(0.0, 1.0))
def test_long_round_line_agrees_with_forty_digits(scenario: Scenario, share: float) -> None:
    h = steps(scenario, share)
    assume(theory.fits(scenario, h))
    assume(not near_a_jump(scenario, h, scenario.dwell_s))
    c0, c1 = Road.of(scenario).c0_c1(h)
    assert c0.agrees(theory.full_stay_success_prob(scenario, h))
    assert c1.agrees(theory.long_round_offset_s(scenario, h))


@given(scenarios(noise=SOME_NOISE), st.floats(0.0, 1.0))
def test_g_only_falls_above_the_bound_of_proposition_1(scenario: Scenario, share: float) -> None:
    h = steps(scenario, share)
    bound = theory.max_round_s(scenario, h)
    assert np.isfinite(bound)
    beyond = bound * np.array([1.000001, 1.1, 2.0, 10.0])
    assert np.all(theory.objective_slope(scenario, h, beyond) <= 0)


@given(st.just(0.0) | log_uniform(1e-12, 1e6), st.just(0.0) | log_uniform(1e-12, 1e3))
def test_the_worth_of_a_round_agrees_with_forty_digits(uploads: float, noise: float) -> None:
    assert theory.round_worth(uploads, noise) == pytest.approx(float(worth(mpf(uploads), mpf(noise))), rel=2e-15)
    assume(noise > 0)
    slope = theory.worth_and_slope(uploads, noise)[1]
    assert slope == pytest.approx(float(worth_slope(mpf(uploads), mpf(noise))), rel=4e-15)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.5, 2.0, 1e3])
def test_the_worth_of_a_round_is_a_mean_over_poisson_counts(noise: float) -> None:
    uploads, counts = np.array([1e-6, 0.1, 0.9, 3.0, 20.0, 60.0]), np.arange(1, 400)
    chances = poisson.pmf(counts, uploads[:, np.newaxis])
    assert theory.round_worth(uploads, noise) == pytest.approx(
        (chances * counts / (counts + noise)).sum(axis=1), rel=1e-12
    )


def test_the_worth_of_a_round_at_its_ends() -> None:
    noise = np.array([0.0, 1e-300, 1.0, 1e3])
    assert theory.round_worth(0.0, noise).tolist() == [0, 0, 0, 0]
    assert theory.round_worth(1e-9, noise) == pytest.approx(1e-9 / (1 + noise), rel=1e-8)
    assert theory.round_worth(1e9, noise) == pytest.approx([1, 1, 1, 1], abs=1e-5)
    assert theory.round_worth(1e6, 1e12) == pytest.approx(1e6 / (1e6 + 1e12), rel=1e-11)  # M is nearly Λ


def test_an_array_of_roads_agrees_on_whether_averaging_counts(paper: Scenario) -> None:
    roads = replace(theory.Conditions.of(paper), noise_uploads=np.array([0.0, 2.0]))
    with pytest.raises(InputError, match="roads must agree on whether averaging counts"):
        theory.objective(roads, 24, 11.8)


def test_delay_follows_equation_2(paper: Scenario) -> None:
    assert theory.compute_delay_cdf(paper, 10, [1.999, 2.0]) == pytest.approx([0, 0], abs=0)
    assert theory.compute_delay_cdf(paper, 10, 4.0) == pytest.approx(1 - np.exp(-1), rel=1e-14)
    without_jitter = paper.with_values({"compute.extra_step_s": 0})
    assert theory.compute_delay_cdf(without_jitter, 10, [1.999, 2.0]).tolist() == [0, 1]


def test_slack_is_what_is_left_after_the_least_delay(paper: Scenario) -> None:
    assert theory.min_delay_s(paper, 24) == pytest.approx(6.8)
    assert theory.slack_s(paper, 24, [10.0, 20.0, 30.0]) == pytest.approx([3.2, 13.2, 13.2])


def test_most_steps_at_the_edge(paper: Scenario) -> None:
    """T_min(90) = T0 exactly: with jitter such an H never uploads, without it does."""
    assert theory.max_local_steps(paper) == 89
    assert theory.expected_uploads(paper, 90, [10.0, 20.0, 1e6]).tolist() == [0, 0, 0]
    assert np.isfinite(theory.max_round_s(paper, 90))
    without_jitter = paper.with_values({"compute.extra_step_s": 0})
    assert theory.max_local_steps(without_jitter) == 90
    assert theory.expected_uploads(without_jitter, 90, 30.0) == pytest.approx(1.0)


@given(scenarios(), st.integers(0, 10_000))
def test_most_steps_is_decided_by_the_delay(scenario: Scenario, extra: int) -> None:
    most = int(theory.max_local_steps(scenario))
    assert most == 0 or theory.fits(scenario, most)
    assert not theory.fits(scenario, most + 1 + extra)


def test_a_deadline_met_exactly_is_met(paper: Scenario) -> None:
    scenario = paper.with_values({"compute.extra_step_s": 0})
    t_min = float(theory.min_delay_s(scenario, 30))
    assert theory.expected_uploads(scenario, 30, t_min) == pytest.approx(0.1 * (20 - t_min))
    assert theory.expected_uploads(scenario, 30, np.nextafter(t_min, 0)) == 0


@given(scenarios(spread=st.just(0.0) | st.floats(0.01, 0.5), noise=SOME_NOISE))
def test_a_vector_call_equals_a_loop_of_scalar_calls(scenario: Scenario) -> None:
    h = np.array([1, 2, 7])[:, np.newaxis]
    t = scenario.dwell_s * np.array([0.1, 0.7, 1.0, 1.9])
    for function, scale in (
        (theory.expected_uploads, 0.0),
        (theory.objective, 0.0),
        (theory.objective_slope, theory.objective(scenario, h, t) / t),  # a difference of two such terms
    ):
        alone = np.array([[function(scenario, int(i), float(j)) for j in t] for i in h[:, 0]])
        assert np.all(np.abs(function(scenario, h, t) - alone) <= 1e-12 * (np.abs(alone) + scale))


@given(scenarios(jitter=st.just(1.0)), st.floats(1e-7, 1e-5))
def test_vanishing_jitter_approaches_none(scenario: Scenario, jitter: float) -> None:
    without = scenario.with_values({"compute.extra_step_s": 0})
    little = scenario.with_values({"compute.extra_step_s": jitter * scenario.compute.min_step_s})
    t = 0.9 * scenario.dwell_s
    assume(theory.slack_s(without, 1, t) > 1e-3 * t)
    assert theory.expected_uploads(little, 1, t) == pytest.approx(theory.expected_uploads(without, 1, t), rel=1e-2)


@pytest.mark.parametrize(("h", "t", "field"), [(0, 1.0, "local_steps"), (1, 0.0, "round_s"), (1, -2.0, "round_s")])
def test_meaningless_plans_are_refused(paper: Scenario, h: int, t: float, field: str) -> None:
    with pytest.raises(InputError, match=f"{field} must be > 0, got"):
        theory.objective(paper, h, t)
