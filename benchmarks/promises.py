"""How sure plans from traces are: intervals, notices and the warning, counted on made and on real traffic.

    python benchmarks/promises.py made                        # Poisson traffic and signals, planned and judged again
    python benchmarks/promises.py poisson                     # false alarms of the warning in 420 Poisson recordings
    python benchmarks/promises.py real ../shared/data/sumo    # edges of Bologna and MEET, half against half
    python benchmarks/promises.py parked                      # seconds for 561 trips with long stays

A plan is made from one recording and judged on another of the same length: its chance of an empty round there, averaged
over when rounds begin. A miss is a chance outside the promised interval.
"""

import itertools
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from math import exp
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from mobfl import Scenario, load_scenario, plan, theory
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.day import Day, day_crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.planning.plans import PoissonPlan, TracePlan
from mobfl.planning.sureness import drifts
from mobfl.planning.trace import Trace
from mobfl.rounds.not_poisson import FALSE_ALARM, excess
from mobfl.theory import Conditions
from mobfl.theory.distributions import Empirical

PAPER = load_scenario("paper")
ROAD = Conditions.of(PAPER)
DRIFT, FEW = "traffic changed", "half of this plan"
RECORDINGS, POISSON_RECORDINGS = 25, 420
BEFORE_S = 300.0  # of made traffic, until it is in its steady state
WARMUP_S, END_S = 300.0, 3600.0
FEWEST_VEHICLES, MEDIAN_STAY_S = 300, 20.0
EDGES_PER_NETWORK = 8  # the first by name; a road takes half a minute


def empty_prob(crossings: Crossings, h: int, t: float) -> float:
    return float(Trace(crossings, 1.0).rounds(ROAD, h, t).empty.mean())


class Judged(NamedTuple):
    """A plan from one recording, and what another one delivers."""

    promised: TracePlan
    delivered: float  # the chance of an empty round

    @property
    def off(self) -> float:
        """The promised chance minus the delivered one."""
        return 1 - (self.promised.valid_round_prob or 0.0) - self.delivered

    @property
    def within(self) -> bool:
        low, high = self.promised.valid_round_prob_interval or (1.0, 0.0)
        return low <= 1 - self.delivered <= high

    def says(self, what: str) -> bool:
        return any(what in sentence for sentence in self.promised.notices)


def judged(made_from: Crossings, judged_on: Crossings) -> Judged | None:
    found = plan(PAPER, made_from)
    if found.reason is not None:
        return None
    return Judged(found, empty_prob(judged_on, *found.numbers[:2]))


# ---- made traffic ---------------------------------------------------------------------------------


def made_traffic(rate: float, behind_signal: bool, lasts_s: float, number: int) -> Crossings:
    """A recording of stationary traffic: Poisson, or behind a light that is green for 36 of 90 s."""
    day = Day(
        quiet_per_s=rate, busy_per_s=rate, quick_mps=20.0, slow_mps=20.0,
        signal_from_s=0.0 if behind_signal else np.inf, headway_s=1.0,
    )  # fmt: skip
    begins_s = 7.3 * number  # at another phase of the signal every time
    return day_crossings(day, number, begins_s, begins_s + BEFORE_S + lasts_s).between(begins_s + BEFORE_S, np.inf)


def made() -> None:
    print("law       rate  lasts  within  the long run  promised - long run  notices of drift")
    totals = np.zeros(4, int)
    for lasts_s in (900.0, 3600.0):
        for behind_signal in (False, True):
            for rate in (0.1, 0.3):
                totals += made_row(rate, behind_signal, lasts_s)
    print(f"all: {totals[1]} of {totals[0]} within, {totals[2]} of the long run, {totals[3]} notices of drift")


