"""A plan that follows the traffic: what is seen, what is made of it, and what keeps it stable."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from command import mobfl
from fake_task import CountingTask
from mobfl import Job, Scenario, load_scenario, plan, theory, train
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.day import DAY_S, Day, day_crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.policies.adaptive.arrivals import ArrivalRate
from mobfl.policies.adaptive.bunching import Bunching
from mobfl.policies.adaptive.controller import Controller, Settings
from mobfl.policies.adaptive.delays import ReplyDelays
from mobfl.policies.adaptive.following import follow
from mobfl.policies.adaptive.observed import Observed
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.policies.adaptive.stays import Stays, kaplan_meier
from mobfl.policies.adaptive.watching import Watcher
from mobfl.rounds.orders import FixedPlan, Order
from mobfl.rounds.rows import Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.servers.choice import PlanRequest
from mobfl.servers.names import adaptive_rounds, server_of
from mobfl.theory import Delays
from mobfl.theory.distributions import Constant


def seen(**columns: object) -> Observed:
    """A minute in which nothing happened but what is said."""
    start_s = float(columns.pop("start_s", 0.0))  # type: ignore[arg-type]
    known = {name: np.asarray(values, float) for name, values in columns.items() if name != "local_steps"}
    nothing = dict.fromkeys(("arrived_s", "left_s", "stay_s", "there_s", "window_s", "reply_s"), np.empty(0))
    told = {**nothing, **known}
    steps = np.full(len(told["window_s"]), float(columns.get("local_steps", 1)))  # type: ignore[arg-type]
    return Observed(start_s, start_s + 60.0, **told, steps=steps)


# ---- what is seen ----------------------------------------------------------------------------------


def test_a_base_station_sees_arrivals_stays_and_replies(paper: Scenario) -> None:
    """S = 4 s. Ann is there before, Bob replies twice and leaves as a round ends, Cy is cut off, Di stays."""
    steady = paper.with_values({"compute.extra_step_s": 0})
    traffic = Crossings(
        np.array(["ann", "bob", "cy", "di", "last"]),
        np.array([-3.0, 1.0, 8.0, 15.0, 40.0]),
        np.array([6.0, 20.0, 10.0, 35.0, 40.0]),
    )

    class Watching:
        def __init__(self) -> None:
            self.watcher, self.seen = Watcher(2.0), list[Observed]()

        def next_order(self, rounds: Rounds | None) -> Order:
            if rounds is not None:
                self.seen.append(self.watcher.see(rounds))
            return Order(10, 10.0, 2)

    policy = Watching()
    list(simulate_rounds([traffic], policy, Delays.of(steady), 0))
    first, second = policy.seen[:2]
    assert (first.start_s, first.end_s, set(first.steps)) == (0.0, 20.0, {10.0})
    assert first.arrived_s.tolist() == [1.0, 8.0, 15.0]
    assert (first.left_s.tolist(), first.stay_s.tolist()) == ([10.0], [2.0])  # since when Ann was there is not known
    assert (second.left_s.tolist(), second.stay_s.tolist()) == ([20.0, 35.0], [19.0, 20.0])  # that Bob left shows late
    assert first.window_s.tolist() == [6.0, 9.0, 2.0, 10.0, 5.0]
    np.testing.assert_allclose(first.reply_s, [4.0, 4.0, np.nan, 4.0, 4.0])


def test_what_is_observed_must_make_sense() -> None:
    with pytest.raises(InputError, match="must last some time, got 5 to 5 s"):
        Observed(5.0, 5.0, *[np.empty(0)] * 7)
    with pytest.raises(InputError, match="a window per attempt"):
        seen(window_s=[1.0])


# ---- estimates -------------------------------------------------------------------------------------


def test_kaplan_meier_by_hand() -> None:
    """Of four, one leaves at 1, one is still there at 2, one leaves at 3, the last is still there at 4."""
    stays, chances = kaplan_meier(np.array([3.0, 1.0, 4.0, 2.0]), np.array([1.0, 1.0, 0.0, 0.0]), np.ones(4))
    assert stays.tolist() == [1.0, 3.0, 4.0]
    np.testing.assert_allclose(chances, [1 / 4, 3 / 8, 3 / 8])


def test_a_jam_shows_in_those_who_have_not_left() -> None:
    stays = Stays(Constant(20.0), 3.0, 600.0)
    stays.add(seen(left_s=[50.0] * 10, stay_s=[20.0] * 10))
    calm = stays.mean_s()
    stays.add(seen(start_s=60.0, there_s=[55.0] * 10))
    assert calm == pytest.approx(20.0)
    assert stays.mean_s() > 30.0


def test_the_rate_fades_to_a_floor() -> None:
    rate = ArrivalRate(0.1, 3.0, 600.0)
    rate.add(seen(arrived_s=np.arange(0.0, 60.0, 2.0)))
    assert rate.value > 0.25
    for minute in range(1, 600):
        rate.add(seen(start_s=60.0 * minute))
    assert rate.value == pytest.approx(0.5 / 600.0, rel=1e-3)
    assert rate.estimate().low < rate.value < rate.estimate().high


@pytest.mark.parametrize("every_s", [10.0, 60.0])
def test_the_rate_does_not_depend_on_how_time_is_cut(every_s: float) -> None:
    rate, arrived_s = ArrivalRate(0.1, 3.0, 600.0), np.sort(np.random.default_rng(1).uniform(0, 600, 90))
    for start_s in np.arange(0.0, 600.0, every_s).tolist():
        mine = arrived_s[(arrived_s >= start_s) & (arrived_s < start_s + every_s)]
        nothing = [np.empty(0)] * 6
        rate.add(Observed(start_s, start_s + every_s, mine, *nothing))
    weights = np.exp((arrived_s - 600.0) / 600.0)
    prior, time_s = 3.0 * np.exp(-1.0), 30.0 * np.exp(-1.0) + 600.0 * (1 - np.exp(-1.0))
    assert rate.value == pytest.approx((weights.sum() + prior) / time_s)


def attempts(
    random: np.random.Generator, steps: int, count: int, window_s: float, law: tuple[float, float, float]
) -> Observed:
    transfer_s, min_step_s, extra_step_s = law
    delay_s = transfer_s + min_step_s * steps + random.exponential(extra_step_s * steps, count)
    window = random.uniform(0.3, 1.0, count) * window_s
    return seen(local_steps=steps, window_s=window, reply_s=np.where(delay_s <= window, delay_s, np.nan))


def test_delays_of_several_h_tell_transfers_from_steps() -> None:
    random, delays = np.random.default_rng(3), ReplyDelays((2.0, 0.2, 0.2), 3.0, 600.0)
    for steps in (5, 12, 30, 60):
        delays.add(attempts(random, steps, 300, 40.0, (3.0, 0.3, 0.1)))
    transfer_s, min_step_s, extra_step_s = delays.values()
    assert transfer_s == pytest.approx(3.0, rel=0.05)
    assert min_step_s == pytest.approx(0.3, rel=0.05)
    assert extra_step_s == pytest.approx(0.1, rel=0.1)


def test_one_h_leaves_the_transfers_to_the_prior() -> None:
    random, delays = np.random.default_rng(3), ReplyDelays((2.0, 0.2, 0.2), 3.0, 600.0)
    delays.add(attempts(random, 20, 600, 40.0, (3.0, 0.3, 0.1)))
    transfer_s, min_step_s, _ = delays.values()
    assert transfer_s == pytest.approx(2.0, rel=0.05)
    assert transfer_s + 20 * min_step_s == pytest.approx(9.0, rel=0.02)  # what shows is right


def test_censoring_is_respected() -> None:
    """Windows that cut off half of the attempts: the mean of the replies alone would be far too small."""
    random, delays = np.random.default_rng(4), ReplyDelays((2.0, 0.2, 0.2), 3.0, 600.0)
    delays.add(attempts(random, 20, 2000, 14.0, (2.0, 0.2, 0.4)))
    assert delays.values()[2] == pytest.approx(0.4, rel=0.15)


def test_intervals_cover_at_their_rate() -> None:
    """Truths drawn from the prior of τ, replies of three H, a third of the attempts cut off; false alarms 1 in 1000."""
    random, runs, held = np.random.default_rng(5), 200, np.zeros(4)
    for _ in range(runs):
        law = (max(2.0 + 0.25 * 2.2 * random.standard_normal(), 0.1), 0.2, 0.2)
        delays, rate = ReplyDelays((2.0, 0.2, 0.2), 3.0, 600.0), ArrivalRate(0.05, 1.0, 600.0)
        for steps in (15, 24, 40):
            delays.add(attempts(random, steps, 60, 24.0, law))
        for minute in range(60):
            arrived_s = 60.0 * minute + np.sort(random.uniform(0, 60, random.poisson(6)))
            rate.add(seen(start_s=60.0 * minute, arrived_s=arrived_s))
        found = delays.estimate()
        for i, (each, true) in enumerate(
            zip((found.transfer_s, found.min_step_s, found.extra_step_s, rate.estimate()), (*law, 0.1), strict=True)
        ):
            held[i] += each.low <= true <= each.high
    assert (held >= 178).all(), held  # binomial: P{fewer than 178 of 200 at 95 %} < 0.001
    assert held.mean() <= 199


def test_bunches_show() -> None:
    free, signal = Bunching(1200.0), Bunching(1200.0)
    random = np.random.default_rng(2)
    for minute in range(20):
        arrived_s = 60.0 * minute + np.sort(random.uniform(0, 60, random.poisson(12)))
        free.add(seen(start_s=60.0 * minute, arrived_s=arrived_s))
        signal.add(seen(start_s=60.0 * minute, arrived_s=60.0 * minute + np.arange(12.0)))
    assert free.variance_to_mean < 2 < signal.variance_to_mean


# ---- the controller ---------------------------------------------------------------------------------


def orders(policy: AdaptivePolicy, road: Scenario, traffic: list[Crossings], until_s: float) -> list[Order]:
    given = list[Order]()
    blocks = simulate_rounds(traffic, policy, Delays.of(road), 1, until_s=until_s)
    for block in itertools.takewhile(lambda block: block.start_s[0] < until_s, blocks):
        given.append(Order(block.local_steps, block.round_s))
    return given


def test_it_finds_the_plan_of_a_road_that_is_not_as_the_scenario_says(paper: Scenario) -> None:
    truth = paper.with_values({"traffic.arrivals_per_s": 0.4, "traffic.speed_mps": 8, "compute.min_step_s": 0.3})
    traffic = [next(poisson_crossings(truth, 3))]
    last = orders(AdaptivePolicy(paper, Delays.of(truth)), truth, traffic, 4000.0)[-1]
    assert theory.objective(truth, last.local_steps, last.round_s) > 0.96 * plan(truth).numbers[2]


def test_changes_are_bounded(paper: Scenario) -> None:
    truth = paper.with_values({"traffic.arrivals_per_s": 0.5, "traffic.speed_mps": 4})
    given = orders(AdaptivePolicy(paper, Delays.of(truth)), truth, [next(poisson_crossings(truth, 3))], 2000.0)
    assert len({order.local_steps for order in given}) > 2
    for before, after in itertools.pairwise(given):
        assert 0.5 <= after.local_steps / before.local_steps <= 2.0
        assert 0.5 - 1e-9 <= after.round_s / before.round_s <= 2.0 + 1e-9


def test_an_hour_without_vehicles_does_not_break_it(paper: Scenario) -> None:
    controller = Controller(paper, Settings())
    for minute in range(600):
        controller.observe(seen(start_s=60.0 * minute, local_steps=24))
    order, known = controller.order(), controller.knowledge()
    assert known.stay_s.value == pytest.approx(20.0)
    assert known.delay.min_step_s.value == pytest.approx(0.2)
    assert known.delay.extra_step_s.value == pytest.approx(0.2)
    assert theory.objective(paper, order.local_steps, order.round_s) > 0.5  # good enough for those who come again


def test_silence_alone_leads_back_to_fewer_steps(paper: Scenario) -> None:
    """Steps take ten times what the scenario says: nobody can reply within the first plan's H and T."""
    truth = paper.with_values({"compute.min_step_s": 2.0, "compute.extra_step_s": 0.2})
    given = orders(AdaptivePolicy(paper, Delays.of(truth)), truth, [next(poisson_crossings(truth, 3))], 8000.0)
    assert theory.objective(truth, given[0].local_steps, given[0].round_s) == 0
    last = given[-1]
    assert theory.objective(truth, last.local_steps, last.round_s) > 0.9 * plan(truth).numbers[2]


