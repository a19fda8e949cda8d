"""How much faster `plan` and `plan_many` are than Algorithm 1 written plainly in Python, and what anytime plans cost.

    python benchmarks/plan.py

Every ratio is the median of alternating runs in this one process. The second table shows how the time
grows with H_max, as the least time of a step falls. The third has `plan_anytime` against `plan`.
"""

import functools
import math
import statistics
import time
from collections.abc import Callable

import numpy as np

from mobfl import Scenario, load_scenario, plan, plan_anytime, plan_many, theory

GAMMA = 1e-6


def plain_algorithm_1(scenario: Scenario) -> tuple[int, float]:
    """Algorithm 1 as a careful reader of the paper would type it: scalars, `math`, one loop per line."""
    t0 = scenario.dwell_s
    rate = scenario.traffic.arrivals_per_s
    transfers = scenario.link.download_s + scenario.link.upload_s
    alpha, beta = scenario.compute.min_step_s, scenario.compute.extra_step_s
    exp = math.exp

    def uploads(h: int, t: float) -> float:
        spare = min(t, t0) - alpha * h - transfers
        return 2 * rate * spare + rate * (1 - exp(-spare / (beta * h))) * (abs(t - t0) - 2 * beta * h)

    def uploads_slope(h: int, t: float) -> float:
        fade = exp(-(min(t, t0) - alpha * h - transfers) / (beta * h))
        return rate * (1 - fade + fade * max(t0 - t, 0.0) / (beta * h))

    def objective(h: int, t: float) -> float:
        return h / t * (1 - exp(-uploads(h, t)))

    def objective_slope(h: int, t: float) -> float:
        empty = exp(-uploads(h, t))
        return h / t * empty * uploads_slope(h, t) - h / t**2 * (1 - empty)

    best: tuple[int, float, float] = (0, 0.0, 0.0)
    for h in range(1, math.floor((t0 - transfers) / alpha) + 1):
        low = alpha * h + transfers
        if low >= t0:  # the paper's H_max admits an h that never uploads
            continue
        c0 = 1 - exp(-(t0 - low) / (beta * h))
        c1 = 2 * (t0 - low) - (t0 + 2 * beta * h) * c0
        high = t0 if c1 >= 0 else t0 + (1 - 12 * rate * c1) / (4 * rate * c0)
        t = (low + high) / 2
        while high - low > GAMMA:
            if objective_slope(h, t) > 0:
                low = t
            else:
                high = t
            t = (low + high) / 2
        if objective(h, t) > best[2]:
            best = (h, t, objective(h, t))
    return best[:2]


def seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def anytime_against_plan(roads: list[Scenario], knows: theory.Knows, calls: int) -> list[float]:
    """Times as long as `plan`, alternating; and no T of a grid is better than what was found."""
    for road in roads:
        best = plan_anytime(road, knows)
        assert best.round_s is not None and best.objective is not None  # noqa: PT018
        grid = np.geomspace(float(theory.min_delay_s(road, 1)), 3 * best.round_s, 200)
        assert best.objective >= theory.anytime_objective(road, grid, knows).max() * (1 - 1e-9), road
    ratios = []
    for _ in range(15):
        fixed = seconds(lambda: [plan(road) for road in roads], calls)
        ratios.append(seconds(lambda: [plan_anytime(road, knows) for road in roads], calls) / fixed)
    return ratios


def show(name: str, values: list[float]) -> None:
    print(f"  {name:34s} {statistics.median(values):7.2f}  [{min(values):.2f}, {max(values):.2f}]")


def main() -> None:
    paper = load_scenario("paper")
    rng = np.random.default_rng(1)
    roads = 5_000
    table = {
        "road.length_m": rng.uniform(200, 600, roads),
        "traffic.speed_mps": rng.uniform(10, 30, roads),
        "traffic.arrivals_per_s": 10 ** rng.uniform(-2, 0, roads),
    }
    some = [paper.with_values({key: column[i] for key, column in table.items()}) for i in range(40)]
    for scenario in [paper, *some]:
        (h, t, _), expected = plan(scenario).numbers, plain_algorithm_1(scenario)
        assert np.allclose((h, t), expected, rtol=0, atol=2 * GAMMA), scenario

    ratios: dict[str, list[float]] = {
        "plan, the paper's road": [],
        "plan, 40 roads": [],
        "plan_many, 5,000 roads": [],
    }
    for _ in range(15):
        plain, ours = seconds(lambda: plain_algorithm_1(paper), 10), seconds(lambda: plan(paper), 200)
        ratios["plan, the paper's road"].append(plain / ours)
        plain = seconds(lambda: [plain_algorithm_1(road) for road in some], 1) / len(some)
        ours = seconds(lambda: [plan(road) for road in some], 5) / len(some)
        ratios["plan, 40 roads"].append(plain / ours)
        ratios["plan_many, 5,000 roads"].append(plain / (seconds(lambda: plan_many(table), 1) / roads))
    print(f"times faster per road than plain Algorithm 1 (gamma = {GAMMA:g}), median [least, most] of 15")
    for name, values in ratios.items():
        show(name, values)

    print("alpha = beta      H_max   H*      plan, ms   per H_max, us")
    for step_s in (0.2, 0.02, 0.002, 0.0002):
        road = paper.with_values({"compute.min_step_s": step_s, "compute.extra_step_s": step_s})
        ms = statistics.median(1e3 * seconds(functools.partial(plan, road), 20) for _ in range(9))
        most = round(18 / step_s)
        print(f"{step_s:10g} {most:12d}   {plan(road).local_steps:<7d} {ms:6.3f} {1e3 * ms / most:12.4f}")

    print("plan_anytime, times as long as plan, median [least, most] of 15")
    for knows in theory.KNOWLEDGE:
        show(f"the paper's road, {knows}", anytime_against_plan([paper], knows, 100))
    for knows in theory.KNOWLEDGE:
        show(f"40 roads, {knows}", anytime_against_plan(some, knows, 3))
    fleet, spread = load_scenario("mixed-fleet"), paper.with_values({"traffic.speed_sd_mps": 4})
    for name, road in (("mixed-fleet", fleet), ("speeds of 20 ± 4 m/s", spread)):
        show(f"{name}, nothing", anytime_against_plan([road], "nothing", 3))


if __name__ == "__main__":
    main()
