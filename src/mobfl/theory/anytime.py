"""Anytime rounds: a vehicle takes as many local steps as fit before the round's end, so that little work is lost.

Whoever has a window of w seconds completes at least n steps exactly if S(n) ≤ w. So the vehicles of a round that upload
at least n steps are Poisson with a mean Λ(n, T) that the identity behind Theorem 1 gives, and the longest training of
a round has the mean Σ_n (1 − e^(−Λ(n, T))). docs/background/theory.md derives the three Λ, one for each thing that a
vehicle may know of its leaving.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.theory.distributions import Constant, Delay, Dwell, ShiftedExponential, average, density_from_least
from mobfl.theory.equations import (
    AnyRoad,
    Conditions,
    delay,
    positive,
    uploads_and_slopes,
    uploads_identity,
    uploads_slope,
)
from mobfl.theory.quadrature import panels

Array = NDArray[np.float64]

Knows: TypeAlias = Literal["nothing", "mean", "predicted", "leaving"]
"""What a vehicle knows of its leaving: nothing, the mean stay on this road, what it predicts from the way left and its
present speed, or the instant itself. Where it drives at one speed, as here, the last two are the same."""

KNOWLEDGE: tuple[Knows, ...] = get_args(Knows)

# So many terms of a sum over steps are added one by one. Beyond, they change so slowly that an integral over panels,
# each up to twice its beginning, is as good: the midpoint rule's error is 1/(24·n²) of what it adds up.
TERMS = 2048
# Numbers at once; a dwell that spreads takes some hundreds for each.
_AT_ONCE, _DWELL_NODES = 1 << 21, 400
_NEAREST_TO_ONE = 1e-13  # how far from s = 1 the integral in `averaged_steps` is cut at most


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
    return _averaged(*_exact_counts(*_reached(Conditions.of(scenario), float(round_s), knows)), power)


def anytime_promise(scenario: AnyRoad, round_s: float, knows: Knows = "nothing") -> tuple[float, float, float]:
    """Of a round: the mean number of uploads, W, and `averaged_steps` at power 1, at once."""
    road = Conditions.of(scenario)
    steps, uploads = _reached(road, float(round_s), knows)
    averaged = _averaged(*_exact_counts(steps, uploads))
    few = len(steps) <= TERMS
    longest = -np.expm1(-uploads).sum() if few else longest_steps(road, round_s, knows)
    return float(uploads[0]), float(longest), averaged


def _averaged(n: Array, count: Array, power: int = 1) -> float:
    weight = n**power
    log_s, weights = nodes_up_to_one(1 / float(count @ weight + weight.max()))
    powers = np.exp(weight * log_s)
    others, one = (powers @ np.array([count, count * n ** (power + 1)]).T).T
    return float((weights * one * np.exp(others - count.sum())).sum())


def nodes_up_to_one(nearest: float) -> tuple[Array, Array]:
    """log s in a column and weights of ∫₀¹ ds/s, for what changes over `nearest` at s = 1 and slower before."""
    return _nodes_in_thirds(int(-math.log(max(nearest, _NEAREST_TO_ONE)) / math.log(3.0)))


@cache
def _nodes_in_thirds(thirds: int) -> tuple[Array, Array]:
    """In panels of which each is a third as far from 1 as the last."""
    edges = 1.0 - np.append(3.0 ** -np.arange(thirds + 2.0), 0.0)
    s, weights = panels(edges)
    return np.log(s)[:, np.newaxis], weights / s


def _reached(road: Conditions, t: float, knows: Knows) -> tuple[NDArray[np.int64], Array]:
    """Numbers of steps, all or of very many some, up to one that nobody reaches, and Λ(n, T) of each."""
    window_s = min(t, float(road.dwell.longest)) - road.delays.transfer_s
    most = max(int(window_s / road.delays.min_step_s), 0) + 1
    first = np.arange(1, min(most, TERMS) + 2)
    if most > TERMS:  # by ratio: however many steps a few vehicles can take, most take far fewer
        first = np.union1d(first, np.geomspace(TERMS + 1, most + 1, TERMS).astype(np.int64))
    return first, uploads_of_steps(road, first, t, knows)


def _exact_counts(first: NDArray[np.int64], reached: Array) -> tuple[Array, Array]:
    """Numbers of steps, and the mean number of uploads with just so many; of very many steps, in groups."""
    return (first[1:] + first[:-1] - 1) / 2, np.maximum(reached[:-1] - reached[1:], 0.0)


# ---- what a vehicle may know ----------------------------------------------------------------------

# λ, D, S and T -> Λ, or its slope in T; or Λ and its first two derivatives in T, for exponential S and T ≥ T_min.
Law: TypeAlias = Callable[[Any, Dwell, Delay, Any], Any]
Slopes: TypeAlias = Callable[[Any, Dwell, ShiftedExponential, Any], tuple[Any, Any, Any]]


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


def _until_the_end_slopes(arrivals_per_s: Any, dwell: Dwell, delay: ShiftedExponential, t: Any) -> tuple[Any, Any, Any]:
    d, weights = dwell.nodes(delay, t)
    cdf, integral = delay.cdf_and_integral(np.minimum(t, d))
    density, stay_on = arrivals_per_s * delay.density(t), np.maximum(d - t, 0.0)
    uploads = arrivals_per_s * average(stay_on * cdf + integral, weights)
    bend = -average(density * ((stay_on > 0) + stay_on / delay.scale), weights)
    return uploads, average(density * stay_on, weights), bend


def _until_the_mean(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    """Who knows the mean stay μ trains until it is over or the round ends; who has stayed longer trains no more.

    Stays shorter than μ count as for those who know nothing, longer ones as if they were μ.
    """
    if isinstance(dwell, Constant):  # whoever knows the mean stay knows its own
        return uploads_identity(arrivals_per_s, dwell, delay, t)
    return _around_the_mean(dwell, delay, t, _stayers, uploads_identity) * arrivals_per_s


def _until_the_mean_slope(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> Any:
    return _around_the_mean(dwell, delay, t, _stayers_slope, uploads_slope) * arrivals_per_s


def _until_the_mean_slopes(
    arrivals_per_s: Any, dwell: Dwell, delay: ShiftedExponential, t: Any
) -> tuple[Any, Any, Any]:
    if isinstance(dwell, Constant):
        return uploads_and_slopes(arrivals_per_s, dwell, delay, t)
    mean = average(*dwell.nodes(delay))
    d, weights = dwell.nodes(delay, t, mean)
    shorter = _until_the_end_slopes(arrivals_per_s, Constant(d), delay, t)
    longer = uploads_and_slopes(arrivals_per_s, Constant(mean), delay, t)
    uploads, slope, bend = (average(np.where(d < mean, a, b), weights) for a, b in zip(shorter, longer, strict=True))
    return uploads, slope, bend


def _around_the_mean(dwell: Dwell, delay: Delay, t: Any, shorter: Callable[..., Any], longer: Law) -> Any:
    mean = average(*dwell.nodes(delay))
    d, weights = dwell.nodes(delay, t, mean)
    return average(np.where(d < mean, shorter(d, delay, t), longer(1.0, Constant(mean), delay, t)), weights)


_LAWS: dict[Knows, tuple[Law, Law, Slopes]] = {
    "nothing": (_until_the_end, _until_the_end_slope, _until_the_end_slopes),
    "mean": (_until_the_mean, _until_the_mean_slope, _until_the_mean_slopes),
    "predicted": (uploads_identity, uploads_slope, uploads_and_slopes),
    "leaving": (uploads_identity, uploads_slope, uploads_and_slopes),
}


def slopes_of(knows: Knows) -> Law:
    """Λ and its first two derivatives in T ≥ T_min, where steps jitter exponentially or not at all."""
    law, slope, slopes = _LAWS[knows]

    def of_either(arrivals_per_s: Any, dwell: Dwell, delay: Delay, t: Any) -> tuple[Any, Any, Any]:
        if isinstance(delay, ShiftedExponential):
            return slopes(arrivals_per_s, dwell, delay, t)
        return law(arrivals_per_s, dwell, delay, t), slope(arrivals_per_s, dwell, delay, t), 0.0

    return of_either


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
