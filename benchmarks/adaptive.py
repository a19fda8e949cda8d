"""How near a plan that follows the traffic comes to one that knows it, over a day.

    python benchmarks/adaptive.py [--days 5] [--runs 200] [--knows nothing] [--figure docs/images/adaptive.png]

A day has two rush hours (λ from 0.02 to 0.5 per second, speeds from 25 to 6 m/s) and a signal from noon on (90 s cycle,
36 s green). On the same traffic: adaptive, starting from the paper's road; the best fixed plan in hindsight, from a
grid; and an oracle that knows every hour's λ, speed and signal: its plan is Theorem 1's, and with the signal the best
of a grid around that on two hours of traffic like it. Then the estimates: their errors and the coverage of their
intervals after 400 vehicles, from a wrong prior. Takes some minutes.

With --knows it is all about anytime rounds, whose T alone follows. How quickly it follows is measured where a road
changes at once, from a quiet one to a jam and back, from the change until the plan in force gives 95 % of the best one.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mobfl import AsManyAsFit, Scenario, load_scenario
from mobfl.figures import draw_following
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.day import Day, day_crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.trace import Trace
from mobfl.policies.adaptive.choices import Choice, Chooser, OneH, OnlyT
from mobfl.policies.adaptive.controller import Knowledge
from mobfl.policies.adaptive.following import Following, follow
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.rounds.orders import FixedPlan, Order, Policy, Steps
from mobfl.rounds.rows import Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.theory import KNOWLEDGE, Conditions, Delays

Array = NDArray[np.float64]

ROAD, DAY, HOUR_S = load_scenario("paper"), Day(), 3600.0
NEAR = (0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.6, 2.0, 2.5)
FIXED_STEPS, FIXED_ROUNDS_S = range(10, 84, 4), np.geomspace(6, 90, 16)
CHANGE_S, LONGEST_LAG_S = 2400.0, 7200.0  # before and after a change at once
ESTIMATES = ("arrivals_per_s", "stay_s", "transfer_s", "min_step_s", "extra_step_s")


@dataclass(frozen=True)
class Timetable:
    """A plan for every hour."""

    plans: list[Choice]
    start_s: float

    def next_order(self, seen: Rounds | None) -> Order:
        now_s = self.start_s if seen is None else float(seen.start_s[-1]) + seen.round_s
        hour = min(int(now_s / HOUR_S + 1e-9), len(self.plans) - 1)
        h, t = self.plans[hour]
        return Order(h, t, max(1, round(((hour + 1) * HOUR_S - now_s) / t)))


def oracle_plan(chooser: Chooser, hour: int) -> Choice:
    at_s = (hour + (np.arange(60) + 0.5) / 60) * HOUR_S
    rate, speed = float(DAY.arrivals_per_s(at_s).mean()), float(DAY.speed_mps(at_s).mean())
    here = ROAD.with_values({"traffic.arrivals_per_s": rate, "traffic.speed_mps": speed})
    best = chooser.best(here)
    assert best is not None
    if (hour + 1) * HOUR_S <= DAY.signal_from_s:
        return chooser.told(best[0], here.dwell_s), best[1]
    steady = replace(DAY, quiet_per_s=rate, busy_per_s=rate, quick_mps=speed, slow_mps=speed, signal_from_s=0.0)
    crossings = day_crossings(steady, seed=1000, end_s=2 * HOUR_S)
    return best_near(Trace(crossings, 1.0), (chooser.told(best[0], float(crossings.dwell_s.mean())), best[1]))


def best_near(trace: Trace, choice: Choice) -> Choice:
    """The best of a grid around a plan on these crossings."""
    road, (steps, t) = Conditions.of(ROAD), choice
    if isinstance(steps, AsManyAsFit):
        knows = steps.knows
        return steps, max(
            (t * b for b in NEAR), key=lambda each: trace.anytime_rounds(road, each, knows).steps.mean() / each
        )
    tried = [trace.promise(road, max(1, round(steps * a)), t * b) for a, b in itertools.product(NEAR, NEAR)]
    return max(tried, key=lambda each: each.numbers[2]).numbers[:2]


def hourly_steps(crossings: Crossings, policy: Policy, seed: int) -> Array:
    """The valid local steps of every hour."""
    steps, (start_s, end_s) = np.zeros(24), crossings.observed_s
    keep = isinstance(policy, AdaptivePolicy)
    traffic = ([crossings], policy, Delays.of(ROAD), seed)
    for block in simulate_rounds(*traffic, start_s=start_s, keep_vehicles=keep):
        within = block.start_s + block.round_s <= end_s
        hours = np.minimum((block.start_s / HOUR_S).astype(int), 23)
        np.add.at(steps, hours[within], block.longest[within])
    return steps


def best_fixed(chooser: Chooser, crossings: Crossings, seed: int) -> tuple[float, str]:
    """The best of a grid in hindsight: its steps, and what it is."""
    if isinstance(chooser, OnlyT):
        steps: list[Steps] = [chooser.told(chooser.asked, float(crossings.dwell_s.mean()))]
    else:
        steps = list(FIXED_STEPS)
    plans = [FixedPlan(h, t) for h, t in itertools.product(steps, FIXED_ROUNDS_S.tolist())]
    found = [float(hourly_steps(crossings, plan, seed).sum()) for plan in plans]
    best = plans[int(np.argmax(found))]
    h = f"{best.local_steps}, " if isinstance(chooser, OneH) else ""
    return max(found), f"{h}{best.round_s:.1f} s"


def compare(chooser: Chooser, days: int) -> Iterator[tuple[Array, Array]]:
    """The adaptive plan's hourly steps and the oracle's, for every day."""
    plans = [oracle_plan(chooser, hour) for hour in range(24)]
    for seed in range(1, days + 1):
        crossings = day_crossings(DAY, seed)
        mine = hourly_steps(crossings, AdaptivePolicy(ROAD, Delays.of(ROAD), chooser=chooser), seed)
        oracle = hourly_steps(crossings, Timetable(plans, crossings.observed_s[0]), seed)
        fixed, told = best_fixed(chooser, crossings, seed)
        share, lead = mine.sum() / oracle.sum(), mine.sum() / fixed - 1
        print(f"day {seed}: {mine.sum() / 86400:.4f} steps/s, {share:.1%} of the oracle", end="; ")
        print(f"{lead:+.1%} over the best fixed plan ({told})", flush=True)
        yield mine, oracle


def lag_s(chooser: Chooser, before: Scenario, after: Scenario, seed: int) -> tuple[float, float]:
    """Until the plan in force gives 95 % of the best one, after the road changed at once; and its share just then."""
    old = next(poisson_crossings(before, seed)).between(0.0, CHANGE_S)
    new = next(poisson_crossings(after, seed)).between(0.0, LONGEST_LAG_S)
    enter_s = np.concatenate([old.enter_s, new.enter_s + CHANGE_S])
    leave_s = np.concatenate([old.leave_s, new.leave_s + CHANGE_S])
    traffic = Crossings.sorted(np.arange(len(enter_s)), enter_s, leave_s)
    policy, road = AdaptivePolicy(before, Delays.of(before), chooser=chooser), Conditions.of(after)
    best = chooser.best(after)
    assert best is not None
    most = float(chooser.objective(road, [best])[0])
    at_once = np.nan
    for block in simulate_rounds([traffic], policy, Delays.of(before), seed):
        share = float(chooser.objective(road, [(block.local_steps, block.round_s)])[0]) / most
        if block.start_s[0] <= CHANGE_S:
            at_once = share
        elif share >= 0.95:
            return float(block.start_s[0]) - CHANGE_S, at_once
    return LONGEST_LAG_S, at_once


def show_lags(chooser: Chooser, runs: int) -> None:
    quiet = ROAD.with_values({"traffic.arrivals_per_s": 0.02, "traffic.speed_mps": 25})
    jam = ROAD.with_values({"traffic.arrivals_per_s": 0.5, "traffic.speed_mps": 6})
    for name, before, after in (("quiet to jam", quiet, jam), ("jam to quiet", jam, quiet)):
        lags, shares = np.array([lag_s(chooser, before, after, seed) for seed in range(1, runs + 1)]).T
        middle, most = np.quantile(lags, [0.5, 0.9])
        print(f"{name}: the old plan gives {shares.mean():.1%} of the best", end="; ")
        print(f"95 % after {middle:.0f} s (median), {most:.0f} s (9 of 10)", flush=True)


def estimates(known: Knowledge) -> list[tuple[float, float, float]]:
    delay = known.delay
    each = (known.arrivals_per_s, known.stay_s, delay.transfer_s, delay.min_step_s, delay.extra_step_s)
    return [(one.value, one.low, one.high) for one in each]


def after_400_vehicles(chooser: Chooser, prior: Scenario, truth: Scenario, seed: int) -> Knowledge:
    policy = AdaptivePolicy(prior, Delays.of(truth), chooser=chooser)
    until_s = 400 / truth.traffic.arrivals_per_s
    for block in simulate_rounds(poisson_crossings(truth, seed), policy, Delays.of(truth), seed):
        if block.start_s[-1] + block.round_s >= until_s:
            break
    return policy.controller.knowledge()


def show_estimates(chooser: Chooser, runs: int) -> None:
    """The prior is wrong by half in λ, α and β, by a quarter in speed; the true transfers are drawn from theirs."""
    prior = ROAD.with_values(
        {"traffic.arrivals_per_s": 0.05, "traffic.speed_mps": 15, "compute.min_step_s": 0.3,
         "compute.extra_step_s": 0.1}
    )  # fmt: skip
    random, rows = np.random.default_rng(0), []
    for seed in range(runs):
        transfer_s = max(2.0 + 0.25 * 2.3 * random.standard_normal(), 0.2)
        link = {"link.download_s": transfer_s / 2, "link.upload_s": transfer_s / 2}
        truth = ROAD.with_values({**link, "traffic.speed_sd_mps": 2.0})
        stay_s = float(np.mean(Conditions.of(truth).dwell.draw((np.arange(4000) + 0.5) / 4000)))
        value, low, high = np.array(estimates(after_400_vehicles(chooser, prior, truth, seed))).T
        true = np.array([0.1, stay_s, transfer_s, 0.2, 0.2])
        rows.append([np.abs(value / true - 1), (low <= true) & (true <= high)])
    error, covered = np.array(rows, float).transpose(1, 0, 2)
    for name, median, rate in zip(ESTIMATES, np.median(error, axis=0), covered.mean(axis=0), strict=True):
        print(f"{name:15} median error {median:.1%}, {rate:.1%} of {runs} intervals hold the truth")


def draw(shown: Following, shares: Array, file: Path) -> None:
    truth = lambda at_s: (DAY.arrivals_per_s(at_s), DAY.speed_mps(at_s))  # noqa: E731
    draw_following(shown.notes, file, DAY.length_m, truth, (np.arange(24.0), shares))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--knows", choices=KNOWLEDGE)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    chooser = OnlyT(AsManyAsFit(given.knows, ROAD.dwell_s)) if given.knows else OneH()
    mine, oracle = np.array(list(compare(chooser, given.days))).transpose(1, 0, 2)
    share = mine.sum(axis=1) / oracle.sum(axis=1)
    print(f"share of the oracle: mean {share.mean():.1%}, least {share.min():.1%}")
    show_lags(chooser, 20)
    if given.figure is not None:
        shown = follow(ROAD, 10**9, 1, day_crossings(DAY, 1), chooser=chooser)
        draw(shown, mine.sum(axis=0) / oracle.sum(axis=0), given.figure)
    show_estimates(chooser, given.runs)


if __name__ == "__main__":
    main()
