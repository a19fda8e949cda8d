"""The search by simulation, on surfaces whose top is known and with noise of our own making."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from mobfl import InputError, Scenario, plan, theory
from mobfl.planning.by_simulation import ERROR, Found, Stage, best_by_simulation, slack_of
from mobfl.planning.lattice import Lattice, Point, Space
from mobfl.planning.surface import scheffe, top_of

Array = NDArray[np.float64]
KINDS = ("paper", "steady", "hills", "ripples", "leap", "unknown leap")
FALSE_ALARMS = 1e-5  # of the tests that count how often a search is right


@dataclass
class Fake:
    """Noise about a surface: a share of it is common to all plans of a stretch, and less in longer stretches."""

    surface: Callable[[Array, Array], Array]
    seed: int
    noise: float = 0.8
    common: float = 0.5
    asked: int = 0

    def __call__(self, plans: Sequence[tuple[int, float]], first: int, count: int, lasts_s: float) -> Array:
        h, t = np.array(plans, float).T
        self.asked += len(plans) * count
        draws = np.random.default_rng([self.seed, first])
        wind = self.common * draws.normal(size=count) + draws.normal(size=(len(plans), count))
        return self.surface(h, t)[:, np.newaxis] * (1 + self.noise * np.sqrt(t / lasts_s)[:, np.newaxis] * wind)


def road_space(road: Scenario) -> Space:
    def least_s(h: int) -> float:
        return float(theory.min_delay_s(road, h))

    return Space(int(theory.max_local_steps(road)), least_s, float, road.dwell_s, 1e5)


ALONE = Space(1, lambda _: 2.0, lambda _: 100.0, 20.0, 1e4)


def two_hills(_: Array, t: Array) -> Array:
    """One at 6 s, and a slightly higher and narrower one at 40 s."""
    x = np.log(t)
    return np.exp(-2 * (x - np.log(6)) ** 2) + 1.03 * np.exp(-4 * (x - np.log(40)) ** 2)


def ripples(_: Array, t: Array) -> Array:
    """A broad hill whose top is a comb, as that of anytime rounds."""
    x = np.log(t / 14)
    return 2 * np.exp(-(x**2)) * (1 + 0.003 * np.cos(60 * x))


def leap(_: Array, t: Array) -> Array:
    """Nothing before 9 s, and from there on less and less."""
    return np.where(t >= 9.0, 9.0 / t, 0.0)


def top_of_curve(curve: Callable[[Array, Array], Array]) -> float:
    t = np.geomspace(2, 1e3, 400_000)
    return float(curve(np.ones(1), t).max())


def kinds(paper: Scenario) -> dict[str, tuple[Callable[[Array, Array], Array], Space, float]]:
    """Surfaces with their spaces and greatest values."""
    steady = paper.with_values({"compute.extra_step_s": 0})

    def of(road: Scenario) -> Callable[[Array, Array], Array]:
        return lambda h, t: theory.objective(road, h, t)

    leaps = dataclasses.replace(ALONE, leaps_s=lambda _: [9.0])
    return {
        "paper": (of(paper), road_space(paper), plan(paper).numbers[2]),
        "steady": (of(steady), road_space(steady), plan(steady).numbers[2]),
        "hills": (two_hills, ALONE, top_of_curve(two_hills)),
        "ripples": (ripples, ALONE, top_of_curve(ripples)),
        "leap": (leap, leaps, 1.0),
        "unknown leap": (leap, ALONE, 1.0),
    }


def regret(found: Found | None, surface: Callable[[Array, Array], Array], best: float) -> float:
    assert found is not None
    return 1 - float(surface(np.array([float(found.local_steps)]), np.array([found.round_s]))[0]) / best


def wrong(paper: Scenario, kind: str, within: float, seeds: range) -> int:
    """How many searches miss what they were asked for."""
    surface, space, best = kinds(paper)[kind]
    return sum(regret(best_by_simulation(Fake(surface, seed), space, within), surface, best) > within for seed in seeds)


@pytest.mark.parametrize("kind", KINDS)
def test_searches_are_right_as_often_as_they_say(paper: Scenario, kind: str) -> None:
    searches = 20 if kind == "steady" else 100  # where many plans about T_min are alike, which takes longer
    misses = wrong(paper, kind, 0.01, range(searches))
    assert stats.binomtest(misses, searches, ERROR, "greater").pvalue > FALSE_ALARMS


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("within", [0.03, 0.002])
def test_hundreds_of_searches_are_right_as_often_as_they_say(paper: Scenario, kind: str, within: float) -> None:
    searches = 100
    misses = wrong(paper, kind, within, range(1000, 1000 + searches))
    assert stats.binomtest(misses, searches, ERROR, "greater").pvalue > FALSE_ALARMS


def test_without_noise_the_top_is_found_in_one_look_a_level(paper: Scenario) -> None:
    surface, space, best = kinds(paper)["paper"]
    stages = list[Stage]()
    found = best_by_simulation(Fake(surface, 0, noise=0.0), space, 1e-4, progress=stages.append)
    assert regret(found, surface, best) <= 1e-4
    assert [each.level for each in stages] == [0, *range(len(stages) - 1)]  # the first heat has one of its own
    assert found is not None
    assert found.local_steps == 24


def test_work_grows_as_what_is_asked_shrinks(paper: Scenario) -> None:
    surface, space, _ = kinds(paper)["paper"]
    asked = []
    for within in (0.05, 0.01, 0.002):
        fake, stages = Fake(surface, 3), list[Stage]()
        found = best_by_simulation(fake, space, within, progress=stages.append)
        assert found is not None
        assert found.regret <= within
        assert [each.done for each in stages] == sorted(each.done for each in stages)
        asked.append(found.lasts_s * fake.asked)
    assert asked == sorted(asked)


def test_a_wrong_floor_is_not_reached_by_luck() -> None:
    """One lucky round in a thousand must not hide that longer rounds are far better."""

    def rare(plans: Sequence[tuple[int, float]], first: int, count: int, lasts_s: float) -> Array:
        draws = np.random.default_rng([5, first])
        _, t = np.array(plans, float).T
        chance, rounds = -np.expm1(-t / 3e4), np.maximum(lasts_s / t, 1).astype(int)
        valid = draws.binomial(rounds[:, np.newaxis], chance[:, np.newaxis], size=(len(t), count))
        return 20.0 / t[:, np.newaxis] * valid / rounds[:, np.newaxis]

    space = Space(1, lambda _: 2.0, lambda _: 20.0, 20.0, 1e7)
    found = best_by_simulation(rare, space, 0.02)
    best = 20.0 / 3e4  # of ever shorter rounds
    assert found is not None
    assert 20.0 / found.round_s * -np.expm1(-found.round_s / 3e4) > 0.98 * best


def test_where_nobody_uploads_nothing_is_found() -> None:
    assert best_by_simulation(Fake(lambda _, t: 0.0 * t, 0), ALONE, 0.01) is None


@pytest.mark.parametrize("within", [0.0, -0.01, 2.0, float("nan"), 1e-9])
def test_a_regret_that_is_no_share_is_refused(within: float) -> None:
    with pytest.raises(InputError, match=r"within must be a share from 0.001% to 50%"):
        best_by_simulation(Fake(leap, 0), ALONE, within)


def test_stretches_are_never_seen_twice(paper: Scenario) -> None:
    surface, space, _ = kinds(paper)["paper"]
    seen = list[range]()

    def noted(plans: Sequence[tuple[int, float]], first: int, count: int, lasts_s: float) -> Array:
        seen.append(range(first, first + count))
        return Fake(surface, 1)(plans, first, count, lasts_s)

    found = best_by_simulation(noted, space, 0.01)
    assert found is not None
    assert sum(map(len, seen)) == len(set().union(*seen)) == found.stretches


def test_a_finer_lattice_has_the_points_of_the_coarser(paper: Scenario) -> None:
    space = road_space(paper)
    for level in range(3):
        coarse, fine = (Lattice(space, each, 0.5) for each in (level, level + 1))
        assert set(coarse.steps.tolist()) <= set(fine.steps.tolist())
    coarse, fine = Lattice(space, 0, 0.5).all(), Lattice(space, 1, 0.5).all()
    assert set(coarse) <= set(fine)
    assert all(space.least_s(h) <= space.round_s(Point(h, v)) <= h / 0.5 * (1 + 1e-9) for h, v in fine)


def test_neighbours_lie_all_around() -> None:
    space = Space(50, lambda h: 2 + 0.2 * h, float, 20.0, 1e4, lambda h: [2 + 0.3 * h])
    lattice = Lattice(space, 2, 0.0)
    point = Point(20, space.beyond(20, 8.0))
    around = lattice.around([point])
    places = sorted({each.local_steps for each in around})
    assert places == [int(lattice.steps[np.searchsorted(lattice.steps, 20) + i]) for i in (-1, 0, 1)]
    there = [each.beyond - point.beyond for each in around if each.local_steps == 20]
    assert there == pytest.approx([-lattice.width, 0.0, lattice.width], abs=1e-8)
    leaping = [each for each in lattice.around([Point(20, space.beyond(20, 8.02))]) if each.local_steps == 20]
    assert 8.0 <= min(map(space.round_s, leaping), key=lambda t: abs(t - 8.0)) < 8.0 + 1e-6


def test_a_top_at_the_edge_may_hide_something() -> None:
    space = Space(1, lambda _: 2.0, lambda _: 100.0, 20.0, 1e4, lambda _: [9.0])
    lattice = Lattice(space, 2, 0.0)
    row = [Point(1, 6 + i * lattice.width) for i in range(-1, 5)]
    left = row[1:-1]
    assert lattice.unseen_beside(row[2], left, {}, 0.1) == 0.0
    first = space.round_s(row[1]) / space.round_s(row[0]) - 1
    assert lattice.unseen_beside(row[1], left, {}, 0.01) == pytest.approx(first)
    assert lattice.unseen_beside(row[1], left, {row[0]: 0.9}, 0.01) == pytest.approx(first)
    assert lattice.unseen_beside(row[1], left, {row[0]: 0.04}, 0.01) == pytest.approx(0.005)
    last = space.round_s(row[-1]) / space.round_s(row[-2]) - 1
    assert lattice.unseen_beside(row[-2], left, {row[0]: 0.01}, 0.01) == pytest.approx(last)
    leap_ = Point(1, space.beyond(1, 9.0))
    assert lattice.unseen_beside(leap_, [leap_, Point(1, leap_.beyond + 0.1)], {}, 0.01) == 0.0
    assert lattice.unseen_beside(Point(1, 0.0), [Point(1, 0.0), Point(1, 0.1)], {}, 0.01) == 0.0


def test_between_two_counts_of_steps_something_may_hide() -> None:
    lattice = Lattice(Space(57, lambda h: 2 + 0.2 * h, float, 20.0, 1e4), 2, 0.0)
    h, more = 49, 53
    there = [Point(h, 5 + i * lattice.width) for i in range(5)]
    fewer = int(lattice.steps[lattice.steps < h][-1])
    behind = {Point(fewer, 5.2): 0.02, Point(more, 5.2): 0.03, Point(more, 5.1): 0.5}
    assert lattice.unseen_beside(there[2], there, behind, 0.01) == pytest.approx(0.03 / 8)
    behind[Point(more, 5.2)] = 0.2
    assert lattice.unseen_beside(there[2], there, behind, 0.01) == pytest.approx((more - 1) / h - 1)


@pytest.mark.parametrize(("local_steps", "round_s"), list(itertools.product((1, 24), (0.0, 1e-6, 0.3, 7.0, 1e3))))
def test_places_and_rounds_are_each_others_inverse(local_steps: int, round_s: float) -> None:
    space = Space(50, lambda h: 2 + 0.2 * h, float, 20.0, 1e4)
    t = space.least_s(local_steps) + round_s
    assert space.round_s(Point(local_steps, space.beyond(local_steps, t))) == pytest.approx(t, rel=1e-12)


def test_the_surface_is_exact_where_it_is_a_polynomial() -> None:
    """A cubic's own top, found between the points, and without noise nothing is left to regret."""
    lattice = Lattice(Space(40, lambda h: 2 + 0.2 * h, float, 20.0, 1e4), 2, 0.0)
    points = [Point(h, 5 + lattice.width * i) for h in (20, 21, 22, 23, 24) for i in range(8)]
    top_h, top_v = 22, 5 + 3.25 * lattice.width

    def value(h: int, v: float) -> float:
        return 3 - 2 * np.log(h / top_h) ** 2 - (v - top_v) ** 2 + 0.1 * (v - top_v) ** 3

    samples = np.array([[value(*point)] * 20 for point in points])
    top = top_of(points, samples, lattice, 0.1, 0.01)
    assert (top.point.local_steps, top.point.beyond) == (top_h, pytest.approx(top_v))
    assert top.regret == pytest.approx(0.0, abs=1e-9)
    assert top.misfit == pytest.approx(0.0, abs=1e-9)
    comb = samples + np.array([[0.05 * (i % 2)] for i in range(len(points))])
    assert top_of(points, comb, lattice, 0.1, 0.01).misfit == pytest.approx(2 * 0.025 / 3, rel=0.1)


