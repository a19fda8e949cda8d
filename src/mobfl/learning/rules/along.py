"""What a rule may send along: named arrays beside the model down, and beside the weights up.

Such a rule bends the vehicles' local steps, and each vehicle keeps something of its own until its next upload. That
lives with the vehicle's visit: whoever is seen for the first time remembers nothing. The bytes count as those of the
model do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mobfl.learning.weights import Weights


@dataclass(frozen=True)
class Trained:
    """What a vehicle's local steps came to.

    Args:
        base: The model that it started from.
        weights: The model that it got to.
        local_steps: How many it took.
        learning_rate: η of them.
    """

    base: Weights
    weights: Weights
    local_steps: int
    learning_rate: float


class SendsAlong(Protocol):
    """A link of a chain that has these methods beside its own. All arrays are of float32."""

    def download(self, state: Mapping[str, Any]) -> Weights:
        """What goes down with the model, from the link's own state."""

    def correction(self, down: Weights, memory: Weights) -> Weights:
        """What every local step adds to the gradient; `memory` is empty for a vehicle that is new."""

    def upload(self, down: Weights, memory: Weights, trained: Trained) -> tuple[Weights, Weights]:
        """What goes up with the weights, and what the vehicle remembers until its next upload."""
