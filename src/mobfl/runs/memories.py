"""What vehicles remember between two uploads, for as long as there is another one to come.

The schedule knows who uploads when before anybody trains, so nothing is kept of a vehicle whose last upload is done: a
run's checkpoint holds the memories of a few vehicles that are on the road, and not of all that ever passed.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from mobfl.learning.turns import Memory
from mobfl.servers.steps import ServerStep


class Memories:
    """By the vehicle's key on its visit."""

    def __init__(self, steps: Iterable[ServerStep], begun: Mapping[int, Memory], needed: bool) -> None:
        self._last = _last_uploads(steps) if needed else {}
        # Of several stations with one model each remembers its own.
        self._kept = {key: memory for key, memory in begun.items() if key in self._last}

    def of(self, key: np.uint64) -> Memory:
        """Nothing for a vehicle that is new."""
        return self._kept.get(int(key), {})

    def keep(self, step: ServerStep, found: Mapping[np.uint64, Memory]) -> None:
        """What is remembered after this step, in which these vehicles uploaded."""
        new = {int(key): memory for key, memory in found.items() if self._last.get(int(key), -1) > step.number}
        done = [key for key in self._kept if self._last.get(key, -1) <= step.number]
        self._kept = {key: memory for key, memory in (self._kept | new).items() if memory and key not in done}

    @property
    def kept(self) -> Mapping[int, Memory]:
        """For the checkpoint; it is never changed in place."""
        return self._kept


def _last_uploads(steps: Iterable[ServerStep]) -> dict[int, int]:
    """The number of the step that has a vehicle's last upload."""
    return {int(upload.key): step.number for step in steps for upload in step.uploads}