def test_few_plans_are_no_surface() -> None:
    """Between two values of H, and between few of T, something may be hidden."""
    lattice = Lattice(Space(40, lambda h: 2 + 0.2 * h, float, 20.0, 1e4), 0, 0.0)
    wide = [Point(h, 5 + lattice.width * i) for h in lattice.steps[-2:].tolist() for i in range(8)]
    flat = [Point(1, 5 + lattice.width * i) for i in range(3)]
    for points in (wide, flat):
        top = top_of(points, np.ones((len(points), 20)), lattice, 0.1, 0.01)
        assert (top.regret, top.misfit) == pytest.approx((0.1, 0.1))
    row = [Point(1, 5 + lattice.width * i) for i in range(6)]
    assert top_of(row, np.ones((6, 20)), lattice, 0.1, 0.01).regret == pytest.approx(0.0, abs=1e-9)


def test_scheffes_bound_covers_the_worst_direction() -> None:
    """Over 2,000 draws of the mean of 24 vectors of five numbers, Hotelling's own statistic is the oracle."""
    draws = np.random.default_rng(4).normal(size=(2000, 24, 5))
    means, covariances = draws.mean(axis=1), np.array([np.cov(each.T) / 24 for each in draws])
    worst = np.sqrt(np.einsum("ij,ijk,ik->i", means, np.linalg.inv(covariances), means))
    misses = int((worst > scheffe(5, 24, 0.05)).sum())
    assert stats.binomtest(misses, 2000, 0.05).pvalue > FALSE_ALARMS
    assert scheffe(0, 24, 0.05) == 0.0
    assert scheffe(30, 24, 0.05) == np.inf


def test_slacks_fall() -> None:
    assert [slack_of(level) for level in range(3)] == pytest.approx([0.12, 0.04, 0.04 / 3])
