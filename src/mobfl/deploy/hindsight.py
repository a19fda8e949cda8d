"""What another plan would have done on a deployment that has been.

Every plan meets the vehicles that were there, when they were there, with delays drawn from the law that was measured.
It is played many times. Each time the law is that of visits drawn again from the recorded ones, so that what is not
known of it counts too, and all plans meet the same law and the same draws. The rounds as they were are played as well:
unless what happened lies among what that gives, the replay does not tell the truth, and says so.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.deploy.recorded import PastRounds, RecordedDeployment, read_deployment
from mobfl.errors import InputError
from mobfl.rng import generator, stream
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.orders import FOREVER, AsManyAsFit, FixedPlan, Order, Policy
from mobfl.rounds.rows import Rounds
from mobfl.rounds.rules import TIME_ROUNDING, simulate_rounds
from mobfl.servers.anytime import predicts
from mobfl.servers.names import server_of
from mobfl.servers.rounds import PlannedRounds
from mobfl.theory import Delays

Array = NDArray[np.float64]

DRAWS = 200
_FEWEST_DRAWS = 20
DEFAULT_PLANS = ("mobfl", "anytime")
AS_IT_WAS = "as it was"
_COMPARED = ("uploads", "valid_steps_per_s")  # of what happened, with what its replays give
_MATERIAL = 0.05  # of a value; what is off by less is no reason to distrust a replay
_INTERVAL = (0.025, 0.975)


@dataclass(frozen=True)
class PlayedPlan:
    """One plan on a recorded deployment, draw by draw: all but the first four are arrays with one entry each.

    Args:
        name: As it was asked for.
        local_steps: H; None where it changes or where as many are taken as fit.
        round_s: T; None where it changes.
        fits: Whether every vehicle takes as many steps as fit.
        rounds: How many whole rounds there are.
        uploads: Per round.
        empty_share: The share of rounds without an upload.
        valid_steps_per_s: The local steps of every round's longest upload, per second: what g and v promise.
        delivered_steps_per_s: Those of all uploads.
    """

    name: str
    local_steps: int | None
    round_s: float | None
    fits: bool
    rounds: Array
    uploads: Array
    empty_share: Array
    valid_steps_per_s: Array
    delivered_steps_per_s: Array

    def estimate(self, quantity: str) -> Estimate:
        """The mean over draws, and the interval in which 95 % of them are."""
        return _estimate(getattr(self, quantity))

    def gain_over(self, other: "PlayedPlan") -> Estimate:
        """In valid local steps per second, as a share of the other's: draws are compared with the same draws."""
        draws = min(len(self.rounds), len(other.rounds))
        mine, theirs = self.valid_steps_per_s[:draws], other.valid_steps_per_s[:draws]
        return _estimate((mine - theirs) / theirs.mean()) if theirs.mean() > 0 else Estimate(np.nan, -np.inf, np.inf)

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"plan": self.name, "local_steps": self.local_steps, "round_s": self.round_s}
        for quantity in ("uploads", "empty_share", "valid_steps_per_s", "delivered_steps_per_s"):
            found = self.estimate(quantity)
            told |= {quantity: found.value, f"{quantity}_interval": [found.low, found.high]}
        return told | {"rounds": float(self.rounds.mean()), "draws": len(self.rounds)}


