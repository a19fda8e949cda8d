"""The identity behind Theorem 1, for any dwell and delay, against integration and against chance."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from mobfl import Scenario, theory
from mobfl.theory.distributions import (
    Constant,
    Delay,
    Empirical,
    LogNormal,
    ShiftedExponential,
    Traversal,
    TruncatedNormal,
)

SAMPLES = np.random.default_rng(5).gamma(9.0, 1.2, 40)


def truncated_normal(mean: float, sd: float, low: float) -> stats.rv_continuous:
    return stats.truncnorm((low - mean) / sd, np.inf, mean, sd)


def lognormal(mean: float, sd: float) -> stats.rv_continuous:
    sigma = np.sqrt(np.log1p((sd / mean) ** 2))
    return stats.lognorm(sigma, scale=mean * np.exp(-(sigma**2) / 2))


DELAYS = {
    "constant": (Constant(6.0), None),
    "exponential": (ShiftedExponential(5.0, 3.0), stats.expon(5.0, 3.0)),
    "normal": (TruncatedNormal(7.0, 2.0, 3.0), truncated_normal(7.0, 2.0, 3.0)),
    "lognormal": (LogNormal(7.0, 3.0), lognormal(7.0, 3.0)),
    "empirical": (Empirical(SAMPLES), None),
}
DWELLS = {
    "constant": (Constant(12.0), None),
    "exponential": (ShiftedExponential(4.0, 8.0), stats.expon(4.0, 8.0)),
    "normal": (TruncatedNormal(11.0, 4.0, 2.0), truncated_normal(11.0, 4.0, 2.0)),
    "lognormal": (LogNormal(12.0, 6.0), lognormal(12.0, 6.0)),
    "empirical": (Empirical(1.3 * SAMPLES), None),
}


def atoms(law: Constant | Empirical) -> np.ndarray:
    return np.atleast_1d(law.value if isinstance(law, Constant) else law.samples)


def uploads_given_dwell(delay: Delay, law: stats.rv_continuous | None, d: float, t: float) -> float:
    """E[(T + D − 2S)·1{S ≤ min(T, D)}] for one D, by SciPy's quadrature or by summing atoms."""
    if law is None:
        s = atoms(delay)  # type: ignore[arg-type]
        return float(np.mean((t + d - 2 * s) * (s <= min(t, d))))
    low, high = law.support()[0], min(t, d)
    if high <= low:
        return 0.0
    value, _ = integrate.quad(lambda s: (t + d - 2 * s) * law.pdf(s), low, high, limit=200, epsabs=1e-12)
    return float(value)


@pytest.mark.parametrize("t", [5.5, 12.0, 31.0])
@pytest.mark.parametrize("dwell_name", DWELLS)
@pytest.mark.parametrize("delay_name", DELAYS)
def test_identity_against_quadrature(delay_name: str, dwell_name: str, t: float) -> None:
    (delay, delay_law), (dwell, dwell_law) = DELAYS[delay_name], DWELLS[dwell_name]
    if dwell_law is None:
        values = [uploads_given_dwell(delay, delay_law, float(d), t) for d in atoms(dwell)]
        expected = float(np.mean(values))
    else:
        bends = [t, *(atoms(delay) if delay_law is None else [delay_law.support()[0]])]
        low, high = dwell_law.support()[0], float(dwell_law.isf(1e-15))
        edges = [low, *sorted(b for b in bends if low < b < high), high]
        expected = sum(
            integrate.quad(lambda d: dwell_law.pdf(d) * uploads_given_dwell(delay, delay_law, d, t), a, b, epsabs=1e-9)[
                0
            ]
            for a, b in itertools.pairwise(edges)
        )
    assert float(theory.uploads_identity(1.0, dwell, delay, t)) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_theorem_1_is_a_special_case(paper: Scenario) -> None:
    h, t = np.array([1, 24, 60])[:, np.newaxis], np.array([4.0, 11.8, 20.0, 50.0])
    identity = theory.uploads_identity(0.1, Constant(20.0), ShiftedExponential(0.2 * h + 2, 0.2 * h), t)
    np.testing.assert_allclose(theory.expected_uploads(paper, h, t), identity, rtol=1e-14)


