"""FedBuff (Nguyen et al. 2022): K uploads are a server step. See `mobfl.learning.fedbuff`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from mobfl.errors import InputError
from mobfl.learning.fedbuff import BUFFER, SERVER_RATE, apply_buffer
from mobfl.learning.uploads import Upload, Weights
from mobfl.servers.asynchronous import asynchronous_steps
from mobfl.servers.site import Site
from mobfl.servers.steps import ServerStep, check_local_steps


@dataclass(frozen=True)
class FedBuff:
    name: ClassVar[str] = "fedbuff"

    local_steps: int
    buffer: int = BUFFER
    server_rate: float = SERVER_RATE

    def __post_init__(self) -> None:
        check_local_steps(self.name, self.local_steps)
        if not (float(self.buffer).is_integer() and self.buffer >= 1):
            raise InputError(f"fedbuff must have a whole buffer >= 1, got {self.buffer:g}")
        if not 0 < self.server_rate < inf:
            raise InputError(f"fedbuff must have a server_rate > 0, got {self.server_rate:g}")

    @property
    def least(self) -> str:
        return f"as long as its first {self.buffer} uploads take"

    @property
    def parameters(self) -> dict[str, Any]:
        return {"buffer": self.buffer, "server_rate": self.server_rate}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        return asynchronous_steps(site, self.local_steps, uploads_per_step=self.buffer)

    def merge(self, model: Weights, uploads: Sequence[Upload]) -> Weights:
        return apply_buffer(model, uploads, self.server_rate)