def test_two_residents_who_never_reply_are_asked_for_fewer_steps(paper: Scenario) -> None:
    """Nobody comes and nobody leaves: that they are silent is all there is to learn from, and it suffices."""
    truth = paper.with_values({"compute.min_step_s": 1.0, "compute.extra_step_s": 0.0})
    names, enter = np.array(["ann", "bob", "last"]), np.array([-5.0, -4.0, 2000.0])
    residents = Crossings(names, enter, np.array([2000.0, 2000.0, 2001.0]))
    blocks = list(
        simulate_rounds([residents], AdaptivePolicy(paper, Delays.of(truth)), Delays.of(truth), 1, until_s=1000.0)
    )
    steps = [block.local_steps for block in blocks for _ in range(len(block))]
    uploads = np.concatenate([block.uploads for block in blocks])
    assert steps[0] == 24
    assert max(steps[10:]) < 24
    assert not uploads[:5].any()
    assert uploads[-3:].all()  # at last they have the time


def test_it_keeps_a_plan_that_is_good(paper: Scenario) -> None:
    policy = AdaptivePolicy(paper, Delays.of(paper))
    orders(policy, paper, [next(poisson_crossings(paper, 3))], 10_000.0)
    assert policy.controller.changes <= 5


def test_asked_for_a_first_order_it_begins_again(paper: Scenario) -> None:
    truth = paper.with_values({"traffic.arrivals_per_s": 0.4})
    policy, traffic = AdaptivePolicy(paper, Delays.of(paper)), [next(poisson_crossings(truth, 3))]
    assert orders(policy, truth, traffic, 1000.0) == orders(policy, truth, traffic, 1000.0)


