import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import lambertw, mp, mpf
from numpy.typing import NDArray
from scipy.special import hyp1f1

from mobfl import Crossings, InputError, Plan, Scenario, algorithm_1, best_round_s, plan, plan_many, theory
from mobfl.planning.exact import best_linear_round_s
from oracle import Road, worth, worth_slope
from roads_at_random import SOME_NOISE, log_uniform, scenarios

some_spread = st.just(0.0) | st.floats(0.02, 0.5)
some_jitter = st.just(0.0) | log_uniform(1e-3, 30.0)


def grid_objective(scenario: Scenario, h: NDArray[np.int64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """g as the paper prints it, for constant speeds: Theorem 1 and Eq. 5, plainly in NumPy; with ν > 0, SciPy's g_ν."""
    rate = scenario.traffic.arrivals_per_s * scenario.traffic.participation
    t0, beta_h = scenario.dwell_s, scenario.compute.extra_step_s * h
    spare = np.minimum(t, t0) - scenario.compute.min_step_s * h - scenario.link.download_s - scenario.link.upload_s
    success = 1 - np.exp(-np.maximum(spare, 0) / beta_h) if beta_h.all() else 1.0
    uploads = 2 * rate * spare + rate * success * (np.abs(t - t0) - 2 * beta_h)
    uploads, noise = np.maximum(uploads, 0), scenario.training.noise_uploads
    worth = uploads / (1 + noise) * hyp1f1(1, noise + 2, -uploads) if noise else 1 - np.exp(-uploads)
    return np.where(spare >= -1e-12 * t0, h / t * worth, 0.0)


# ---- the paper ------------------------------------------------------------------------------------


def test_the_papers_optimum(paper: Scenario) -> None:
    best = plan(paper)
    assert (best.status, best.local_steps, best.reason) == ("ok", 24, None)
    assert best.round_s == pytest.approx(11.7763334109, abs=1e-9)
    assert best.objective == pytest.approx(1.2147211345, abs=1e-9)
    assert best.expected_uploads == pytest.approx(0.9064395, abs=1e-6)
    assert best.valid_round_prob == pytest.approx(1 - np.exp(-0.9064395), abs=1e-6)


def test_the_thesis_trajectory_optimum(paper: Scenario) -> None:
    best = plan(paper.with_values({"compute.min_step_s": 0.1, "compute.extra_step_s": 0.1}))
    assert best.local_steps == 48
    assert best.round_s == pytest.approx(11.7763, abs=1e-4)


def test_without_jitter_the_optimum_sits_at_the_least_delay(paper: Scenario) -> None:
    best = plan(paper.with_values({"compute.extra_step_s": 0}))
    assert (best.local_steps, best.round_s) == (30, 8.0)


@pytest.mark.parametrize("gamma", [1e-2, 1e-6])
def test_algorithm_1_finds_the_papers_optimum(paper: Scenario, gamma: float) -> None:
    found = algorithm_1(paper, gamma)
    assert found.local_steps == 24
    assert found.round_s == pytest.approx(plan(paper).round_s, abs=gamma)


# ---- against other ways ---------------------------------------------------------------------------


@given(scenarios(steps_that_fit=log_uniform(1.2, 60.0)))
def test_no_point_of_a_fine_grid_is_better(scenario: Scenario) -> None:
    best = plan(scenario)
    assume(best.reason is None)
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)[:, np.newaxis]
    t_min, t_max = theory.min_delay_s(scenario, h), theory.max_round_s(scenario, h)
    t = t_min + (t_max - t_min) * np.append(0, np.geomspace(1e-12, 1, 3000))
    on_grid = grid_objective(scenario, h, t).max()
    assert best.numbers[2] >= on_grid * (1 - 1e-6)  # plain exp and 1 − e^−Λ lose digits for rare traffic
    assert best.numbers[2] <= on_grid * (1 + 1e-3)


@given(scenarios(steps_that_fit=log_uniform(1.2, 30.0), jitter=some_jitter, noise=log_uniform(1e-3, 1e3)))
def test_no_point_of_a_grid_averages_better(scenario: Scenario) -> None:
    best = plan(scenario)
    assume(best.reason is None)
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)[:, np.newaxis]
    t_min, t_max = theory.min_delay_s(scenario, h), theory.max_round_s(scenario, h)
    t = t_min + (t_max - t_min) * np.append(0, np.geomspace(1e-12, 1, 600))
    on_grid = grid_objective(scenario, h, t).max()
    assert best.numbers[2] >= on_grid * (1 - 1e-6)
    assert best.numbers[2] <= on_grid * (1 + 1e-2)


