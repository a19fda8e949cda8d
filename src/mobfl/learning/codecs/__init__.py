"""How an upload travels: as bytes whose number is known before they are sent, and back.

A part has `encode(weights, base) -> bytes`, `decode(data, base) -> weights` and `size(model) -> int`. The base is the
model that the vehicle downloaded, which the server knows too. With `lossless = True` decoding gives back the very bits.
A codec may ask for more: a memory that lives with the vehicle, random numbers, the bytes that there is time for.
"""

from mobfl.learning.codecs.named import (
    CODECS,
    Codec,
    Sending,
    codec_named,
    encoded,
    is_lossless,
    remembers,
    size_within,
)

__all__ = ["CODECS", "Codec", "Sending", "codec_named", "encoded", "is_lossless", "remembers", "size_within"]
