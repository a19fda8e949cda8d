"""How long it takes to choose sites in a real district, and how good the choice is at least.

    python benchmarks/sites.py ../shared/data/sumo/bologna_joined/run.sumocfg [--keep positions.parquet] [--count 10]

SUMO drives once; a file that was kept is used again. Times are of the processor, in seconds. Every line tells how many
candidates had a plan and how many crossings were read, so that nothing is quick because nothing was done.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import mobfl
from mobfl.mobility.networks import network_file
from mobfl.mobility.places import PlaceKind, districts_of
from mobfl.mobility.surveys import Survey, drive
from mobfl.planning.served import GOALS

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("positions.parquet"))
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--radius", type=float, default=100.0)
    given = parser.parse_args()
    if not given.keep.is_file():
        print(f"driving: {timed(lambda: drive(given.config, given.keep))[1]:.1f} s of waiting for SUMO")
    survey = Survey(given.keep, mobfl.read_network(network_file(given.config)))
    for kind in ("edges", "grid"):
        choose(survey, kind, given.count, given.radius)


def choose(survey: Survey, kind: PlaceKind, count: int, radius_m: float) -> None:
    places = survey.places(kind, None, radius_m)
    sections = {f"place {place.name}": place.section for place in places}
    cells = districts_of(survey.bounds, 3, 3)
    found, reading_s = timed(lambda: survey.crossings(sections | cells))
    crossings = {place.name: found[f"place {place.name}"] for place in places}
    rows = sum(map(len, crossings.values()))
    print(f"{kind}: {len(places)} candidates and {len(cells)} districts, {rows} crossings, read in {reading_s:.1f} s")
    for goal in GOALS:
        areas = {name: found[name] for name in cells} if goal == "districts" else None
        road = mobfl.load_scenario("paper")
        choice, choosing_s = timed(lambda: mobfl.choose_sites(road, crossings, count, goal, areas))  # noqa: B023
        assert len(choice.sites) == count
        print(
            f"  {goal}: {len(choice.objectives)} with a plan, {count} chosen in {choosing_s:.1f} s, value"
            f" {choice.value:.4g}, with quick plans {choice.screened_values[-1]:.4g}, bound {choice.bounds[-1]:.4g},"
            f" at least {choice.share_of_best:.1%} of the best: {', '.join(site.name for site in choice.sites)}"
        )


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    done = work()
    return done, time.process_time() - start


if __name__ == "__main__":
    main()