@pytest.mark.parametrize(("name", "value"), [("memory_s", 0.0), ("factor", 1.0), ("worth", -0.1), ("prior", np.inf)])
def test_settings_are_checked(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"adaptive's {name} must be"):
        Settings(**{name: value})


# ---- a day, runs and commands -------------------------------------------------------------------------


def test_the_day_has_its_rush_hours_and_its_signal() -> None:
    day, crossings = Day(), day_crossings(Day(), 1)
    hours = np.bincount((crossings.enter_s / 3600).astype(int), minlength=24)[:24] / 3600
    assert hours[7:9].min() > 0.3 > 0.05 > hours[:4].max()
    true = day.arrivals_per_s(np.arange(DAY_S))
    assert len(crossings) == pytest.approx(true.sum(), abs=5 * np.sqrt(true.sum()))
    assert (true.min(), true.max()) == (pytest.approx(0.02, rel=0.01), pytest.approx(0.5, rel=0.01))
    after = crossings.enter_s[crossings.enter_s >= day.signal_from_s + day.cycle_s]
    assert ((after - day.signal_from_s) % day.cycle_s < day.green_s).all()
    assert day_crossings(day, 1).fingerprint() == crossings.fingerprint() != day_crossings(day, 2).fingerprint()


def test_following_a_rush_hour_beats_every_plan_that_is_kept(paper: Scenario) -> None:
    morning = day_crossings(Day(), 1).between(4 * 3600.0, 9 * 3600.0)
    came = follow(paper, 10**6, 1, morning)
    start_s, end_s = morning.observed_s

    def kept(h: int, t: float) -> float:
        blocks = simulate_rounds([morning], FixedPlan(h, t), Delays.of(paper), 1, start_s=start_s)
        return sum(h * int((each.uploads > 0).sum()) for each in blocks) / (end_s - start_s)

    best = max(kept(h, t) for h in (16, 24, 32, 45, 60, 75) for t in (8.0, 11.0, 14.0, 18.0, 24.0))
    assert came.objective > best
    assert came.objective > came.kept_objective
    assert came.seconds == pytest.approx(end_s - start_s, abs=120.0)


