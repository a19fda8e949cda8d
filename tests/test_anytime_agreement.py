"""Anytime rounds: theory against simulation over 30 roads, at one false-alarm rate of 1e-5; all seeds are fixed.

Theory counts whoever leaves before the end that it was working towards as lost. One who leaves within a step of it may
have been done: how many these are is counted here on draws of our own, and added to what theory promises.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from mobfl import AsManyAsFit, Scenario, simulate, theory
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.theory import KNOWLEDGE, Conditions, Delays, Knows
from mobfl.theory.delays import StepTimes

FALSE_ALARMS = 1e-5
ROUNDS, DRAWS = 12_000, 100_000

# T below, about and above T0 (as shares of it).
ROADS = [
    (share, values)
    for share, values in product(
        (0.35, 0.8, 1.5),
        (
            {},
            {"compute.extra_step_s": 0},
            {"traffic.arrivals_per_s": 0.02},
            {"traffic.arrivals_per_s": 0.6, "compute.extra_step_s": 0.05},
            {"traffic.speed_sd_mps": 5.0},
            {"traffic.speed_sd_mps": 3.0, "traffic.participation": 0.5, "traffic.arrivals_per_s": 0.5},
            {"link.download_s": 0.2, "link.upload_s": 3.0, "compute.min_step_s": 0.05},
            {"compute.law": "lognormal", "compute.extra_sd_s": 0.3},
            {"compute.step_samples": [0.2, 0.25, 0.25, 0.3, 0.9]},
            {"fleet": [{"share": 0.6}, {"share": 0.4, "min_step_s": 0.1, "extra_step_s": 0}]},
        ),
    )
]
LEVEL = FALSE_ALARMS / (len(ROADS) * (3 * len(KNOWLEDGE) + 1))


@dataclass(frozen=True)
class Sample:
    """Numbers of rounds so far apart that no vehicle is in two of them."""

    longest: NDArray[np.int64]
    steps: NDArray[np.int64]
    uploads: NDArray[np.int64]


def simulated(scenario: Scenario, t: float, knows: Knows, seed: int) -> Sample:
    road = Conditions.of(scenario)
    plan = FixedPlan(AsManyAsFit(knows, float(road.mean_dwell_s)), t)
    apart = 1 + math.ceil(float(road.dwell.longest) / t)
    blocks, wanted = list[Rounds](), ROUNDS * apart
    for block in simulate_rounds(poisson_crossings(scenario, seed), plan, road.delays, seed, keep_vehicles=False):
        blocks.append(block)
        if sum(map(len, blocks)) >= wanted:
            break
    columns = (np.concatenate([getattr(each, name) for each in blocks]) for name in ("longest", "steps", "uploads"))
    return Sample(*(column[apart:wanted:apart] for column in columns))


def step_times(delays: Delays, random: np.random.Generator) -> NDArray[np.float64]:
    chosen = random.choice(len(delays.classes), DRAWS, p=[each.share for each in delays.classes])
    return np.choose(chosen, [_step_times(each, random) for each in delays.classes])


def _step_times(of: StepTimes, random: np.random.Generator) -> NDArray[np.float64]:
    if of.law == "lognormal":
        sigma = math.sqrt(math.log1p((of.extra_sd_s / of.extra_step_s) ** 2))
        return of.min_step_s + random.lognormal(math.log(of.extra_step_s) - sigma**2 / 2, sigma, DRAWS)
    if of.extra_samples_s is not None:
        return of.min_step_s + random.choice(of.extra_samples_s, DRAWS)
    return of.min_step_s + of.extra_step_s * random.exponential(size=DRAWS)


def done_within_the_last_step(scenario: Scenario, t: float, knows: Knows) -> tuple[float, float]:
    """Uploads per round, and their steps, of vehicles that leave before the end that they were working towards."""
    if knows == "leaving":
        return 0.0, 0.0
    road, random = Conditions.of(scenario), np.random.default_rng(1)
    stay_s, step_s = road.dwell.draw(random.random(DRAWS)) * np.ones(DRAWS), step_times(road.delays, random)
    enter_s = random.uniform(-stay_s, t)  # the round is from 0 to T
    begin_s, leave_s = np.maximum(enter_s, 0.0), enter_s + stay_s
    stop_s = np.minimum(t, enter_s + float(road.mean_dwell_s)) if knows == "mean" else np.full(DRAWS, t)
    steps = np.maximum(np.floor((stop_s - begin_s - road.delays.transfer_s) / step_s), 0.0)
    done_s = begin_s + road.delays.transfer_s + steps * step_s
    lucky = (steps > 0) & (done_s <= leave_s) & (leave_s < stop_s * (1 - 1e-12))
    came = float(road.arrivals_per_s) * (t + stay_s)
    return float((came * lucky).mean()), float((came * lucky * steps).mean())


@pytest.mark.parametrize("road", range(len(ROADS)))
def test_theory_promises_what_rounds_deliver(paper: Scenario, road: int) -> None:
    share, values = ROADS[road]
    scenario = paper.with_values(values)
    t = share * scenario.dwell_s
    for knows in KNOWLEDGE:
        found = simulated(scenario, t, knows, seed=road)
        more_uploads, more_steps = done_within_the_last_step(scenario, t, knows)
        for sample, promised, more, exactly in (
            (found.uploads, theory.uploads_of_steps(scenario, 1, t, knows), more_uploads, True),
            (found.steps, theory.delivered_steps(scenario, t, knows), more_steps, True),
            (found.longest, theory.longest_steps(scenario, t, knows), more_steps, False),  # at most so many
        ):
            reach = stats.norm.isf(LEVEL / 2) * sample.std(ddof=1) / math.sqrt(len(sample))
            least = float(promised) + (0.98 * more if exactly else 0.0)  # the draws' own error is below 2 %
            assert least - reach < sample.mean() < float(promised) + 1.02 * more + reach, (knows, promised)


@pytest.mark.parametrize("road", range(len(ROADS)))
def test_the_longest_training_follows_its_law(paper: Scenario, road: int) -> None:
    """P{longest ≥ n} = 1 − e^(−Λ(n, T)) where vehicles know when they leave."""
    share, values = ROADS[road]
    scenario = paper.with_values(values)
    t = share * scenario.dwell_s
    longest = simulated(scenario, t, "leaving", seed=100 + road).longest
    edges = np.unique(np.quantile(longest, np.linspace(0, 1, 12)[1:-1]).astype(int) + 1)
    reached = -np.expm1(-theory.uploads_of_steps(scenario, edges, t, "leaving"))
    chances = -np.diff(np.concatenate([[1.0], reached, [0.0]]))
    observed = np.histogram(longest, np.concatenate([[-1], edges, [longest.max() + 1e9]]) - 0.5)[0]
    kept = chances * len(longest) > 20
    assert kept.sum() >= 2
    observed, chances = np.append(observed[kept], observed[~kept].sum()), np.append(chances[kept], chances[~kept].sum())
    if chances[-1] * len(longest) < 20:  # too few to count on their own
        observed, chances = np.append(observed[:-2], observed[-2:].sum()), np.append(chances[:-2], chances[-2:].sum())
    assert stats.chisquare(observed, chances * len(longest)).pvalue > LEVEL


@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_simulate_tells_what_was_measured_and_what_is_promised(paper: Scenario, knows: Knows) -> None:
    asked = AsManyAsFit(knows, paper.dwell_s)
    result = simulate(paper, asked, 9.0, rounds=40_000, seed=3)
    for each in (result.longest_steps, result.delivered_steps, result.uploads, result.empty_prob):
        width = each.measured.high - each.measured.low
        slack = 0.0 if knows == "leaving" else 0.02 * each.measured.value
        assert each.expected is not None
        assert each.measured.low - width - slack < each.expected < each.measured.high + width + slack
    # Here everybody stays for the mean stay.
    assert 0.2 < result.lost_share.measured.value < 0.5 if knows == "nothing" else not result.lost_share.measured.value
    assert result.objective == pytest.approx(float(theory.anytime_objective(paper, 9.0, knows)), rel=0.03)
    steps, reached = result.reached
    assert float(np.diff(np.append(0, steps)) @ reached) == pytest.approx(result.longest_steps.measured.value)
    assert result.expected_reached == pytest.approx(reached, abs=0.03)
    assert simulate(paper, asked, 9.0, 500, 7).to_dict() == simulate(paper, asked, 9.0, 500, 7).to_dict()


def test_classes_bring_what_they_are_promised_to_bring(paper: Scenario) -> None:
    fleet = paper.with_values({"fleet": [{"share": 0.6}, {"share": 0.4, "min_step_s": 0.1, "extra_step_s": 0}]})
    result = simulate(fleet, AsManyAsFit("leaving"), 9.0, rounds=40_000, seed=3)
    assert [each.name for each in result.classes] == [each.name for each in fleet.classes]
    for each in result.classes:
        assert each.heard == pytest.approx(each.expected_heard, abs=0.005)
        assert each.uploads_per_visit == pytest.approx(each.expected_uploads_per_visit, rel=0.01)
        assert each.steps_per_visit == pytest.approx(each.expected_steps_per_visit, rel=0.02)
    assert result.to_dict()["classes"][1]["steps_per_visit"] > 2 * result.classes[0].steps_per_visit


def test_recorded_crossings_are_held_against_their_own_promise(paper: Scenario) -> None:
    """Ten vehicles at a time, as no Poisson traffic has them."""
    from mobfl import Crossings

    starts = np.repeat(np.arange(400) * 97.3, 10) + np.tile(np.arange(10) * 0.5, 400)
    platoons = Crossings(np.arange(len(starts)), starts, starts + 20.0)
    result = simulate(paper, AsManyAsFit("leaving"), 9.0, 10**6, 1, crossings=platoons)
    assert result.rounds == int((starts[-1] - 20.0) / 9.0)
    assert result.delivered_steps.expected is None
    for each in (result.longest_steps, result.uploads, result.empty_prob):
        assert each.measured.value == pytest.approx(each.expected, rel=0.03)
    assert result.empty_prob.measured.value > 0.5


def test_nothing_is_promised_to_those_who_err(paper: Scenario) -> None:
    result = simulate(paper, AsManyAsFit("leaving", error=0.2), 9.0, 2_000, 1)
    assert 0.05 < result.lost_share.measured.value < 0.3
    assert {result.longest_steps.expected, result.uploads.expected, result.lost_share.expected} == {None}
    nobody = simulate(paper, AsManyAsFit(), 1.0, 50, 1).to_dict()
    assert (nobody["longest_steps"], nobody["lost_share"], nobody["empty_prob"]) == (0.0, None, 1.0)
