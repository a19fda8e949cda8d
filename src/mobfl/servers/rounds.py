"""MOB-FL's schedule: rounds whose H and T a policy gives, each of which ends with a server step.

Anytime rounds are such rounds too: their policy orders as many steps as fit.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.rules import GUARDED_MEAN
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Policy
from mobfl.rounds.rows import Array, Outcome, Rounds, VehicleRows
from mobfl.rounds.rules import simulate_rounds
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, Effort, Schedule, ServerStep
from mobfl.theory import Delays

BY_STEPS = "clip+cap+steps"  # the rule for uploads of unequal steps


@dataclass(frozen=True)
class PlannedRounds:
    """Rounds of a policy; `description` is what run.json says of them."""

    makes_stale: ClassVar[bool] = False
    knows_radio: ClassVar[bool] = True

    policy: Policy
    description: Mapping[str, Any] = field(default_factory=dict)
    rule: str = GUARDED_MEAN

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
        return {"policy": "rounds", "local_steps": first.fixed_steps, "round_s": first.round_s}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        """They go on when nobody comes any more, to beyond the training's end."""
        blocks = simulate_rounds(
            site.traffic, self.policy, site.delays, site.seed, channel=site.channel,
            start_s=site.start_s, until_s=site.start_s + 2 * site.duration_s,
        )  # fmt: skip
        for block in blocks:
            yield from single_steps(block, site)


def single_steps(block: Rounds, site: Site) -> Iterator[ServerStep]:
    """A block has many times the rounds of a short training, so that each is made only when it is asked for."""
    rows = block.vehicles
    if rows is None:
        raise ValueError("rounds without their vehicles cannot be learnt from")
    uploads = contributions(block, rows, site.start_s)
    merged_in = np.bincount((rows.round - block.round[0])[_counts(rows)], minlength=len(block)).tolist()
    efforts, interrupted = efforts_of(block, rows, site.delays), interrupted_in(rows, site)
    steps = block.longest.tolist() if isinstance(block.local_steps, AsManyAsFit) else [block.local_steps] * len(block)
    for i, (number, effort) in enumerate(zip(block.round.tolist(), efforts, strict=True)):
        start_s = float(block.start_s[i]) - site.start_s
        merged = tuple(islice(uploads, merged_in[i]))
        yield ServerStep(
            number, start_s, start_s + block.round_s, steps[i], int(block.present[i]), merged, effort=effort,
            interrupted=tuple(interrupted[number]),
        )  # fmt: skip


def interrupted_in(rows: VehicleRows, site: Site) -> dict[int, list[Contribution]]:
    """By round: the trainings of vehicles that had the model and left before they had uploaded."""
    found = defaultdict[int, list[Contribution]](list)
    if site.tells_interrupted:
        left = (rows.outcome == Outcome.LEFT_EARLY) & (rows.begin_s + site.delays.download_s <= rows.end_s)
        numbers = (rows.attempt, rows.round, rows.begin_s - site.start_s, rows.steps, rows.compute_s)
        columns = [column[left].tolist() for column in numbers]
        for key, attempt, number, begin_s, steps, compute_s in zip(rows.key[left], *columns, strict=True):
            found[number].append(Contribution(key, attempt, number, begin_s, steps, compute_s=compute_s))
    return found


def contributions(block: Rounds, rows: VehicleRows, origin_s: float) -> Iterator[Contribution]:
    """The uploads of all rounds. With H for all, the round's beginning counts as everybody's."""
    done = _counts(rows)
    if isinstance(block.local_steps, AsManyAsFit):
        begin_s = rows.begin_s[done]
    else:
        begin_s = block.start_s[rows.round[done] - block.round[0]]
    numbers = [rows.attempt[done], rows.round[done], begin_s - origin_s, rows.steps[done]]
    columns = (column.tolist() for column in numbers)
    found = (Contribution(*row) for row in zip(rows.key[done], *columns, strict=True))
    if rows.transfers is None:
        return found
    air = rows.transfers
    shares = np.where(rows.outcome == Outcome.PARTIAL, air.sent, 1.0)
    times = (column[done].tolist() for column in (rows.compute_s, rows.end_s - air.send_s, shares))
    return (
        replace(each, compute_s=spent_s, upload_s=sent_s, share=share)
        for each, spent_s, sent_s, share in zip(found, *times, strict=True)
    )


def _counts(rows: VehicleRows) -> NDArray[np.bool_]:
    """Whose upload is merged: it came whole, or a part of it that counts."""
    return np.isin(rows.outcome, (Outcome.UPLOADED, Outcome.PARTIAL))


def efforts_of(block: Rounds, rows: VehicleRows, delays: Delays) -> Iterator[Effort]:
    """What every round took of all who took part: what was cut off took until then.

    Where nobody knows how long a training would have taken (it is NaN), it was cut off.
    """
    place, count = rows.round - block.round[0], len(block)
    begun, trained_s, sending_s = spent(rows, delays)
    each = (rows.downloading, begun, trained_s, *([] if sending_s is None else [sending_s]))
    columns = [np.bincount(place, weights, count).tolist() for weights in each]
    return (Effort(int(down), int(up), *seconds) for down, up, *seconds in zip(*columns, strict=True))


def spent(rows: VehicleRows, delays: Delays) -> tuple[NDArray[np.bool_], Array, Array | None]:
    """Whether each began to upload, and for how long it trained and, where that is known, sent."""
    train_s, upload_s, _ = rows.stages_s(delays)
    begun = (rows.outcome == Outcome.UPLOADED) | (rows.taking_part & (upload_s <= rows.end_s))
    trained_s = np.clip(np.fmin(upload_s, rows.end_s) - train_s, 0.0, None) * rows.taking_part
    if rows.transfers is None:
        return begun, trained_s, None
    # NaN is what never came.
    return begun, np.nan_to_num(trained_s), np.nan_to_num(rows.end_s - upload_s)


def deployable(schedule: Schedule) -> Policy:
    """The policy of a schedule that sees only the past; raises for one that is for simulation only."""
    if not isinstance(schedule, PlannedRounds):
        raise InputError(
            "plan must see only the past to be deployed, as H,T, mobfl, anytime, adaptive or a policy of your own does,"
            f" got {schedule.name}"
        )
    return schedule.policy


def knowable(policy: Policy, visits_known: bool) -> None:
    """Raises where vehicles are to know what they cannot: when a visit ends is known where it is simulated."""
    asked = policy.next_order(None).local_steps
    known = ("nothing", "mean", "leaving") if visits_known else ("nothing", "mean")
    if isinstance(asked, AsManyAsFit) and asked.knows not in known:
        where = "in a local deployment" if visits_known else "on real vehicles, which do not know when they leave"
        raise InputError(f"plan anytime must have knows {' or '.join(known)} {where}, got {asked.knows}")
