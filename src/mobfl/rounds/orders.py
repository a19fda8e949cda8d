"""What a policy asks of the next rounds: how many local steps, and for how long.

H is one number for all, or as many steps as fit before the end that a vehicle is told with the model (anytime rounds).
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from mobfl.errors import InputError
from mobfl.theory import KNOWLEDGE, Knows

if TYPE_CHECKING:
    from mobfl.rounds.rows import Rounds

FOREVER = np.iinfo(np.int64).max
_MOST_ERROR = 100.0  # a hundred stays: who is more wrong knows nothing either


@dataclass(frozen=True)
class AsManyAsFit:
    """Every vehicle takes as many local steps as fit before the round's end and its own leaving.

    It knows how long its own step and its upload take. One that cannot take a single step does not take part.

    Args:
        knows: What it knows of its leaving: "nothing", and then it is lost if it leaves before it is done; the "mean"
            stay on this road; what it has "predicted" from the way left and its present speed; or its "leaving" itself.
        mean_stay_s: The mean stay that the base station tells, for `knows="mean"`.
        error: By how much a vehicle is wrong about its leaving, as a share of its stay (a standard deviation), for
            `knows="leaving"`.
    """

    knows: Knows = "nothing"
    mean_stay_s: float = math.inf
    error: float = 0.0

    def __post_init__(self) -> None:
        if self.knows not in KNOWLEDGE:
            raise InputError(f"plan anytime must have knows one of {', '.join(KNOWLEDGE)}, got {self.knows!r}")
        check_error("anytime", self.knows, self.error)
        if self.knows == "mean" and not 0 < self.mean_stay_s < math.inf:
            raise InputError(f"plan anytime must have a mean stay > 0 s with knows=mean, got {self.mean_stay_s:g}")

    def describe(self) -> dict[str, Any]:
        """As a plan's parameters; the mean stay is the road's."""
        return {"knows": self.knows, **({"error": self.error} if self.knows == "leaving" else {})}


def check_error(plan: str, knows: Knows, error: float) -> None:
    """Raises where a plan's vehicles cannot be wrong about their leaving by such a share of their stay."""
    if not 0 <= error <= _MOST_ERROR or (error and knows != "leaving"):
        raise InputError(
            f"plan {plan} must have an error >= 0 and <= {_MOST_ERROR:g}, with knows=leaving, got {error:g} with"
            f" knows={knows}"
        )


Steps: TypeAlias = int | AsManyAsFit
"""H for all, or as many as fit."""


def same_for_all(steps: Steps) -> int:
    """H; raises where as many are taken as fit."""
    if isinstance(steps, AsManyAsFit):
        raise ValueError("there is no one H in rounds of as many steps as fit")
    return steps


@dataclass(frozen=True)
class Order:
    """What a policy wants, after which it is asked again.

    Args:
        local_steps: H, the local steps that a vehicle takes in a round, or `AsManyAsFit()`.
        round_s: T, the length of a round in seconds.
        rounds: For how many rounds.
    """

    local_steps: Steps
    round_s: float
    rounds: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.local_steps, AsManyAsFit):
            if not 0 < self.round_s < math.inf:
                raise InputError(f"plan anytime must have T > 0 s, got {self.round_s:g}")
        elif not (_is_count(self.local_steps) and 0 < self.round_s < math.inf):
            raise InputError(f"plan must have a whole H >= 1 and T > 0, got {self.local_steps},{self.round_s:g}")
        if self.rounds < 1:
            raise InputError(f"an order must be for at least one round, got {self.rounds}")

    @property
    def fixed_steps(self) -> int | None:
        """H; None where as many steps are taken as fit."""
        return None if isinstance(self.local_steps, AsManyAsFit) else self.local_steps


def _is_count(number: float) -> bool:
    return float(number).is_integer() and number >= 1


class Policy(Protocol):
    """Gives each round's H and T, knowing what was seen before."""

    def next_order(self, seen: "Rounds | None") -> Order:
        """The order for the next rounds; `seen` is what came of the last order, None at the start."""


@dataclass(frozen=True)
class FixedPlan:
    """The same H and T for ever; or the same T, with as many steps as fit."""

    local_steps: Steps
    round_s: float

    def __post_init__(self) -> None:
        self.next_order(None)  # which checks it

    def next_order(self, seen: "Rounds | None") -> Order:  # noqa: ARG002
        return Order(self.local_steps, self.round_s, FOREVER)
