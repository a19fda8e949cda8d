"""Anytime rounds: a vehicle takes as many local steps as fit before the round's end, so that little work is lost.

Whoever has a window of w seconds completes at least n steps exactly if S(n) ≤ w. So the vehicles of a round that upload
at least n steps are Poisson with a mean Λ(n, T) that the identity behind Theorem 1 gives, and the longest training of
a round has the mean Σ_n (1 − e^(−Λ(n, T))). docs/background/theory.md derives the three Λ, one for each thing that a
vehicle may know of its leaving.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.theory.distributions import Constant, Delay, Dwell, average, density_from_least
from mobfl.theory.equations import AnyRoad, Conditions, delay, positive, uploads_identity, uploads_slope
from mobfl.theory.quadrature import panels

Array = NDArray[np.float64]

Knows: TypeAlias = Literal["nothing", "mean", "leaving"]
"""What a vehicle knows of its leaving: nothing, the mean stay on this road, or the instant itself."""

KNOWLEDGE: tuple[Knows, ...] = get_args(Knows)

# So many terms of a sum over steps are added one by one. Beyond, they change so slowly that an integral over panels,
# each up to twice its beginning, is as good: the midpoint rule's error is 1/(24·n²) of what it adds up.
TERMS = 2048
# Numbers at once; a dwell that spreads takes some hundreds for each.
_AT_ONCE, _DWELL_NODES = 1 << 21, 400
# Where the integral over s in `averaged_steps` is cut: what many steps make of it lies near 1.
_SHARE_EDGES = 1.0 - np.append(np.geomspace(1.0, 1e-13, 40), 0.0)


def uploads_of_steps(scenario: AnyRoad, steps: ArrayLike, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """Λ(n, T): the mean number of vehicles that upload at least n local steps in an anytime round of T seconds."""
    road, t = Conditions.of(scenario), positive("round_s", round_s)
    return _law(knows)(road.arrivals_per_s, road.dwell, delay(road, steps), t)


def longest_steps(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """W(T) = Σ_n (1 − e^(−Λ(n, T))), the mean of a round's longest training, in local steps."""
    return _summed(scenario, round_s, lambda road, n, t: (-np.expm1(-uploads_of_steps(road, n, t, knows)),))[0]