@given(scenarios(rates=log_uniform(1e-4, 1e2), jitter=log_uniform(1e-2, 10.0), spread=some_spread))
def test_algorithm_1_agrees(scenario: Scenario) -> None:
    best, found = plan(scenario), algorithm_1(scenario, 1e-9 * scenario.dwell_s)
    assert best.status == found.status
    if best.reason is None:
        assert found.numbers[2] <= best.numbers[2] * (1 + 1e-12)
        assert found.numbers[2] == pytest.approx(best.numbers[2], rel=1e-7)


@given(scenarios(jitter=log_uniform(1e-3, 30.0), noise=SOME_NOISE), st.floats(0.0, 1.0))
def test_the_best_round_is_where_the_slope_changes_sign(scenario: Scenario, share: float) -> None:
    """The slope's sign by 40-digit arithmetic, just before and just after the T found."""
    most = int(theory.max_local_steps(scenario))
    assume(most > 0)
    h = max(1, round(share * most))
    t, road = float(best_round_s(scenario, h)), Road.of(scenario)
    assume(road.spare(h, scenario.dwell_s) > mpf("1e-9") * road.t0)
    assert road.objective_slope(h, t * (1 - 1e-8)).value > 0
    assert road.objective_slope(h, t * (1 + 1e-8)).value < 0


@given(log_uniform(1e-18, 1e3))
def test_the_closed_form_is_lambert_w(c: float) -> None:
    with mp.workdps(60):
        exact = -mp.re(lambertw(-mp.exp(-mpf(c) - 1), -1)) - 1
    assert float(best_linear_round_s(np.array(2.0), np.array(-c))) == pytest.approx(float(exact) / 2, rel=1e-11)


@given(log_uniform(1e-18, 1e3), log_uniform(1e-9, 1e3))
def test_the_best_round_along_a_line_where_averaging_counts(c: float, noise: float) -> None:
    """The sign of (slope·T)·w′ − w by 60-digit arithmetic, just below and just above the Λ found."""
    t = float(best_linear_round_s(np.array(2.0), np.array(-c), noise))
    with mp.workdps(60):
        for near, sign in ((1 - mpf("1e-9"), 1), (1 + mpf("1e-9"), -1)):
            uploads = (2 * mpf(t) - mpf(c)) * near
            assert sign * ((uploads + mpf(c)) * worth_slope(uploads, mpf(noise)) - worth(uploads, mpf(noise))) > 0


@given(scenarios(spread=some_spread, noise=SOME_NOISE), st.integers(1, 400), st.integers(0, 400))
def test_the_bound_that_rules_out_ranges(scenario: Scenario, a: int, more: int) -> None:
    """G(H)/H never rises: what branch and bound rests on."""
    most = int(theory.max_local_steps(scenario))
    assume(most >= 1)
    h = np.unique(np.minimum([a, a + more], most))
    best = theory.objective(scenario, h, best_round_s(scenario, h)) / h
    assert best[-1] <= best[0] * (1 + 1e-12)


