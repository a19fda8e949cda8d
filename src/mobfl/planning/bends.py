"""The best T where W(T), the mean of a round's longest training, is concave between known bends.

W is a sum of terms, one for every number of steps n and class, that begin at T_min(n) and are concave from there on. So
from any a on, W lies below its tangent at a plus what begins later, each at most at a jump and a first slope: a bound
with corners only at bends, between which W/T is monotone. It needs W at few bends, rules out most
intervals, is sharpened in those that are left, and there Newton finds the root of T·W′ = W.
Proofs are in docs/background/theory.md.
"""

import numpy as np
from numpy.typing import NDArray

from mobfl.planning.cells import Top
from mobfl.theory import Conditions, Knows
from mobfl.theory.anytime import slopes_of
from mobfl.theory.distributions import Constant, average

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_BENDS = 4096  # above, neighbouring bends are so near that v is searched as any function
_AT_ONCE = 14  # bends at which W is evaluated before bounds are drawn again
_FEW = 24  # intervals in which a tangent is drawn at once
_ROUNDING = 4 * np.finfo(float).eps
_SMALL_STEP, _PRECISION = 1e-2, 1e-9
_LAST_STEP_BEYOND = 1e-7  # of T
_TINY = 1e-300
_UNGUARDED_STEPS = 4
_NUMBERS_AT_ONCE, _DWELL_NODES = 1 << 21, 400