def test_uploads_counted_one_vehicle_at_a_time() -> None:
    """Vehicles dropped on the road at random: no identity, only the rules of a round."""
    rng, n, t = np.random.default_rng(11), 2_000_000, 9.0
    speed = truncated_normal(20.0, 6.0, 2.0).rvs(n, random_state=rng)
    dwell = 250.0 / speed
    span = t + 250.0 / 2.0  # arrivals from early enough that the slowest may still be there
    arrival = rng.uniform(t - span, t, n)
    finish = np.maximum(arrival, 0.0) + 3.0 + rng.exponential(1.5, n)
    uploaded = finish <= np.minimum(arrival + dwell, t)
    mean, error = uploaded.mean() * span, uploaded.std() / np.sqrt(n) * span
    law = Traversal(250.0, TruncatedNormal(20.0, 6.0, 2.0))
    computed = float(theory.uploads_identity(1.0, law, ShiftedExponential(3.0, 1.5), t))
    assert abs(computed - mean) < 5 * error


@pytest.mark.parametrize("sd", [0.05, 1.0, 4.0, 15.0])
def test_spread_of_speeds_enters_through_the_dwell(paper: Scenario, sd: float) -> None:
    scenario = paper.with_values({"traffic.speed_sd_mps": sd})
    law = truncated_normal(20.0, sd, 2.0)
    for h, t in ((24, 11.8), (5, 3.5), (60, 40.0), (150, 60.0)):
        s_min, scale = 0.2 * h + 2, 0.2 * h

        def given(v: float, t: float = t, s_min: float = s_min, scale: float = scale) -> float:
            d = 400.0 / v
            spare = min(t, d) - s_min
            if spare <= 0:
                return 0.0
            success = -np.expm1(-spare / scale)
            return float(law.pdf(v) * (2 * spare + success * (abs(t - d) - 2 * scale)))

        low, high = max(2.0, 20 - 9 * sd), 20 + 9 * sd
        knots = sorted(
            {
                low,
                high,
                *(v for v in (400 / t, 400 / s_min, 20 - 3 * sd, 20.0, 20 + 3 * sd) if low < v < high),
            }
        )
        expected = sum(
            integrate.quad(given, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in itertools.pairwise(knots)
        )
        assert float(theory.expected_uploads(scenario, h, t)) == pytest.approx(0.1 * expected, rel=1e-8, abs=1e-12)


def test_the_harmonic_mean_of_the_speed_counts(paper: Scenario) -> None:
    """With no delay at all a round of T sees λ(T + E[L/v]) uploads."""
    law = Traversal(400.0, TruncatedNormal(20.0, 5.0, 2.0))
    harmonic, _ = integrate.quad(lambda v: truncated_normal(20.0, 5.0, 2.0).pdf(v) / v, 2.0, 65.0, limit=200)
    instant = theory.uploads_identity(0.1, law, Constant(1e-12), 10.0)
    assert float(instant) == pytest.approx(0.1 * (10.0 + 400.0 * harmonic), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "h", "t"),
    [
        ({}, 24, 11.8),
        ({}, 60, 40.0),
        ({}, 4, 3.1),
        ({"compute.extra_step_s": 0.0}, 60, 18.0),
        ({"traffic.speed_sd_mps": 5.0}, 24, 11.8),
    ],
)
def test_share_of_visits_that_contribute(paper: Scenario, values: dict[str, float], h: int, t: float) -> None:
    scenario = paper.with_values(values)
    rng, n = np.random.default_rng(3), 200_000
    sd = scenario.traffic.speed_sd_mps
    speed = truncated_normal(20.0, sd, 2.0).rvs(n, random_state=rng) if sd else np.full(n, 20.0)
    enter = rng.uniform(0, t, n)
    leave = enter + 400.0 / speed
    uploaded = np.zeros(n, bool)
    for k in range(int(np.ceil(leave.max() / t))):
        start = np.maximum(enter, k * t)
        finish = start + 2 + 0.2 * h + rng.exponential(scenario.compute.extra_step_s * h + 1e-300, n)
        uploaded |= (leave > k * t) & (finish <= np.minimum(leave, (k + 1) * t))
    error = np.sqrt(uploaded.mean() * (1 - uploaded.mean()) / n)
    assert abs(theory.contributing_visit_prob(scenario, h, t) - uploaded.mean()) < 5 * error


def test_the_nodes_are_numpys_own() -> None:
    from mobfl.theory import quadrature

    nodes, weights = np.polynomial.legendre.leggauss(20)
    # NumPy's versions differ in the last bit
    np.testing.assert_allclose(quadrature._NODES, nodes, rtol=0, atol=4e-16)
    np.testing.assert_allclose(quadrature._WEIGHTS, weights, rtol=0, atol=4e-16)
