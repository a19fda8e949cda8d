"""Yogi at the server: FedYogi.

S. Reddi et al., "Adaptive Federated Optimization", ICLR 2021 (arXiv:2003.00295), Algorithm 2. It differs from FedAdam
in one line: v moves by a share of the squared change itself, and not of its distance to it. So small changes after
large ones let v fall only slowly, and steps do not grow all at once.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mobfl.learning.rules.adam import Floats, ServerAdam


@dataclass(frozen=True)
class ServerYogi(ServerAdam):
    """As adam, with v ← v − (1 − beta2)·Δ²·sign(v − Δ²), Δ being the combined change."""

    _name: ClassVar[str] = "yogi"

    def second_moment(self, v: Floats, squared: Floats) -> Floats:
        return v - (1 - self.beta2) * squared * np.sign(v - squared)
