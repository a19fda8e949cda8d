"""Codecs by name, and how an upload becomes bytes and bytes an upload."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mobfl.learning.weights import Weights
from mobfl.parts import Kind, Wish

_PLACE = "mobfl.learning.codecs"
CODECS = Kind(
    "codec",
    "codecs",
    ("encode",),
    {
        "plain": f"{_PLACE}.plain:Plain",
        "half": f"{_PLACE}.half:Half",
        "topk": f"{_PLACE}.topk:TopK",
        "quantised": f"{_PLACE}.quantised:Quantised",
    },
)


class Codec(Protocol):
    """Knows nothing but models; may be asked by several threads at once.

    What else it needs it says by attributes, and is given by name: with `remembers = True` it is given `memory`, what
    it returned beside the bytes at the vehicle's upload before, and must return bytes and memory; with `draws =
    True`, `random`, a generator; with `takes_budget = True`, `budget`, how many bytes there is time for, or None, which
    `size` takes too. With `prefix_counts = True` it has `decode_prefix`, for a beginning of the bytes.
    """

    def encode(self, weights: Weights, base: Weights) -> Any:
        """An upload as it is sent, in bytes; `base` is the model that the vehicle downloaded."""

    def decode(self, data: bytes, base: Weights) -> Weights:
        """Raises `ValueError` where the bytes are no upload of a model like the base."""

    def size(self, model: Weights) -> int:
        """The bytes of an upload of this model, or the most that they can be where there is no budget."""


def codec_named(text: str | None) -> tuple[Codec, Wish]:
    wish = CODECS.parse("plain" if text is None else text)
    return CODECS.build(wish), wish


def is_lossless(codec: Codec) -> bool:
    """Whether decoding gives back the very bits, so that in simulation nothing need be encoded."""
    return bool(getattr(codec, "lossless", False))


def remembers(codec: Codec) -> bool:
    """Whether a vehicle keeps something of an upload for its next one."""
    return bool(getattr(codec, "remembers", False))


def size_within(codec: Any, model: Weights, budget: int) -> int | None:
    """How many bytes it makes where there is time for so many; None for one that takes no budget."""
    return int(codec.size(model, budget)) if getattr(codec, "takes_budget", False) else None


@dataclass(frozen=True)
class Sending:
    """What a codec may want to know of one upload beside the models."""

    random: np.random.Generator
    memory: Weights
    budget: int | None = None


def encoded(codec: Codec, weights: Weights, base: Weights, sending: Sending) -> tuple[bytes, Weights]:
    """The upload as it travels, and what the vehicle remembers of it."""
    wanted = {"draws": "random", "remembers": "memory", "takes_budget": "budget"}
    given = {name: getattr(sending, name) for flag, name in wanted.items() if getattr(codec, flag, False)}
    found = codec.encode(weights, base, **given)
    return found if remembers(codec) else (found, {})
