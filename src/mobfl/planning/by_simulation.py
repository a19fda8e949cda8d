"""The best plan of anything that can be simulated, found by racing plans on the same traffic.

All plans are run on the same stretches of traffic with the same vehicles and draws (common random numbers), so that
differences between plans are told apart from luck. A coarse lattice of plans is raced first: a plan is dropped when it
is behind the best by more than its slack, which is what a plan half a step away from it may have more. Most are dropped
in a first heat over short stretches, and with them the longest rounds, which need long ones. What is left is
raced on a finer lattice over fresh and longer stretches, and so on, until no plan can be better by more than was asked:
by the smooth surface through the plans that are left (`surface`), or by the race itself where there is none.

Chances of error add up to `ERROR` over all plans, looks and levels (Bonferroni), so the regret is within what was asked
in at least 95 of 100 searches. What is assumed: means of stretches are nearly normal, and between two points of the
first lattice no top hides that is narrower than its step and higher than its neighbours by more than the slack. Nothing
is assumed of how many tops there are, and no formula of g is asked.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.planning.lattice import Lattice, Point, Space
from mobfl.planning.surface import Top, top_of

Array = NDArray[np.float64]

ERROR = 0.05  # of searches, this share may find a plan whose regret is larger than was asked
LEAST_WITHIN, MOST_WITHIN = 1e-5, 0.5

_NEAR = 0.02  # of T_min(H)
_SLACK, _SLACK_FALLS = 0.12, 3.0  # of the first lattice, as a share of the best; by level
_SURFACE_FROM = 10.0  # times what was asked: with a larger slack a surface would be bent too much
_TOLD_APART = 0.5  # of the slack: so well plans must be known before the next level
_STAYS_PER_STRETCH = 32.0  # stretches so much longer than a round and a stay hardly share vehicles
_STRETCHES_WANTED = 256  # on a level after the first: few are run at first, and most plans are dropped by these
_MOST_AT_ONCE = 4.0  # times as many stretches as there are
_FIRST_STRETCHES, _FIRST_STAYS, _SURE = 16, 8.0, 3.0
_FIRST_SHARE = 1 / 4  # of a stretch lasts one of the first heat; shorter ones do not tell how far plans are behind
_MORE_LOOKS = 4  # at a surface, before the lattice is made finer instead
_ROUNDING, _BELOW = 1e-12, 0.999  # so that no rounding rules out the plan that made the floor


class Evaluate(Protocol):
    """The simulator, as the search asks it."""

    def __call__(self, plans: Sequence[tuple[int, float]], first: int, count: int, lasts_s: float) -> Array:
        """Valid local steps per second, a row for every plan (H and T) and a column for every stretch.

        Args:
            plans: H and T.
            first: The number of the first stretch. A number stands for the same traffic, vehicles and draws whatever
                the plans; different numbers are independent of each other.
            count: How many stretches.
            lasts_s: How long each is, at least.
        """


class Stage(NamedTuple):
    """How far a search has come."""

    level: int  # 0 is the coarse lattice
    plans: int  # that are still in the race
    local_steps: int
    round_s: float
    regret: float  # a share of the objective: so well the best is known
    done: float  # the estimated share of the whole work
    plans_steps: bool = True  # whether H is planned, too


class Found(NamedTuple):
    """What the search found."""

    local_steps: int
    round_s: float
    regret: float  # no plan is better by a larger share of the objective, but for the declared rate of error
    stretches: int  # that were used: numbers from here on are fresh
    lasts_s: float  # of the last level


def best_by_simulation(
    evaluate: Evaluate,
    space: Space,
    within: float,
    stretches: int = 32,
    progress: Callable[[Stage], None] = lambda _: None,
) -> Found | None:
    """A plan whose objective is within this share of the best; None if nobody ever uploads.

    Args:
        evaluate: The simulator.
        space: Which plans there are.
        within: The largest regret, as a share of the objective.
        stretches: On how many every plan is tried at first.
        progress: Told after every look at the race.
    """
    check_within(within)
    search = _Search(evaluate, replace(space, near=min(within / 2, _NEAR)), within, stretches, progress)
    return search.run()


def share_of(given: float | str) -> float:
    """Of `0.01` or `1%`, a share that a search can keep to."""
    try:
        text = str(given).strip()
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    check_within(share, given)
    return share


def check_within(within: float, given: object = None) -> None:
    """Raises where it is no share, naming what was given for it."""
    if not LEAST_WITHIN <= within <= MOST_WITHIN:
        told = f"{within:g}" if given is None else repr(given)
        raise InputError(f"within must be a share from {LEAST_WITHIN:.3%} to {MOST_WITHIN:.0%}, such as 1%, got {told}")


class _Search:
    def __init__(
        self, evaluate: Evaluate, space: Space, within: float, stretches: int, progress: Callable[[Stage], None]
    ) -> None:
        self._evaluate, self._space, self._within, self._progress = evaluate, space, within, progress
        self.first_look = stretches
        self._used = 0  # stretches so far
        self._tries = 0  # at surfaces
        self._done = 0.0

    def run(self) -> Found | None:
        floor = self._floor()
        if floor <= 0:
            return None
        level, lattice, least_s = 0, Lattice(self._space, 0, floor), 0.0
        race = _Race(self, lattice.all(), level)
        while True:
            race.run(least_s)
            top = self._top(race, lattice)
            if top is not None and top.regret <= self._within:
                best = top.point.local_steps, self._space.round_s(top.point)
                return Found(*best, max(top.regret, 0.0), self._used, race.lasts_s)
            level, least_s = level + 1, race.seconds * _SLACK_FALLS**2 / _STRETCHES_WANTED
            lattice = Lattice(self._space, level, floor)
            race = _Race(self, lattice.around(race.points), level)

    def evaluate(self, points: Sequence[Point], first: int, count: int, lasts_s: float) -> Array:
        return self._evaluate([(each.local_steps, self._space.round_s(each)) for each in points], first, count, lasts_s)

    def fresh(self, count: int) -> int:
        """The first of so many stretches that nobody has seen."""
        first, self._used = self._used, self._used + count
        return first

    def tell(self, race: "_Race", regret: float) -> None:
        """Work grows with the square of how well plans are told apart."""
        last = math.ceil(math.log(max(_SLACK / (_SURFACE_FROM * self._within), 1.0), _SLACK_FALLS))
        enough = _TOLD_APART * slack_of(last)
        self._done = max(self._done, (enough / max(regret, enough)) ** 2)
        point, planned = race.points[race.best], self._space.most_steps > 1
        best = point.local_steps, self._space.round_s(point)
        self._progress(Stage(race.level, len(race.points), *best, regret, self._done, planned))

    def stretch_s(self, points: Sequence[Point]) -> float:
        return _STAYS_PER_STRETCH * (max(map(self._space.round_s, points)) + self._space.stay_s)

    def _floor(self) -> float:
        """What the best plan reaches at least; 0 if nobody ever uploads. Rounds grow until no longer ones can win."""
        space, floor = self._space, 0.0
        steps = Lattice(space, 0, 0.0).steps.tolist()
        round_s = min(1.5 * space.least_s(1), space.longest_s)
        while True:
            fitting = [(h, round_s) for h in steps if space.least_s(h) < round_s] or [(1, round_s)]
            first, lasts_s = self.fresh(_FIRST_STRETCHES), _FIRST_STAYS * (round_s + space.stay_s)
            samples = self._evaluate(fitting, first, _FIRST_STRETCHES, lasts_s)
            errors = samples.std(axis=1, ddof=1) / math.sqrt(_FIRST_STRETCHES)
            floor = max(floor, float((samples.mean(axis=1) - _SURE * errors).max()))
            if round_s >= space.longest_s or space.worth(space.most_steps) / round_s < floor:
                return _BELOW * floor
            round_s = min(2 * round_s, space.longest_s)

    def _top(self, race: "_Race", lattice: Lattice) -> Top | None:
        """The best plan and its regret, as soon as the lattice is fine enough to tell."""
        slack = slack_of(race.level)
        for _ in range(_MORE_LOOKS):
            top = None if slack > _SURFACE_FROM * self._within else self._smooth(race, lattice)
            raced = self._seen_around(Top(race.points[race.best], race.behind() + slack, slack), race, lattice)
            if raced.regret <= self._within and (top is None or raced.regret < top.regret):
                return raced
            if top is None or top.regret <= self._within or top.misfit > self._within / 2:
                return top
            race.go_on(min(max((top.regret / self._within) ** 2 - 1, 0.5), 2.0))
            self.tell(race, top.regret)
        return top

    def _smooth(self, race: "_Race", lattice: Lattice) -> Top:
        self._tries += 1
        chance = ERROR / 2 / (self._tries * (self._tries + 1))
        top = top_of(race.points, race.samples, lattice, slack_of(race.level), chance)
        return self._seen_around(top, race, lattice)

    def _seen_around(self, top: Top, race: "_Race", lattice: Lattice) -> Top:
        """With what may be hidden beside a top that lies at the edge of what is left in the race."""
        hidden = lattice.unseen_beside(top.point, race.points, race.dropped, slack_of(race.level))
        return Top(top.point, top.regret + hidden, top.misfit + hidden)


def slack_of(level: int) -> float:
    """The share of the best that a plan half a step of this level's lattice away may have more."""
    return _SLACK / _SLACK_FALLS**level


