"""Half of the bytes: the change since the download in sixteen bits a number."""

import numpy as np

from mobfl.learning.codecs.plain import Plain
from mobfl.learning.weights import Weights

_MOST = float(np.finfo(np.float16).max)


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
        return {name: (values + changes[name].astype(np.float64)).astype(values.dtype) for name, values in base.items()}

    def size(self, model: Weights) -> int:
        return len(self._plain.encode({name: values.astype(np.float16) for name, values in model.items()}, model))
