"""What finished runs say together: hand-made cases, SciPy's own numbers, and the bootstrap's coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from mobfl.errors import InputError
from mobfl.experiments.analysis import (
    Point,
    best_until,
    fitted_surface,
    mean_over_seeds,
    more_is_better,
    proxy_spearman,
    regret,
    spans_plane,
    spearman,
    spearman_over_time,
)
from mobfl.learning.task import Kpi
from mobfl.rounds.estimates import Estimate
from mobfl.runs.history import COLUMNS, History

NAN = math.nan


def history(losses: list[float], initial: float = 9.0, round_s: float = 10.0) -> History:
    """A run with these losses at the ends of its rounds; `score` rises and `error` falls as the loss falls."""
    rows = [
        dict.fromkeys(COLUMNS, 0) | {"end_s": round_s * k, "loss": loss, "score": 10 - loss, "error": 2 * loss}
        for k, loss in enumerate(losses, start=1)
    ]
    first = {"loss": initial, "score": 10 - initial, "error": 2 * initial}
    return History.of_rows(first, rows, [Kpi("score"), Kpi("error", more_is_better=False)])


def point(h: int, t: float, g: float, *losses: float, seed: int = 0) -> Point:
    return Point(h, t, seed, g, history(list(losses)))


# ---- the best so far --------------------------------------------------------------------------------


def test_the_best_so_far_counts_the_initial_model_and_leaves_out_nan() -> None:
    run = history([7.0, 8.0, NAN, 5.0])
    assert best_until(run, "loss", [0.0, 9.9, 10.0, 20.0, 30.0, 40.0, np.inf]).tolist() == [9, 9, 7, 7, 7, 5, 5]
    assert best_until(run, "score", [0.0, 10.0, 20.0, np.inf]).tolist() == [1, 3, 3, 5]
    assert best_until(run, "error", [0.0, 10.0, 20.0, np.inf]).tolist() == [18, 14, 14, 10]


@given(st.lists(st.floats(0, 10), max_size=6), st.floats(0, 70))
def test_the_best_loss_so_far_is_l_min(losses: list[float], at_s: float) -> None:
    run = history(losses)
    assert best_until(run, "loss", at_s) == run.min_loss(at_s)
    assert best_until(run, "score", np.inf) == run.best("score")


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(InputError, match=r"column must be one of loss, score, error, got 'top_3'"):
        more_is_better(history([1.0]), "top_3")


# ---- plans ------------------------------------------------------------------------------------------


GRID = [
    point(24, 12.0, 1.2, 3.0, seed=0),
    point(24, 12.0, 1.2, 5.0, seed=1),
    point(8, 6.0, 0.9, 2.0, seed=0),
    point(8, 6.0, 0.9, 4.0, seed=1),
    point(8, 30.0, 0.2, 8.0),
]


def test_runs_of_one_plan_are_averaged() -> None:
    results = mean_over_seeds(GRID)
    assert [(each.local_steps, each.round_s, each.objective) for each in results] == [
        (8, 6.0, 0.9), (8, 30.0, 0.2), (24, 12.0, 1.2)
    ]  # fmt: skip
    assert [each.values for each in results] == [(2.0, 2.0), (8.0,), (3.0, 3.0)]  # the second seed is harder for all
    assert [each.mean for each in mean_over_seeds(GRID, "score")] == [8.0, 2.0, 7.0]
    assert [each.mean for each in mean_over_seeds(GRID, at_s=0.0)] == [9.0, 9.0, 9.0]


@pytest.mark.parametrize(
    ("column", "difference", "best"), [("loss", 1.0, 2.0), ("score", 1.0, 8.0), ("error", 2.0, 4.0)]
)
def test_regret_by_hand(column: str, difference: float, best: float) -> None:
    found = regret(GRID, column)
    assert (found.best.local_steps, found.best.round_s, found.best.mean) == (8, 6.0, best)
    assert (found.chosen.local_steps, found.chosen.round_s) == (24, 12.0)
    assert (found.difference, found.relative) == (difference, difference / best)
    assert (found.rank, found.plans) == (2, 3)
    assert found.spread == 0.0  # both seeds say the same
    assert found.exceeds_spread is True


def test_seeds_that_disagree_make_the_spread() -> None:
    found = regret([*GRID[:2], GRID[2], point(8, 6.0, 0.9, 6.0, seed=1)])
    # Differences of 1 and −1: least squares leave ±1/2 in all four runs, with one degree of freedom.
    assert found.difference == pytest.approx(0.0)
    assert found.spread == pytest.approx(1.0)
    assert found.exceeds_spread is False


def test_a_seed_that_only_some_plans_have_is_not_taken_for_their_merit() -> None:
    """Within each seed the order is g's; the second seed is harder by 1."""
    runs = [point(h, 10.0, h / 10, 5.0 - h / 10) for h in range(1, 7)]
    runs += [point(h, 10.0, h / 10, 6.0 - h / 10, seed=1) for h in (6, 5)]
    assert proxy_spearman(runs).value == pytest.approx(1.0)
    assert regret(runs).rank == 1
    drawn = ((1, 0), (2, 0), (3, 0), (4, 0), (4, 1))
    unlearnt = [Point(h, 10.0, seed, h / 10, history([], initial=9.0 + seed)) for h, seed in drawn]
    assert math.isnan(proxy_spearman(unlearnt).value)


