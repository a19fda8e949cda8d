"""What finished runs say together: whether g predicts how well a plan learns, and how close MOB-FL comes to the best.

A run is judged by the best it has reached: L_min, or the best value of a KPI so far. A plan is judged by the mean over
its seeds.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.runs.history import History

Array = NDArray[np.float64]
Surface = Callable[[ArrayLike, ArrayLike], Array]

_LEVEL = 0.95
_LEAST_PAIRS = 4  # with three, every order of the ranks is a likely accident
# Of a spline through coordinates of unit spread: seeds may differ, the ridge of g stays sharp.
_SMOOTHING = 0.03
_DIGITS = 12  # of values that differ by more than roundings
_FLAT = 1e-6  # points whose spread across a line is below this lie on it


@dataclass(frozen=True)
class Point:
    """A finished run of one plan, in the (H, T) plane; its objective is the theory's g."""

    local_steps: int
    round_s: float
    seed: int
    objective: float
    history: History
    name: str = ""

    def reached(self, column: str = "loss", at_s: float = np.inf) -> float:
        """L_min(t), or the best value of a KPI until then."""
        return float(best_until(self.history, column, at_s))


@dataclass(frozen=True)
class PlanResult:
    """What the runs of one plan reached, one value per run."""

    local_steps: int
    round_s: float
    objective: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


@dataclass(frozen=True)
class Regret:
    """How much better than MOB-FL's choice, the plan of the greatest g, the best plan of a grid was."""

    best: PlanResult
    chosen: PlanResult
    difference: float  # of the means, never negative
    relative: float  # to the best plan's mean
    rank: int  # the chosen plan's, 1 for the best
    plans: int
    spread: float  # standard deviation over seeds between these two plans; nan if they do not share two

    @property
    def exceeds_spread(self) -> bool | None:
        """Whether the difference is larger than what another seed changes; None if that is not known."""
        if self.difference == 0:
            return False
        return None if math.isnan(self.difference - self.spread) else self.difference > self.spread


def more_is_better(history: History, column: str) -> bool:
    return history.kpi(column).more_is_better


def best_until(history: History, column: str, at_s: ArrayLike) -> Array:
    """L_min(t), or the best value of a KPI until t, the initial model included; elementwise."""
    best = np.fmax if more_is_better(history, column) else np.fmin
    values = best.accumulate(np.append(history.initial[column], history.columns[column]))
    ended = np.searchsorted(history.columns["end_s"], np.asarray(at_s) * (1 + TIME_ROUNDING), side="right")
    return values[ended]


# ---- plans ------------------------------------------------------------------------------------------


def mean_over_seeds(points: Iterable[Point], column: str = "loss", at_s: float = np.inf) -> list[PlanResult]:
    """What every plan reached, in the order of H and T, without what its seeds add for every plan alike."""
    points = list(points)
    values = _without_seed_effects(points, np.array([point.reached(column, at_s) for point in points]))
    plans = defaultdict(list)
    for point, value in zip(points, values.tolist(), strict=True):
        plans[point.local_steps, point.round_s].append((point.objective, value))
    return [
        PlanResult(h, t, reached[0][0], tuple(value for _, value in reached))
        for (h, t), reached in sorted(plans.items())
    ]


def _without_seed_effects(points: Sequence[Point], values: Array) -> Array:
    """As if every run had the commonest seed: value = plan + seed, by least squares.

    A seed brings its own traffic and initial model. Where only some plans have a second one, its effect would
    otherwise look like theirs. What is known of a seed only together with a plan stays the plan's.
    """
    seeds = [seed for seed, _ in Counter(point.seed for point in points).most_common()]
    known = np.isfinite(values)
    if len(seeds) < 2 or not known.any():
        return values
    plans = [(point.local_steps, point.round_s) for point in points]
    drawn = np.array([[point.seed == seed for seed in seeds[1:]] for point in points], np.float64)
    own = np.array([plans.index(plan) for plan in plans])[known]
    effects = np.linalg.lstsq(_within(own, drawn[known]), _within(own, values[known, np.newaxis]), rcond=None)[0]
    alike = values - (drawn @ effects)[:, 0]
    # What differs by roundings only is equal: ranks would make much of it.
    return np.round(alike, _DIGITS - int(np.ceil(np.log10(np.abs(values[known]).max() or 1.0))))


def _within(groups: NDArray[np.intp], rows: Array) -> Array:
    """The rows less their group's mean."""
    members = groups[:, np.newaxis] == groups
    return rows - members @ rows / members.sum(axis=1, keepdims=True)


def chosen_by_mobfl(plans: Sequence[PlanResult]) -> PlanResult:
    """The plan of the greatest g."""
    return max(plans, key=lambda plan: plan.objective)


def regret(points: Sequence[Point], column: str = "loss") -> Regret:
    """MOB-FL's choice among the plans of these runs against the one that turned out best; nan is the worst there is."""
    if not points:
        raise InputError("regret must have at least one run to judge, got none")
    plans = mean_over_seeds(points, column)
    merits = np.nan_to_num(_merits(points, plans, column), nan=-np.inf)
    best, chosen = plans[int(np.argmax(merits))], chosen_by_mobfl(plans)
    difference = abs(best.mean - chosen.mean)
    rank = 1 + int((merits > merits[plans.index(chosen)]).sum())
    relative = difference / abs(best.mean) if best.mean else math.nan
    return Regret(best, chosen, difference, relative, rank, len(plans), _spread({best, chosen}))


