"""MOB-FL's server with a plan that follows the traffic."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mobfl.learning.uploads import Upload, Weights, weighted_mean
from mobfl.policies.adaptive.controller import Controller, Settings
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.scenario import Scenario
from mobfl.servers.rounds import PlannedRounds
from mobfl.servers.site import Site
from mobfl.servers.steps import ServerStep


@dataclass(frozen=True)
class AdaptiveRounds:
    """Planned rounds whose H and T begin with the best for the scenario and are changed as vehicles are seen."""

    name: ClassVar[str] = "adaptive"
    scenario: Scenario
    settings: Settings

    @property
    def local_steps(self) -> int:
        """H to begin with."""
        return Controller(self.scenario, self.settings).order().local_steps

    @property
    def parameters(self) -> dict[str, Any]:
        return asdict(self.settings)

    @property
    def least(self) -> str:
        return f"one round of {Controller(self.scenario, self.settings).order().round_s:g} s"

    def steps(self, site: Site) -> Iterator[ServerStep]:
        return PlannedRounds(AdaptivePolicy(self.scenario, site.delays, self.settings)).steps(site)

    def merge(self, model: Weights, uploads: Sequence[Upload]) -> Weights:
        return weighted_mean(model, uploads)
