"""How near a plan that follows the traffic comes to one that knows it, over a day.

    python benchmarks/adaptive.py [--days 5] [--runs 200] [--figure docs/images/adaptive.png]

A day has two rush hours (λ from 0.02 to 0.5 per second, speeds from 25 to 6 m/s) and a signal from noon on (90 s cycle,
36 s green). On the same traffic: adaptive, starting from the paper's road; the best fixed plan in hindsight, from a
grid; and an oracle that knows every hour's λ, speed and signal: its plan is Theorem 1's, and with the signal the best
of a grid around that on two hours of traffic like it. Then the estimates: their errors and the coverage of their
intervals after 400 vehicles, from a wrong prior. Takes some minutes.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mobfl import Scenario, load_scenario, plan
from mobfl.figures import draw_following
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.day import Day, day_crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.trace import Trace
from mobfl.policies.adaptive.controller import Knowledge
from mobfl.policies.adaptive.following import Following, follow
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.rounds.rules import FixedPlan, Order, Policy, Rounds, simulate_rounds
from mobfl.theory import Conditions, Delays

Array = NDArray[np.float64]

ROAD, DAY, HOUR_S = load_scenario("paper"), Day(), 3600.0
NEAR = (0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.6, 2.0, 2.5)
FIXED_STEPS, FIXED_ROUNDS_S = range(10, 84, 4), np.geomspace(6, 90, 16)
ESTIMATES = ("arrivals_per_s", "stay_s", "transfer_s", "min_step_s", "extra_step_s")


@dataclass(frozen=True)
class Timetable:
    """A plan for every hour."""

    plans: list[tuple[int, float]]
    start_s: float

    def next_order(self, seen: Rounds | None) -> Order:
        now_s = self.start_s if seen is None else float(seen.start_s[-1]) + seen.round_s
        hour = min(int(now_s / HOUR_S + 1e-9), len(self.plans) - 1)
        h, t = self.plans[hour]
        return Order(h, t, max(1, round(((hour + 1) * HOUR_S - now_s) / t)))


def oracle_plan(hour: int) -> tuple[int, float]:
    at_s = (hour + (np.arange(60) + 0.5) / 60) * HOUR_S
    rate, speed = float(DAY.arrivals_per_s(at_s).mean()), float(DAY.speed_mps(at_s).mean())
    here = ROAD.with_values({"traffic.arrivals_per_s": rate, "traffic.speed_mps": speed})
    h, t = plan(here).numbers[:2]
    if (hour + 1) * HOUR_S <= DAY.signal_from_s:
        return h, t
    steady = replace(DAY, quiet_per_s=rate, busy_per_s=rate, quick_mps=speed, slow_mps=speed, signal_from_s=0.0)
    trace, road = Trace(day_crossings(steady, seed=1000, end_s=2 * HOUR_S), 1.0), Conditions.of(ROAD)
    tried = [trace.promise(road, max(1, round(h * a)), t * b) for a, b in itertools.product(NEAR, NEAR)]
    return max(tried, key=lambda each: each.numbers[2]).numbers[:2]


def hourly_steps(crossings: Crossings, policy: Policy, seed: int) -> Array:
    """The valid local steps of every hour."""
    steps, (start_s, end_s) = np.zeros(24), crossings.observed_s
    keep = isinstance(policy, AdaptivePolicy)
    traffic = ([crossings], policy, Delays.of(ROAD), seed)
    for block in simulate_rounds(*traffic, start_s=start_s, keep_vehicles=keep):
        within = block.start_s + block.round_s <= end_s
        hours = np.minimum((block.start_s / HOUR_S).astype(int), 23)
        np.add.at(steps, hours[within], block.local_steps * (block.uploads > 0)[within])
    return steps


def best_fixed(crossings: Crossings, seed: int) -> tuple[float, int, float]:
    plans = itertools.product(FIXED_STEPS, FIXED_ROUNDS_S.tolist())
    return max((float(hourly_steps(crossings, FixedPlan(h, t), seed).sum()), h, t) for h, t in plans)


def compare(days: int) -> Iterator[tuple[Array, Array]]:
    """The adaptive plan's hourly steps and the oracle's, for every day."""
    plans = [oracle_plan(hour) for hour in range(24)]
    for seed in range(1, days + 1):
        crossings = day_crossings(DAY, seed)
        mine = hourly_steps(crossings, AdaptivePolicy(ROAD, Delays.of(ROAD)), seed)
        oracle = hourly_steps(crossings, Timetable(plans, crossings.observed_s[0]), seed)
        fixed, h, t = best_fixed(crossings, seed)
        share, lead = mine.sum() / oracle.sum(), mine.sum() / fixed - 1
        print(f"day {seed}: {mine.sum() / 86400:.4f} steps/s, {share:.1%} of the oracle", end="; ")
        print(f"{lead:+.1%} over the best fixed plan ({h}, {t:.1f} s)", flush=True)
        yield mine, oracle


def estimates(known: Knowledge) -> list[tuple[float, float, float]]:
    delay = known.delay
    each = (known.arrivals_per_s, known.stay_s, delay.transfer_s, delay.min_step_s, delay.extra_step_s)
    return [(one.value, one.low, one.high) for one in each]


def after_400_vehicles(prior: Scenario, truth: Scenario, seed: int) -> Knowledge:
    policy = AdaptivePolicy(prior, Delays.of(truth))
    until_s = 400 / truth.traffic.arrivals_per_s
    for block in simulate_rounds(poisson_crossings(truth, seed), policy, Delays.of(truth), seed):
        if block.start_s[-1] + block.round_s >= until_s:
            break
    return policy.controller.knowledge()


def show_estimates(runs: int) -> None:
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
        value, low, high = np.array(estimates(after_400_vehicles(prior, truth, seed))).T
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
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    mine, oracle = np.array(list(compare(given.days))).transpose(1, 0, 2)
    share = mine.sum(axis=1) / oracle.sum(axis=1)
    print(f"share of the oracle: mean {share.mean():.1%}, least {share.min():.1%}")
    if given.figure is not None:
        shown = follow(ROAD, 10**9, 1, day_crossings(DAY, 1))
        draw(shown, mine.sum(axis=0) / oracle.sum(axis=0), given.figure)
    show_estimates(given.runs)


if __name__ == "__main__":
    main()
