"""How wrong a plan for constant seconds is on a radio: what plans promise of the paper's road, and what rounds deliver.

    python benchmarks/radio_promises.py           # the table of docs/guides/radio.md; minutes
    python benchmarks/radio_promises.py 5000      # with so many seconds of rounds a plan
    python benchmarks/radio_promises.py --simulated 30% 200000    # the same roads planned by simulation, within so much

Every line is a road: arrivals, path loss, model. The quick plan (fixed point) is made for it; the paper's plan is for
one second each way, whatever the radio. Chances are of a round without upload; behind ± is half of the 95 % interval.
A plan by simulation promises what fresh traffic gave it, and is judged on traffic of another seed.
"""

import sys
from collections.abc import Iterator
from itertools import product

from mobfl import Plan, Scenario, Simulation, load_scenario, plan, plan_by_simulation, plan_quickly, simulate

LASTING_S = 40_000.0
ARRIVALS_PER_S = (0.02, 0.1, 0.5)
PATH_LOSSES = ("urban-los", "urban-nlos", "highway-los")
MODELS = {"Lidar2D": 66_520, "LaneGCN": 14_835_468}
TITLES = (
    "model", "path loss", "λ (1/s)", "quick H, T (s)", "promised empty", "simulated empty",
    "paper's H, T (s)", "promised empty", "simulated empty",
)  # fmt: skip


def main(lasting_s: float) -> None:
    begin(TITLES)
    for words, paper, road in roads():
        row([*words, *quick_plan(road, lasting_s), *constant_plan(paper, road, lasting_s)])


def by_simulation(within: float, lasting_s: float) -> None:
    begin((*TITLES[:3], "H, T (s)", "promised empty", "simulated empty", "apart"))
    worst = 0.0
    for words, _, road in roads():
        found = plan_by_simulation(road, within)
        delivered = simulate(road, *found.numbers[:2], round(lasting_s / found.numbers[1]), seed=1)
        apart = abs(delivered.empty_prob.value - (1 - (found.valid_round_prob or 0.0)))
        worst = max(worst, apart)
        row([*words, *told(found, delivered), f"{apart:.3f}"])
    print(f"\nat most {worst:.3f} apart")


def begin(titles: tuple[str, ...]) -> None:
    row(list(titles))
    print("|---" * len(titles) + "|")


def row(cells: list[str]) -> None:
    print("|", " | ".join(cells), "|", flush=True)


def roads() -> Iterator[tuple[list[str], Scenario, Scenario]]:
    """In words, with constant seconds, and with the radio."""
    for (model, size), path_loss, rate in product(MODELS.items(), PATH_LOSSES, ARRIVALS_PER_S):
        paper = load_scenario("paper").with_values({"traffic.arrivals_per_s": rate})
        road = paper.with_values({"radio.path_loss": path_loss, "link.model_bytes": size})
        yield [model, path_loss, f"{rate:g}"], paper, road


def quick_plan(road: Scenario, lasting_s: float) -> list[str]:
    found = plan_quickly(road)
    if found.reason is not None:
        return ["none", "–", "–"]
    simulated = rounds_of(found, road, lasting_s)
    assert simulated.mean_uploads.value > 0, f"no round of {simulated.rounds} had an upload on {road.to_toml()}"
    return told(found, simulated)


def constant_plan(paper: Scenario, road: Scenario, lasting_s: float) -> list[str]:
    """The plan for a second each way; that its rounds may all be empty on the radio is what the table shows."""
    found = plan(paper)
    return told(found, rounds_of(found, road, lasting_s))


def rounds_of(found: Plan, road: Scenario, lasting_s: float) -> Simulation:
    h, t, _ = found.numbers
    return simulate(road, h, t, round(lasting_s / t))


def told(found: Plan, simulated: Simulation) -> list[str]:
    h, t, _ = found.numbers
    empty = simulated.empty_prob
    reach = (empty.high - empty.low) / 2
    return [f"{h}, {t:.1f}", f"{1 - (found.valid_round_prob or 0.0):.3f}", f"{empty.value:.3f} ± {reach:.3f}"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--simulated"]:
        by_simulation(float(sys.argv[2].rstrip("%")) / 100, float(sys.argv[3]) if len(sys.argv) > 3 else LASTING_S)
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else LASTING_S)
