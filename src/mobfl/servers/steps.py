"""The nouns: a schedule turns traffic into server steps, each of which names the uploads that are merged.

Models are numbered by the server steps that led to them: version 0 is the initial one. So an upload that started from
version v is n − v server steps stale when step n merges it, which is known before anybody trains.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mobfl.errors import InputError
from mobfl.servers.site import Site


@dataclass(frozen=True)
class Contribution:
    """One vehicle's upload: whose training it is, the version it started from and when it got that, and its steps."""

    key: np.uint64
    attempt: int
    version: int
    download_s: float
    local_steps: int


@dataclass(frozen=True)
class ServerStep:
    """A round, or whatever else ends with a new model: who was there, and whose uploads are merged."""

    number: int
    start_s: float
    end_s: float
    local_steps: int
    present: int
    uploads: tuple[Contribution, ...]
    still_in_use: frozenset[int] = frozenset()  # older versions, on which vehicles are training as it ends


class Schedule(Protocol):
    """When the server changes its model, and with whose uploads. It knows nothing of weights.

    A schedule of rounds has a `policy`, which sees only the past: it can be deployed. Any other reads the simulated
    future in `steps`, and is for simulation only.
    """

    @property
    def name(self) -> str: ...

    @property
    def rule(self) -> str:
        """The rule that goes with it if no other is named."""

    @property
    def makes_stale(self) -> bool:
        """Whether uploads may have started from older models than the latest."""

    @property
    def least(self) -> str:
        """What the shortest training must have time for, as an error message says it."""

    def describe(self) -> dict[str, Any]:
        """For run.json, tables and figures: `policy`, `local_steps`, `round_s`, and what else it was given."""

    def steps(self, site: Site) -> Iterator[ServerStep]: ...


def check_local_steps(name: str, local_steps: int) -> None:
    if not (float(local_steps).is_integer() and local_steps >= 1):
        raise InputError(f"{name} must have a whole H >= 1, got {local_steps}")
