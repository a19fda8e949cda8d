"""Where to put stations: greedy against brute force on small networks, whom a station hears, what excludes what."""

from itertools import chain, combinations

import numpy as np
import pytest

import mobfl
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.goals import DistrictsHeard, hear_all_soonest, slowest_after
from mobfl.planning.greedy import ALWAYS, greedy_from_all
from mobfl.planning.heard import log_unheard_over_time, unheard_chances
from mobfl.planning.planner import plan_on_trace
from mobfl.planning.plans import Plan
from mobfl.planning.quick import plan_in_passing
from mobfl.planning.served import GoalName, Served
from mobfl.planning.sites import choose_sites
from mobfl.planning.trace import Trace
from mobfl.theory import Conditions

PAPER = mobfl.load_scenario("paper")
STEADY = PAPER.with_values({"compute.extra_step_s": 0})  # S = 2 s + 0.2 s a step, always
NETWORKS, SECTIONS, CHOSEN = 200, 7, 3


def small_network(seed: int, overlapping: bool) -> Served:
    """Vehicles that wander among sections; the last ones are a section and its neighbour together, if they overlap."""
    random = np.random.default_rng(seed)
    rows: list[list[tuple[int, float, float]]] = [[] for _ in range(SECTIONS)]
    areas: list[list[tuple[int, float, float]]] = [[] for _ in range(3)]
    popular, simple = random.random(SECTIONS) ** 2, SECTIONS - 2 * overlapping
    for vehicle in range(60):
        at_s = random.uniform(0, 300)
        areas[random.integers(3)].append((vehicle, at_s, at_s + 1))
        for section in random.choice(simple, 3, p=popular[:simple] / popular[:simple].sum()):
            at_s += random.uniform(1, 20)
            leave_s = at_s + random.uniform(2, 12)
            rows[section].append((vehicle, at_s, leave_s))
            at_s = leave_s
    for joined in range(simple, SECTIONS):
        rows[joined] = rows[joined - simple] + rows[joined - simple + 1]
    tables = {f"s{i}": table(each) for i, each in enumerate(rows) if len(each) > 2}
    return Served(PAPER, tables, {f"d{i}": table(each) for i, each in enumerate(areas)}, 120.0)


def table(rows: list[tuple[int, float, float]]) -> Crossings:
    return Crossings.sorted(*map(np.array, zip(*rows, strict=True)))


def promises(served: Served) -> dict[str, Plan]:
    road = Conditions.of(PAPER)
    return {name: served.trace(name).promise(road, 6, 7.0) for name in served.crossings}


def subsets(excluded: np.ndarray, most: int) -> list[tuple[int, ...]]:
    every = chain.from_iterable(combinations(range(len(excluded)), size) for size in range(1, most + 1))
    return [each for each in every if not excluded[np.ix_(each, each)].any()]


def worth(goal: object, chosen: tuple[int, ...]) -> float:
    state, value = goal.nothing(), 0.0
    for candidate in chosen:
        value += goal.gains(state)[candidate]
        state = goal.with_one(state, candidate)
    return value


def least_share(excluded: np.ndarray) -> float:
    """Greedy's share of the best: 1 − 1/e, or where p chosen ones may block each other 1/(p + 1)."""
    if not excluded.any():
        return ALWAYS
    blocked = [np.flatnonzero(row) for row in excluded]
    free = [max(map(len, subsets(excluded[np.ix_(each, each)], CHOSEN)), default=0) for each in blocked]
    return 1 / (1 + max(free))


@pytest.mark.parametrize("name", ["steps", "vehicles"])
def test_greedy_is_within_its_bound_of_brute_force_on_random_networks(name: GoalName) -> None:
    shares, tightest = [], []
    for seed in range(NETWORKS):
        served = small_network(seed, overlapping=seed % 2 == 1)
        goal, excluded = served.goal(name, promises(served)), served.excluded()
        picked = greedy_from_all(goal, CHOSEN, excluded)
        assert not excluded[np.ix_(picked.chosen, picked.chosen)].any()
        assert picked.value == pytest.approx(worth(goal, picked.chosen))
        for size in range(1, CHOSEN + 1):
            best = max(worth(goal, each) for each in subsets(excluded, size))
            assert best <= picked.bounds[size - 1] * (1 + 1e-9)
        assert least_share(excluded) * best <= picked.value * (1 + 1e-9) <= best * (1 + 2e-9)
        shares.append(picked.value / best)
        tightest.append(picked.bound / best)
    assert excluded.any()
    assert np.mean(shares) > 0.99
    assert np.median(tightest) < 1.25


