"""Rounds simulated, and held against what the theory promises."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.display import Displayed, Sheet
from mobfl.errors import InputError, counted
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.planning.radio import in_seconds
from mobfl.planning.trace import Trace
from mobfl.rounds.air import assumed_places, delays_and_channel
from mobfl.rounds.airtime import AirCounts, AirResult
from mobfl.rounds.anytime import AnytimeSimulation, simulate_anytime
from mobfl.rounds.by_class import ClassCounts, ClassResult
from mobfl.rounds.by_class import promised as promised_by_class
from mobfl.rounds.estimates import BatchMeans, Compared, Estimate, compared_sheet
from mobfl.rounds.not_poisson import warning_of
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Steps
from mobfl.rounds.rows import Rounds, VehicleRows
from mobfl.rounds.rules import simulate_rounds
from mobfl.scenario import Scenario
from mobfl.theory import Conditions
from mobfl.theory.distributions import Dwell, Empirical

Progress: TypeAlias = Callable[[int], None]


class Promise(NamedTuple):
    """What is promised of a round."""

    uploads: float
    empty_prob: float


@dataclass(frozen=True, repr=False)
class Simulation(Displayed):
    """What happened in the rounds, beside what was promised.

    On Poisson traffic Theorem 1 promises. On recorded traffic the road's own law does, averaged over when the rounds
    begin, as a plan from it does; `poisson` is then what Theorem 1 says of the same rate and stays.
    """

    local_steps: int
    round_s: float
    rounds: int
    mean_uploads: Estimate
    empty_prob: Estimate
    variance_to_mean: Estimate
    contributing_share: Estimate
    expected_uploads: float
    expected_empty_prob: float
    histogram: NDArray[np.int64]  # how many rounds had 0, 1, 2, … uploads
    classes: tuple[ClassResult, ...] = ()  # where there is more than one
    poisson: Promise | None = None  # beside what the recorded road promises
    warning: str | None = None  # if recorded traffic is not Poisson enough for Theorem 1
    air: AirResult | None = None  # where transfers share a radio; then what is promised is for their mean times
    assumed: str | None = None  # of where vehicles are, if nobody told

    def to_dict(self) -> dict[str, Any]:
        return {
            "local_steps": self.local_steps,
            "round_s": self.round_s,
            "rounds": self.rounds,
            "mean_uploads": self.mean_uploads.value,
            "empty_prob": self.empty_prob.value,
            "variance_to_mean": _or_none(self.variance_to_mean.value),
            "contributing_share": _or_none(self.contributing_share.value),
            "expected_uploads": self.expected_uploads,
            "expected_empty_prob": self.expected_empty_prob,
            **({} if self.poisson is None else {f"poisson_{k}": v for k, v in self.poisson._asdict().items()}),
            "warning": self.warning,
            **({} if self.air is None else {"radio": self.air.to_dict(), "assumed": self.assumed}),
            **({"classes": [each.to_dict() for each in self.classes]} if self.classes else {}),
        }

    @property
    def compared(self) -> list[tuple[str, Compared]]:
        """In words, what was measured beside what was promised."""
        dispersion = 1.0 if self.poisson is None else None
        return [
            ("uploads per round", Compared(self.mean_uploads, self.expected_uploads)),
            ("chance of an empty round", Compared(self.empty_prob, self.expected_empty_prob)),
            ("variance/mean of uploads", Compared(self.variance_to_mean, dispersion)),
            ("trainings that count", Compared(self.contributing_share)),
        ]

    def _brief(self) -> str:
        told = f"{counted(self.rounds, 'round')} of H = {self.local_steps}, T = {self.round_s:.4f} s"
        return f"{told}: {self.mean_uploads.value:.4f} uploads per round, promised {self.expected_uploads:.4f}"

    def _sheet(self) -> Sheet:
        title = f"{counted(self.rounds, 'round')} with H = {self.local_steps}, T = {self.round_s:.4f} s"
        return compared_sheet(title, self.compared, [self.warning or "", self.assumed or ""])


def _or_none(value: float) -> float | None:
    """JSON has no word for 0/0."""
    return value if math.isfinite(value) else None


@overload
def simulate(
    scenario: Scenario, local_steps: int, round_s: float, rounds: int,
    seed: int = 0, crossings: Crossings | None = None, progress: Progress = ...,
) -> Simulation: ...  # fmt: skip


@overload
def simulate(
    scenario: Scenario, local_steps: AsManyAsFit, round_s: float, rounds: int,
    seed: int = 0, crossings: Crossings | None = None, progress: Progress = ...,
) -> AnytimeSimulation: ...  # fmt: skip


def simulate(
    scenario: Scenario,
    local_steps: Steps,
    round_s: float,
    rounds: int,
    seed: int = 0,
    crossings: Crossings | None = None,
    progress: Progress = lambda _: None,
) -> Simulation | AnytimeSimulation:
    """So many rounds of one plan, on Poisson traffic or on recorded crossings for as long as they last.

    Args:
        scenario: The road, its traffic and its delays.
        local_steps: H, the local steps that a vehicle takes in a round, or `AsManyAsFit()` for anytime rounds.
        round_s: T, the length of a round in seconds.
        rounds: How many rounds; a shorter trace is used as a whole.
        seed: The same seed draws the same vehicles and delays.
        crossings: Recorded traffic; without it, Poisson arrivals as the scenario says.
        progress: Told how many rounds are done.
    """
    if isinstance(local_steps, AsManyAsFit):
        return simulate_anytime(scenario, local_steps, round_s, rounds, seed, crossings, progress)
    plan, seen = FixedPlan(local_steps, round_s), ObservedTraffic.of(scenario, seed, crossings)
    rounds, (delays, channel) = seen.whole_rounds(round_s, rounds), delays_and_channel(scenario)
    times = None if channel is None else theory.mean_transfers(scenario, local_steps, round_s)
    known = scenario if times is None else in_seconds(scenario, times)
    rate, dwell = _rate_and_dwell(known, None if crossings is None else next(iter(seen.crossings)))
    several, on_air = len(delays.classes) > 1, AirCounts()
    by_class = ClassCounts(len(delays.classes))
    watchers = [*([by_class.add] if several else []), *([on_air.add] if channel else [])]
    blocks = simulate_rounds(
        seen.crossings, plan, delays, seed, channel=channel, start_s=seen.start_s, keep_vehicles=bool(watchers)
    )
    counted = _count(_watched(blocks, rounds, watchers), rounds, dwell, progress)
    expected = float(theory.uploads_identity(rate, dwell, theory.delay(known, local_steps), round_s))
    poisson = Promise(expected, math.exp(-expected))
    promised, warning = (poisson, None) if crossings is None else _recorded(known, crossings, local_steps, round_s)
    lasted_s = counted[0].rounds * round_s
    return Simulation(
        local_steps,
        round_s,
        counted[0].rounds,
        *_statistics(counted[0]),
        *promised,
        counted[1],
        _class_results(known, local_steps, round_s, by_class, crossings is None) if several else (),
        None if crossings is None else poisson,
        warning,
        None if channel is None else on_air.result(8.0 * channel.upload_bytes, lasted_s, times),
        assumed_places(channel, crossings),
    )


def _rate_and_dwell(scenario: Scenario, taking_part: Crossings | None) -> tuple[float, Dwell]:
    """Of the scenario's own traffic, or of those who take part of a recording."""
    if taking_part is not None:
        return taking_part.arrivals_per_s, Empirical(taking_part.dwell_s)
    road = Conditions.of(scenario)
    return float(road.arrivals_per_s), road.dwell


