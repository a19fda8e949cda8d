"""The top of a smooth surface through plans that were tried, and how much better any plan there may be.

Plans that hang together get one polynomial in log H and in how far T is beyond T_min(H), by least squares. What it says
of any plan is a fixed sum over the plans that were tried, so every stretch of traffic says it again, and stretches are
independent: the difference of any two plans has a t-interval, and Scheffé's holds for all differences at once, also for
the one that was looked for (Scheffé, "A method for judging all contrasts", 1953). How far plans are off their surface,
beyond what chance explains, is added twice: the plan that was chosen may lie below it, and a better one above.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mobfl.planning.lattice import Lattice, Point

Array = NDArray[np.float64]

_DEGREES = (3, 2)  # the first for which there are enough plans
_PLANS_PER_TERM = 1.5
_LEAST_KINDS = 4  # of H and of T, unless there is no H between
_TINY = 1e-300
_PIECES = 4  # in which a step of the lattice is cut to look for the top
_MOST_STEPS = 33  # values of H that are looked at in one piece of surface
_PLAIN = 2.0  # standard errors by which plans are off the surface if it is held against it


class Top(NamedTuple):
    """The best plan on the surface, and by which share of the objective another may be better at most."""

    point: Point
    regret: float
    misfit: float  # of that, what more traffic would not lessen


def top_of(points: Sequence[Point], samples: Array, lattice: Lattice, slack: float, chance: float) -> Top:
    """Of plans with a row of samples each, one column for every stretch; wrong with at most this chance.

    Where there are too few plans for a surface, others between them may be better by the slack, a share of the best.
    """
    places, rule, terms, alone = _surface(points, lattice)
    mean, stretches = samples.mean(axis=1), samples.shape[1]
    covariance = np.atleast_2d(np.cov(samples)) / stretches
    said = rule @ mean
    best = int(said.argmax())
    away = rule - rule[best]
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", away, covariance, away), 0.0))
    between = slack * said[best] * alone
    ahead = float((said - said[best] + scheffe(terms - 1, stretches, chance) * errors + between).max())
    misfit, unseen = _misfit(np.eye(len(points)) - rule[: len(points)], mean, covariance)
    lasting = 2 * misfit + float(between[best])
    return Top(places[best], (ahead + 2 * unseen) / float(said[best]), lasting / float(said[best]))


def _misfit(left: Array, mean: Array, covariance: Array) -> tuple[float, float]:
    """How far the points are off the surface, beyond all doubt and as far as can be told: the root of a mean square.

    Args:
        left: What is left of the points' values without the surface.
        mean: Those values.
        covariance: Of their errors.
    """
    by_chance = left @ covariance @ left.T
    beyond = float(np.sum((left @ mean) ** 2) - np.trace(by_chance))
    error = math.sqrt(2.0 * float(np.sum(by_chance * by_chance.T)))
    at_least, at_most = max(beyond - _PLAIN * error, 0.0), max(beyond, 0.0) + error
    return math.sqrt(at_least / len(mean)), math.sqrt(at_most / len(mean))


def scheffe(directions: int, stretches: int, chance: float) -> float:
    """How many standard errors all sums in so many directions are off at most, but for this chance."""
    from scipy.special import fdtri

    if directions < 1:
        return 0.0
    if (rest := stretches - directions) < 1:
        return math.inf
    return math.sqrt(directions * (stretches - 1) / rest * fdtri(directions, rest, 1 - chance))


def _surface(points: Sequence[Point], lattice: Lattice) -> tuple[list[Point], Array, int, NDArray[np.bool_]]:
    """Places on it, the points first; for each the weights of the points' values; how many numbers describe it all.

    Last, of every place whether its point stands alone.
    """
    places, terms, rule = list(points), 0, [np.zeros((len(points), len(points)))]
    alone = np.zeros(len(points), np.bool_)
    for piece in _pieces(points, lattice):
        own = [points[i] for i in piece]
        powers = _powers(own)
        looked_at = _looked_at(own, lattice) if powers else []
        weights = _polynomial(own, own + looked_at, powers) if powers else np.eye(len(own))
        more = np.zeros((len(looked_at), len(points)))
        rule[0][np.ix_(piece, piece)], more[:, piece] = weights[: len(own)], weights[len(own) :]
        alone[piece] = not powers
        places, terms = places + looked_at, terms + (len(powers) or len(own))
        rule.append(more)
    return places, np.vstack(rule), terms, np.append(alone, np.zeros(len(places) - len(points), np.bool_))


def _pieces(points: Sequence[Point], lattice: Lattice) -> list[list[int]]:
    """The points by those that hang together."""
    left, pieces = set(range(len(points))), list[list[int]]()
    while left:
        piece = [left.pop()]
        for i in piece:  # which grows while it is walked through
            near = [j for j in left if lattice.near(points[i], points[j])]
            left.difference_update(near)
            piece += near
        pieces.append(sorted(piece))
    return pieces


def _looked_at(piece: Sequence[Point], lattice: Lattice) -> list[Point]:
    """Places within the piece, finer than the lattice, and on the same side of every leap."""
    reach = dict[int, tuple[float, float]]()
    for h, beyond in piece:
        low, high = reach.get(h, (beyond, beyond))
        reach[h] = min(low, beyond), max(high, beyond)
    known = sorted(reach)
    wanted = np.unique(np.linspace(known[0], known[-1], _MOST_STEPS).round().astype(int)).tolist()
    found = list[Point]()
    for h in wanted:
        ends = [reach[max(each for each in known if each <= h)], reach[min(each for each in known if each >= h)]]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        cuts = round((high - low) / lattice.width * _PIECES)
        found += [Point(h, beyond) for beyond in np.linspace(low, high, cuts + 1).tolist()]
    leaps = lattice.leaps_before(piece[0])
    return [place for place in found if lattice.leaps_before(place) == leaps]


def _powers(points: Sequence[Point]) -> list[tuple[int, int]]:
    """Of log H and of how far T goes in a polynomial through these plans; none where they are too few to tell bends."""
    steps = {each.local_steps for each in points}
    kinds = len(steps), len({round(each.beyond, 9) for each in points})
    none_between = max(steps) - min(steps) == len(steps) - 1
    if kinds[1] < _LEAST_KINDS or not (none_between or kinds[0] >= _LEAST_KINDS):
        return []
    for degree in _DEGREES:
        powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i) if i < kinds[0]]
        if len(points) >= _PLANS_PER_TERM * len(powers):
            return powers
    return []


def _polynomial(points: Sequence[Point], places: Sequence[Point], powers: list[tuple[int, int]]) -> Array:
    """For every place the weights of the points' values in its value on the surface; by least squares."""
    own, there = (np.array([(math.log(h), beyond) for h, beyond in some]) for some in (points, places))
    middle, half = (own.max(axis=0) + own.min(axis=0)) / 2, np.maximum(np.ptp(own, axis=0) / 2, _TINY)

    def terms(coordinates: Array) -> Array:
        x, y = ((coordinates - middle) / half).T
        return np.column_stack([x**i * y**j for i, j in powers])

    return terms(there) @ np.linalg.pinv(terms(own))
