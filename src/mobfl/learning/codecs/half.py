"""Half of the bytes: the change since the download in sixteen bits a number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.codecs.plain import Plain
from mobfl.learning.weights import Weights, is_variance

_MOST = float(np.finfo(np.float16).max)
_ROUNDING, _LEAST = float(np.finfo(np.float16).eps), float(np.finfo(np.float16).smallest_subnormal)


class Half:
    """The change since the download as float16: half of the bytes, three digits a number."""

    def __init__(self) -> None:
        self._plain = Plain()

    def encode(self, weights: Weights, base: Weights) -> bytes:
        changes = {name: values.astype(np.float64) - base[name] for name, values in weights.items()}
        return self._plain.encode({n: np.clip(c, -_MOST, _MOST).astype(np.float16) for n, c in changes.items()}, base)

    def decode(self, data: bytes, base: Weights) -> Weights:
        changes = self._plain.decode(data, base)
        if changes.keys() != base.keys() or any(changes[n].shape != values.shape for n, values in base.items()):
            raise ValueError("not the change of a model like the base")
        return {name: _moved(name, values, changes[name]) for name, values in base.items()}

    def size(self, model: Weights) -> int:
        return len(self._plain.encode({name: values.astype(np.float16) for name, values in model.items()}, model))


def _moved(name: str, values: NDArray[np.float32], changes: NDArray[Any]) -> NDArray[np.float32]:
    """Rounding must not bring a variance below zero, for which the whole upload would be rejected.

    What is further below was sent so, and is left for the server to see.
    """
    moved = values + changes.astype(np.float64)
    rounded = is_variance(name) & (moved < 0) & (moved >= -(_ROUNDING * np.abs(values) + _LEAST))
    return np.where(rounded, 0.0, moved).astype(values.dtype)
