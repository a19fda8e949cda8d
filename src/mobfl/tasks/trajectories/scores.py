"""KPIs of trajectory prediction, as the Argoverse benchmark computes them."""

import numpy as np
from numpy.typing import NDArray

from mobfl.learning.task import Kpi

MISSED_BEYOND_M = 2.0
KPIS = tuple(
    Kpi(f"{name}_{k}", f"{label} of {k}", unit, more_is_better=False, leads=(name, k) == ("min_ade", 6))
    for k in (6, 1)
    for name, label, unit in (("min_ade", "minADE", "m"), ("min_fde", "minFDE", "m"), ("miss_rate", "miss rate", ""))
)

Floats = NDArray[np.float64]


def benchmark_scores(futures: Floats, probabilities: Floats, truth: Floats) -> dict[str, float]:
    """Means over samples; futures (S, K, 30, 2), their probabilities or scores (S, K), the truth (S, 30, 2), in m."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ranked = np.take_along_axis(futures, order[:, :, None, None], axis=1)
    return _with_k(ranked[:, :6], truth, 6) | _with_k(ranked[:, :1], truth, 1)


def _with_k(futures: Floats, truth: Floats, k: int) -> dict[str, float]:
    """The benchmark's minADE is the mean error of the future that *ends* nearest to the truth, not the least one."""
    off = np.linalg.norm(futures - truth[:, None], axis=3)  # (S, K, 30)
    off[~np.isfinite(off).all(axis=2)] = np.inf  # a future that is no trajectory is nowhere near
    best = off[:, :, -1].argmin(axis=1)
    mine = off[np.arange(len(off)), best]
    ends = mine[:, -1]
    return {
        f"min_ade_{k}": float(mine.mean()),
        f"min_fde_{k}": float(ends.mean()),
        f"miss_rate_{k}": float((ends > MISSED_BEYOND_M).mean()),
    }
