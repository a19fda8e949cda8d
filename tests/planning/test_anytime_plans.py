import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from mobfl import Crossings, InputError, Scenario, plan, plan_anytime, theory
from mobfl.mobility.poisson import poisson_crossings
from mobfl.mobility.tracks import STEADILY, Tracks
from mobfl.planning.trace import Trace
from mobfl.planning.trace_average import averaged_on_trace
from mobfl.theory import KNOWLEDGE, Knows
from oracle import Road
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
MANY_BENDS = {"compute": {"min_step_s": 0.006, "extra_step_s": 0.02}}  # 3,000 of them, of which few are looked at
LITTLE_JITTER = {"compute": {"min_step_s": 0.2, "extra_step_s": 1e-7}}  # W all but jumps
LOGNORMAL = {"compute": {"law": "lognormal", "min_step_s": 0.2, "extra_step_s": 0.2, "extra_sd_s": 0.3}}


OTHERS = {
    "fleet": FLEET,
    "law": LOGNORMAL,
    "many": {"compute": {"min_step_s": 1e-6}},
    "bends": MANY_BENDS,
    "jumps": LITTLE_JITTER,
}


@pytest.mark.parametrize("tables", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_fleets_other_laws_and_very_many_steps(tables: dict[str, object], knows: Knows) -> None:
    road = Scenario.from_dict(tables)
    best = plan_anytime(road, knows)
    grid = np.geomspace(float(theory.min_delay_s(road, 1)), 3 * best.round_s, 400)
    slack = best.objective_error or 1e-9
    assert slack <= 2e-4
    assert best.objective * (1 + slack) >= theory.anytime_objective(road, grid, knows).max()


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("knows", ["nothing", "leaving"])
def test_the_slope_of_40_digits_changes_its_sign_there(paper: Scenario, knows: Knows, rate: float) -> None:
    road = paper.with_values({"traffic.arrivals_per_s": rate})
    best = plan_anytime(road, knows).round_s
    before, after = (_excess(Road.of(road), knows, best * (1 + shift)) for shift in (-1e-8, 1e-8))
    assert before > 0 > after


def _excess(road: Road, knows: Knows, t: float) -> mpf:
    """T·W′ − W."""
    steps = rise = mpf(0)
    for n in (n for n in range(1, 90) if road.spare(n, t) > 0):
        fade, stay_on, scale = road.fade(n, road.spare(n, t)), max(road.t0 - mpf(t), 0), road.beta * n
        if knows == "leaving":
            uploads, slope = road.uploads(n, t).value, road.uploads_slope(n, t)
        else:
            uploads = road.rate * (stay_on * (1 - fade) + road.spare(n, t) - scale * (1 - fade))
            slope = road.rate * fade / scale * stay_on
        steps, rise = steps - mp.expm1(-uploads), rise + mp.exp(-uploads) * slope
    return mpf(t) * rise - steps


def test_where_nobody_can_upload(paper: Scenario) -> None:
    road = paper.with_values({"road.length_m": 30})
    found = plan_anytime(road)
    assert (found.status, found.round_s, found.local_steps) == ("infeasible", None, None)
    assert found.reason == plan(road).reason


def test_nonsense_is_named(paper: Scenario) -> None:
    with pytest.raises(InputError, match="knows must be one of nothing, mean, predicted, leaving, got 'all'"):
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
    averaged = theory.averaged_steps(paper, found.round_s, knows) / found.round_s
    assert found.averaged_objective == pytest.approx(averaged, rel=0.03)
    assert found.assumed == (STEADILY if knows == "predicted" else None)
    there = Trace(crossings, 1.0).longest_steps(theory.Conditions.of(paper), best.round_s, knows)
    assert there[0] == pytest.approx(float(theory.longest_steps(paper, best.round_s, knows)), rel=0.03)


def test_vehicles_placed_by_hand(paper: Scenario) -> None:
    """Steps of 0.2 s: one who is there for 10 s of every 100 s and knows it fits 40 steps, once in a round of 50 s."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    times = 100.0 * np.arange(101)
    trace = Trace(Crossings(np.arange(101), times, times + 10.0), 1.0)
    known = trace.anytime_rounds(theory.Conditions.of(steady), 50.0, "leaving")
    steps, uploads, valid = known.steps.mean(), known.uploads.mean(), 1 - known.empty.mean()
    whole, cut = 40 / 100 * (50 - 10), 2 * sum(0.2 for n in range(1, 41) for _ in range(n)) / 100
    assert steps == pytest.approx(whole + cut, rel=0.02)
    assert uploads == valid == pytest.approx((50 + 10 - 2 * 2.2) / 100, rel=0.02)
    nothing = trace.longest_steps(theory.Conditions.of(steady), 50.0, "nothing")
    assert nothing[1] == pytest.approx((10 - 2.2) / 100, rel=0.05)  # only who is there at the round's end


def test_an_average_against_draws(paper: Scenario) -> None:
    """Σ k²/Σ k of rounds drawn one by one, from vehicles that overlap in many ways and half of which take part."""
    rng = np.random.default_rng(5)
    enter = np.sort(rng.uniform(0.0, 300.0, 60))
    trace = Trace(Crossings(np.arange(60), enter, enter + rng.uniform(2.0, 25.0, 60)), 0.5)
    road, t = theory.Conditions.of(paper), 9.0
    drawn = list[float]()
    for start in np.repeat(trace.starts(t), 40):
        overlap = np.minimum(trace.crossings.leave_s, start + t) - np.maximum(enter, start) - 2.0
        per_step = 0.2 + rng.exponential(0.2, 60)
        steps = np.floor(np.maximum(overlap, 0.0) / per_step) * (rng.random(60) < 0.5)
        drawn.append((steps**2).sum() / max(steps.sum(), 1.0))
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert averaged_on_trace(trace, road, t, "leaving") == pytest.approx(np.mean(drawn), abs=4.5 * error)


def braking() -> Crossings:
    """Every 50 s somebody who drives 100 m in 10 s, then 100 m in 20 s."""
    enter = 50.0 * np.arange(40)
    times = enter[:, np.newaxis] + np.array([0.0, 10.0, 30.0])
    way = np.broadcast_to([0.0, 100.0, 200.0], times.shape)
    tracks = Tracks(3 * np.arange(41), times.ravel(), *(way.ravel() for _ in range(3)))
    return Crossings(np.arange(40), enter, enter + 30.0, tracks)


def test_who_predicts_trains_until_then(paper: Scenario) -> None:
    """At first it expects to be gone after 20 s and trains for (20 − 2)/0.2 = 90 steps; who knows would take 140."""
    steady, traffic = paper.with_values({"compute.extra_step_s": 0}), braking()
    road, long_s = theory.Conditions.of(steady), 190.0
    reached = {knows: Trace(traffic, 1.0).longest_steps(road, long_s, knows)[0] for knows in KNOWLEDGE}
    assert reached["leaving"] == pytest.approx(140.0, rel=0.01)
    assert reached["predicted"] == pytest.approx(90.0, rel=0.01)
    assert plan_anytime(steady, "predicted", traffic).assumed is None
    without = Crossings(traffic.vehicle, traffic.enter_s, traffic.leave_s)
    told = plan_anytime(steady, "predicted", without)
    assert told.to_dict() == plan_anytime(steady, "leaving", without).to_dict() | {
        "knows": "predicted",
        "assumed": STEADILY,
    }