@given(scenarios(steps_that_fit=log_uniform(401.0, 2e4), jitter=log_uniform(1e-2, 10.0), noise=SOME_NOISE))
def test_branch_and_bound_finds_what_trying_every_h_finds(scenario: Scenario) -> None:
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)
    g = theory.objective(scenario, h, best_round_s(scenario, h))
    best = plan(scenario)
    assert best.numbers[2] >= g.max() * (1 - 1e-14)
    assert best.numbers[0] <= h[g.argmax()] or g[best.numbers[0] - 1] >= g.max() * (1 - 1e-14)


# ---- when averaging counts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "h", "t", "g"),
    [(0.5, 23, 11.9152, 0.883688), (1, 23, 12.3664, 0.704284), (2, 22, 12.4880, 0.508548), (5, 37, 31.5000, 0.287010)],
)
def test_the_papers_road_when_averaging_counts(paper: Scenario, noise: float, h: int, t: float, g: float) -> None:
    best = plan(paper.with_values({"training.noise_uploads": noise}))
    assert best.local_steps == h
    assert (best.round_s, best.objective) == (pytest.approx(t, abs=1e-4), pytest.approx(g, abs=1e-6))


@pytest.mark.parametrize("values", [{}, {"compute.extra_step_s": 0}, {"traffic.speed_sd_mps": 4}])
def test_vanishing_noise_approaches_none(paper: Scenario, values: dict[str, float]) -> None:
    without = plan(paper.with_values(values))
    h, t, g = plan(paper.with_values({**values, "training.noise_uploads": 1e-9})).numbers
    assert (h, pytest.approx(t, rel=1e-7), pytest.approx(g, rel=1e-8)) == without.numbers
    assert plan(paper.with_values({**values, "training.noise_uploads": 1e-12})) == without


def test_the_best_h_leaps_from_one_peak_to_another(paper: Scenario) -> None:
    """Short rounds of few uploads or long ones of many: for ν = 4 either is a peak of max_T g over H."""
    scenario = paper.with_values({"training.noise_uploads": 4})
    g = theory.objective(scenario, np.arange(1, 90), best_round_s(scenario, np.arange(1, 90)))
    peaks = 2 + np.flatnonzero((g[1:-1] > g[:-2]) & (g[1:-1] > g[2:]))
    assert peaks.tolist() == [23, 35]
    assert plan(scenario).local_steps == 23
    assert plan(paper.with_values({"training.noise_uploads": 4.2})).local_steps == 36


@given(scenarios(rates=log_uniform(1e-3, 10.0), steps_that_fit=log_uniform(1.2, 60.0)))
def test_with_endless_noise_every_upload_counts_alike(scenario: Scenario) -> None:
    """ν·E[M/(M + ν)] → Λ: no H and T give more uploads times steps per second."""
    best = plan(scenario.with_values({"training.noise_uploads": 1e12}))
    assume(best.reason is None)
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)[:, np.newaxis]
    t = scenario.dwell_s * np.geomspace(0.1, 1e4, 300)
    steps_per_s = h * theory.expected_uploads(scenario, h, t) / t
    assert best.numbers[2] * 1e12 >= steps_per_s.max() * (1 - 1e-4)


def test_whoever_maximises_another_objective_says_so(paper: Scenario) -> None:
    scenario = paper.with_values({"training.noise_uploads": 2})
    with pytest.raises(InputError, match=r"training\.noise_uploads must be 0 for Algorithm 1.*, got 2"):
        algorithm_1(scenario)
    with pytest.raises(InputError, match=r"training\.noise_uploads must be 0 for a plan from crossings.*, got 2"):
        plan(scenario, Crossings(np.arange(3), np.arange(3.0), np.arange(3.0) + 20))


# ---- extremes -------------------------------------------------------------------------------------


def test_rare_traffic_waits_far_beyond_the_dwell(paper: Scenario) -> None:
    best = plan(paper.with_values({"traffic.arrivals_per_s": 1e-9}))
    assert best.numbers[1] > 20
    assert best.numbers[2] > 0