def test_what_a_seed_has_only_together_with_a_plan_is_the_plans() -> None:
    runs = [point(1, 10.0, 0.1, 5.0), point(2, 10.0, 0.2, 4.0), point(3, 10.0, 0.3, 3.0, seed=1)]
    assert [each.mean for each in mean_over_seeds(runs)] == [5.0, 4.0, 3.0]
    shared = [*runs, point(4, 10.0, 0.4, 2.0, seed=1), point(4, 10.0, 0.4, 1.0, seed=2)]
    assert [each.mean for each in mean_over_seeds(shared)][:2] == [5.0, 4.0]


def test_a_difference_beyond_the_spread_is_told() -> None:
    close = [point(24, 12.0, 1.2, loss, seed=seed) for seed, loss in enumerate((5.0, 5.1))]
    found = regret([*close, *(point(8, 6.0, 0.9, loss, seed=seed) for seed, loss in enumerate((3.0, 3.1)))])
    assert found.exceeds_spread is True
    assert regret(close).exceeds_spread is False  # the only plan is the best
    assert regret(close).rank == 1


def test_one_seed_knows_no_spread() -> None:
    found = regret([point(24, 12.0, 1.2, 5.0), point(8, 6.0, 0.9, 3.0)])
    assert math.isnan(found.spread)
    assert found.exceeds_spread is None
    assert regret([point(24, 12.0, 1.2, 5.0)]).exceeds_spread is False


def test_a_plan_that_learnt_nothing_known_is_the_worst() -> None:
    lost = Point(24, 12.0, 0, 1.2, history([NAN], initial=NAN))
    found = regret([lost, point(8, 6.0, 0.9, 3.0), point(4, 6.0, 0.1, 8.0)])
    assert found.rank == 3
    assert math.isnan(found.difference)
    assert found.exceeds_spread is None


def test_regret_of_nothing_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one run"):
        regret([])


# ---- rank correlation -------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=4, max_size=12))
def test_rho_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = spearman(x, y, resamples=20)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found.value)
    else:
        assert found.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
        assert -1 <= found.low <= found.high <= 1


