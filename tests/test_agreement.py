"""Theory against simulation. Those that test a law share a false-alarm rate of 1e-5; all seeds are fixed."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from mobfl import Scenario, plan, theory
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import stream, uniforms
from mobfl.rounds.estimates import BatchMeans
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rules import simulate_rounds
from mobfl.rounds.simulation import simulate
from mobfl.theory import Conditions, Delays

FALSE_ALARMS = 1e-5

# T below, at and above T0 (as shares of it), few and many steps, with and without jitter and spread, of every law.
CASES = [
    {"share": share, "h": h, "values": values}
    for share, h, values in product(
        (0.3, 0.6, 1.0, 1.7),
        (4, 16),
        (
            {},
            {"compute.extra_step_s": 0},
            {"traffic.arrivals_per_s": 0.6, "compute.extra_step_s": 0.05},
            {"traffic.speed_sd_mps": 5.0},
            {"traffic.speed_sd_mps": 8.0, "traffic.participation": 0.5, "traffic.arrivals_per_s": 0.5},
            {"compute.law": "lognormal", "compute.extra_sd_s": 0.3},
            {"compute.step_samples": [0.2, 0.25, 0.25, 0.3, 0.9]},
            {
                "fleet": [
                    {"share": 0.6},
                    {"share": 0.3, "min_step_s": 0.1, "extra_step_s": 0},
                    {"share": 0.1, "law": "lognormal"},
                ]
            },
        ),
    )
]
LEVEL = FALSE_ALARMS / (2 * len(CASES) + 8)


def uploads(scenario: Scenario, h: int, t: float, rounds: int, seed: int) -> np.ndarray:
    found = list[np.ndarray]()
    plan_ = FixedPlan(h, t)
    for block in simulate_rounds(
        poisson_crossings(scenario, seed), plan_, Delays.of(scenario), seed, keep_vehicles=False
    ):
        found.append(block.uploads)
        if sum(map(len, found)) >= rounds:
            break
    return np.concatenate(found)[:rounds]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['share']}-{case['h']}-{len(case['values'])}")
def test_counts_follow_the_poisson_law(paper: Scenario, case: dict) -> None:
    scenario = paper.with_values(case["values"])
    h, t = case["h"], case["share"] * scenario.dwell_s
    expected = float(theory.expected_uploads(scenario, h, t))
    # Rounds so far apart that no vehicle is in two of them are independent; those between are left free.
    longest = float(Conditions.of(scenario).dwell.longest)
    apart = 1 + math.ceil(longest / t)
    counts = uploads(scenario, h, t, 12_000 * apart, seed=CASES.index(case))[::apart]
    if expected == 0:
        assert not counts.any()
        return
    z = (counts.mean() - expected) / math.sqrt(expected / len(counts))
    assert 2 * stats.norm.sf(abs(z)) > LEVEL
    top = int(stats.poisson.isf(20 / len(counts), expected))
    observed = np.bincount(np.minimum(counts, top + 1), minlength=top + 2)
    chances = np.append(stats.poisson.pmf(np.arange(top + 1), expected), stats.poisson.sf(top, expected))
    assert stats.chisquare(observed, chances * len(counts)).pvalue > LEVEL


def test_draws_are_uniform() -> None:
    u = uniforms(stream(1, "anything"), np.arange(200_000, dtype=np.uint64))
    assert stats.kstest(u, "uniform").pvalue > LEVEL
    assert stats.chisquare(np.histogram2d(u[:-1], u[1:], bins=16)[0].ravel()).pvalue > LEVEL


def test_purposes_and_seeds_do_not_echo_each_other() -> None:
    vehicles = np.arange(100_000, dtype=np.uint64)
    draws = [uniforms(stream(*address), vehicles) for address in ((0, "a"), (0, "b"), (1, "a"))]
    correlations = np.corrcoef(draws)[np.triu_indices(3, 1)]
    assert np.all(2 * stats.norm.sf(np.abs(correlations) * math.sqrt(len(vehicles))) > LEVEL / 3)


def test_simulate_promises_what_it_measures(paper: Scenario) -> None:
    best = plan(paper)
    result = simulate(paper, *best.numbers[:2], rounds=100_000, seed=3)
    for measured, promised in (
        (result.mean_uploads, best.expected_uploads),
        (result.empty_prob, math.exp(-result.expected_uploads)),
        (result.variance_to_mean, 1.0),
    ):
        width = measured.high - measured.low
        assert measured.low - width < promised < measured.high + width
    assert result.warning is None
    assert result.histogram.sum() == result.rounds == 100_000
    assert result.contributing_share.value == pytest.approx(0.285, abs=0.003)
    assert simulate(paper, 24, 11.8, 1000, 7).to_dict() == simulate(paper, 24, 11.8, 1000, 7).to_dict()


def test_intervals_cover_at_their_rate(paper: Scenario) -> None:
    """Neighbouring rounds share vehicles; the batches must make up for it. 200 runs, true mean known."""
    expected = float(theory.expected_uploads(paper, 16, 5.5))
    covered = 0
    for seed in range(200):
        interval = simulate(paper, 16, 5.5, 2_000, seed).mean_uploads
        covered += interval.low <= expected <= interval.high
    assert stats.binomtest(covered, 200, 0.95).pvalue > 1e-3


def test_batches_of_independent_numbers_give_the_textbook_interval() -> None:
    numbers = np.random.default_rng(0).normal(3.0, 2.0, 12_800)
    means = BatchMeans(1, 1)
    for part in np.array_split(numbers, 37):
        means.add(part[np.newaxis])
    estimate = means.estimate(lambda m: m[0])
    assert estimate.value == pytest.approx(numbers.mean())
    assert estimate.high - estimate.value == pytest.approx(1.98 * 2.0 / math.sqrt(12_800), rel=0.25)


def test_platoons_are_noticed(paper: Scenario) -> None:
    """The same rate and stay as Poisson, but ten vehicles at a time."""
    starts = np.repeat(np.arange(400) * 100.0, 10) + np.tile(np.arange(10) * 0.5, 400)
    platoons = Crossings(np.arange(len(starts)), starts, starts + 20.0)
    result = simulate(paper, 24, 11.776, 10**6, 1, crossings=platoons)
    assert result.rounds == int((39904.5 - 20.0) / 11.776)
    assert result.warning is not None
    assert "this traffic is not Poisson" in result.warning
    assert result.empty_prob.value > result.poisson.empty_prob + 0.2
    assert result.empty_prob.value == pytest.approx(result.expected_empty_prob, abs=0.05)
    better = plan(paper, crossings=platoons)
    assert better.numbers[2] >= better.poisson_plan.real_objective


def test_a_trace_plan_of_poisson_traffic_is_theorem_1s(paper: Scenario) -> None:
    block = next(poisson_crossings(paper, 8))
    trace = Crossings(block.vehicle[:8000], block.enter_s[:8000], block.leave_s[:8000])
    best = plan(paper, crossings=trace)
    assert best.numbers[2] == pytest.approx(1.2147, rel=0.02)
    assert abs(best.numbers[0] - 24) <= 3
    half = plan(paper.with_values({"traffic.participation": 0.5}), crossings=trace)
    assert half.numbers[2] == pytest.approx(
        plan(paper.with_values({"traffic.participation": 0.5})).numbers[2], rel=0.03
    )


def test_the_exact_chance_of_an_empty_round_is_what_simulation_finds(paper: Scenario) -> None:
    """P0 by the product over vehicles, against rounds run with many seeds and offsets on one short trace."""
    from mobfl.planning.trace import Trace

    rng = np.random.default_rng(2)
    enter = np.sort(rng.choice(np.arange(0, 900, 90.0), 60) + rng.exponential(4.0, 60))
    trace = Crossings(np.arange(60), enter, enter + rng.uniform(15, 30, 60))
    promised = Trace(trace, 1.0).promise(Conditions.of(paper), 24, 11.776)
    start, end = trace.observed_s
    empty = []
    for seed in range(400):
        offset = start + 11.776 * rng.random()
        blocks = simulate_rounds([trace], FixedPlan(24, 11.776), Delays.of(paper), seed, start_s=offset)
        counts = np.concatenate([block.uploads[block.start_s + 11.776 <= end] for block in blocks])
        empty.append(np.mean(counts == 0))
    error = np.std(empty) / math.sqrt(len(empty))
    assert abs(np.mean(empty) - (1 - promised.valid_round_prob)) < 5 * error


def test_exponential_draws_follow_their_law() -> None:
    """A million of them by Kolmogorov-Smirnov, and the tail, which the ziggurat treats apart, by its count."""
    from numba import njit

    from mobfl.rng import exponential, vehicle_key

    @njit
    def draw(stream: np.uint64, n: int) -> np.ndarray:
        found = np.empty(n)
        for i in range(n):
            found[i] = exponential(vehicle_key(stream, np.uint64(i // 4)), i % 4)
        return found

    draws = draw(stream(9, "law"), 1_000_000)
    assert stats.kstest(draws, "expon").pvalue > LEVEL
    for far in (4.0, 7.69, 9.0):
        assert stats.binomtest(int((draws > far).sum()), len(draws), math.exp(-far)).pvalue > LEVEL
    by_attempt = draws.reshape(-1, 4)
    correlations = np.corrcoef(by_attempt.T)[np.triu_indices(4, 1)]
    assert np.all(2 * stats.norm.sf(np.abs(correlations) * math.sqrt(len(by_attempt))) > LEVEL / 6)


def test_platoons_in_step_with_the_sampling_are_not_missed(paper: Scenario) -> None:
    """A trace of 4,095 signal cycles, which evenly spaced beginnings would all meet at the same moment."""
    from mobfl.planning.trace import Trace

    starts = np.repeat(np.arange(4097) * 90.0, 12) + np.tile(np.arange(12) * 1.0, 4097)
    trace = Crossings(np.arange(len(starts)), starts, starts + 20.0)
    promised = Trace(trace, 1.0).promise(Conditions.of(paper), 24, 11.776)
    measured = simulate(paper, 24, 11.776, 20_000, 1, trace).empty_prob
    assert 1 - promised.valid_round_prob == pytest.approx(measured.value, abs=0.03)
