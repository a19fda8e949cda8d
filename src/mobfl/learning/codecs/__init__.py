"""How an upload travels: as bytes whose number is known before they are sent, and back.

A part has `encode(weights, base) -> bytes`, `decode(data, base) -> weights` and `size(model) -> int`. The base is the
model that the vehicle downloaded, which the server knows too. With `lossless = True` decoding gives back the very bits.
"""

from mobfl.learning.codecs.named import CODECS, Codec, codec_named, travelled

__all__ = ["CODECS", "Codec", "codec_named", "travelled"]
