"""Rounds simulated, and held against what the theory promises."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.rounds.by_class import ClassCounts, ClassResult, promised
from mobfl.rounds.estimates import BatchMeans, Estimate
from mobfl.rounds.rules import FixedPlan, Rounds, simulate_rounds
from mobfl.scenario import Scenario
from mobfl.theory import Conditions, Delays
from mobfl.theory.distributions import Dwell, Empirical

# The chance of an empty round must be off by this much, and by five standard errors, before we warn.
_MATERIAL = 0.01
_STANDARD_ERRORS = 5.0


@dataclass(frozen=True)
class Simulation:
    """What happened in the rounds, beside what the theory expects of Poisson traffic with the same rate and dwell."""

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

    @property
    def warning(self) -> str | None:
        """A sentence if the traffic is not Poisson enough for the theory, None if it is."""
        measured, promised = self.empty_prob, self.expected_empty_prob
        # Few rounds may all agree by chance: the error is at least that of the promise itself.
        chance = math.sqrt(promised * (1 - promised) / self.rounds)
        error, off = max((measured.high - measured.value) / 1.96, chance), measured.value - promised
        if not abs(off) > max(_MATERIAL, _STANDARD_ERRORS * error):
            return None
        return (
            f"this traffic is not Poisson: {measured.value:.1%} of the rounds had no upload where the theory says"
            f" {promised:.1%} (variance/mean of the uploads {self.variance_to_mean.value:.2f} instead of 1);"
            " plan from the recorded crossings instead"
        )

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
            "warning": self.warning,
            **({"classes": [each.to_dict() for each in self.classes]} if self.classes else {}),
        }


def _or_none(value: float) -> float | None:
    """JSON has no word for 0/0."""
    return value if math.isfinite(value) else None


def simulate(
    scenario: Scenario,
    local_steps: int,
    round_s: float,
    rounds: int,
    seed: int = 0,
    crossings: Crossings | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Simulation:
    """So many rounds of one plan, on Poisson traffic or on recorded crossings for as long as they last.

    Args:
        scenario: The road, its traffic and its delays.
        local_steps: H, the local steps that a vehicle takes in a round.
        round_s: T, the length of a round in seconds.
        rounds: How many rounds; a shorter trace is used as a whole.
        seed: The same seed draws the same vehicles and delays.
        crossings: Recorded traffic; without it, Poisson arrivals as the scenario says.
        progress: Told how many rounds are done.
    """
    if rounds < 1:
        raise InputError(f"rounds must be >= 1, got {rounds}")
    plan = FixedPlan(local_steps, round_s)
    seen = ObservedTraffic.of(scenario, seed, crossings)
    if crossings is None:
        road = Conditions.of(scenario)
        rate, dwell = road.arrivals_per_s, road.dwell
    else:
        (chosen,) = seen.crossings
        lasts_s = seen.end_s - seen.start_s
        rounds = min(rounds, int(lasts_s / round_s))
        if rounds < 1:
            raise InputError(f"the trace must last at least one round of {round_s:g} s, got {lasts_s:g} s")
        rate, dwell = chosen.arrivals_per_s, Empirical(chosen.dwell_s)
    delays = Delays.of(scenario)
    several = len(delays.classes) > 1
    blocks = simulate_rounds(seen.crossings, plan, delays, seed, start_s=seen.start_s, keep_vehicles=several)
    by_class = ClassCounts(len(delays.classes))
    counted = _count(_by_class(blocks, rounds, by_class) if several else blocks, rounds, dwell, progress)
    expected = float(theory.uploads_identity(rate, dwell, theory.delay(scenario, local_steps), round_s))
    return Simulation(
        local_steps,
        round_s,
        counted[0].rounds,
        *_statistics(counted[0]),
        expected,
        float(np.exp(-expected)),
        counted[1],
        _class_results(scenario, local_steps, round_s, by_class, crossings is None) if several else (),
    )


def _by_class(blocks: Iterable[Rounds], rounds: int, counts: ClassCounts) -> Iterator[Rounds]:
    """The blocks as they are, with their vehicles counted on the way."""
    for block in blocks:
        if block.vehicles is not None:
            counts.add(block.vehicles.of_rounds(0, rounds))
        yield block


def _class_results(
    scenario: Scenario, local_steps: int, round_s: float, counts: ClassCounts, poisson: bool
) -> tuple[ClassResult, ...]:
    road = Conditions.of(scenario)
    found = counts.results([each.name for each in road.delays.classes])
    if not poisson:
        return tuple(found)
    expected = promised(road, local_steps, round_s)
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
