"""MOB-FL's schedule: rounds whose H and T a policy gives, each of which ends with a server step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mobfl.errors import InputError
from mobfl.learning.rules import GUARDED_MEAN
from mobfl.rounds.rules import FixedPlan, Outcome, Policy, Rounds, simulate_rounds
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, Schedule, ServerStep


@dataclass(frozen=True)
class PlannedRounds:
    """Rounds of a policy; `description` is what run.json says of them."""

    rule: ClassVar[str] = GUARDED_MEAN
    makes_stale: ClassVar[bool] = False

    policy: Policy
    description: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def fixed(cls, local_steps: int, round_s: float) -> "PlannedRounds":
        """The same H and T for ever."""
        description = {"policy": "rounds", "local_steps": local_steps, "round_s": round_s}
        return cls(FixedPlan(local_steps, round_s), description)

    @property
    def name(self) -> str:
        return str(self.describe()["policy"])

    @property
    def least(self) -> str:
        return f"one round of {self.policy.next_order(None).round_s:g} s"

    def describe(self) -> dict[str, Any]:
        if self.description:
            return dict(self.description)
        first = self.policy.next_order(None)
        return {"policy": "rounds", "local_steps": first.local_steps, "round_s": first.round_s}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        """They go on when nobody comes any more, to beyond the training's end."""
        blocks = simulate_rounds(
            site.traffic, self.policy, site.delays, site.seed,
            start_s=site.start_s, until_s=site.start_s + 2 * site.duration_s,
        )  # fmt: skip
        for block in blocks:
            yield from single_steps(block, site.start_s)


def single_steps(block: Rounds, origin_s: float) -> Iterator[ServerStep]:
    rows, h = block.vehicles, block.local_steps
    if rows is None:
        raise ValueError("rounds without their vehicles cannot be learnt from")
    uploaded = rows.outcome == Outcome.UPLOADED
    visits = list(zip(rows.key[uploaded], rows.attempt[uploaded].tolist(), strict=True))
    last = 0
    for i, number in enumerate(block.round.tolist()):
        first, last = last, last + int(block.uploads[i])
        start_s = float(block.start_s[i]) - origin_s
        uploads = tuple(Contribution(key, attempt, number, start_s, h) for key, attempt in visits[first:last])
        yield ServerStep(number, start_s, start_s + block.round_s, h, int(block.present[i]), uploads)


def deployable(schedule: Schedule) -> Policy:
    """The policy of a schedule that sees only the past; raises for one that is for simulation only."""
    if not isinstance(schedule, PlannedRounds):
        raise InputError(f"plan must have rounds of a length T to be deployed, got {schedule.name}")
    return schedule.policy
