"""SCAFFOLD: control variates that take the drift of unlike data out of the local steps.

S. P. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020
(arXiv:1910.06378), Algorithm 1 with option II. The server has a variate c, vehicle i its own c_i. A local step
follows the gradient + c − c_i; after K steps from x to y, c_i⁺ = c_i − c + (x − y)/(K·η), which is the mean gradient
on the way. The change of c_i goes up, and c ← c + Σ(c_i⁺ − c_i)/N. The models themselves are combined by whatever
follows in the chain, which in the paper is the mean.

N is all clients of the paper, each of which is seen again and again. On a road nobody knows it, and most vehicles never
come back: c then is a mean of the latest gradients that forgets a share of 1/N with every upload, and N says how long
it remembers. Whoever is new has c_i = 0 in the paper, and so takes steps along its gradient *plus* c, about twice as
long as they should be. `newcomers=server` gives it c_i = c instead: plain SGD at first, and corrected from its second
upload on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from mobfl.errors import InputError
from mobfl.learning.rules.along import Trained
from mobfl.learning.rules.chain import State
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic

_NEWCOMERS = ("zero", "server")


@dataclass(frozen=True)
class Scaffold:
    """Corrects local steps by c − c_i, the server's variate less the vehicle's; sends as many numbers again."""

    vehicles: float = 20.0  # N
    newcomers: str = "zero"

    def __post_init__(self) -> None:
        if not 1 <= self.vehicles < inf:
            raise InputError(f"scaffold must have vehicles >= 1, got {self.vehicles:g}")
        if self.newcomers not in _NEWCOMERS:
            raise InputError(f"scaffold must have newcomers one of {', '.join(_NEWCOMERS)}, got {self.newcomers!r}")

    def init(self, model: Weights) -> State:
        return {name: np.zeros(values.shape) for name, values in model.items() if not is_statistic(name)}

    def guard(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Sequence[Upload]]:  # noqa: ARG002
        """c moves; what becomes of the models is the business of the links that follow."""
        told = [upload.along for upload in uploads if upload.along.keys() == state.keys()]
        share = 1.0 / max(self.vehicles, len(told))  # never more than the mean of those who are there
        moved = {name: c + share * sum(each[name].astype(np.float64) for each in told) for name, c in state.items()}
        return moved, uploads

    # ---- what goes along ---------------------------------------------------------------------------

    def download(self, state: State) -> Weights:
        return {name: c.astype(np.float32) for name, c in state.items()}

    def correction(self, down: Weights, memory: Weights) -> Weights:
        own = self._own(down, memory)
        return {name: c - own[name] for name, c in down.items()}

    def upload(self, down: Weights, memory: Weights, trained: Trained) -> tuple[Weights, Weights]:
        own, way = self._own(down, memory), trained.local_steps * trained.learning_rate
        new = {
            name: (own[name] - c + (trained.base[name].astype(np.float64) - trained.weights[name]) / way).astype(
                np.float32
            )
            for name, c in down.items()
        }
        return {name: values - own[name] for name, values in new.items()}, new

    def _own(self, down: Weights, memory: Weights) -> Weights:
        """c_i."""
        if memory:
            return memory
        return down if self.newcomers == "server" else {name: np.zeros_like(c) for name, c in down.items()}
