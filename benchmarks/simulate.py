"""How fast rounds are simulated: against SimPy, against bare random numbers, and over four decades of vehicles.

    python benchmarks/simulate.py

The paper's road and plan. Ratios are medians over alternating runs in this one process; memory is that of fresh
processes. Compilation is done before the clock starts.
"""

import itertools
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator

import numpy as np
import simpy

from mobfl import load_scenario
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Steps
from mobfl.rounds.rules import simulate_rounds
from mobfl.theory import Delays

H, T = 24, 11.776
PAPER = load_scenario("paper")


def ours(traffic: list[Crossings], keep_vehicles: bool = False, steps: Steps = H) -> tuple[int, int]:
    """Vehicle-round pairs and uploads."""
    pairs = uploads = 0
    for block in simulate_rounds(traffic, FixedPlan(steps, T), Delays.of(PAPER), 0, keep_vehicles=keep_vehicles):
        pairs += int(block.present.sum())
        uploads += int(block.uploads.sum())
    return pairs, uploads


def in_simpy(traffic: Crossings) -> tuple[int, int]:
    """The same rounds as a SimPy model: a process per vehicle, which draws its delay in every round it is in."""
    env, rng = simpy.Environment(), np.random.default_rng(0)
    pairs = uploads = 0
    transfers = PAPER.link.download_s + PAPER.link.upload_s
    least, extra = PAPER.compute.min_step_s * H, PAPER.compute.extra_step_s * H

    def vehicle(enter: float, leave: float) -> Generator[simpy.Event, None, None]:
        nonlocal pairs, uploads
        yield env.timeout(max(enter, 0.0))
        while env.now < leave:
            end = (env.now // T + 1) * T
            pairs += 1
            finish = env.now + transfers + least + rng.exponential(extra)
            if finish <= min(leave, end):
                yield env.timeout(finish - env.now)
                uploads += 1
            yield env.timeout(max(end - env.now, 1e-9))

    for enter, leave in zip(traffic.enter_s.tolist(), traffic.leave_s.tolist(), strict=True):
        env.process(vehicle(enter, leave))
    env.run()
    return pairs, uploads


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def simulate_vehicles(vehicles: int) -> tuple[int, float]:
    """Pairs and seconds for so many vehicles, streamed from the generator through the rounds."""
    blocks = itertools.islice(poisson_crossings(PAPER, 1), -(-vehicles // (1 << 15)))
    start = time.perf_counter()
    pairs, _ = ours(blocks)  # type: ignore[arg-type]
    return pairs, time.perf_counter() - start


def main() -> None:
    if len(sys.argv) == 2:
        simulate_vehicles(1)
        pairs, spent = simulate_vehicles(int(sys.argv[1]))
        print(pairs, spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    blocks = list(itertools.islice(poisson_crossings(PAPER, 1), 20))
    few = blocks[0].take(np.arange(len(blocks[0])) < 3000)
    ours(blocks[:1], True)
    anytime_pairs, anytime_uploads = ours(blocks, steps=AsManyAsFit())
    assert (anytime_pairs, anytime_uploads > ours(blocks)[1]) == (ours(blocks)[0], True)
    names = ("SimPy", "numbers", "numbers, with rows", "numbers, with traffic", "anytime")
    ratios: dict[str, list[float]] = {name: [] for name in names}
    rng = np.random.default_rng(0)
    for _ in range(9):
        pairs, _uploads = ours(blocks)
        vehicles = sum(map(len, blocks))
        mine = seconds(lambda: ours(blocks)) / pairs
        start = time.perf_counter()
        simpy_pairs, _uploads = in_simpy(few)
        ratios["SimPy"].append((time.perf_counter() - start) / simpy_pairs / mine)
        number = seconds(lambda: rng.standard_exponential(pairs)) / pairs  # noqa: B023
        ratios["numbers"].append(mine / number)
        ratios["numbers, with rows"].append(seconds(lambda: ours(blocks, True)) / pairs / number)
        ratios["anytime"].append(seconds(lambda: ours(blocks, steps=AsManyAsFit())) / pairs / mine)
        streamed, spent = simulate_vehicles(vehicles)
        ratios["numbers, with traffic"].append(spent / (streamed + vehicles) / number)
    for name, text in (
        ("SimPy", "times the vehicle-rounds per second of SimPy"),
        ("numbers", "times the cost of standard_exponential drawing one number per vehicle-round"),
        ("numbers, with rows", "the same, with a row kept per vehicle and round"),
        ("numbers, with traffic", "the same without rows, but with making the traffic, per number drawn for either"),
        ("anytime", "times the cost of rounds of one H if every vehicle takes as many steps as fit"),
    ):
        values = ratios[name]
        print(f"{statistics.median(values):8.1f}  [{min(values):.1f}, {max(values):.1f}]  {text}")
    print("  vehicles   vehicle-rounds   seconds   ns each   peak MB")
    for vehicles in (10**4, 10**5, 10**6, 10**7):
        done = subprocess.run([sys.executable, __file__, str(vehicles)], capture_output=True, text=True, check=True)
        pairs_text, spent_text, memory = done.stdout.split()
        each = 1e9 * float(spent_text) / int(pairs_text)
        print(f"{vehicles:10d} {int(pairs_text):16d} {float(spent_text):9.3f} {each:9.1f} {int(memory) / 1024:9.0f}")


if __name__ == "__main__":
    main()
