import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import lambertw, mp, mpf
from numpy.typing import NDArray

from mobfl import InputError, Plan, Scenario, algorithm_1, best_round_s, plan, plan_many, theory
from mobfl.optimum import best_linear_round_s
from oracle import Road
from roads_at_random import log_uniform, scenarios

some_spread = st.just(0.0) | st.floats(0.02, 0.5)


def grid_objective(scenario: Scenario, h: NDArray[np.int64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """g as the paper prints it, for constant speeds: Theorem 1 and Eq. 5, plainly in NumPy."""
    rate = scenario.traffic.arrivals_per_s * scenario.traffic.participation
    t0, beta_h = scenario.dwell_s, scenario.compute.extra_step_s * h
    spare = np.minimum(t, t0) - scenario.compute.min_step_s * h - scenario.link.download_s - scenario.link.upload_s
    success = 1 - np.exp(-np.maximum(spare, 0) / beta_h) if beta_h.all() else 1.0
    uploads = 2 * rate * spare + rate * success * (np.abs(t - t0) - 2 * beta_h)
    return np.where(spare >= -1e-12 * t0, h / t * (1 - np.exp(-np.maximum(uploads, 0))), 0.0)


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


@given(scenarios(rates=log_uniform(1e-4, 1e2), jitter=log_uniform(1e-2, 10.0), spread=some_spread))
def test_algorithm_1_agrees(scenario: Scenario) -> None:
    best, found = plan(scenario), algorithm_1(scenario, 1e-9 * scenario.dwell_s)
    assert best.status == found.status
    if best.reason is None:
        assert found.numbers[2] <= best.numbers[2] * (1 + 1e-12)
        assert found.numbers[2] == pytest.approx(best.numbers[2], rel=1e-7)


@given(scenarios(jitter=log_uniform(1e-3, 30.0)), st.floats(0.0, 1.0))
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


@given(scenarios(spread=some_spread), st.integers(1, 400), st.integers(0, 400))
def test_the_bound_that_rules_out_ranges(scenario: Scenario, a: int, more: int) -> None:
    """G(H)/H never rises: what branch and bound rests on."""
    most = int(theory.max_local_steps(scenario))
    assume(most >= 1)
    h = np.unique(np.minimum([a, a + more], most))
    best = theory.objective(scenario, h, best_round_s(scenario, h)) / h
    assert best[-1] <= best[0] * (1 + 1e-12)


@given(scenarios(steps_that_fit=log_uniform(401.0, 2e4), jitter=log_uniform(1e-2, 10.0)))
def test_branch_and_bound_finds_what_trying_every_h_finds(scenario: Scenario) -> None:
    h = np.arange(1, int(theory.max_local_steps(scenario)) + 1)
    g = theory.objective(scenario, h, best_round_s(scenario, h))
    best = plan(scenario)
    assert best.numbers[2] >= g.max() * (1 - 1e-14)
    assert best.numbers[0] <= h[g.argmax()] or g[best.numbers[0] - 1] >= g.max() * (1 - 1e-14)


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
    scenarios(steps_that_fit=log_uniform(0.5, 3000.0), spread=st.just(0.0) | st.floats(0.05, 0.4)),
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
        ({"training.split": ["random", "foo"]}, r"row 1: training\.split must be one of"),
        ({"traffic.speed_sd_mps": [1.0, 30.0]}, r"row 1: traffic\.speed_sd_mps must be <= traffic\.speed_mps"),
        ({"road.lenght_m": []}, r"road\.lenght_m is not a known key"),
        ({"road.length_m": [[1, 2], [3]]}, r"column road\.length_m must hold one value per row"),
        (17, r"table must have columns under the scenario's names, got int"),
    ],
)
def test_bad_tables_get_a_sentence(table: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan_many(table)
