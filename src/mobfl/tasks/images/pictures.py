"""Pictures and what they show, in one convention for all sources."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASSES = 10
SHAPE = (3, 32, 32)  # red, green and blue planes


@dataclass(frozen=True)
class Pictures:
    pixels: NDArray[np.uint8]  # (N, 3, 32, 32)
    labels: NDArray[np.int64]  # (N,) from 0 to 9

    def __len__(self) -> int:
        return len(self.pixels)


def commonest_class(training: Pictures, validation: Pictures) -> dict[str, float]:
    """The floor: how often the class that is commonest in the training set is right."""
    commonest = np.bincount(training.labels, minlength=CLASSES).argmax()
    return {"accuracy": float((validation.labels == commonest).mean())}
