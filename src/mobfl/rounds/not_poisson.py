"""Whether recorded traffic is Poisson enough for Theorem 1, at a declared rate of false alarms.

On Poisson traffic the chance of an empty round is e^−Λ. A road's own chance is an average over when rounds begin, and
so is its Λ: how far the two are from each other is held against recordings of Poisson traffic that are as long, with
the same rate and the same stays.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mobfl.mobility.crossings import Crossings
from mobfl.planning.trace import Trace
from mobfl.rng import generator, stream
from mobfl.theory import Conditions

MATERIAL = 0.01  # a chance of an empty round that is off by less is no reason for a warning
_REPLICAS = 1999
FALSE_ALARM = 2 / (_REPLICAS + 1)  # of Poisson roads this share is beyond all of their replicas, on either side
_PLAIN_AFTER, _PLAIN = 99, 10.0  # so many standard deviations beyond so many replicas need no more of them


class Excess(NamedTuple):
    """The road's own chance of an empty round, e^−Λ, and whether they differ by more than chance allows."""

    empty_prob: float
    poisson_empty_prob: float
    found: bool


def excess(trace: Trace, road: Conditions, local_steps: int, round_s: float) -> Excess:
    """Of rounds of this plan on the recorded road."""
    own = _chances(trace, road, local_steps, round_s)
    off = own[0] - own[1]
    replicas = (_chances(replica(trace, each), road, local_steps, round_s) for each in range(_REPLICAS))
    return Excess(*own, abs(off) > MATERIAL and _beyond(off, (empty - poisson for empty, poisson in replicas)))


def _beyond(value: float, others: Iterable[float]) -> bool:
    """Whether a value is beyond all the others; as soon as one lies on either side it is not."""
    seen = list[float]()
    for other in others:
        seen.append(other)
        if min(seen[0], other) <= value <= max(seen[0], other):
            return False
        if len(seen) == _PLAIN_AFTER and abs(value - np.mean(seen)) > _PLAIN * np.std(seen):
            return True
    return True


def _chances(trace: Trace, road: Conditions, local_steps: int, round_s: float) -> tuple[float, float]:
    """Of an empty round: the road's own, and e^−Λ for its own Λ."""
    rounds = trace.rounds(road, local_steps, round_s)
    return float(rounds.empty.mean()), math.exp(-float(rounds.uploads.mean()))


def replica(trace: Trace, number: int) -> Trace:
    """Poisson traffic with the trace's rate and stays over the same time, in its steady state from the beginning."""
    (start_s, end_s), rate = trace.observed_s, trace.crossings.arrivals_per_s
    lasts_s = end_s - start_s
    stays_s = np.minimum(trace.crossings.stays_s, lasts_s)  # what is longer cannot be told from it
    draws = generator(stream(0, "Poisson replica"), np.uint64(number))
    # Who is there at the beginning stays the longer the likelier, and is anywhere in his stay.
    there = draws.choice(stays_s, draws.poisson(rate * stays_s.mean()), p=stays_s / stays_s.sum())
    coming = draws.choice(stays_s, draws.poisson(rate * lasts_s))
    enter_s = start_s + np.append(-there * draws.random(len(there)), lasts_s * draws.random(len(coming)))
    stay_s = np.append(there, coming)
    drawn = Crossings.sorted(np.arange(len(stay_s)), enter_s, enter_s + stay_s)
    return Trace(drawn, trace.participation, (start_s, end_s))


def warning_of(trace: Trace, road: Conditions, local_steps: int, round_s: float) -> str | None:
    """A sentence if the traffic is not Poisson enough for Theorem 1, None if it is."""
    seen = excess(trace, road, local_steps, round_s)
    if not seen.found:
        return None
    return (
        f"this traffic is not Poisson: on this road {seen.empty_prob:.1%} of such rounds have no upload, where as many"
        f" vehicles that come independently of each other leave {seen.poisson_empty_prob:.1%} empty (of Poisson roads"
        f" only {FALSE_ALARM:.1%} differ so much from that in a recording as long)"
    )
