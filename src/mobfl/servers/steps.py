"""The nouns: a server turns traffic into server steps, and merges each step's uploads into its model.

Models are numbered by the server steps that led to them: version 0 is the initial one. So an upload that started from
version v is n − v server steps stale when step n merges it, which is known before anybody trains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.uploads import Upload, Weights
from mobfl.servers.site import Site


@dataclass(frozen=True)
class Contribution:
    """One vehicle's upload: whose training it is, the version of the model it started from, and when it got that."""

    key: np.uint64
    attempt: int
    version: int
    download_s: float


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


class Server(Protocol):
    """The schedule knows nothing of learning, the rule nothing of time."""

    @property
    def least(self) -> str:
        """What the shortest training must have time for, as an error message says it."""

    def steps(self, site: Site) -> Iterator[ServerStep]: ...

    def merge(self, model: Weights, uploads: Sequence[Upload]) -> Weights: ...


class Baseline(Server, Protocol):
    """A server with H but without a plan for rounds."""

    name: ClassVar[str]

    @property
    def local_steps(self) -> int: ...

    @property
    def parameters(self) -> dict[str, Any]:
        """What else it can be given, by name."""


def check_local_steps(name: str, local_steps: int) -> None:
    if not (float(local_steps).is_integer() and local_steps >= 1):
        raise InputError(f"{name} must have a whole H >= 1, got {local_steps}")
