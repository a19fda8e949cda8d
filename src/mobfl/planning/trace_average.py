"""What an average weighted by steps reaches in anytime rounds on recorded crossings.

In a round that begins at φ vehicle i uploads exactly k steps with a chance p_i(k), independently of the others. An
average with the weights of its steps advances by Σ k²/Σ k over the uploads, and as 1/a = ∫₀¹ sᵃ⁻¹ ds,
E[Σ k²/Σ k] = ∫₀¹ Σ_i ψ_i(s)·∏_{j≠i} φ_j(s) ds, with φ_j = E s^(steps of j) and ψ_i = Σ_k p_i(k)·k²·s^(k − 1).
"""

import numpy as np
from numba import njit

from mobfl.planning.overlaps import done_within
from mobfl.planning.trace import Trace, step_laws, window_s
from mobfl.theory import Conditions, Knows
from mobfl.theory.anytime import nodes_up_to_one

_MOST_WORK = 2e8  # products: where there were more, fewer beginnings are averaged over
_FEWEST_STARTS = 64


def averaged_on_trace(trace: Trace, road: Conditions, round_s: float, knows: Knows) -> float:
    """The mean of Σ k²/Σ k over a round's uploads of k steps each, 0 without any; over when rounds begin."""
    crossings, known, starts = trace.crossings, trace.known(knows), trace.starts(round_s)
    stays = crossings.enter_s, crossings.leave_s
    quickest_s, transfer_s = float(road.delays.min_step_s), float(road.delays.transfer_s)
    steps = _most_steps(starts, round_s, *stays, known, transfer_s, quickest_s)
    log_s, weights = nodes_up_to_one(1 / (steps.max() + 1))
    every = max(1, min(int(steps.sum() * len(weights) / _MOST_WORK), len(starts) // _FEWEST_STARTS))
    laws = step_laws(road)
    return float(
        _averaged(
            starts[::every], round_s, *stays, known, transfer_s, quickest_s, laws, trace.participation,
            np.exp(log_s.ravel()), weights,
        )
    )  # fmt: skip


@njit(cache=True)
def _most_steps(starts, t, enter, leave, known, transfer_s, quickest_s):
    """How many steps all vehicles of every round together might take."""
    most, longest_s = np.zeros(len(starts)), (leave - enter).max()
    for k in range(len(starts)):
        first, last = np.searchsorted(enter, starts[k] - longest_s), np.searchsorted(enter, starts[k] + t)
        for i in range(first, last):
            window = window_s(known, i, starts[k], starts[k] + t, enter[i], leave[i]) - transfer_s
            most[k] += max(window / quickest_s, 0.0)
    return most


@njit(cache=True)
def _averaged(starts, t, enter, leave, known, transfer_s, quickest_s, laws, share, s, weights):
    """`weights` are those of ∫ ds/s."""
    total, longest_s = 0.0, (leave - enter).max()
    for k in range(len(starts)):
        start, end = starts[k], starts[k] + t
        nobody, advanced = np.ones(len(s)), np.zeros(len(s))  # ∏ φ_j and s·Σ ψ_i·∏_{j≠i} φ_j of those so far
        for i in range(np.searchsorted(enter, start - longest_s), np.searchsorted(enter, end)):
            window = window_s(known, i, start, end, enter[i], leave[i]) - transfer_s
            if window <= 0.0:
                continue
            most = int(window / quickest_s) + 1
            at_least = np.array([share * done_within(laws, window / n) for n in range(1, most + 2)])
            for node in range(len(s)):
                power, one, squares = 1.0, 1.0, 0.0
                for n in range(1, most + 1):
                    power *= s[node]
                    chance = at_least[n - 1] - at_least[n]
                    one -= chance * (1.0 - power)
                    squares += chance * power * n * n
                advanced[node] = advanced[node] * one + nobody[node] * squares
                nobody[node] *= one
        total += (weights * advanced).sum()
    return total / len(starts)
