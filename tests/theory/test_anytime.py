"""Anytime rounds: the sum over Theorem 1 against mpmath, against rounds drawn by hand, and against g."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats

from mobfl import InputError, Scenario, theory
from mobfl.theory import KNOWLEDGE, Knows
from mobfl.theory.anytime import TERMS, step_nodes
from oracle import Road
from roads_at_random import log_uniform, scenarios

FALSE_ALARM = 1e-6
STEPS = log_uniform(1.2, 60.0)
SHARES_OF_DWELL = st.floats(0.05, 5.0)


def heard(scenario: Scenario, t: float, knows: Knows, rounds: int, seed: int) -> list[np.ndarray]:
    """The steps of each upload, round by round; vehicles that know their end wait for it before they upload."""
    rng, road = np.random.default_rng(seed), theory.Conditions.of(scenario)
    mean_s = float(np.mean(road.dwell.draw(1 - rng.random(400_000))))
    found = []
    for _ in range(rounds):
        stay = road.dwell.draw(1 - rng.random(rng.poisson(road.arrivals_per_s * (t + float(road.dwell.longest)))))
        enter = rng.uniform(-float(road.dwell.longest), t, len(stay))
        begin, leave = np.maximum(enter, 0.0), enter + stay
        there = leave > 0
        ends = {
            "nothing": np.full(len(stay), t),
            "mean": np.minimum(enter + mean_s, t),
            "predicted": np.minimum(leave, t),  # at one speed
            "leaving": np.minimum(leave, t),
        }
        end = ends[knows]
        step = scenario.compute.min_step_s + rng.exponential(scenario.compute.extra_step_s, len(stay))
        steps = np.floor((end - begin - road.delays.transfer_s) / step).astype(int)
        found.append(steps[there & (leave >= end - 1e-12) & (steps >= 1)])
    return found


@given(scenarios(rates=log_uniform(1e-4, 10.0), steps_that_fit=STEPS), SHARES_OF_DWELL)
@settings(max_examples=60)
def test_v_is_the_sum_over_theorem_1(scenario: Scenario, share: float) -> None:
    t, truth = share * scenario.dwell_s, Road.of(scenario)
    terms = [1 - mp.exp(-truth.uploads(n, t).value) for n in range(1, 62)]
    size = mp.fsum(min(mpf(1), truth.uploads(n, t).size) for n in range(1, 62)) / t
    found = float(theory.anytime_objective(scenario, t, "leaving"))
    assert abs(mp.fsum(terms) / mpf(t) - mpf(found)) <= 1e-9 * size


@given(scenarios(steps_that_fit=STEPS, spread=st.just(0.0) | st.floats(0.02, 0.4)), SHARES_OF_DWELL, st.integers(1, 60))
@settings(max_examples=60)
def test_v_is_at_least_g_for_every_h(scenario: Scenario, share: float, h: int) -> None:
    t = share * scenario.dwell_s
    v, g = theory.anytime_objective(scenario, t, "leaving"), theory.objective(scenario, h, t)
    assert v >= g * (1 - 1e-9)


@given(scenarios(steps_that_fit=STEPS, spread=st.just(0.0) | st.floats(0.02, 0.4)), SHARES_OF_DWELL)
@settings(max_examples=40)
def test_who_knows_more_does_no_worse(scenario: Scenario, share: float) -> None:
    t = share * scenario.dwell_s
    nothing, leaving = (
        theory.uploads_of_steps(scenario, np.arange(1, 30), t, knows) for knows in ("nothing", "leaving")
    )
    assert (leaving >= nothing * (1 - 1e-9)).all()


@given(scenarios(jitter=log_uniform(1e-2, 30.0), rates=log_uniform(1e-4, 10.0), steps_that_fit=STEPS), SHARES_OF_DWELL)
@settings(max_examples=40)
def test_the_slope_is_that_of_the_sum(scenario: Scenario, share: float) -> None:
    bends = theory.min_delay_s(scenario, np.arange(1, 62))
    t = share * scenario.dwell_s
    width = 0.2 * min(np.abs(np.append(bends, scenario.dwell_s) - t).min(), scenario.compute.extra_step_s, t)
    if width < 1e-6 * t:
        return  # too near to a bend
    for knows in KNOWLEDGE:
        low, high = theory.longest_steps(scenario, np.array([t - width, t + width]), knows)
        slopes = theory.longest_steps_slope(scenario, t + width * np.array([-1, 0, 1]), knows)
        # Concave between bends: the chord's slope lies between those at its ends.
        assert slopes[2] * (1 - 1e-6) - 1e-12 <= (high - low) / (2 * width) <= slopes[0] * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("knows", KNOWLEDGE)
@pytest.mark.parametrize("values", [{}, {"traffic.speed_sd_mps": 5.0}, {"traffic.arrivals_per_s": 0.5}], ids=str)
@pytest.mark.parametrize("t", [7.0, 15.0, 26.0])
def test_rounds_drawn_by_hand_agree(paper: Scenario, knows: Knows, values: dict[str, float], t: float) -> None:
    scenario = paper.with_values(values)
    rounds = heard(scenario, t, knows, 4000, seed=11)
    measured = {
        "longest": ([max(each, default=0) for each in rounds], theory.longest_steps(scenario, t, knows)),
        "delivered": ([sum(each) for each in rounds], theory.delivered_steps(scenario, t, knows)),
        "uploads": ([len(each) for each in rounds], theory.uploads_of_steps(scenario, 1, t, knows)),
        "by steps": ([sum(each**2) / max(sum(each), 1) for each in rounds], theory.averaged_steps(scenario, t, knows)),
        "alike": ([sum(each) / max(len(each), 1) for each in rounds], theory.averaged_steps(scenario, t, knows, 0)),
    }
    reach = stats.norm.isf(FALSE_ALARM / 2 / (len(measured) * 27))
    for name, (sample, promised) in measured.items():
        error = np.std(sample) / np.sqrt(len(sample))
        assert abs(np.mean(sample) - float(promised)) < reach * error, name


def test_the_papers_road(paper: Scenario) -> None:
    assert theory.anytime_objective(paper, 14.28, "leaving") == pytest.approx(2.2228, abs=1e-4)
    assert theory.anytime_objective(paper, 10.1, "nothing") == pytest.approx(1.9446, abs=1e-4)
    assert theory.anytime_objective(paper, 27.0, "nothing") < theory.anytime_objective(paper, 10.1, "nothing")


@pytest.mark.parametrize("min_step_s", [1e-3, 1e-6, 1e-9])
def test_an_average_never_gets_farther_than_the_longest(paper: Scenario, min_step_s: float) -> None:
    scenario = paper.with_values({"compute.min_step_s": min_step_s})
    for power in (0, 1):
        averaged = theory.averaged_steps(scenario, 9.0, "nothing", power)
        assert 0 < averaged < float(theory.longest_steps(scenario, 9.0, "nothing"))
    alike, uploads = theory.averaged_steps(scenario, 9.0, "nothing", 0), theory.uploads_of_steps(scenario, 1, 9.0)
    # With equal weights the mean is known: that of all uploads' steps, if there are any.
    exact = float(theory.delivered_steps(scenario, 9.0) / uploads * -np.expm1(-uploads))
    assert alike == pytest.approx(exact, rel=1e-3)


def test_a_vector_call_equals_a_loop(paper: Scenario) -> None:
    t = np.array([[2.1, 5.0], [14.0, 60.0]])
    for knows in KNOWLEDGE:
        one_by_one = [float(theory.anytime_objective(paper, each, knows)) for each in t.ravel()]
        assert theory.anytime_objective(paper, t, knows).ravel() == pytest.approx(one_by_one, rel=1e-12)


@pytest.mark.parametrize("most", [5, TERMS, TERMS + 1, 10**6])
def test_sums_over_very_many_steps(most: int) -> None:
    n, weights = step_nodes(np.array([[float(most), 3.0]]))
    decay = most / 3
    exact = -np.expm1(-most / decay) / np.expm1(1 / decay)  # a geometric series
    terms = np.where(n <= most + 0.5, np.exp(-n / decay), 0.0)
    assert (weights * terms).sum(axis=0)[0] == pytest.approx(exact, rel=2 / most + 1e-8)


def test_nonsense_is_named(paper: Scenario) -> None:
    with pytest.raises(InputError, match="knows must be one of nothing, mean, predicted, leaving, got 'all'"):
        theory.anytime_objective(paper, 10.0, "all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="round_s must be > 0, got -1"):
        theory.anytime_objective(paper, -1.0)
