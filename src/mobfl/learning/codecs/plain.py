"""The weights as they are: a safetensors file, which nothing needs to be unpickled from."""

from typing import ClassVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mobfl.learning.weights import Weights


class Plain:
    """All numbers of the model, bit for bit."""

    lossless: ClassVar[bool] = True

    def encode(self, weights: Weights, base: Weights) -> bytes:  # noqa: ARG002
        return save({name: np.ascontiguousarray(values) for name, values in weights.items()})

    def decode(self, data: bytes, base: Weights) -> Weights:  # noqa: ARG002
        try:
            return load(data)
        except (SafetensorError, TypeError, KeyError) as error:
            raise ValueError(f"not a safetensors file: {error}") from None

    def size(self, model: Weights) -> int:
        return len(self.encode(model, {}))
