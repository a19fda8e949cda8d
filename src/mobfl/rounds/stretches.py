"""Plans run on the same stretches of traffic, as a search by simulation asks for them.

A stretch has a number, and the number says who comes when and what everybody draws: plans differ in nothing else. On
Poisson traffic it is some time of a road in its steady state. On a recording it is the whole recording once more, with
other delays, other vehicles that take part (where not all do) and rounds that begin at another moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.mobility.participation import taking_part
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rng import stream, uniforms
from mobfl.rounds.air import Channel
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Steps
from mobfl.rounds.rows import Outcome, Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.scenario import Scenario
from mobfl.theory import Conditions

Array = NDArray[np.float64]

_VEHICLES_AT_ONCE = 1 << 19  # that are kept while all plans pass over them
_ONE = np.zeros(1, np.uint64)


class Tally(NamedTuple):
    """What came of one plan: numbers for every stretch, one in a column; and T."""

    round_s: float
    rounds: Array
    worth: Array  # local steps that count: H of rounds with an upload, or the longest training
    uploads: Array
    valid: Array  # rounds with an upload
    averaged: Array  # what an average weighted by steps advances, if it was asked for

    @property
    def objective(self) -> Array:
        """Valid local steps per second."""
        return self.worth / (self.rounds * self.round_s)

    def plus(self, other: "Tally") -> "Tally":
        return Tally(self.round_s, *(np.append(mine, its) for mine, its in zip(self[1:], other[1:], strict=True)))


class Part(NamedTuple):
    """Traffic of some neighbouring stretches."""

    traffic: list[Crossings]
    seed: int
    shares: Array  # of a round, by which the first one begins after the part does
    start_s: float
    lasts_s: float  # of one stretch
    stretches: int

    def until_s(self, round_s: float) -> float:
        return self.start_s + self.stretches * self.lasts_s + round_s


@dataclass(frozen=True)
class Simulator:
    """A road on which plans are tried.

    Args:
        scenario: The road's traffic.
        road: What the theory knows of it.
        asked: How many steps vehicles take if all but T is given; None where plans have an H.
        crossings: Recorded traffic; None for Poisson arrivals.
        seed: The same seed gives the same stretches.
    """

    scenario: Scenario
    road: Conditions
    asked: AsManyAsFit | None
    crossings: Crossings | None
    seed: int

    def __call__(self, plans: Sequence[tuple[int, float]], first: int, count: int, lasts_s: float) -> Array:
        """Valid local steps per second, a row for every plan and a column for every stretch."""
        parts = [
            [self._tally(part, plan).objective for plan in plans]
            for part in self.parts(first, count, lasts_s, max(t for _, t in plans))
        ]
        return np.concatenate([np.array(part) for part in parts], axis=1)

    def tally(self, plan: tuple[int, float], first: int, count: int, lasts_s: float, averaged: bool = False) -> Tally:
        """All that came of one plan."""
        tallies = (self._tally(part, plan, averaged) for part in self.parts(first, count, lasts_s, plan[1]))
        whole = next(tallies)
        for each in tallies:
            whole = whole.plus(each)
        return whole

    def parts(self, first: int, count: int, lasts_s: float, longest_s: float) -> Iterator[Part]:
        """The traffic of these stretches, as many at a time as memory should hold; then rounds may go on so long."""
        if self.crossings is not None:
            yield from (self._again(number) for number in range(first, first + count))
            return
        at_once = max(1, int(_VEHICLES_AT_ONCE / (self.scenario.traffic.arrivals_per_s * lasts_s)))
        for number in range(first, first + count, at_once):
            stretches = min(at_once, first + count - number)
            seed, until_s = self._seed(number), stretches * lasts_s + longest_s
            yield Part(_until(self.scenario, seed, until_s), seed, np.zeros(1), 0.0, lasts_s, stretches)

    def _seed(self, number: int) -> int:
        return int(stream(self.seed, f"stretch {number}"))

    def _again(self, number: int) -> Part:
        """The recording with other draws."""
        assert self.crossings is not None
        seed, (start_s, end_s) = self._seed(number), self.crossings.observed_s
        chosen = taking_part(self.crossings, self.scenario.traffic.participation, seed)
        return Part([chosen], seed, uniforms(stream(seed, "offset"), _ONE), start_s, end_s - start_s, 1)

    def _tally(self, part: Part, plan: tuple[int, float], averaged: bool = False) -> Tally:
        steps, round_s = self.asked or plan[0], plan[1]
        counts = np.zeros((5, part.stretches))
        for block in self._rounds(part, steps, round_s, averaged):
            which = ((block.start_s - part.start_s) / part.lasts_s).astype(np.int64)
            if self.crossings is None:
                inside = which < part.stretches
            else:  # nobody knows who came after the end
                inside = block.start_s + round_s <= part.start_s + part.lasts_s
            columns = (np.ones(len(block)), self._worth(block), block.uploads, block.uploads > 0, *_averaged(block))
            for row, column in enumerate(columns):
                counts[row] += np.bincount(which[inside], column[inside], part.stretches)
            if not inside[-1]:
                break
        return Tally(round_s, *counts)

    def _rounds(self, part: Part, steps: Steps, round_s: float, keep_vehicles: bool) -> Iterator[Rounds]:
        """Here alone is said how this road is simulated."""
        return simulate_rounds(
            part.traffic, FixedPlan(steps, round_s), self.road.delays, part.seed, channel=self._channel,
            start_s=part.start_s + round_s * float(part.shares[0]), until_s=part.until_s(round_s),
            keep_vehicles=keep_vehicles,
        )  # fmt: skip

    @cached_property
    def _channel(self) -> Channel | None:
        return Channel.of(self.scenario)

    def _worth(self, block: Rounds) -> Array:
        noise = self.road.noise
        return (
            block.longest.astype(float) if noise is None else block.longest * (block.uploads / (block.uploads + noise))
        )


def _until(scenario: Scenario, seed: int, until_s: float) -> list[Crossings]:
    """Poisson traffic of everybody who enters before."""
    blocks = list[Crossings]()
    for block in poisson_crossings(scenario, seed):
        entered = block.enter_s < until_s
        blocks.append(block if entered.all() else block.take(entered))
        if not len(block) or entered.all():
            continue
        return blocks
    return blocks


def _averaged(block: Rounds) -> tuple[Array, ...]:
    """Σ k²/Σ k over every round's uploads of k steps, if the vehicles' rows were kept."""
    if block.vehicles is None:
        return ()
    rows = block.vehicles
    uploaded = rows.outcome == Outcome.UPLOADED
    rounds, steps = rows.round[uploaded] - block.round[0], rows.steps[uploaded].astype(float)
    squares, sums = (np.bincount(rounds, weights, len(block)) for weights in (steps**2, steps))
    return (squares / np.maximum(sums, 1.0),)