@dataclass(frozen=True)
class Hindsight:
    """Plans on a recorded deployment, beside what happened."""

    recorded: RecordedDeployment
    as_it_was: PlayedPlan
    plans: tuple[PlayedPlan, ...]

    @property
    def happened(self) -> dict[str, float]:
        """The same quantities of the rounds as they were run."""
        rounds = self.recorded.rounds
        return {
            "rounds": len(rounds),
            "uploads": float(rounds.uploads.mean()),
            "empty_share": float((rounds.uploads == 0).mean()),
            "valid_steps_per_s": rounds.valid_steps_per_s,
        }

    @property
    def false_alarm(self) -> float:
        """How often at most a replay that tells the truth is said not to: each value may be beyond all draws."""
        return len(_COMPARED) * 2 / (len(self.as_it_was.rounds) + 1)

    @property
    def disagreement(self) -> str | None:
        """A sentence if what happened is beyond all that its replays give, by more than a trifle; None if not."""
        for quantity in _COMPARED:
            drawn, seen = getattr(self.as_it_was, quantity), self.happened[quantity]
            beyond = not drawn.min() <= seen <= drawn.max()
            if beyond and abs(seen - drawn.mean()) > _MATERIAL * max(seen, drawn.mean()):
                what = "uploads per round" if quantity == "uploads" else "valid local steps per second"
                return (
                    f"The replay cannot be trusted: of the rounds as they were it makes {drawn.min():.3g} to"
                    f" {drawn.max():.3g} {what}, where {seen:.3g} happened (of replays that do, at most"
                    f" {self.false_alarm:.0%} are so far off). Delays depended on something that it does not know,"
                    " such as vehicles that are slow for good, or machines that do not keep up"
                )
        return None

    @property
    def best(self) -> PlayedPlan:
        return max((self.as_it_was, *self.plans), key=lambda each: float(each.valid_steps_per_s.mean()))

    @property
    def conclusion(self) -> str:
        """What the best of the plans would have gained."""
        best, base = self.best, self.as_it_was.estimate("valid_steps_per_s")
        if best is self.as_it_was:
            now = f"{base.value:.3g} valid local steps per second"
            return f"None of these plans would have been better than what was run, which gives {now}."
        gain, found = best.gain_over(self.as_it_was), best.estimate("valid_steps_per_s")
        sure = "" if gain.low > 0 else ", which is not sure to be a gain"
        return (
            f"The best of these, {best.name}, would have given {found.value:.3g} instead of {base.value:.3g} valid"
            f" local steps per second: {_percent(gain)}{sure}."
        )

    def to_dict(self) -> dict[str, Any]:
        recorded, (start_s, end_s) = self.recorded, self.recorded.observed_s
        return {
            "recording": {
                "vehicles": len(recorded.crossings),
                "start_s": start_s,
                "end_s": end_s,
                "attempts": len(recorded.seen.ended),
                "answered": int(recorded.seen.ended.sum()),
                "transfer_s": recorded.transfer_s,
                "min_step_s": recorded.law.min_step_s,
                "extra_step_s": recorded.law.extra_step_s,
                "unseen_share": recorded.law.unseen_share,
            },
            "happened": self.happened,
            "as_it_was": self.as_it_was.to_dict(),
            "agrees": self.disagreement is None,
            "false_alarm": self.false_alarm,
            "plans": [self._told(each) for each in self.plans],
            "best": self.best.name,
            "conclusion": self.conclusion,
            "notices": [*([] if self.disagreement is None else [self.disagreement]), *recorded.notices],
        }

    def _told(self, plan: PlayedPlan) -> dict[str, Any]:
        gain = plan.gain_over(self.as_it_was)
        known = bool(np.isfinite(gain.value))
        return plan.to_dict() | {
            "gain": gain.value if known else None,
            "gain_interval": [gain.low, gain.high] if known else None,
        }