def longest_steps_slope(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """W′(T) = Σ_n e^(−Λ)·∂Λ/∂T, the right-hand one where it jumps."""
    return longest_steps_and_slope(scenario, round_s, knows)[1]


def longest_steps_and_slope(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> tuple[Array, Array]:
    """W and W′ at once."""
    law, slope = _law(knows), _LAWS[knows][1]

    def term(road: Conditions, n: Any, t: Any) -> tuple[Any, ...]:
        where = (road.arrivals_per_s, road.dwell, delay(road, n), t)
        uploads = law(*where)
        return -np.expm1(-uploads), np.exp(-uploads) * slope(*where)

    steps, rise = _summed(scenario, round_s, term)
    return steps, rise


def anytime_objective(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """v(T) = W/T: valid local steps per second where the longest training of a round decides.

    With `knows="leaving"` it is at least g(H, T) for every H.
    """
    return longest_steps(scenario, round_s, knows) / np.asarray(round_s)


def anytime_objective_slope(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """dv/dT = (W′ − W/T)/T."""
    t = np.asarray(round_s)
    steps, slope = longest_steps_and_slope(scenario, t, knows)
    return (slope - steps / t) / t


def delivered_steps(scenario: AnyRoad, round_s: ArrayLike, knows: Knows = "nothing") -> Array:
    """Σ_n Λ(n, T), the mean sum of all uploads' local steps in a round."""
    return _summed(scenario, round_s, lambda road, n, t: (uploads_of_steps(road, n, t, knows),))[0]


def averaged_steps(scenario: AnyRoad, round_s: float, knows: Knows = "nothing", power: int = 1) -> float:
    """E[Σ nᵖ⁺¹ / Σ nᵖ] over a round's uploads: how many steps an average with the weights nᵖ advances.

    An upload of n steps stands for a model that is n steps ahead. Uploads of exactly n steps are Poisson with mean
    ν_n = Λ(n) − Λ(n + 1), so by Mecke's formula this is Σ ν_n·nᵖ⁺¹·E[1/(nᵖ + Z)], where Z is the sum of the others'
    weights, and E[1/(a + Z)] = ∫₀¹ sᵃ⁻¹·exp(−Σ ν_k·(1 − s^(kᵖ))) ds.
    """
    n, count = _exact_counts(Conditions.of(scenario), float(round_s), knows)
    s, weights = panels(_SHARE_EDGES)
    log_s, weight = np.log(s)[:, np.newaxis], n**power
    others = np.exp(np.expm1(weight * log_s) @ count)
    return float((weights * others * (np.exp((weight - 1) * log_s) @ (count * n ** (power + 1)))).sum())


def _exact_counts(road: Conditions, t: float, knows: Knows) -> tuple[Array, Array]:
    """Numbers of steps, and the mean number of uploads with just so many; of very many steps, in groups."""
    most = int(np.max(_most_steps(road, np.asarray(t)))) + 1
    first = np.arange(1, min(most, TERMS) + 2)
    if most > TERMS:  # by ratio: however many steps a few vehicles can take, most take far fewer
        first = np.union1d(first, np.geomspace(TERMS + 1, most + 1, TERMS).astype(np.int64))
    reached = uploads_of_steps(road, first, t, knows)
    return (first[1:] + first[:-1] - 1) / 2, np.maximum(reached[:-1] - reached[1:], 0.0)


# ---- what a vehicle may know ----------------------------------------------------------------------

# λ, D, S and T -> Λ, or its slope in T.
Law: TypeAlias = Callable[[Any, Dwell, Delay, Any], Any]


def _until_the_end(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    """Who knows nothing trains until the round's end: λ·E[(D − T)⁺·F_S(T) + E(m − S)⁺], m = min(T, D).

    Counted are those who stay until the end. One who leaves within a step before it may have been done in time.
    """
    d, weights = dwell.nodes(delay, t)
    return arrivals_per_s * average(_stayers(d, delay, t), weights)


def _stayers(d: Any, delay: Delay, t: Any) -> Any:
    cdf, integral = delay.cdf_and_integral(np.minimum(t, d))
    return np.maximum(d - t, 0.0) * cdf + integral


def _until_the_end_slope(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    """λ·f_S(T)·E(D − T)⁺."""
    d, weights = dwell.nodes(delay, t)
    return arrivals_per_s * average(_stayers_slope(d, delay, t), weights)


def _stayers_slope(d: Any, delay: Delay, t: Any) -> Any:
    return density_from_least(delay, t) * np.maximum(d - t, 0.0)


def _until_the_mean(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    """Who knows the mean stay μ trains until it is over or the round ends; who has stayed longer trains no more.

    Stays shorter than μ count as for those who know nothing, longer ones as if they were μ.
    """
    return _around_the_mean(dwell, delay, t, _stayers, uploads_identity) * arrivals_per_s


def _until_the_mean_slope(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    return _around_the_mean(dwell, delay, t, _stayers_slope, uploads_slope) * arrivals_per_s


def _around_the_mean(dwell: Dwell, delay: Delay, t: Any, shorter: Callable[..., Any], longer: Law) -> Any:
    mean = average(*dwell.nodes(delay))
    d, weights = dwell.nodes(delay, t, mean)
    return average(np.where(d < mean, shorter(d, delay, t), longer(1.0, Constant(mean), delay, t)), weights)


_LAWS: dict[Knows, tuple[Law, Law]] = {
    "nothing": (_until_the_end, _until_the_end_slope),
    "mean": (_until_the_mean, _until_the_mean_slope),
    "leaving": (uploads_identity, uploads_slope),
}


def _law(knows: Knows) -> Law:
    if knows not in _LAWS:
        raise InputError(f"knows must be one of {', '.join(KNOWLEDGE)}, got {knows!r}")
    return _LAWS[knows][0]


# ---- sums over steps ------------------------------------------------------------------------------


def _summed(
    scenario: AnyRoad, round_s: ArrayLike, term: Callable[[Conditions, Any, Any], tuple[Any, ...]]
) -> list[Array]:
    """Σ term(n) over all n that can be reached, elementwise, of everything that `term` gives."""
    road, t = Conditions.of(scenario), positive("round_s", round_s)
    n, weights = step_nodes(_most_steps(road, t))
    each = max(1, math.prod(n.shape[1:])) * (1 if isinstance(road.dwell, Constant) else _DWELL_NODES)
    at_once, sums = max(1, _AT_ONCE // each), list[Any]()
    for first in range(0, len(n), at_once):
        part = slice(first, first + at_once)
        found = [(weights[part] * values).sum(axis=0) for values in term(road, n[part], t)]
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
    return sums


def _most_steps(road: Conditions, t: Array) -> Array:
    """What each class can reach in a round of T seconds, as a real number, along a leading axis."""
    window_s = np.minimum(t, road.dwell.longest) - road.delays.transfer_s
    return np.stack([np.maximum(window_s / each.min_step_s, 0.0) for each in road.delays.classes])


def step_nodes(most: Array) -> tuple[Array, Array]:
    """Numbers of steps and weights, along a leading axis, to sum a function of n that bends only at `most`.

    `most` has a leading axis too; from the greatest of each element on the function is zero.
    """
    shape, greatest = most.shape[1:], float(most.max(initial=0.0))
    n = np.arange(1.0, min(int(greatest) + 1, TERMS) + 1).reshape((-1,) + (1,) * len(shape))
    if greatest <= TERMS:
        return n, np.ones_like(n)
    least = TERMS + 0.5
    shares = np.linspace(0.0, 1.0, 2 + int(np.log2(greatest / least)))
    stop = np.maximum(most, least)
    whole = least * (stop.max(axis=0) / least) ** shares.reshape((-1,) + (1,) * len(shape))
    nodes, weights = panels(np.concatenate([whole, stop]))
    first = np.broadcast_to(n, (TERMS, *shape))
    return np.concatenate([first, nodes]), np.concatenate([np.ones_like(first), weights])