def test_no_other_sites_hear_all_districts_before_the_bound() -> None:
    gaps = []
    for seed in range(NETWORKS // 5):
        served = small_network(seed, overlapping=seed % 2 == 1)
        goal, excluded = served.goal("districts", promises(served)), served.excluded()
        assert isinstance(goal, DistrictsHeard)
        found = hear_all_soonest(goal, CHOSEN, excluded)
        best_s = min(slowest_after(goal, each)[-1] for each in subsets(excluded, CHOSEN))
        assert found.bound_s <= best_s + 0.01 <= found.slowest_s[-1] + 0.02
        gaps.append(found.slowest_s[-1] / best_s)
    assert np.mean(gaps) < 1.05


def test_gains_of_every_goal_shrink_as_the_set_grows() -> None:
    for name in ("steps", "vehicles", "districts"):
        goal = small_network(5, overlapping=False).goal(name, promises(small_network(5, overlapping=False)))
        state = goal.nothing()
        before = goal.gains(state)
        for candidate in (0, 2, 4):
            state = goal.with_one(state, candidate)
            after = goal.gains(state)
            assert (after <= before + 1e-5).all(), name
            assert (after >= -1e-5).all()
            before = after


def test_whom_a_station_hears_without_jitter() -> None:
    """Five steps take 3 s. In rounds of 10 s a stay of 6.5 s has 3 s in one round, wherever rounds begin."""
    rows = Crossings(np.array([7, 8, 9]), np.array([100.0, 200.0, 300.0]), np.array([106.5, 202.9, 304.0]))
    chances = unheard_chances(rows, np.arange(3), 3, Conditions.of(STEADY), 1.0, (5, 10.0))
    assert chances[:2].tolist() == [0.0, 1.0]
    assert chances[2] == pytest.approx(0.2, abs=1 / 16)  # a boundary in the middle 2 s of its 4 s spoils it
    halved = unheard_chances(rows, np.arange(3), 3, Conditions.of(STEADY), 0.5, (5, 10.0))
    assert halved[0] == 0.5


def test_chances_of_being_heard_are_those_of_drawn_rounds() -> None:
    """Against plain Python: rounds that begin at random, delays drawn afresh in every round."""
    random, road = np.random.default_rng(3), Conditions.of(PAPER)
    rows = Crossings(np.array([0, 1, 0]), np.array([10.0, 20.0, 60.0]), np.array([18.0, 47.0, 66.0]))
    chances = unheard_chances(rows, np.array([0, 1, 0]), 2, road, 0.8, (6, 9.0))
    heard = np.zeros(2)
    for _ in range(20_000):
        begin, lucky = random.uniform(0, 9), set()
        for vehicle, enter, leave in zip(rows.vehicle, rows.enter_s, rows.leave_s, strict=True):
            at = begin + 9 * np.floor((enter - begin) / 9)
            takes_part = random.random() < 0.8
            while at < leave:
                delay = 2 + 1.2 + random.exponential(1.2)
                if takes_part and max(at, enter) + delay <= min(leave, at + 9):
                    lucky.add(int(vehicle))
                at += 9
        heard[list(lucky)] += 1
    assert 1 - chances == pytest.approx(heard / 20_000, abs=0.015)


def test_when_a_district_is_first_heard_without_jitter() -> None:
    """Rounds of 10 s begin at 0: the vehicle is there from 12 s on and done by 15 s, which counts at 20 s."""
    rows = Crossings(np.array([1, 2]), np.array([12.0, 31.0]), np.array([18.0, 33.0]))
    logs = log_unheard_over_time(
        rows, np.array([0, 1]), 2, Conditions.of(STEADY), 1.0, (5, 10.0), np.array([0.0]), 5.0, 8
    )
    assert np.exp(logs[0, 0]).round(6).tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert np.exp(logs[1, 0]).tolist() == [1] * 8  # it stays 2 s
    goal = DistrictsHeard(logs[np.newaxis].astype(np.float32), 5.0)
    assert slowest_after(goal, (0,)) == (40.0,)
    assert goal.saved_s(logs[:1].astype(np.float32)).tolist() == [20.0]


def test_sections_that_share_vehicles_time_are_not_combined() -> None:
    random = np.random.default_rng(1)
    enter = np.sort(random.uniform(0, 2000, 150))
    tables = {
        name: Crossings(np.arange(150), enter + start, enter + end)
        for name, start, end in (("middle", 10, 50), ("first", 0, 25), ("second", 26, 60))
    }
    assert Served(PAPER, tables, {}).excluded().tolist() == [
        [False, True, True], [True, False, False], [True, False, False]
    ]  # fmt: skip
    choice = choose_sites(PAPER, tables, 3)
    assert [site.name for site in choice.sites] == ["second", "first"]
    assert [site.name for site in choose_sites(PAPER, tables, 1).sites] == ["middle"]
    assert choice.sites[0].value < choose_sites(PAPER, tables, 1).value < choice.value


def test_a_quick_plan_is_nearly_as_good_as_a_full_one() -> None:
    random = np.random.default_rng(2)
    for rate, stay in ((0.05, 15.0), (0.3, 40.0)):
        enter = np.cumsum(random.exponential(1 / rate, 400))
        crossings = Crossings(np.arange(400), enter, enter + random.normal(stay, 3, 400).clip(2))
        quick, full = plan_in_passing(PAPER, Trace(crossings, 1.0)), mobfl.plan(PAPER, crossings)
        assert quick.numbers[2] == pytest.approx(full.numbers[2], rel=0.01)
        again = Trace(crossings, 1.0).promise(Conditions.of(PAPER), *quick.numbers[:2])
        assert quick.numbers[2] == again.numbers[2]


def test_the_chosen_have_full_plans_and_their_values_add_up() -> None:
    served = small_network(4, overlapping=False)
    choice = choose_sites(PAPER, served.crossings, 3)
    assert [site.plan.to_dict() for site in choice.sites] == [
        plan_on_trace(PAPER, served.trace(site.name)).to_dict() for site in choice.sites
    ]
    assert choice.value == pytest.approx(sum(site.plan.numbers[2] for site in choice.sites))
    assert choice.value == pytest.approx(sum(site.gain for site in choice.sites))
    assert choice.screened_values[-1] <= choice.bounds[-1] + 1e-9


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"count": 0}, "count must be >= 1"),
        ({"count": 99}, "<= 6, the candidates, got 99"),
        ({"goal": "fame"}, "goal must be one of steps, vehicles, districts, got 'fame'"),
        ({"goal": "districts"}, "districts must be given"),
        ({"goal": "districts", "horizon_s": 1e9, "districts": small_network(4, False).areas}, "horizon_s must be"),
    ],
)
def test_wrong_wishes_are_named(wrong: dict[str, object], words: str) -> None:
    wish = {"count": 2, "goal": "steps"} | wrong
    with pytest.raises(InputError, match=words):
        choose_sites(PAPER, small_network(4, overlapping=False).crossings, **wish)


def test_where_nothing_has_a_plan_the_busiest_says_why() -> None:
    enter = np.arange(0.0, 100.0)
    with pytest.raises(mobfl.InfeasibleError, match="none of 1 candidates has a plan; of only, the busiest"):
        choose_sites(PAPER, {"only": Crossings(np.arange(100), enter, enter + 0.5)}, 1)


def test_a_horizon_in_which_nobody_is_heard_is_said() -> None:
    """The quickest training takes 2.2 s."""
    served = small_network(3, overlapping=False)
    with pytest.raises(mobfl.InfeasibleError, match=r"any district within the horizon of 0\.001 s: choose a longer"):
        choose_sites(STEADY, served.crossings, 2, "districts", served.areas, 1e-3)