def test_its_name_gives_a_server(paper: Scenario) -> None:
    assert server_of("adaptive", None, paper, None).schedule.policy.settings == Settings()
    quick = server_of("adaptive:memory_s=300,worth=0.1", None, paper, None)
    assert quick.schedule.policy.settings == Settings(300, 0.1)
    assert (quick.describe()["memory_s"], str(quick.rule)) == (300, "clip:times=3+cap:times=2+mean")


def test_training_follows_and_resumes_to_the_same_bytes(paper: Scenario, tmp_path: Path) -> None:
    road = paper.with_values(
        {
            "training.duration_s": 1500,
            "training.samples_per_vehicle": 5,
            "training.batch_size": 2,
            "traffic.speed_mps": 10,
        }
    )
    job = Job(CountingTask(), road, adaptive_rounds(PlanRequest(paper), evidence=5.0), 1)
    whole = train(job, tmp_path / "whole")
    assert len(np.unique(whole.columns["local_steps"])) > 1
    stored = json.loads((tmp_path / "whole/run.json").read_text())["plan"]
    assert (stored["policy"], stored["local_steps"], stored["memory_s"]) == ("adaptive", 24, 600.0)

    def stop(row: dict[str, object]) -> None:
        if row["round"] == 40:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        train(job, tmp_path / "cut", checkpoint_s=0.0, progress=stop)
    train(job, tmp_path / "cut", resume=True)
    for name in ("run.json", "rounds.parquet", "last.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_command_line_follows(tmp_path: Path) -> None:
    command = ["simulate", "--plan", "adaptive", "--rounds", "300", "--set", "traffic.arrivals_per_s=0.4"]
    done = mobfl(*command, "--json", "--plot", "f.png", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    came = json.loads(done.stdout)
    assert came["rounds"] == 300
    assert came["notes"][-1]["known"]["arrivals_per_s"]["value"] == pytest.approx(0.4, rel=0.4)
    assert (tmp_path / "f.png").exists()
    assert "valid local steps per second" in mobfl(*command, cwd=tmp_path).stdout


def test_a_fleet_is_begun_with_its_own_plan_and_followed_as_one_class() -> None:
    fleet = load_scenario("mixed-fleet")
    policy = AdaptivePolicy(fleet, Delays.of(fleet))
    first = policy.next_order(None)
    assert (first.local_steps, first.round_s) == plan(fleet).numbers[:2]
    known = policy.controller.knowledge().delay
    assert known.min_step_s.value == pytest.approx(0.7 * 0.2 + 0.3 * 0.12)
    assert known.extra_step_s.value == pytest.approx(0.7 * 0.2 + 0.3 * 0.02)
    given = orders(AdaptivePolicy(fleet, Delays.of(fleet)), fleet, [next(poisson_crossings(fleet, 3))], 4000.0)
    h, t = given[-1].local_steps, given[-1].round_s
    assert float(theory.objective(fleet, h, t)) > 0.8 * plan(fleet).numbers[2]