def test_dense_traffic_does_not_overflow(paper: Scenario) -> None:
    best = plan(paper.with_values({"traffic.arrivals_per_s": 1e3}))
    assert best.valid_round_prob == pytest.approx(1.0, abs=0.05)
    assert best.numbers[1] < 20


def test_ties_go_to_the_smaller_h(paper: Scenario) -> None:
    """No transfers, no jitter, endless traffic: every H has g = 1/α to the last digit."""
    values = {
        "link.download_s": 0,
        "link.upload_s": 0,
        "compute.extra_step_s": 0,
        "traffic.arrivals_per_s": 1e3,
    }
    assert plan(paper.with_values(values)).local_steps == 1


def test_steps_that_fit_exactly(paper: Scenario) -> None:
    """0.1 · 3 > 0.3 in doubles; what counts is T_min(h) against T0, in the same arithmetic."""
    values = {"road.length_m": 6, "link.download_s": 0, "link.upload_s": 0, "compute.extra_step_s": 0}
    scenario = paper.with_values({**values, "compute.min_step_s": 0.1})
    assert theory.max_local_steps(scenario) == (3 if 0.1 * 3 <= 6 / 20 else 2)
    assert plan(scenario).status == "ok"


def test_cost_grows_slower_than_the_number_of_steps(paper: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in values of H that were tried, not in seconds."""
    tried: list[int] = []
    real = theory.uploads_identity

    def counting(rate: float, dwell: object, delay: object, t: NDArray[np.float64]) -> NDArray[np.float64]:
        tried.append(np.size(t))
        return real(rate, dwell, delay, t)  # type: ignore[arg-type]

    monkeypatch.setattr(theory, "uploads_identity", counting)
    for step_s, most in ((0.02, 900), (0.0002, 90_000)):
        tried.clear()
        plan(paper.with_values({"compute.min_step_s": step_s, "compute.extra_step_s": step_s}))
        assert sum(tried) < 20 * most**0.5 + 400


# ---- no plan --------------------------------------------------------------------------------------


def test_an_infeasible_road_says_why_and_what_would_help(paper: Scenario) -> None:
    none = plan(paper.with_values({"road.length_m": 40}))
    assert none == Plan("infeasible", reason=none.reason)
    assert none.reason == (
        "the vehicles leave after 2.0 s but one step with both transfers takes 2.2 s: lengthen the section"
        " beyond 44 m, or bring the step and the transfers below 2.0 s"
    )
    assert algorithm_1(paper.with_values({"road.length_m": 40})) == none
    with pytest.raises(ValueError, match="there is no plan: the vehicles leave"):
        _ = none.numbers


@pytest.mark.parametrize("values", [{}, {"compute.extra_step_s": 0}, {"traffic.speed_sd_mps": 0.05}])
def test_the_remedy_works(paper: Scenario, values: dict[str, float]) -> None:
    short = paper.with_values({**values, "road.length_m": 30})
    reason = plan(short).reason
    assert reason is not None
    metres = float(reason.split(" m,")[0].split()[-1])
    assert plan(short.with_values({"road.length_m": metres * 1.01})).status == "ok"


# ---- many roads -----------------------------------------------------------------------------------

roads = st.lists(
    scenarios(steps_that_fit=log_uniform(0.5, 3000.0), spread=st.just(0.0) | st.floats(0.05, 0.4), noise=SOME_NOISE),
    min_size=1,
    max_size=8,
)


def as_columns(rows: list[Scenario]) -> dict[str, list[float]]:
    keys = [f"{table}.{key}" for table, values in rows[0].given().items() for key in values]
    return {key: [getattr(getattr(row, key.split(".")[0]), key.split(".")[1]) for row in rows] for key in keys}


@given(roads)
def test_many_roads_are_planned_like_one(rows: list[Scenario]) -> None:
    plans = plan_many(as_columns(rows))
    assert len(plans) == len(rows)
    for i, row in enumerate(rows):
        alone = plan(row)
        assert plans.status[i] == alone.status
        assert plans[i].reason == alone.reason
        if alone.reason is not None:
            assert plans.local_steps[i] == 0
            assert np.isnan([plans.round_s[i], plans.objective[i], plans.expected_uploads[i]]).all()
        else:
            assert plans.objective[i] == pytest.approx(alone.objective, rel=1e-12)
            assert plans.local_steps[i] == alone.local_steps
            assert plans.round_s[i] == pytest.approx(alone.round_s, rel=1e-9)


def test_tables_of_every_kind() -> None:
    lengths, rates = [400.0, 500.0, 30.0], [0.1, 0.3, 0.1]
    flat = {"road.length_m": lengths, "traffic.arrivals_per_s": rates}
    frame = pd.DataFrame(flat)
    structured = frame.to_records(index=False)
    nested = {"road": {"length_m": lengths}, "traffic": {"arrivals_per_s": np.array(rates)}}
    for table in (flat, frame, structured, nested):
        plans = plan_many(table)
        assert plans.status.tolist() == ["ok", "ok", "infeasible"]
        assert plans.local_steps[0] == 24
        assert plans[1] == plan(Scenario.from_dict({"road": {"length_m": 500}, "traffic": {"arrivals_per_s": 0.3}}))


def test_links_in_bytes_and_empty_tables() -> None:
    plans = plan_many({"link.model_bytes": [125_000, 250_000], "link.downlink_bps": 1e6, "link.uplink_bps": [1e6, 2e6]})
    assert plans.local_steps[0] == 24
    assert plans[1] == plan(Scenario.from_dict({"link": {"download_s": 2.0, "upload_s": 1.0}}))
    assert len(plan_many({"road.length_m": []})) == 0


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"road.length_m": [400, -5.0]}, r"row 1: road\.length_m must be > 0, got -5\.0"),
        (
            {"road.lenght_m": [400]},
            r"road\.lenght_m is not a known key, did you mean road\.length_m\?",
        ),
        ({"traffic.participation": [0.5, 1, 1.5]}, r"row 2: traffic\.participation must be <= 1, got 1\.5"),
        ({"road.length_m": [1, 2], "traffic.speed_mps": [1, 2, 3]}, r"table must have columns of one length"),
        ({"road.length_m": [np.nan]}, r"row 0: road\.length_m must be finite, got nan"),
        (
            {"compute.min_step_s": [0.2, 1e-11]},
            r"row 1: compute\.min_step_s must be such that at most 1e\+12",
        ),
        (
            {"link.model_bytes": [1000]},
            r"row 0: link\.model_bytes must come with downlink_bps and uplink_bps",
        ),
        ({"road.length_m": [400.0, "long"]}, r"row \d: road\.length_m must be a number, got '"),
        (
            pd.DataFrame({"road.length_m": [400, True]}, dtype=object),
            r"row 1: road\.length_m must be a number, got True",
        ),
        ({"training.batch_size": [64, 2.5]}, r"row 1: training\.batch_size must be a whole number, got 2\.5"),
        ({"training.noise_uploads": [0, -1]}, r"row 1: training\.noise_uploads must be >= 0, got -1"),
        ({"training.loss_scale": ["paper", "foo"]}, r"row 1: training\.loss_scale must be one of"),
        ({"traffic.speed_sd_mps": [1.0, 30.0]}, r"row 1: traffic\.speed_sd_mps must be <= traffic\.speed_mps"),
        ({"road.lenght_m": []}, r"road\.lenght_m is not a known key"),
        ({"road.length_m": [[1, 2], [3]]}, r"column road\.length_m must hold one value per row"),
        (17, r"table must have columns under the scenario's names, got int"),
    ],
)
def test_bad_tables_get_a_sentence(table: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan_many(table)