def _recorded(scenario: Scenario, crossings: Crossings, local_steps: int, round_s: float) -> tuple[Promise, str | None]:
    """What the recorded road promises, and a warning if Theorem 1 does not fit it."""
    trace, road = Trace(crossings, scenario.traffic.participation), Conditions.of(scenario)
    rounds = trace.rounds(road, local_steps, round_s)
    promised = Promise(float(rounds.uploads.mean()), float(rounds.empty.mean()))
    return promised, warning_of(trace, road, local_steps, round_s)


def _watched(
    blocks: Iterable[Rounds], rounds: int, watchers: Sequence[Callable[[VehicleRows], None]]
) -> Iterator[Rounds]:
    """The blocks as they are, with their vehicles counted on the way."""
    for block in blocks:
        if block.vehicles is not None:
            rows = block.vehicles.of_rounds(0, rounds)
            for watch in watchers:
                watch(rows)
        yield block


def _class_results(
    scenario: Scenario, local_steps: int, round_s: float, counts: ClassCounts, poisson: bool
) -> tuple[ClassResult, ...]:
    road = Conditions.of(scenario)
    found = counts.results([each.name for each in road.delays.classes])
    if not poisson:
        return tuple(found)
    expected = promised_by_class(road, local_steps, round_s)
    return tuple(
        replace(each, expected_heard=heard, expected_uploads_per_visit=uploads)
        for each, (heard, uploads) in zip(found, expected, strict=True)
    )


def _count(
    blocks: Iterable[Rounds], rounds: int, dwell: Dwell, progress: Callable[[int], None]
) -> tuple[BatchMeans, NDArray[np.int64]]:
    """Batch sums of present, uploads, uploads² and emptiness, and the histogram of uploads."""
    histogram = np.zeros(1, np.int64)
    means: BatchMeans | None = None
    for block in blocks:
        # Rounds that share a vehicle mostly fall into one batch.
        means = means or BatchMeans(4, 1 + int(2 * float(np.mean(dwell.draw(0.5))) / block.round_s))
        there = rounds - means.rounds
        present, uploads = block.present[:there].astype(float), block.uploads[:there]
        means.add(np.stack([present, uploads, uploads.astype(float) ** 2, uploads == 0]))
        counts = np.bincount(uploads, minlength=len(histogram))
        counts[: len(histogram)] += histogram
        histogram = counts
        progress(means.rounds)
        if means.rounds == rounds:
            break
    if means is None:
        raise InputError("the trace must last at least one round, got less")
    return means, histogram


def _share(estimate: Estimate) -> Estimate:
    return Estimate(estimate.value, max(estimate.low, 0.0), min(estimate.high, 1.0))


def _statistics(means: BatchMeans) -> tuple[Estimate, Estimate, Estimate, Estimate]:
    def variance_to_mean(m: NDArray[np.float64]) -> float:
        return float((m[2] - m[1] ** 2) / m[1]) if m[1] else float("nan")

    return (
        means.estimate(lambda m: m[1]),
        _share(means.estimate(lambda m: m[3])),
        means.estimate(variance_to_mean),
        means.estimate(lambda m: m[1] / m[0] if m[0] else float("nan")),
    )
