"""A codec: the sign of every change and one length, a bit a number. `--codec my_codec:Signs`."""

import numpy as np

import mobfl


class Signs:
    """The signs of the change since the download, and for each array its mean size."""

    def encode(self, weights: mobfl.Weights, base: mobfl.Weights) -> bytes:
        parts = list[bytes]()
        for name in sorted(base):
            change = weights[name].astype(np.float64) - base[name]
            parts += [np.float32(np.abs(change).mean()).tobytes(), np.packbits(change.ravel() > 0).tobytes()]
        return b"".join(parts)

    def decode(self, data: bytes, base: mobfl.Weights) -> mobfl.Weights:
        decoded, at = dict[str, np.ndarray](), 0
        if len(data) != self.size(base):
            raise ValueError(f"an upload must have {self.size(base)} bytes, got {len(data)}")
        for name in sorted(base):
            values = base[name]
            length, at = np.frombuffer(data, np.float32, 1, at)[0], at + 4
            bits = np.unpackbits(np.frombuffer(data, np.uint8, -(-values.size // 8), at), count=values.size)
            at += -(-values.size // 8)
            decoded[name] = (values + length * (2.0 * bits.reshape(values.shape) - 1)).astype(np.float32)
        return decoded

    def size(self, model: mobfl.Weights) -> int:
        return sum(4 + -(-values.size // 8) for values in model.values())
