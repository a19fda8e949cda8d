"""A vehicle's turn: it trains, sends, and remembers something until its next one, in simulation as on a real node.

What it remembers is the rule's (a control variate) and the codec's (what was left out of its upload). It belongs to one
visit: a vehicle that comes back later, or to another station, has forgotten it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.codecs import Codec, Sending, encoded, remembers
from mobfl.learning.rules.along import SendsAlong, Trained
from mobfl.learning.uploads import Upload
from mobfl.learning.vehicles import Vehicles
from mobfl.learning.weights import Weights
from mobfl.rng import generator, stream

Memory = Mapping[str, NDArray[Any]]
"""What a vehicle remembers: named arrays, those of the rule and those of the codec."""
_RULE, _CODEC = "rule/", "codec/"


@dataclass(frozen=True)
class Turn:
    """Which vehicle trains, and how.

    Args:
        key: What its draws on this visit are addressed by.
        attempt: How often it has trained before on this visit.
        local_steps: How many it takes.
        learning_rate: η.
        budget: How many bytes there is time to send; None is no limit.
        vehicle: What addresses what it keeps from visit to visit; None where there are no others.
    """

    key: np.uint64
    attempt: int
    local_steps: int
    learning_rate: float
    budget: int | None = None
    vehicle: np.uint64 | None = None


@dataclass(frozen=True)
class Turns:
    """Turns of any vehicle, whoever computes them."""

    vehicles: Vehicles
    codec: Codec
    along: SendsAlong | None
    draws: np.uint64  # the stream of what codecs draw

    @classmethod
    def of(cls, vehicles: Vehicles, codec: Codec, along: SendsAlong | None, seed: int) -> "Turns":
        return cls(vehicles, codec, along, stream(seed, "codec"))

    @property
    def remember(self) -> bool:
        """Whether a turn depends on those before it."""
        return self.along is not None or remembers(self.codec)

    def trained(self, turn: Turn, model: Weights, down: Weights, memory: Memory) -> tuple[Upload, Memory]:
        """The upload before it is sent, and what the vehicle remembers of the rule."""
        work = turn.key, turn.attempt, model, turn.local_steps, turn.learning_rate
        if self.along is None:
            return self.vehicles.train(*work, vehicle=turn.vehicle), {}
        own = _part(_RULE, memory)
        upload = self.vehicles.train(*work, self.along.correction(down, own), turn.vehicle)
        done = Trained(model, upload.weights, turn.local_steps, turn.learning_rate)
        sent, kept = self.along.upload(down, own, done)
        return replace(upload, along=sent), _named(_RULE, kept)

    def sent(self, turn: Turn, upload: Upload, memory: Memory) -> tuple[bytes, Memory]:
        """The upload's weights as they travel, and what the vehicle remembers of the codec."""
        random = generator(self.draws, turn.key, turn.attempt)
        sending = Sending(random, _part(_CODEC, memory), turn.budget)
        data, kept = encoded(self.codec, upload.weights, upload.base, sending)
        return data, _named(_CODEC, kept)


def _part(prefix: str, memory: Memory) -> Memory:
    return {name.removeprefix(prefix): values for name, values in memory.items() if name.startswith(prefix)}


def _named(prefix: str, arrays: Memory) -> Memory:
    return {prefix + name: values for name, values in arrays.items()}