class _Race:
    """Plans of one level on the same stretches, of which those that are behind are dropped."""

    def __init__(self, search: _Search, points: list[Point], level: int) -> None:
        self._search, self.points, self.level = search, points, level
        self._entered, self._looks = len(points), 0
        self.dropped = dict[Point, float]()  # with how far behind each was
        self.lasts_s, self.samples = 0.0, np.empty((len(points), 0))

    @property
    def seconds(self) -> float:
        return self.lasts_s * self.samples.shape[1]

    @property
    def best(self) -> int:
        return int(self.samples.mean(axis=1).argmax())

    def _heat(self, count: int, lasts_s: float) -> float:
        """On so many fresh stretches alone; how well those are known who are not dropped."""
        self.lasts_s = lasts_s
        self.samples = self._search.evaluate(self.points, self._search.fresh(count), count, lasts_s)
        reach = self._drop()
        self._search.tell(self, reach)
        return reach

    def run(self, least_s: float) -> None:
        """Until all who are left are told apart as well as the slack needs, on stretches that are at least so long."""
        enough = _TOLD_APART * slack_of(self.level)
        if self.level == 0:
            self._heat(_FIRST_STRETCHES, _FIRST_SHARE * self._search.stretch_s(self.points))
        reach = self._heat(self._search.first_look, max(self._search.stretch_s(self.points), least_s))
        while reach > enough:
            self.go_on(min(max((reach / enough) ** 2 - 1, 0.5), _MOST_AT_ONCE))
            reach = self._drop()
            self._search.tell(self, reach)

    def go_on(self, times: float) -> None:
        """So many times as many stretches more."""
        count = math.ceil(times * self.samples.shape[1])
        more = self._search.evaluate(self.points, self._search.fresh(count), count, self.lasts_s)
        self.samples = np.concatenate([self.samples, more], axis=1)

    def behind(self) -> float:
        """By which share of the best any plan in the race may be better than it."""
        ahead, reach = self._compared()
        return float((ahead + reach).max())

    def _drop(self) -> float:
        """Leaves out whoever is behind by more than the slack; how well the others are known."""
        ahead, reach = self._compared()
        kept = ahead + reach >= -slack_of(self.level)
        self.dropped |= {self.points[i]: -float(ahead[i]) for i in np.flatnonzero(~kept)}
        self.points = [point for point, stays in zip(self.points, kept, strict=True) if stays]
        self.samples = self.samples[kept]
        return float(reach[kept].max())

    def _compared(self) -> tuple[Array, Array]:
        """By how much every plan is ahead of the best, and how far that may be off; as shares of the best."""
        from scipy.special import stdtrit

        self._looks += 1
        best, stretches = self.best, self.samples.shape[1]
        ahead = self.samples - self.samples[best]
        chance = ERROR / 2 / (self._entered * self._looks * (self._looks + 1) * (self.level + 1) * (self.level + 2))
        errors = ahead.std(axis=1, ddof=1) / math.sqrt(stretches)
        scale = max(float(self.samples[best].mean()), _ROUNDING)
        return ahead.mean(axis=1) / scale, float(stdtrit(stretches - 1, 1 - chance)) * errors / scale
