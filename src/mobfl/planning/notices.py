"""What a plan from a recording should be read with: how sure it is, whether the road drifted, and who carries it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mobfl.planning.sureness import drifts, valid_prob_interval
from mobfl.planning.trace import ImaginedRounds, Trace

FEW = 0.1  # a share of the vehicles that should not decide alone


class Reading(NamedTuple):
    """What stands beside the promise of a plan from a recording, by the names that plans have for it."""

    valid_round_prob_interval: tuple[float, float]
    half_from_vehicles: int
    notices: tuple[str, ...]


def read(trace: Trace, imagined: Callable[[Trace], ImaginedRounds]) -> Reading:
    """How a plan is to be read.

    Args:
        trace: What it was made from.
        imagined: The plan's rounds on any trace.
    """
    rounds, stay_s = imagined(trace), float(trace.crossings.stays_s.mean())
    few = fewest_for_half(trace, lambda some: float(imagined(some).steps.mean()))
    told = [_drift(rounds)] if drifts(rounds, stay_s) else []
    told += [_captured(trace, few, imagined)] if few <= FEW * len(trace.crossings) else []
    return Reading(valid_prob_interval(rounds, stay_s), few, tuple(told))


def fewest_for_half(trace: Trace, steps: Callable[[Trace], float]) -> int:
    """How few of the longest stays must be left out until at most half of a round's steps remain."""
    half, low, high = steps(trace) / 2, 0, len(trace.crossings)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if steps(trace.without_longest(middle)) > half else (low, middle)
    return high


def _drift(rounds: ImaginedRounds) -> str:
    first, second = (float(half.mean()) for half in np.array_split(rounds.empty, 2))
    uploads = [float(half.mean()) for half in np.array_split(rounds.uploads, 2)]
    return (
        f"the traffic changed while it was recorded: in the first half {first:.1%} of the rounds are empty and a round"
        f" has {uploads[0]:.3g} uploads, in the second {second:.1%} and {uploads[1]:.3g}; the interval does not cover"
        " where it goes from here"
    )


def _captured(trace: Trace, few: int, imagined: Callable[[Trace], ImaginedRounds]) -> str:
    stays_s = np.sort(trace.crossings.dwell_s)
    left = float(imagined(trace.without_longest(few)).steps.mean() / imagined(trace).steps.mean())
    who = "one vehicle carries" if few == 1 else f"{few} vehicles carry"
    return (
        f"{who} half of this plan: without the longest of {len(stays_s)} stays, from {stays_s[-few]:.4g} s on, it would"
        f" give {left:.0%} of its steps (the median stay is {np.median(stays_s):.3g} s); --longest-stay"
        " (longest_stay_s) leaves longer stays out and plans for the others"
    )