def made_row(rate: float, behind_signal: bool, lasts_s: float) -> np.ndarray:
    def recording(number: int, seconds: float = lasts_s) -> Crossings:
        return made_traffic(rate, behind_signal, seconds, number)

    long = [recording(9_000 + number, 20_000.0) for number in range(6)]
    all_judged, in_the_long_run = list[Judged](), list[Judged]()
    for number in range(RECORDINGS):
        each = judged(recording(2 * number), recording(2 * number + 1))
        assert each is not None
        all_judged.append(each)
        mean = np.mean([empty_prob(some, *each.promised.numbers[:2]) for some in long])
        in_the_long_run.append(each._replace(delivered=float(mean)))
    optimism = np.array([each.off for each in in_the_long_run])
    counts = [
        RECORDINGS,
        sum(each.within for each in all_judged),
        sum(each.within for each in in_the_long_run),
        sum(each.says(DRIFT) for each in all_judged),
    ]
    error = optimism.std(ddof=1) / RECORDINGS**0.5
    print(
        f"{'signal' if behind_signal else 'Poisson':8} {rate:5.1f} {lasts_s:6.0f}"
        f" {counts[1]:4} / {RECORDINGS} {counts[2]:8} / {RECORDINGS}"
        f" {optimism.mean():+13.4f} ± {error:.4f} {counts[3]:12}",
        flush=True,
    )
    return np.array(counts)


def false_alarms() -> None:
    alarms, notices, began = 0, 0, time.perf_counter()
    for number in range(POISSON_RECORDINGS):
        rng = np.random.default_rng([7, number])
        rate, lasts_s = 10 ** rng.uniform(-1.5, -0.3), float(rng.choice([900.0, 1800.0, 3600.0]))
        trace = Trace(made_traffic(rate, False, lasts_s, number), 1.0)
        h, t = int(rng.integers(5, 40)), float(rng.uniform(10.0, 20.0))
        alarms += excess(trace, ROAD, h, t).found
        notices += drifts(trace.rounds(ROAD, h, t), float(trace.crossings.dwell_s.mean()))
    print(f"{POISSON_RECORDINGS} Poisson recordings: {alarms} warnings (declared: {FALSE_ALARM:.1%})", end=", ")
    print(f"{notices} notices of drift, {time.perf_counter() - began:.0f} s")


# ---- real traffic ---------------------------------------------------------------------------------


def real(folder: Path) -> None:
    results, warned = list[tuple[str, Judged, bool]](), list[tuple[bool, bool]]()
    for name, whole in roads(folder):
        start, end = whole.observed_s
        middle = (start + end) / 2
        halves = whole.between(start, middle), whole.between(middle, end)
        planned = plan(PAPER, whole)
        drift_of_all = DRIFT in " ".join(planned.notices)
        for first, second in (halves, halves[::-1]):
            if (each := judged(first, second)) is not None:
                results.append((name, each, drift_of_all))
        if planned.poisson_plan is not None:
            warned.append(theorem_holds(name, whole, planned.poisson_plan))
    show_halves(results)
    show_warnings(warned)


def show_halves(results: list[tuple[str, Judged, bool]]) -> None:
    misses = [(each, whole) for _, each, whole in results if not each.within]
    holds = [(each, whole) for _, each, whole in results if each.within]
    near = sum(abs(each.off) <= 0.02 for _, each, _ in results)
    print(f"\n{len(results)} plans of {len({name for name, _, _ in results})} roads, each from one half of the time:")
    print(f"  {near} delivered within 0.02 of the promise, worst {max(abs(each.off) for _, each, _ in results):.3f}")
    print(f"  {len(holds)} within the interval ({len(holds) / len(results):.0%}), {len(misses)} misses")
    for what, some in (("misses", misses), ("others", holds)):
        own, whole = sum(each.says(DRIFT) for each, _ in some), sum(whole for _, whole in some)
        print(f"  of {len(some)} {what}: {own} with a notice from the half itself, {whole} from the whole recording")
    few = sum(each.says(FEW) for _, each, _ in results)
    print(f"  {few} with a notice that few vehicles carry the plan")


def theorem_holds(name: str, crossings: Crossings, beside: PoissonPlan) -> tuple[bool, bool]:
    """Whether Theorem 1's plan for this road is off by more than 0.05, and whether the warning says so."""
    h, t = beside.local_steps, beside.round_s
    delay = theory.delay(PAPER, h)
    uploads = float(theory.uploads_identity(crossings.arrivals_per_s, Empirical(crossings.dwell_s), delay, t))
    off, seen = empty_prob(crossings, h, t) - exp(-uploads), excess(Trace(crossings, 1.0), ROAD, h, t)
    print(f"{name:24} {len(crossings):5} vehicles, ({h}, {t:.1f} s) off by {off:+.3f}{' *' * seen.found}", flush=True)
    return abs(off) > 0.05, seen.found


