"""FedNova: every upload's change is divided by its local steps before it is averaged.

J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous
Federated Optimization", NeurIPS 2020 (arXiv:2007.07481), for plain SGD: x ← x + τ_eff·Σ p_m·Δ_m/τ_m with
τ_eff = Σ p_m·τ_m and p_m the vehicle's share of the samples. So nobody counts more because it took more steps.
"""

from collections.abc import Sequence

import numpy as np

from mobfl.learning.rules.chain import State
from mobfl.learning.rules.mean import weighted_mean
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, is_statistic


class FedNova:
    """Moves by the mean change of a step times the mean number of steps; statistics of batch norm are averaged."""

    def apply(self, state: State, model: Weights, uploads: Sequence[Upload]) -> tuple[State, Weights]:
        samples = [upload.samples for upload in uploads]
        if len({upload.local_steps for upload in uploads}) == 1:  # then it is the mean, to the last bit
            return state, weighted_mean(model, uploads, samples)
        steps = [max(upload.local_steps, 1) for upload in uploads]
        mean_steps = np.average(steps, weights=samples)
        shares = [mean_steps * held / sum(samples) / taken for held, taken in zip(samples, steps, strict=True)]
        averaged = weighted_mean({name: model[name] for name in model if is_statistic(name)}, uploads, samples)
        return state, {name: averaged.get(name, _moved(model, uploads, shares, name)) for name in model}


def _moved(model: Weights, uploads: Sequence[Upload], shares: Sequence[float], name: str) -> np.ndarray:
    change = sum(
        share * (upload.weights[name].astype(np.float64) - (upload.base or model)[name])
        for upload, share in zip(uploads, shares, strict=True)
    )
    return (model[name] + change).astype(model[name].dtype)
