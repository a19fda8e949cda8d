"""Anytime rounds simulated, and held against what the theory promises."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mobfl import theory
from mobfl.display import Displayed, Sheet
from mobfl.errors import counted
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.planning.trace import Trace, assumed_of
from mobfl.rounds.air import assumed_places, delays_and_channel
from mobfl.rounds.airtime import AirCounts, AirResult
from mobfl.rounds.by_class import ClassCounts, ClassResult
from mobfl.rounds.estimates import BatchMeans, Compared, Estimate, compared_sheet
from mobfl.rounds.orders import AsManyAsFit, FixedPlan
from mobfl.rounds.rows import Array, Integers
from mobfl.rounds.rules import simulate_rounds
from mobfl.scenario import Scenario
from mobfl.theory import Conditions

_COMPARED = ("longest_steps", "delivered_steps", "uploads", "empty_prob", "lost_share")


@dataclass(frozen=True)
class AnytimeClassResult(ClassResult):
    """One class in simulated anytime rounds, with the local steps that its uploads bring."""

    steps_per_visit: float = 0.0
    expected_steps_per_visit: float | None = None


@dataclass(frozen=True, repr=False)
class AnytimeSimulation(Displayed):
    """What happened in anytime rounds, beside what the theory promises of them.

    On recorded traffic it is the promise of those crossings. Nothing is promised where vehicles are wrong about their
    leaving. Who does not know it may be done within a step before it: theory counts it as lost, and so promises a
    little less than is delivered.

    Args:
        asked: What vehicles know.
        round_s: T.
        rounds: How many were run.
        longest_steps: Per round, the local steps of the longest upload, 0 if there was none; over T it is v.
        delivered_steps: Per round, those of all uploads together.
        uploads: Per round.
        empty_prob: The share of rounds without an upload.
        lost_share: The share of the trainings that were started whose upload did not come.
        reached: Numbers of steps, and the share of the rounds whose longest upload has at least so many.
        expected_reached: The same as promised for Poisson traffic, 1 − e^(−Λ(n, T)); None where nothing is.
        classes: The same by class, where there is more than one.
        assumed: What had to be assumed of the traffic; None if nothing.
        air: What became of a radio that transfers share; None where there is none.
    """

    asked: AsManyAsFit
    round_s: float
    rounds: int
    longest_steps: Compared
    delivered_steps: Compared
    uploads: Compared
    empty_prob: Compared
    lost_share: Compared
    reached: tuple[Integers, Array]
    expected_reached: Array | None
    classes: tuple[AnytimeClassResult, ...] = ()
    assumed: str | None = None
    air: AirResult | None = None

    @property
    def objective(self) -> float:
        """v as it was measured, valid local steps per second."""
        return self.longest_steps.measured.value / self.round_s

    def to_dict(self) -> dict[str, Any]:
        compared = [getattr(self, name).to_dict(name) for name in _COMPARED]
        return {
            "schedule": "anytime",
            "knows": self.asked.knows,
            "error": self.asked.error,
            "round_s": self.round_s,
            "rounds": self.rounds,
            "objective": self.objective,
            **{key: value for each in compared for key, value in each.items()},
            **({"classes": [each.to_dict() for each in self.classes]} if self.classes else {}),
            **({"assumed": self.assumed} if self.assumed else {}),
        }

    @property
    def compared(self) -> list[tuple[str, Compared]]:
        """In words, what was measured beside what was promised."""
        return [
            ("steps of the longest training", self.longest_steps),
            ("steps of all uploads", self.delivered_steps),
            ("uploads per round", self.uploads),
            ("chance of an empty round", self.empty_prob),
            ("trainings that are lost", self.lost_share),
        ]

    def _brief(self) -> str:
        told = f"{counted(self.rounds, 'anytime round')} of T = {self.round_s:.4f} s"
        return f"{told}: {self.uploads.measured.value:.4f} uploads per round, v = {self.objective:.4f} /s"

    def _sheet(self) -> Sheet:
        title = f"{counted(self.rounds, 'anytime round')} with T = {self.round_s:.4f} s: v = {self.objective:.4f} /s"
        return compared_sheet(title, self.compared, [self.assumed or ""])


@dataclass(frozen=True)
class _Promise:
    """Means per round, as far as theory knows them."""

    longest_steps: float | None = None
    delivered_steps: float | None = None
    uploads: float | None = None
    empty_prob: float | None = None
    lost_share: float | None = None


def simulate_anytime(
    scenario: Scenario,
    asked: AsManyAsFit,
    round_s: float,
    rounds: int,
    seed: int = 0,
    crossings: Crossings | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> AnytimeSimulation:
    """So many anytime rounds, on Poisson traffic or on recorded crossings for as long as they last."""
    plan, seen = FixedPlan(asked, round_s), ObservedTraffic.of(scenario, seed, crossings)
    rounds, (delays, channel) = seen.whole_rounds(round_s, rounds), delays_and_channel(scenario)
    several, by_class, on_air = len(delays.classes) > 1, ClassCounts(len(delays.classes)), AirCounts()
    stay_s = theory.mean_stay_s(scenario) if crossings is None else crossings.stays_s.mean()
    # Rounds that share a vehicle mostly fall into one batch.
    means, longest = BatchMeans(5, 1 + int(2 * float(stay_s) / round_s)), Counter[int]()
    keep = several or channel is not None
    for block in simulate_rounds(
        seen.crossings, plan, delays, seed, channel=channel, start_s=seen.start_s, keep_vehicles=keep
    ):
        part = block.first(rounds - means.rounds)
        means.add(np.stack([part.longest, part.steps, part.uploads, part.uploads == 0, part.started]).astype(float))
        if block.vehicles is not None:
            rows = block.vehicles.of_rounds(0, rounds)
            by_class.add(rows)
            if channel is not None:
                on_air.add(rows)
        longest.update(part.longest.tolist())
        progress(means.rounds)
        if means.rounds == rounds:
            break
    promise = _promise(scenario, asked, round_s, crossings) if channel is None else _Promise()
    poisson = crossings is None and channel is None
    classes = _class_results(scenario, asked, round_s, by_class, poisson) if several else ()
    reached = _reached(longest)
    expected = None if promise.delivered_steps is None else _expected_reached(scenario, asked, round_s, reached[0])
    compared = _compared(means, promise)
    assumed = assumed_of(asked.knows, crossings) or assumed_places(channel, crossings)
    bits = 0.0 if channel is None else 8.0 * channel.upload_bytes
    air = None if channel is None else on_air.result(bits, means.rounds * round_s, None)
    return AnytimeSimulation(asked, round_s, means.rounds, *compared, reached, expected, classes, assumed, air)


def _reached(longest: Counter[int]) -> tuple[Integers, Array]:
    steps, rounds = np.array(sorted((each for each in longest.items() if each[0]), reverse=True)).reshape(-1, 2).T
    return steps[::-1], np.cumsum(rounds)[::-1] / longest.total()


def _expected_reached(scenario: Scenario, asked: AsManyAsFit, round_s: float, steps: Integers) -> Array:
    return -np.expm1(-theory.uploads_of_steps(scenario, steps, round_s, asked.knows)) if len(steps) else np.empty(0)


def _compared(means: BatchMeans, promise: _Promise) -> tuple[Compared, Compared, Compared, Compared, Compared]:
    """In the order of `_COMPARED`."""

    def share(function: Callable[[Any], float]) -> Estimate:
        found = means.estimate(function)
        return Estimate(found.value, max(found.low, 0.0), min(found.high, 1.0))

    return (
        Compared(means.estimate(lambda m: m[0]), promise.longest_steps),
        Compared(means.estimate(lambda m: m[1]), promise.delivered_steps),
        Compared(means.estimate(lambda m: m[2]), promise.uploads),
        Compared(share(lambda m: m[3]), promise.empty_prob),
        Compared(share(lambda m: 1.0 - m[2] / m[4] if m[4] else math.nan), promise.lost_share),
    )


def _promise(scenario: Scenario, asked: AsManyAsFit, round_s: float, crossings: Crossings | None) -> _Promise:
    if asked.error:
        return _Promise()
    predicts = asked.knows == "predicted" and (crossings is None or crossings.tracks is None)
    lost = 0.0 if asked.knows == "leaving" or predicts else None
    if crossings is not None:
        trace = Trace(crossings, scenario.traffic.participation)
        there = trace.anytime_rounds(Conditions.of(scenario), round_s, asked.knows)
        longest, uploads, empty = (float(each.mean()) for each in (there.steps, there.uploads, there.empty))
        return _Promise(longest, None, uploads, empty, lost)
    uploads = float(theory.uploads_of_steps(scenario, 1, round_s, asked.knows))
    longest, delivered = (
        float(promised(scenario, round_s, asked.knows)) for promised in (theory.longest_steps, theory.delivered_steps)
    )
    return _Promise(longest, delivered, uploads, math.exp(-uploads), lost)


def _class_results(
    scenario: Scenario, asked: AsManyAsFit, round_s: float, counts: ClassCounts, poisson: bool
) -> tuple[AnytimeClassResult, ...]:
    found = counts.results([each.name for each in scenario.classes])
    results = (
        AnytimeClassResult(**asdict(each), steps_per_visit=float(steps))
        for each, steps in zip(found, counts.steps_per_visit, strict=True)
    )
    if not poisson or asked.error:
        return tuple(results)
    road = Conditions.of(scenario)
    return tuple(_with_promise(each, _alone(road, place), asked, round_s) for place, each in enumerate(results))


def _alone(road: Conditions, place: int) -> Conditions:
    """One class is a road of its own with its share of the arrivals."""
    only = road.delays.classes[place]
    delays = replace(road.delays, classes=(replace(only, share=1.0),))
    return replace(road, arrivals_per_s=only.share * road.arrivals_per_s, delays=delays)


def _with_promise(
    result: AnytimeClassResult, road: Conditions, asked: AsManyAsFit, round_s: float
) -> AnytimeClassResult:
    came = float(road.arrivals_per_s) * round_s  # in a round
    # Whoever knows its leaving is heard if one step fits: that is a fixed round of H = 1.
    sure = asked.knows in ("leaving", "predicted")  # a Poisson vehicle drives at one speed
    heard = theory.contributing_visits_by_class(road, 1, round_s)[0] if sure else None
    return replace(
        result,
        expected_heard=heard,
        expected_uploads_per_visit=float(theory.uploads_of_steps(road, 1, round_s, asked.knows)) / came,
        expected_steps_per_visit=float(theory.delivered_steps(road, round_s, asked.knows)) / came,
    )