def _merits(points: Sequence[Point], plans: Sequence[PlanResult], column: str) -> Array:
    """The means with a sign such that more is better."""
    sign = 1.0 if points and more_is_better(points[0].history, column) else -1.0
    return sign * np.array([plan.mean for plan in plans])


def _spread(plans: Iterable[PlanResult]) -> float:
    """The standard deviation that is left of seeds without their common effects, pooled over plans."""
    deviations = [np.subtract(plan.values, plan.mean) for plan in plans]
    freedom = sum(len(each) - 1 for each in deviations) - (max(map(len, deviations)) - 1)  # less the seeds' effects
    return math.sqrt(np.square(np.concatenate(deviations)).sum() / freedom) if freedom else math.nan


# ---- how well g predicts ----------------------------------------------------------------------------


def spearman(x: ArrayLike, y: ArrayLike, seed: int = 0, resamples: int = 2000) -> Estimate:
    """Spearman's rank correlation with its 95 % percentile interval from a bootstrap over pairs.

    Pairs with a nan are left out. Fewer than four pairs, or a side that is constant, say nothing: nan. A resample in
    which a side happens to be constant says nothing either, and may stand for any value: it counts as −1 at the lower
    end and as 1 at the upper. A perfect order stays perfect in every resample: its interval is a point.
    """
    pairs = np.array([x, y], np.float64)
    pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
    n = pairs.shape[1]
    rho = float(_rank_correlation(pairs)) if n >= _LEAST_PAIRS else math.nan
    if math.isnan(rho):
        return Estimate(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(seed).integers(n, size=(resamples, n))
    rhos = _rank_correlation(pairs[:, drawn])
    low = np.quantile(np.nan_to_num(rhos, nan=-1.0), (1 - _LEVEL) / 2)
    high = np.quantile(np.nan_to_num(rhos, nan=1.0), (1 + _LEVEL) / 2)
    return Estimate(rho, float(low), float(high))


def _rank_correlation(pairs: Array) -> Any:
    """Of pairs (2, …, n) over the last axis; nan where a side is constant."""
    from scipy.stats import rankdata

    x, y = rankdata(pairs, axis=-1) - (pairs.shape[-1] + 1) / 2
    scale = np.sqrt(np.square(x).sum(axis=-1) * np.square(y).sum(axis=-1))
    return np.divide((x * y).sum(axis=-1), scale, out=np.full_like(scale, np.nan), where=scale > 0)


def proxy_spearman(points: Sequence[Point], column: str = "loss", at_s: float = np.inf) -> Estimate:
    """Spearman of g with −L_min(t), or with a KPI turned so that more is better.

    A pair is a plan, not a run: the seeds of a plan share its g, so they are no further evidence of the order of plans.
    """
    plans = mean_over_seeds(points, column, at_s)
    return spearman([plan.objective for plan in plans], _merits(points, plans, column))


def spearman_over_time(times_s: Iterable[float], points: Sequence[Point], column: str = "loss") -> list[Estimate]:
    """`proxy_spearman` at each time; nan while no plan has learnt anything."""
    return [proxy_spearman(points, column, at_s) for at_s in times_s]


# ---- surfaces ---------------------------------------------------------------------------------------


def fitted_surface(h: ArrayLike, t: ArrayLike, z: ArrayLike) -> Surface:
    """A smooth z(H, T) near these points: a thin-plate spline in (log H, log T), each scaled to unit spread.

    Several seeds at one (H, T) are averaged by the smoothing; a point whose z is nan is left out. Points that do not
    span the plane leave it open: then z follows their line and levels off across it. Far from all points it is a guess.
    """
    from scipy.interpolate import RBFInterpolator

    known = ~np.isnan(z)
    if not known.any():
        raise InputError("a surface must have at least one point with a value, got none")
    at = _logarithms(h, t)[known]
    middle, spread = at.mean(axis=0), at.std(axis=0)
    scale = np.where(spread > _FLAT, spread, 1.0)
    plane: dict[str, Any] = {"kernel": "thin_plate_spline", "degree": 1}
    line: dict[str, Any] = {"kernel": "linear", "degree": 0}
    kind = plane if _span_plane(at) else line
    spline = RBFInterpolator((at - middle) / scale, np.asarray(z)[known], smoothing=_SMOOTHING, **kind)

    def surface(h: ArrayLike, t: ArrayLike) -> Array:
        places = (_logarithms(h, t) - middle) / scale
        return spline(places.reshape(-1, 2)).reshape(places.shape[:-1])

    return surface


def spans_plane(h: ArrayLike, t: ArrayLike) -> bool:
    """Whether at least three of the points are not on one line in (log H, log T)."""
    return _span_plane(_logarithms(h, t))


def _span_plane(at: Array) -> bool:
    return len(at) > 2 and int(np.linalg.matrix_rank(at - at.mean(axis=0), tol=_FLAT)) == 2


def _logarithms(h: ArrayLike, t: ArrayLike) -> Array:
    return np.stack(np.broadcast_arrays(np.log(h), np.log(t)), axis=-1)
