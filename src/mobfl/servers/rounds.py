"""MOB-FL's server: rounds whose H and T a policy gives, and Eq. 3 at the end of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mobfl.learning.uploads import Upload, Weights, weighted_mean
from mobfl.rounds.rules import Outcome, Policy, Rounds, simulate_rounds
from mobfl.servers.site import Site
from mobfl.servers.steps import Contribution, ServerStep


@dataclass(frozen=True)
class PlannedRounds:
    policy: Policy

    @property
    def least(self) -> str:
        return f"one round of {self.policy.next_order(None).round_s:g} s"

    def steps(self, site: Site) -> Iterator[ServerStep]:
        """They go on when nobody comes any more, to beyond the training's end."""
        blocks = simulate_rounds(
            site.traffic, self.policy, site.delays, site.seed,
            start_s=site.start_s, until_s=site.start_s + 2 * site.duration_s,
        )  # fmt: skip
        for block in blocks:
            yield from single_steps(block, site.start_s)

    def merge(self, model: Weights, uploads: Sequence[Upload]) -> Weights:
        return weighted_mean(model, uploads)


def single_steps(block: Rounds, origin_s: float) -> Iterator[ServerStep]:
    rows = block.vehicles
    if rows is None:
        raise ValueError("rounds without their vehicles cannot be learnt from")
    uploaded = rows.outcome == Outcome.UPLOADED
    visits = list(zip(rows.key[uploaded], rows.attempt[uploaded].tolist(), strict=True))
    last = 0
    for i, number in enumerate(block.round.tolist()):
        first, last = last, last + int(block.uploads[i])
        start_s = float(block.start_s[i]) - origin_s
        uploads = tuple(Contribution(key, attempt, number, start_s) for key, attempt in visits[first:last])
        end_s = start_s + block.round_s
        yield ServerStep(number, start_s, end_s, block.local_steps, int(block.present[i]), uploads)
