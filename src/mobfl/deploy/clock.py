"""Two clocks: the road's, on which rounds are planned, and the wall's, on which they happen."""

import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """The road's time, and how to let it pass."""

    @property
    def scale(self) -> float:
        """Wall-clock seconds per second of the road."""

    def now_s(self) -> float: ...

    def wait(self, wall_s: float) -> None: ...

    def unix_s(self, at_s: float) -> float:
        """When it is `at_s` on the road, as other machines' clocks say it."""


@dataclass(frozen=True)
class WallClock:
    """Runs from `start_s` on the road at `begins_unix_s`; a step of the system's clock does not move it."""

    start_s: float
    begins_unix_s: float
    scale: float = 1.0
    _offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())

    def now_s(self) -> float:
        return self.start_s + (time.monotonic() + self._offset_s - self.begins_unix_s) / self.scale

    def wait(self, wall_s: float) -> None:
        time.sleep(max(wall_s, 0.0))

    def unix_s(self, at_s: float) -> float:
        return self.begins_unix_s + (at_s - self.start_s) * self.scale
