"""Fleets of several classes and other laws of the step times."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from scipy import integrate, stats

from fleets_at_random import alone, fleets
from mobfl import Scenario, load_scenario, theory
from mobfl.theory import Conditions
from oracle import Road
from roads_at_random import log_uniform, scenarios

MILD = scenarios(rates=log_uniform(1e-6, 1e2))
MEASURED = [0.21, 0.2, 0.35, 0.5, 0.22, 0.22, 1.4, 0.3]


def steps(road: Scenario, share: float) -> int:
    return 1 + int(share * max(int(theory.max_local_steps(road)) - 1, 0))


# ---- a fleet is the sum of its classes --------------------------------------------------------------


@given(fleets(MILD), st.floats(0.0, 1.0), st.floats(0.05, 3.0))
def test_uploads_agree_with_forty_digits(road: Scenario, share: float, of_dwell: float) -> None:
    h, t = steps(road, share), of_dwell * road.dwell_s
    truths = [(mpf(part), Road.of(one).uploads(h, t)) for part, one in alone(road)]
    total = sum(part * truth.value for part, truth in truths)
    size = sum(part * truth.size for part, truth in truths)
    near_a_jump = any(
        one.compute.extra_step_s == 0 and abs(float(Road.of(one).spare(h, t))) < 1e-9 * road.dwell_s
        for _, one in alone(road)
    )
    if not near_a_jump:
        assert abs(total - mpf(float(theory.expected_uploads(road, h, t)))) <= 1e-9 * size


@given(fleets(MILD), st.floats(0.0, 1.0), st.floats(0.05, 3.0))
def test_all_that_adds_up_adds_up(road: Scenario, share: float, of_dwell: float) -> None:
    h, t = steps(road, share), of_dwell * road.dwell_s
    by_class = theory.uploads_by_class(road, h, t)
    assert sum(by_class) == pytest.approx(float(theory.expected_uploads(road, h, t)), rel=1e-12)
    for (part, one), uploads in zip(alone(road), by_class, strict=True):
        assert uploads == pytest.approx(part * float(theory.expected_uploads(one, h, t)), rel=1e-12)
    c0, c1 = theory.long_round_line(road, h)
    lines = [(part, *theory.long_round_line(one, h)) for part, one in alone(road)]
    assert float(c0) == pytest.approx(sum(part * float(a) for part, a, _ in lines), rel=1e-12)
    assert float(c1) == pytest.approx(sum(part * float(b) for part, _, b in lines), rel=1e-9, abs=1e-12 * road.dwell_s)


@given(fleets(MILD))
def test_what_fits_is_decided_by_the_quickest(road: Scenario) -> None:
    ones = [one for _, one in alone(road)]
    assert theory.max_local_steps(road) == max(int(theory.max_local_steps(one)) for one in ones)
    assert theory.min_delay_s(road, 3) == min(float(theory.min_delay_s(one, 3)) for one in ones)
    assert theory.slack_s(road, 3, 1e9) == max(float(theory.slack_s(one, 3, 1e9)) for one in ones)


@given(fleets(MILD, jitter=log_uniform(1e-2, 30.0)), st.floats(0.0, 1.0), st.floats(0.05, 3.0))
def test_the_slope_is_that_of_the_sum(road: Scenario, share: float, of_dwell: float) -> None:
    h, t = steps(road, share), of_dwell * road.dwell_s
    uploads = float(theory.expected_uploads(road, h, t))
    rate = Conditions.of(road).arrivals_per_s
    parts = [(part, Road.of(one)) for part, one in alone(road)]
    slope = sum(part * float(one.uploads_slope(h, t)) for part, one in parts if one.spare(h, t) > 0)
    if any(abs(float(one.spare(h, t))) < 1e-9 * t for _, one in parts):
        return
    expected = h / t**2 * (t * slope * math.exp(-uploads) + math.expm1(-uploads))
    size = h / t**2 * (t * slope + 1 + rate * (t + road.dwell_s))
    assert float(theory.objective_slope(road, h, t)) == pytest.approx(expected, rel=1e-7, abs=1e-9 * size)


@given(fleets(MILD), st.floats(0.0, 1.0))
def test_g_only_falls_above_the_bound_of_proposition_1(road: Scenario, share: float) -> None:
    h = steps(road, share)
    bound = float(theory.max_round_s(road, h))
    g = theory.objective(road, h, bound * np.geomspace(1.0, 50.0, 40))
    assert np.all(np.diff(g) <= 1e-9 * g[:-1])


def test_a_fleet_of_equals_is_one_class(paper: Scenario) -> None:
    equals = paper.with_values({"fleet": [{"share": 0.25}, {"share": 0.75}]})
    t = np.linspace(2.0, 40.0, 50)
    assert theory.objective(equals, 24, t) == pytest.approx(theory.objective(paper, 24, t), rel=1e-13)
    assert theory.contributing_visit_prob(equals, 24, 11.8) == pytest.approx(
        theory.contributing_visit_prob(paper, 24, 11.8), rel=1e-12
    )


# ---- other laws -------------------------------------------------------------------------------------


def by_quadrature(road: Scenario, h: int, t: float) -> float:
    """λ·E[(T + D − 2S)·1{S ≤ min(T, D)}] over the lognormal law of X, for a constant D."""
    compute, dwell = road.compute, road.dwell_s
    sigma = math.sqrt(math.log1p((compute.spread_s / compute.extra_step_s) ** 2))
    law = stats.lognorm(sigma, scale=compute.extra_step_s * math.exp(-(sigma**2) / 2))
    least = 2.0 + h * compute.min_step_s
    most = (min(t, dwell) - least) / h
    if most <= 0:
        return 0.0
    edges = [0.0, *(q for q in law.ppf([1e-6, 0.01, 0.5, 0.99]) if q < most), most]
    return road.traffic.arrivals_per_s * sum(
        integrate.quad(lambda x: (t + dwell - 2 * (least + h * x)) * law.pdf(x), a, b, epsabs=1e-14, epsrel=1e-11)[0]
        for a, b in itertools.pairwise(edges)
    )


@pytest.mark.parametrize("sd", [None, 0.05, 0.6])
@pytest.mark.parametrize(("h", "t"), [(1, 3.0), (20, 9.0), (24, 11.8), (24, 20.0), (60, 19.0), (60, 50.0), (80, 30.0)])
def test_lognormal_steps_agree_with_quadrature(paper: Scenario, sd: float | None, h: int, t: float) -> None:
    road = paper.with_values({"compute.law": "lognormal"} | ({} if sd is None else {"compute.extra_sd_s": sd}))
    assert float(theory.expected_uploads(road, h, t)) == pytest.approx(by_quadrature(road, h, t), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("h", "t"), [(1, 3.0), (20, 9.0), (24, 11.8), (60, 19.0), (60, 50.0), (9, 6.5)])
def test_measured_steps_are_a_sum_over_samples(paper: Scenario, h: int, t: float) -> None:
    road = paper.with_values({"compute.step_samples": MEASURED})
    delays = 2.0 + h * np.array(MEASURED)
    each = np.where(delays <= min(t, 20.0) + 1e-12, t + 20.0 - 2 * delays, 0.0)
    assert float(theory.expected_uploads(road, h, t)) == pytest.approx(0.1 * each.mean(), rel=1e-12)


def test_a_measured_deadline_met_exactly_is_met(paper: Scenario) -> None:
    road = paper.with_values({"compute.step_samples": [0.1, 0.3]})
    for h in (1, 7, 23, 60):
        assert float(theory.compute_delay_cdf(road, h, 0.1 * h)) == 0.5
        assert float(theory.compute_delay_cdf(road, h, 0.3 * h)) == 1.0
        assert float(theory.expected_uploads(road, h, float(theory.min_delay_s(road, h)))) > 0
    assert theory.max_local_steps(road) == 180  # 2 s and 180 steps of 0.1 s are the whole stay


def test_one_measured_value_is_no_jitter(paper: Scenario) -> None:
    measured = paper.with_values({"compute.step_samples": [0.2, 0.2]})
    steady = paper.with_values({"compute.extra_step_s": 0})
    t = np.linspace(2.0, 40.0, 50)
    assert theory.objective(measured, 24, t) == pytest.approx(theory.objective(steady, 24, t))


@pytest.mark.parametrize("values", [
    {"compute.law": "lognormal"},
    {"compute.step_samples": MEASURED},
    {"fleet": [{"share": 0.5, "law": "lognormal"}, {"share": 0.3, "step_samples": MEASURED}, {"share": 0.2}]},
])  # fmt: skip
@pytest.mark.parametrize("sd_mps", [0.0, 5.0])
@pytest.mark.parametrize("t", [6.0, 13.0, 25.0])
def test_every_law_agrees_with_drawing(paper: Scenario, values: dict[str, object], sd_mps: float, t: float) -> None:
    """A million stays and delays at random in place of any formula."""
    road, h, n = paper.with_values(values | {"traffic.speed_sd_mps": sd_mps}), 15, 1_000_000
    rng = np.random.default_rng(5)
    kinds = rng.choice(len(road.classes), n, p=[each.share for each in road.classes])
    delay = np.empty(n)
    for place, each in enumerate(road.classes):
        mine, compute = kinds == place, each.compute
        if compute.law == "lognormal":
            sigma = math.sqrt(math.log1p((compute.spread_s / compute.extra_step_s) ** 2))
            extra = rng.lognormal(math.log(compute.extra_step_s) - sigma**2 / 2, sigma, mine.sum())
        elif compute.step_samples:
            extra = rng.choice(compute.step_samples, mine.sum()) - compute.min_step_s
        else:
            extra = rng.exponential(compute.extra_step_s, mine.sum())
        delay[mine] = 2.0 + h * (compute.min_step_s + extra)
    dwell = np.asarray(Conditions.of(road).dwell.draw(rng.random(n)))
    found = 0.1 * np.where(delay <= np.minimum(t, dwell), t + dwell - 2 * delay, 0.0)
    assert abs(float(theory.expected_uploads(road, h, t)) - found.mean()) < 5 * found.std() / math.sqrt(n)


@given(st.sampled_from(["lognormal", "mixed"]), st.integers(1, 60), st.floats(3.0, 60.0))
def test_slopes_of_other_laws_are_differences(law: str, h: int, t: float) -> None:
    paper = load_scenario("paper")
    mixed = {"fleet": [{"share": 0.5, "law": "lognormal"}, {"share": 0.5, "min_step_s": 0.1}]}
    road = paper.with_values({"compute.law": "lognormal"} if law == "lognormal" else mixed)
    bends = [20.0, *(float(each) for each in Conditions.of(road).delays.least_by_class_s(h))]
    if min(abs(t - bend) for bend in bends) < 1e-3:
        return
    step = 1e-5
    below, above = (float(theory.objective(road, h, t + sign * step)) for sign in (-1, 1))
    assert float(theory.objective_slope(road, h, t)) == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=1e-6)
