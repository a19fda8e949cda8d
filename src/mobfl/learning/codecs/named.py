"""Codecs by name, and what is left of an upload that has travelled."""

from dataclasses import replace
from typing import Protocol

from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.parts import Kind, Wish

_PLACE = "mobfl.learning.codecs"
CODECS = Kind(
    "codec",
    "codecs",
    ("encode",),
    {"plain": f"{_PLACE}.plain:Plain", "half": f"{_PLACE}.half:Half"},
)


class Codec(Protocol):
    """Knows nothing but models; may be asked by several threads at once."""

    def encode(self, weights: Weights, base: Weights) -> bytes:
        """An upload as it is sent; `base` is the model that the vehicle downloaded."""

    def decode(self, data: bytes, base: Weights) -> Weights:
        """Raises `ValueError` where the bytes are no upload of a model like the base."""

    def size(self, model: Weights) -> int:
        """The bytes of an upload of this model, or the most that they can be."""


def codec_named(text: str | None) -> tuple[Codec, Wish]:
    wish = CODECS.parse("plain" if text is None else text)
    return CODECS.build(wish), wish


def travelled(codec: Codec, upload: Upload) -> Upload:
    """The upload as it arrives: what decoding makes of its bytes."""
    if getattr(codec, "lossless", False):
        return upload
    return replace(upload, weights=codec.decode(codec.encode(upload.weights, upload.base), upload.base))