def test_resamples_are_scipys_too() -> None:
    """The interval's ends are quantiles of what SciPy says of the same draws."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    drawn = np.random.default_rng(5).integers(30, size=(200, 30))
    rhos = [spearmanr(x[row], y[row]).statistic for row in drawn]
    found = spearman(x, y, seed=5, resamples=200)
    assert (found.low, found.high) == pytest.approx(np.quantile(rhos, (0.025, 0.975)), abs=1e-12)


def test_order_alone_counts() -> None:
    assert spearman([1, 2, 3, 4, 5], np.exp([1, 2, 3, 4, 5])).value == 1.0
    assert spearman([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]).value == -1.0


@pytest.mark.parametrize(
    ("x", "y"),
    [([], []), ([1, 2, 3], [1, 2, 3]), ([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3, NAN], [1, 2, 3, 4])],
)
def test_too_little_says_nothing(x: list[float], y: list[float]) -> None:
    found = spearman(x, y)
    assert all(math.isnan(each) for each in (found.value, found.low, found.high))


def test_a_pair_with_nan_is_left_out() -> None:
    assert spearman([1, 2, 3, 4, 5], [1, 3, NAN, 2, 4]) == spearman([1, 2, 4, 5], [1, 3, 2, 4])


def test_resamples_that_say_nothing_widen_the_interval() -> None:
    """Six in seven values are equal: more than a third of the resamples are constant, and could be anything."""
    found = spearman([0, 0, 0, 0, 0, 0, 1], [1, 2, 3, 4, 5, 6, 7])
    assert found.value > 0.5
    assert (found.low, found.high) == (-1.0, 1.0)


def test_the_interval_covers_about_as_often_as_it_says() -> None:
    """Of pairs from a normal law with correlation r, ρ tends to 6/π · arcsin(r/2)."""
    rng, r, n = np.random.default_rng(0), 0.6, 40
    truth = 6 / np.pi * np.arcsin(r / 2)
    covered = 0
    for seed in range(300):
        x = rng.normal(size=n)
        y = r * x + math.sqrt(1 - r * r) * rng.normal(size=n)
        found = spearman(x, y, seed, resamples=400)
        covered += found.low <= truth <= found.high
    assert 0.88 < covered / 300 < 0.98  # percentile intervals are a little short for few pairs


def test_g_is_compared_plan_by_plan() -> None:
    """A second seed is no further evidence, and every sign is such that more is better."""
    single = [point(h, 5.0, g, loss) for h, g, loss in ((1, 0.1, 8.0), (2, 0.2, 6.0), (3, 0.3, 7.0), (4, 0.4, 2.0))]
    double = [*single, *(Point(each.local_steps, 5.0, 1, each.objective, each.history) for each in single)]
    assert proxy_spearman(single).value == pytest.approx(0.8)  # one swap of neighbours: 1 − 6 · 2 / (4 · 15)
    assert proxy_spearman(double) == proxy_spearman(single)
    for column in ("score", "error"):
        assert proxy_spearman(single, column) == proxy_spearman(single)


def test_rho_over_time() -> None:
    """At first nothing is learnt, then the slow are ahead, in the end the fast."""
    runs = [point(h, 10.0, g, *losses) for h, g, losses in zip(
        (1, 2, 3, 4), (0.1, 0.2, 0.3, 0.4), ((3.0, 3.0), (4.0, 2.5), (5.0, 2.0), (6.0, 1.0)), strict=True
    )]  # fmt: skip
    assert math.isnan(proxy_spearman([]).value)
    start, middle, end = spearman_over_time([0.0, 10.0, 20.0], runs)
    assert math.isnan(start.value)
    assert middle.value == -1.0
    assert end == Estimate(1.0, end.low, 1.0)


# ---- surfaces ---------------------------------------------------------------------------------------


def test_a_plane_in_the_logarithms_is_found_again() -> None:
    h, t = (side.ravel() for side in np.meshgrid([4.0, 12.0, 24.0, 60.0], [5.0, 10.0, 20.0, 40.0]))
    surface = fitted_surface(h, t, 1 + 2 * np.log(h) - 3 * np.log(t))
    at_h, at_t = np.array([[7.0], [30.0]]), np.array([6.0, 15.0, 33.0])
    assert surface(at_h, at_t) == pytest.approx(1 + 2 * np.log(at_h) - 3 * np.log(at_t), abs=1e-9)


def test_a_curved_surface_is_followed_and_noise_between_seeds_is_not() -> None:
    h, t = (side.ravel() for side in np.meshgrid(np.geomspace(4, 60, 7), np.geomspace(5, 40, 7)))
    z = np.sin(np.log(h)) * np.log(t)
    noise = np.where(np.arange(len(z)) % 2, 0.3, -0.3)
    surface = fitted_surface(np.tile(h, 2), np.tile(t, 2), np.concatenate([z + noise, z - noise]))
    assert surface(h, t) == pytest.approx(fitted_surface(h, t, z)(h, t), abs=0.05)
    assert surface(h, t) == pytest.approx(z, abs=0.1)


@pytest.mark.parametrize(
    ("h", "t", "z"),
    [
        ([24.0], [12.0], [3.0]),
        ([24.0, 24.0], [12.0, 12.0], [2.5, 3.5]),  # two seeds
        ([24.0, 24.0, 24.0], [6.0, 12.0, 24.0], [3.0, 3.0, 3.0]),  # one H
        ([6.0, 12.0, 24.0], [5.0, 10.0, 20.0], [3.0, 3.0, 3.0]),  # on a line
        ([6.0, 12.0, 24.0, 30.0], [5.0, 11.0, 20.0, 8.0], [3.0, NAN, 3.0, 3.0]),
    ],
)
def test_few_points_and_lines_have_a_surface(h: list[float], t: list[float], z: list[float]) -> None:
    assert fitted_surface(h, t, z)([10.0, 30.0], [8.0, 30.0]) == pytest.approx([3.0, 3.0])


def test_along_one_h_the_surface_follows_t() -> None:
    t = np.geomspace(5, 40, 9)
    surface = fitted_surface(np.full(9, 24.0), t, np.log(t))
    assert surface(24.0, t) == pytest.approx(np.log(t), abs=0.15)
    assert not spans_plane(np.full(9, 24.0), t)
    assert spans_plane([1, 2, 2], [1, 1, 2])
    assert not spans_plane([], [])


def test_a_surface_through_nothing_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one point"):
        fitted_surface([24.0], [12.0], [NAN])
