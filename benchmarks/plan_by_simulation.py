"""How long planning by simulation takes: against the exact planner, and as less regret and more traffic are asked for.

    python benchmarks/plan_by_simulation.py

Every search must have found what it reports: the exact g of its plan is held against the best there is, and so is the
g that it promises. Compilation is done before the clock starts. Seconds are medians over three seeds.
"""

import statistics
import time

from mobfl import Scenario, load_scenario, plan, plan_by_simulation, theory

PAPER = load_scenario("paper")
SEEDS = range(3)


def exact_regret(road: Scenario, local_steps: int, round_s: float) -> float:
    return 1 - float(theory.objective(road, local_steps, round_s)) / plan(road).numbers[2]


def search(road: Scenario, within: float) -> tuple[float, float]:
    """Seconds, and the largest exact regret."""
    spent, regrets = list[float](), list[float]()
    for seed in SEEDS:
        start = time.perf_counter()
        found = plan_by_simulation(road, within, seed=seed)
        spent.append(time.perf_counter() - start)
        h, t, g = found.numbers
        regrets.append(exact_regret(road, h, t))
        assert found.regret is not None and regrets[-1] <= found.regret <= within, found  # noqa: PT018
        assert abs(g / float(theory.objective(road, h, t)) - 1) < 2 * within, found
    return statistics.median(spent), max(regrets)


def exact_seconds(road: Scenario) -> float:
    start = time.perf_counter()
    for _ in range(100):
        plan(road)
    return (time.perf_counter() - start) / 100


def main() -> None:
    plan_by_simulation(PAPER, 0.1)
    exact_s = exact_seconds(PAPER)
    print("the paper's road")
    print("   within   seconds   times as long as plan   exact regret, largest of three")
    for within in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005):
        seconds, regret = search(PAPER, within)
        print(f"{within:9.2%} {seconds:9.2f} {seconds / exact_s:23.0f}   {regret:.2e}")
    print("within 1 %, by arrivals per second")
    for rate in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        seconds, regret = search(PAPER.with_values({"traffic.arrivals_per_s": rate}), 0.01)
        print(f"{rate:9g} {seconds:9.2f} {'':23s}   {regret:.2e}")


if __name__ == "__main__":
    main()
