"""FedAsync (Xie, Koyejo, Gupta 2019): every upload is a server step. See `mobfl.learning.fedasync`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from mobfl.errors import InputError
from mobfl.learning.fedasync import MIXING, STALENESS_POWER, mix_in
from mobfl.learning.uploads import Upload, Weights
from mobfl.servers.asynchronous import asynchronous_steps
from mobfl.servers.site import Site
from mobfl.servers.steps import ServerStep, check_local_steps


@dataclass(frozen=True)
class FedAsync:
    name: ClassVar[str] = "fedasync"
    least: ClassVar[str] = "as long as its first upload takes"

    local_steps: int
    mixing: float = MIXING
    staleness_power: float = STALENESS_POWER

    def __post_init__(self) -> None:
        check_local_steps(self.name, self.local_steps)
        if not 0 < self.mixing <= 1:
            raise InputError(f"fedasync must have a mixing > 0 and <= 1, got {self.mixing:g}")
        if not 0 <= self.staleness_power < inf:
            raise InputError(f"fedasync must have a staleness_power >= 0, got {self.staleness_power:g}")

    @property
    def parameters(self) -> dict[str, Any]:
        return {"mixing": self.mixing, "staleness_power": self.staleness_power}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        return asynchronous_steps(site, self.local_steps, uploads_per_step=1)

    def merge(self, model: Weights, uploads: Sequence[Upload]) -> Weights:
        return mix_in(model, uploads, self.mixing, self.staleness_power)
