"""A few bits a number: the changes on an even grid, rounded at random so that they are right on average.

D. Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017
(arXiv:1610.02132), with a bucket of numbers scaled by its largest, as in the paper's experiments, and without the
entropy coding: every number takes the same few bits. Up and down are equally likely per distance, so the mean of many
uploads has no bias. With 2 bits it is TernGrad (W. Wen et al., NeurIPS 2017, arXiv:1705.07878).

The bytes: batch norm's statistics as they are, a float32 for every bucket, then the numbers of all buckets, bits
packed.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.learning.codecs.vectors import FLOAT, Floats, change, counts, rebuilt, statistics_bytes
from mobfl.learning.weights import Weights

_MOST_BITS = 16


@dataclass(frozen=True)
class Quantised:
    """Changes as whole multiples of a bucket's largest over 2^(bits − 1) − 1, rounded up or down at random."""

    draws: ClassVar[bool] = True

    bits: int = 4
    bucket: int = 512  # numbers that share a scale

    def __post_init__(self) -> None:
        if not (float(self.bits).is_integer() and 2 <= self.bits <= _MOST_BITS):
            raise InputError(f"quantised must have a whole number of bits from 2 to {_MOST_BITS}, got {self.bits:g}")
        if not (float(self.bucket).is_integer() and self.bucket >= 1):
            raise InputError(f"quantised must have a whole number >= 1 in a bucket, got {self.bucket:g}")

    @property
    def _levels(self) -> int:
        """On either side of zero."""
        return 2 ** (int(self.bits) - 1) - 1

    def encode(self, weights: Weights, base: Weights, *, random: np.random.Generator) -> bytes:
        changes = change(weights, base)
        scales = self._scales(changes)
        steps = self._steps(scales, len(changes))
        exact = np.divide(changes, steps, out=np.zeros_like(changes), where=(steps > 0) & np.isfinite(steps))
        codes = np.floor(exact + random.random(len(changes))) + self._levels
        packed = _packed(np.clip(codes, 0, 2 * self._levels).astype(np.uint32), int(self.bits))
        return statistics_bytes(weights) + scales.tobytes() + packed

    def _scales(self, changes: Floats) -> NDArray[np.float32]:
        """A bucket's largest change, rounded up to what travels; not finite where a number is not."""
        starts = np.arange(0, len(changes), self._in_bucket(len(changes)))
        most = np.maximum.reduceat(np.abs(changes), starts) if len(changes) else np.empty(0)
        with np.errstate(over="ignore"):
            scales = most.astype(FLOAT)
            return np.where(scales < most, np.nextafter(scales, np.float32(np.inf)), scales).astype(FLOAT)

    def _steps(self, scales: NDArray[np.float32], count: int) -> Floats:
        """The distance of the grid's lines, for every number."""
        return np.repeat(scales.astype(np.float64) / self._levels, self._in_bucket(count))[:count]

    def _in_bucket(self, count: int) -> int:
        """How many numbers the first bucket has, of so many: a bucket may be larger than the model."""
        return int(min(self.bucket, max(count, 1)))

    def decode(self, data: bytes, base: Weights) -> Weights:
        """Of a scale that is not finite come numbers that are not: the upload is readable, and will be rejected."""
        statistics, trained = counts(base)
        if len(data) != self.size(base):
            raise ValueError(f"an upload must have {self.size(base)} bytes, got {len(data)}")
        measured = np.frombuffer(data, FLOAT, statistics)
        scales = np.frombuffer(data, FLOAT, self._buckets(trained), measured.nbytes)
        if (scales < 0).any():
            raise ValueError("a bucket's scale must be >= 0")
        codes = _unpacked(data[measured.nbytes + scales.nbytes :], int(self.bits), trained)
        if (codes > 2 * self._levels).any():
            raise ValueError(f"a number must be at most {2 * self._levels}")
        with np.errstate(invalid="ignore"):  # zero times what is not finite
            changes = (codes.astype(np.float64) - self._levels) * self._steps(scales, trained)
        return rebuilt(base, changes, measured.astype(np.float64))

    def _buckets(self, trained: int) -> int:
        return -(-trained // int(self.bucket))

    def size(self, model: Weights) -> int:
        statistics, trained = counts(model)
        return FLOAT.itemsize * (statistics + self._buckets(trained)) + -(-int(self.bits) * trained // 8)


def _packed(codes: NDArray[np.uint32], bits: int) -> bytes:
    """The lowest bits of every number, one number after the other."""
    table = (codes[:, np.newaxis] >> np.arange(bits, dtype=np.uint32)) & np.uint32(1)
    return np.packbits(table.astype(np.uint8).ravel()).tobytes()


def _unpacked(data: bytes, bits: int, count: int) -> NDArray[np.uint32]:
    table = np.unpackbits(np.frombuffer(data, np.uint8), count=count * bits).reshape(count, bits)
    return (table.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
