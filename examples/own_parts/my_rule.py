"""A rule: the upload of whoever holds the most samples counts, and nobody else. `--rule my_rule:Loudest`."""

from collections.abc import Sequence

import mobfl


class Loudest:
    """The model of the vehicle with the most samples."""

    def apply(
        self, state: mobfl.State, _: mobfl.Weights, uploads: Sequence[mobfl.Upload]
    ) -> tuple[mobfl.State, mobfl.Weights]:
        return state, max(uploads, key=lambda upload: upload.samples).weights
