"""A simulation in which the plan follows the traffic, beside one that keeps the first plan."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.policies.adaptive.choices import Chooser
from mobfl.policies.adaptive.controller import Knowledge, Settings
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.rounds.air import Channel, delays_and_channel
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Policy
from mobfl.rounds.rows import Rounds
from mobfl.rounds.rules import simulate_rounds
from mobfl.scenario import Scenario
from mobfl.theory import Delays

_NOTED_EVERY_S = 300.0


@dataclass(frozen=True)
class Note:
    """What the controller knew at some instant, and the H (None if as many as fit) and T that it gave then."""

    at_s: float
    local_steps: int | None
    round_s: float
    known: Knowledge


@dataclass(frozen=True)
class Following:
    """What came of following the traffic for so many rounds and seconds."""

    rounds: int
    seconds: float
    empty_prob: float
    objective: float  # valid local steps per second
    kept_objective: float  # the same had the first plan been kept, on the same traffic
    changes: int
    notes: tuple[Note, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def follow(
    scenario: Scenario,
    rounds: int,
    seed: int = 0,
    crossings: Crossings | None = None,
    settings: Settings | None = None,
    progress: Callable[[int], None] = lambda _: None,
    chooser: Chooser | None = None,
) -> Following:
    """So many rounds that follow Poisson traffic, or recorded crossings for as long as they last."""
    if rounds < 1:
        raise InputError(f"rounds must be >= 1, got {rounds}")
    delays, channel = delays_and_channel(scenario)
    policy = AdaptivePolicy(scenario, delays, settings, chooser)
    first = policy.next_order(None)
    simulated = partial(_rounds, scenario, delays, channel, seed, crossings)
    notes, uploads, steps = list[Note](), list[int](), 0.0
    start_s = now_s = 0.0 if crossings is None else crossings.observed_s[0]
    for block in simulated(policy, rounds, keep_vehicles=True):
        if not notes or block.start_s[0] >= notes[-1].at_s + _NOTED_EVERY_S:
            known = policy.controller.knowledge()
            h = None if isinstance(block.local_steps, AsManyAsFit) else block.local_steps
            notes.append(Note(float(block.start_s[0]), h, block.round_s, known))
        uploads += block.uploads.tolist()
        steps += valid_steps(block)
        now_s = float(block.start_s[-1]) + block.round_s
        progress(len(uploads))
    if not uploads:
        raise InputError(f"the trace must last at least one round of {first.round_s:g} s, got less")
    seconds, empty = now_s - start_s, float(np.mean(np.array(uploads) == 0))
    as_many = max(1, int(seconds / first.round_s))
    fixed = simulated(FixedPlan(first.local_steps, first.round_s), as_many, keep_vehicles=False)
    kept = sum(map(valid_steps, fixed)) / (as_many * first.round_s)
    return Following(len(uploads), seconds, empty, steps / seconds, kept, policy.controller.changes, tuple(notes))


def valid_steps(rounds: Rounds) -> float:
    """The longest upload's steps of every round, which is H for every round with an upload."""
    return float(rounds.longest.sum())


def _rounds(
    scenario: Scenario,
    delays: Delays,
    channel: Channel | None,
    seed: int,
    crossings: Crossings | None,
    policy: Policy,
    most: int,
    *,
    keep_vehicles: bool,
) -> Iterator[Rounds]:
    """Those that end while traffic is observed."""
    traffic, left = ObservedTraffic.of(scenario, seed, crossings), most
    blocks = simulate_rounds(
        traffic.crossings, policy, delays, seed, channel=channel, start_s=traffic.start_s, keep_vehicles=keep_vehicles,
    )  # fmt: skip
    for block in blocks:
        fit = min(left, int(np.searchsorted(block.start_s + block.round_s, traffic.end_s, side="right")))
        if fit:
            yield block if fit == len(block) else block.first(fit)
        left -= fit
        if fit < len(block) or not left:
            return
