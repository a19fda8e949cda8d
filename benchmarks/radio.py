"""How fast rounds on a radio are simulated, against the same rounds in SimPy; and how memory grows.

    python benchmarks/radio.py [--vehicles 1000] [--repeats 3]
    python benchmarks/radio.py --memory 1000000

The peer is tests/radio_in_simpy.py: a process per vehicle, a band that is interrupted whenever somebody begins or ends.
Both take turns on the same vehicles and draws, which must come to the same outcomes, row by row. What is compiled is
compiled before the clock starts. The second: peak memory of so many vehicles in a process of its own, beside a tenth of
them.
"""

import argparse
import resource
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

import numpy as np

from mobfl import Crossings, load_scenario
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.air import Channel, delays_and_channel
from mobfl.rounds.draws import Draws
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rows import Outcome, VehicleRows, joined
from mobfl.rounds.rules import simulate_rounds

ROAD = load_scenario("urban-radio").with_values({"traffic.participation": 1.0})
STEPS, ROUND_S, SEED = 20, 25.0, 5


def ours(vehicles: Crossings) -> VehicleRows:
    delays, channel = delays_and_channel(ROAD)
    rows = joined(list(simulate_rounds([vehicles], FixedPlan(STEPS, ROUND_S), delays, SEED, channel=channel))).vehicles
    assert rows is not None
    return rows


def theirs(vehicles: Crossings) -> list[str]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from radio_in_simpy import told_by_simpy

    delays, channel = delays_and_channel(ROAD)
    assert isinstance(channel, Channel)
    return [row[2] for row in told_by_simpy(channel, Draws(delays, SEED), SEED, vehicles, ROUND_S, STEPS)]


def compare(vehicles: int, repeats: int) -> None:
    traffic = next(poisson_crossings(ROAD, SEED))
    traffic = traffic.take(np.arange(len(traffic)) < vehicles)
    rows, ratios = ours(traffic), list[float]()
    for _ in range(repeats):
        spent = dict[str, float]()
        for name, run in (("SimPy", theirs), ("mobfl", ours)):
            begun = time.process_time()
            found = run(traffic)
            spent[name] = time.process_time() - begun
            told = found if isinstance(found, list) else [Outcome(each).name.lower() for each in found.outcome]
            assert told == [Outcome(each).name.lower() for each in rows.outcome]
        ratios.append(spent["SimPy"] / spent["mobfl"])
        print(f"{len(rows)} turns of {vehicles} vehicles: SimPy {spent['SimPy']:.3f} s, mobfl {spent['mobfl']:.4f} s")
    uploaded = int((rows.outcome == Outcome.UPLOADED).sum())
    assert uploaded > vehicles / 10
    print(f"{uploaded} uploads; SimPy/mobfl {np.median(ratios):.0f} [{min(ratios):.0f}, {max(ratios):.0f}]")


def pass_by(vehicles: int) -> None:
    """So many vehicles, with what the process took at most."""
    delays, channel = delays_and_channel(ROAD)
    until_s = vehicles / ROAD.traffic.arrivals_per_s
    blocks = takewhile(lambda block: block.enter_s[0] < until_s, poisson_crossings(ROAD, SEED))
    uploads = turns = 0
    for block in simulate_rounds(blocks, FixedPlan(STEPS, ROUND_S), delays, SEED, channel=channel, keep_vehicles=False):
        uploads, turns = uploads + int(block.uploads.sum()), turns + int(block.present.sum())
    assert uploads > vehicles / 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{vehicles} vehicles, {turns} turns, {uploads} uploads: {time.process_time():.1f} s, peak {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--pass-by", type=int)
    asked = parser.parse_args()
    if asked.pass_by is not None:
        pass_by(asked.pass_by)
    elif asked.memory is not None:
        for vehicles in (asked.memory // 10, asked.memory):
            subprocess.run([sys.executable, __file__, "--pass-by", str(vehicles)], check=True)
    else:
        compare(asked.vehicles, asked.repeats)


if __name__ == "__main__":
    main()
