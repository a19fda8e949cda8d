"""A rule: the upload of whoever holds the most samples counts, and nobody else. `--rule my_rule:Loudest`."""

from collections.abc import Sequence

import mobfl
from mobfl.learning.rules import State
from mobfl.learning.weights import Weights


class Loudest:
    """The model of the vehicle with the most samples."""

    def apply(self, state: State, model: Weights, uploads: Sequence[mobfl.Upload]) -> tuple[State, Weights]:  # noqa: ARG002
        return state, max(uploads, key=lambda upload: upload.samples).weights