class LongestSteps:
    """W and its derivatives for one road whose steps jitter exponentially or not at all."""

    def __init__(self, road: Conditions, knows: Knows) -> None:
        self._road, self._slopes = road, slopes_of(knows)
        longest, transfer_s = float(road.dwell.longest), road.delays.transfer_s
        least = [
            transfer_s + each.min_step_s * np.arange(1, int((longest - transfer_s) / each.min_step_s) + 2)
            for each in road.delays.classes
        ]
        self._least = [times[: times.searchsorted(longest, side="right")] for times in least]
        begins = self._least[0] if len(least) == 1 else np.unique(np.concatenate(self._least))
        self.bends: Array = np.append(begins[: begins.searchsorted(longest * (1 - _ROUNDING))], longest)
        self._knows_leaving = knows != "nothing"
        self._steps = np.arange(1.0, max(map(len, self._least)) + 1)
        self._reach = (1 if isinstance(road.dwell, Constant) else _DWELL_NODES) * len(self._steps)

    def at(self, t: Array) -> Array:
        """W, W′ (the right-hand one) and W″ at rising T."""
        rows = max(1, _NUMBERS_AT_ONCE // self._reach)
        if len(t) <= rows:
            return self._at(t)
        return np.concatenate([self._at(t[first : first + rows]) for first in range(0, len(t), rows)], axis=1)

    def _at(self, t: Array) -> Array:
        column, last = t[:, np.newaxis], t[-1]
        uploads, slope, bend = self._of_class(0, column, last)
        for other in range(1, len(self._least)):
            pair = zip((uploads, slope, bend), self._of_class(other, column, last), strict=True)
            uploads, slope, bend = (_padded_sum(a, b) for a, b in pair)
        terms = np.empty((3, *uploads.shape))
        np.negative(np.expm1(-uploads, out=terms[0]), out=terms[0])
        empty = 1.0 - terms[0]
        np.multiply(empty, slope, out=terms[1])
        np.subtract(empty * bend, terms[1] * slope, out=terms[2])
        return np.add.reduce(terms, 2)

    def _of_class(self, index: int, t: Array, last: float) -> tuple[Array, Array, Array]:
        """Λ(n, T) and its slopes, a row for every T and a column for every n that can be reached in one of them."""
        most = max(int(self._least[index].searchsorted(last, side="right")), 1)
        least = self._least[index][:most]
        there = t >= least
        # Who cannot be done by T is asked for as if T were its least, and then left out.
        delay = self._road.delays.classes[index].delay(np.minimum(least, t), self._steps[:most])
        uploads, slope, bend = self._slopes(self._rate(index), self._road.dwell, delay, t)
        if not self._jitters(index):  # at T_min itself everybody is done
            uploads = uploads * there
        return uploads, slope * there, bend * there

    def _rate(self, index: int) -> float:
        return float(self._road.arrivals_per_s * self._road.delays.classes[index].share)

    def _jitters(self, index: int) -> bool:
        return bool(self._road.delays.classes[index].jitters)

    def beginnings(self) -> tuple[Array, Array]:
        """A jump J and a slope s for every bend: what begins there is at most J + s·(T − bend) at any later T."""
        jumps, slopes = np.zeros((2, len(self.bends)))
        for index, least in enumerate(self._least):
            where = slice(len(least)) if len(self._least) == 1 else self.bends.searchsorted(least)
            jump, slope = self._beginnings_of(index)
            jumps[where] += jump
            slopes[where] += slope
        return jumps, slopes

    def _beginnings_of(self, index: int) -> tuple[Array, Array]:
        """The slope is λ·f_S(T_min)·E(D − T_min)⁺, or less for those who leave before the mean stay is over.

        With little jitter it is steep, and better is a bound as if S were its least: λ·E(D − T_min)⁺ + λ·(T − T_min),
        without the second for those who know nothing.
        """
        least, each, rate = self._least[index], self._road.delays.classes[index], self._rate(index)
        d, weights = self._road.dwell.nodes(Constant(least))
        spare = rate * average(np.maximum(d - least, 0.0), weights)
        jump, flat = -np.expm1(-spare), rate * self._knows_leaving
        if not self._jitters(index):
            return jump, np.full(len(jump), flat)
        slope = spare / (each.extra_step_s * self._steps[: len(least)])
        leaps = jump + flat * each.min_step_s <= slope * each.min_step_s
        return np.where(leaps, jump, 0.0), np.where(leaps, flat, slope)


def _padded_sum(a: Array, b: Array) -> Array:
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    whole = a.copy()
    whole[:, : b.shape[1]] += b
    return whole


def best_between_bends(longest: LongestSteps) -> Top:
    """The T with the greatest W/T."""
    search = _Search(longest)
    left = search.left_over()
    while len(left) > _FEW and (unknown := left[~search.known[left]]).size:
        search.evaluate(unknown[_spread(len(unknown))])
        left = search.left_over(left)
    search.climb(left)
    search.climb_beyond()
    return Top(search.best_s, search.best, search.best)


def _spread(count: int) -> Indices:
    """Some of so many, from the first to the last."""
    if count <= _AT_ONCE:
        return np.arange(count)
    return np.arange(_AT_ONCE) * (count - 1) // (_AT_ONCE - 1)


def _newton(t: Array, steps: Array, slope: Array, bend: Array) -> Array:
    """A step towards the root of T·W′ − W, which falls."""
    return t - (t * slope - steps) / np.minimum(t * bend, -_TINY)


def _settled(step: Array, last: Array, t: Array, above: Array) -> bool:
    """Whether steps are small against the way from the bend, and the next would be nothing: Newton squares its error.

    With little jitter all happens just above a bend, and steps from there are small although they do not end soon.
    """
    small = np.abs(step) <= np.maximum(_SMALL_STEP * above, _ROUNDING * t)
    return bool((small & (np.abs(step) ** 3 <= _PRECISION * t * last * last)).all())


class _Search:
    """What is known of W at some bends, and the best W/T so far. Interval j is from bend j to the next."""

    def __init__(self, longest: LongestSteps) -> None:
        self._longest, self._bends = longest, longest.bends
        self.best_s, self.best = float(self._bends[-1]), 0.0
        self.known = np.zeros(len(self._bends), bool)
        self._steps, self._slope = np.zeros((2, len(self._bends)))
        jumps, slopes = longest.beginnings()
        # Sums over all that begins up to a bend, so that a difference is over all that begins between two.
        self._jumped, self._risen = np.cumsum(jumps - slopes * self._bends), np.cumsum(slopes)
        self.evaluate(_spread(len(self._bends)))

    def evaluate(self, chosen: Indices) -> None:
        t = self._bends[chosen]
        steps, self._slope[chosen], _ = self._longest.at(t)
        self._steps[chosen], self.known[chosen] = steps, True
        self._remember(t, steps / t)

    def _remember(self, t: Array, values: Array) -> None:
        top = int(values.argmax())
        if values[top] > self.best:
            self.best_s, self.best = float(t[top]), float(values[top])

    def _promising(self, bound: Array) -> NDArray[np.bool_]:
        return bound > self.best * (1 + _ROUNDING)

    def left_over(self, among: Indices | None = None) -> Indices:
        """The intervals that may hold more than the best so far."""
        j = np.arange(len(self._bends) - 1) if among is None else among
        known = np.flatnonzero(self.known)
        after = known.searchsorted(j, side="right")
        a, most = known[after - 1], self._steps[known[after]]
        start, stop, slope = self._bends[j], self._bends[j + 1], self._slope[a]
        rising = self._risen[j] - self._risen[a] + slope
        fixed = self._jumped[j] - self._jumped[a] + self._steps[a] - slope * self._bends[a]
        # W never falls, so it stays below the next known one, too: from where the line meets that, W/T only falls.
        meets = np.minimum(np.maximum((most - fixed) / np.maximum(rising, _TINY), start), stop)
        bound = np.maximum(
            np.minimum(fixed + rising * start, most) / start, np.minimum(fixed + rising * meets, most) / meets
        )
        return j[self._promising(bound)]

    def climb(self, j: Indices) -> None:
        """To the top of W/T in these intervals. Along the tangent in the middle of one, W/T is monotone."""
        if not len(j):
            return
        low, high = self._bends[j], self._bends[j + 1] * (1 - _ROUNDING)  # just before the next bend
        t = (low + high) / 2
        steps, slope, _ = here = self._longest.at(t)
        self._remember(t, steps / t)
        left = self._promising(slope + (steps - slope * t) / np.where(steps > slope * t, low, high))
        if left.any():
            self._ascend(low[left], high[left], t[left], here[:, left])

    def _ascend(self, low: Array, high: Array, t: Array, here: Array) -> None:
        """Newton; where it has not settled after some steps, guarded by bisection."""
        start, end, last = low, high, high - low
        for iteration in range(100):
            new = _newton(t, *here)
            if iteration < _UNGUARDED_STEPS:
                new = np.minimum(np.maximum(new, low), high)
            else:
                rises = new > t
                low, high = np.where(rises, t, low), np.where(rises, high, t)
                middle = (low + high) / 2
                new = np.where(new <= low, middle, np.where(new < high, new, np.where(high < end, middle, end)))
            step = new - t
            if _settled(step, last, t, t - start):
                break
            t, last = new, step
            here = self._longest.at(t)
        steps, slope, bend = here
        self._remember(new, (steps + (slope + bend * step / 2) * step) / new)

    def climb_beyond(self) -> None:
        """To the top beyond the longest dwell, where W/T never exceeds W′ at its beginning.

        There Λ is a straight line; with rare traffic T·W′ − W is one in T², so Newton works on that.
        """
        if not self._slope[-1] > self.best:
            return
        t = low = self._bends[-1:]
        high = np.full(1, np.inf)
        for _ in range(200):
            steps, slope, bend = self._longest.at(t)
            excess = t * slope - steps
            low, high = np.where(excess > 0, t, low), np.where(excess > 0, high, t)
            new = np.sqrt(np.maximum(t * t - 2 * excess / np.minimum(bend, -_TINY), 0.0))
            if not low < new < high:
                new = np.where(np.isinf(high), 2 * low, (low + high) / 2)
            step = new - t
            if np.abs(step) <= _LAST_STEP_BEYOND * t:
                break
            t = new
        self._remember(new, (steps + slope * step) / new)