def show_warnings(warned: list[tuple[bool, bool]]) -> None:
    off, fine = [found for bad, found in warned if bad], [found for bad, found in warned if not bad]
    print(f"Theorem 1 is off by more than 0.05 on {len(off)} roads: {sum(off)} warned, {len(off) - sum(off)} missed")
    print(f"and by less on {len(fine)}: {sum(fine)} warned")


def roads(folder: Path) -> Iterator[tuple[str, Crossings]]:
    """The MEET road hour by hour, and edges of Bologna with enough vehicles that stay long enough."""
    meet = read_crossings(folder / "meet" / "tripinfo_9d9ae56.xml.gz")
    start, end = meet.observed_s
    for hour, at_s in enumerate(np.arange(start, end - 3000.0, 3600.0)):
        yield f"meet hour {hour}", meet.between(at_s, at_s + 3600.0)
    for name in ("bologna_acosta", "bologna_joined"):
        yield from itertools.islice(busy_edges(folder / name), EDGES_PER_NETWORK)


def busy_edges(network: Path) -> Iterator[tuple[str, Crossings]]:
    for edge, crossings in edges(network).items():
        if len(crossings) >= FEWEST_VEHICLES and np.median(crossings.dwell_s) >= MEDIAN_STAY_S:
            yield f"{network.name} {edge}", crossings


def edges(network: Path) -> dict[str, Crossings]:
    """Who was on which edge from when to when, after the warm-up."""
    visits = defaultdict[str, list[tuple[str, float, float]]](list)
    with tempfile.TemporaryDirectory(prefix="mobfl-promises-") as folder:
        out = Path(folder) / "routes.xml"
        drive(network, out)
        for _, vehicle in ElementTree.iterparse(out):
            if vehicle.tag != "vehicle":
                continue
            route, since = vehicle.findall(".//route")[-1], float(vehicle.attrib["depart"])
            for edge, left in zip(route.attrib["edges"].split(), route.attrib["exitTimes"].split(), strict=True):
                if float(left) >= since:
                    visits[edge].append((vehicle.attrib["id"], since, float(left)))
                since = float(left)
            vehicle.clear()
    found = dict[str, Crossings]()
    for edge, rows in sorted(visits.items()):
        names, enter, leave = zip(*rows, strict=True)
        found[edge] = Crossings.sorted(names, enter, leave).between(WARMUP_S, END_S)
    return found


def drive(network: Path, out: Path) -> None:
    """SUMO writes when each vehicle left each edge of its route; what the configuration writes besides goes nowhere."""
    import shutil

    import sumo

    copy = out.parent / "network"
    shutil.copytree(network, copy, copy_function=shutil.copyfile)
    options = {
        "-c": "run.sumocfg", "--step-length": "0.5", "--seed": "0", "--no-step-log": "true", "--no-warnings": "true",
        "--end": str(END_S + WARMUP_S), "--vehroute-output": str(out), "--vehroute-output.exit-times": "true",
        "--vehroute-output.write-unfinished": "true",
    }  # fmt: skip
    command = [str(Path(sumo.SUMO_HOME) / "bin" / "sumo"), *(word for pair in options.items() for word in pair)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)


# ---- long stays -----------------------------------------------------------------------------------


def parked(scenario: Scenario = PAPER) -> None:
    for median_s in (300.0, 800.0):
        rng = np.random.default_rng(5)
        enter = np.sort(rng.uniform(0.0, 3600.0, 561))
        trips = Crossings(np.arange(561), enter, enter + rng.lognormal(np.log(median_s), 0.5, 561))
        plan(scenario, trips.between(0.0, 600.0))  # compiles
        began = time.process_time()
        h, t, g = plan(scenario, trips).numbers
        print(f"561 trips of about {median_s:g} s: H = {h}, T = {t:.1f} s, g = {g:.4f}", end=", ")
        print(f"{time.process_time() - began:.1f} s of one core")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["made"]:
            made()
        case ["poisson"]:
            false_alarms()
        case ["real", data]:
            real(Path(data))
        case ["parked"]:
            parked()
        case _:
            sys.exit(__doc__)