def in_hindsight(
    recorded: RecordedDeployment | str | os.PathLike[str],
    plans: str | Iterable[str] = DEFAULT_PLANS,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Hindsight:
    """What these plans would have done on a recorded deployment, beside what was run.

    Args:
        recorded: What `read_deployment` returns, or the folder that it reads.
        plans: What `--plan` takes, one or several; those that have rounds of a length T. `mobfl` and `anytime` are
            found from the recording.
        draws: How often each is played, at least 20.
        seed: Of all draws.
        progress: Told how many have been played.
    """
    if draws < _FEWEST_DRAWS:
        raise InputError(f"draws must be >= {_FEWEST_DRAWS}, got {draws}")
    stream(seed, "")  # which checks it
    recorded = recorded if isinstance(recorded, RecordedDeployment) else read_deployment(Path(recorded))
    plans = [plans] if isinstance(plans, str) else plans
    named = [(name, _policy(recorded, name)) for name in plans]
    past = _AsItWas(recorded.rounds, recorded.asked)
    laws, done, played = [_law(recorded, seed, each) for each in range(draws)], 0, list[PlayedPlan]()
    for name, policy in ((AS_IT_WAS, past), *named):
        fewer = laws if isinstance(policy, FixedPlan | _AsItWas) else laws[:_FEWEST_DRAWS]  # others plan as they go
        played.append(_played(recorded, name, policy, fewer))
        progress(done := done + 1)
    return Hindsight(recorded, played[0], tuple(played[1:]))


def _law(recorded: RecordedDeployment, seed: int, draw: int) -> tuple[Delays, int]:
    """The delays of one draw, and the seed by which vehicles draw theirs."""
    others = generator(stream(seed, "recorded visits"), np.uint64(draw))
    return recorded.delays(recorded.seen.law_of_others(others)), int(stream(seed, f"hindsight {draw}"))


def _policy(recorded: RecordedDeployment, name: str) -> Policy:
    if predicts(name):
        raise InputError(f"plan {name} must not need positions to be replayed, which a base station does not record")
    schedule = server_of(name, None, recorded.scenario, recorded.crossings).schedule
    if not isinstance(schedule, PlannedRounds):
        raise InputError(f"plan must have rounds of a length T to be replayed, got {name!r}")
    return schedule.policy


class _AsItWas:
    """The rounds of a recording again, one after the other; the last one for ever."""

    def __init__(self, rounds: PastRounds, asked: AsManyAsFit | None) -> None:
        lengths = (rounds.end_s - rounds.start_s).round(9).tolist()
        steps = rounds.local_steps.tolist()
        wanted = [(asked or max(h, 1), t) for h, t in zip(steps, lengths, strict=True)]
        self._orders = [Order(*key, rounds=len(list(same))) for key, same in groupby(wanted)]
        self._next = 0

    def next_order(self, seen: Rounds | None) -> Order:
        self._next = 0 if seen is None else self._next + 1
        if self._next < len(self._orders):
            return self._orders[self._next]
        last = self._orders[-1]
        return Order(last.local_steps, last.round_s, FOREVER)


def _played(recorded: RecordedDeployment, name: str, policy: Policy, laws: Sequence[tuple[Delays, int]]) -> PlayedPlan:
    rows = np.array([_play(recorded, policy, *each) for each in laws])
    if not rows[:, 0].all():
        first_s, (start_s, end_s) = policy.next_order(None).round_s, recorded.observed_s
        lasts = f"the recording's {end_s - start_s:g} s"
        raise InputError(f"plan {name} must have rounds no longer than {lasts}, got {first_s:g} s")
    fixed = policy if isinstance(policy, FixedPlan) else None
    asked = policy.next_order(None).local_steps
    h = None if fixed is None or isinstance(asked, AsManyAsFit) else asked
    t = None if fixed is None else fixed.round_s
    return PlayedPlan(name, h, t, isinstance(asked, AsManyAsFit), *rows.T)


def _play(recorded: RecordedDeployment, policy: Policy, delays: Delays, seed: int) -> tuple[float, ...]:
    """Rounds, uploads per round, the share of empty rounds, valid and delivered local steps per second."""
    start_s, end_s = recorded.observed_s
    until_s = end_s + TIME_ROUNDING * (end_s - start_s)
    keep = not isinstance(policy, FixedPlan)
    blocks = simulate_rounds(
        [recorded.crossings], policy, delays, seed, start_s=start_s, until_s=until_s, keep_vehicles=keep
    )
    sums = np.zeros(6)
    for block in blocks:
        counts = block.uploads.sum(), (block.uploads == 0).sum(), block.longest.sum(), block.steps.sum()
        sums += (len(block), *counts, len(block) * block.round_s)
    rounds, uploads, empty, longest, steps, lasted_s = sums.tolist()
    if not rounds:
        return (0.0,) * 5
    return rounds, uploads / rounds, empty / rounds, longest / lasted_s, steps / lasted_s


def _estimate(values: Array) -> Estimate:
    low, high = np.quantile(values, _INTERVAL)
    return Estimate(float(values.mean()), float(low), float(high))


def _percent(gain: Estimate) -> str:
    return f"{gain.value:+.0%} [{gain.low:+.0%}, {gain.high:+.0%}]"
