"""The mathematics of MOB-FL, one elementwise function per equation.

Walk the paper and this file side by side; docs/background/theory.md holds what the paper does not say.
Every function takes a `Scenario` (one road) or `Conditions` (one road, or arrays of many), local steps H
and round lengths T, and broadcasts them like NumPy does.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.scenario import LEAST_SPEED, AnyScenario, scenario_of
from mobfl.theory.delays import Delays, agree, taken
from mobfl.theory.distributions import (
    Constant,
    Delay,
    Dwell,
    ShiftedExponential,
    Traversal,
    TruncatedNormal,
    average,
    density_from_least,
)
from mobfl.theory.quadrature import panels

Array = NDArray[np.float64]

# A spread of speeds below this share of their mean cannot be told from none.
_LEAST_SPREAD = 1e-9
# The same for the uploads that averaging counts in: g differs by less than this share.
_LEAST_NOISE = 1e-12
# Of the fraction for E[M/(M + ν)]: enough for all digits of it, and of its derivatives above the least noise.
_FRACTION_TERMS = 128


@dataclass(frozen=True)
class Conditions:
    """The numbers that the theory works on: floats for one road, arrays of one length for many.

    An array of roads must agree on whether speeds spread, steps jitter and averaging counts.
    """

    arrivals_per_s: Any  # of the vehicles that take part
    length_m: Any
    speed_mps: Any
    speed_sd_mps: Any
    delays: Delays
    noise_uploads: Any = 0.0  # ν

    @classmethod
    def of(cls, scenario: "AnyRoad") -> "Conditions":
        if isinstance(scenario, Conditions):
            return scenario
        scenario = scenario_of(scenario)
        return cls(
            scenario.traffic.arrivals_per_s * scenario.traffic.participation,
            scenario.road.length_m,
            scenario.traffic.speed_mps,
            scenario.traffic.speed_sd_mps,
            Delays.of(scenario),
            scenario.training.noise_uploads,
        )

    def take(self, roads: ArrayLike) -> "Conditions":
        """The conditions of the chosen roads; a single road's numbers fit any choice as they are."""
        if not self._many:
            return self
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "delays"}
        chosen = {name: taken(column, roads) for name, column in columns.items()}
        return Conditions(**chosen, delays=self.delays.take(roads))

    @cached_property
    def _many(self) -> bool:
        """Whether any of its numbers is an array."""
        step = self.delays.classes[0]
        numbers = (getattr(self, field.name) for field in fields(self) if field.name != "delays")
        return any(map(np.ndim, (*numbers, self.delays.transfer_s, step.min_step_s, step.extra_step_s)))

    @property
    def dwell_s(self) -> Any:
        """T0 = L/v."""
        return self.length_m / self.speed_mps

    @property
    def spreads(self) -> Any:
        """Whether vehicles drive at different speeds, for every road."""
        return _spreads(self.speed_mps, self.speed_sd_mps)

    @cached_property
    def dwell(self) -> Dwell:
        return _dwell(self.length_m, self.speed_mps, self.speed_sd_mps)

    @property
    def mean_dwell_s(self) -> Any:
        """E[D], which is T0 where speeds do not spread."""
        return average(*self.dwell.nodes(Constant(self.dwell_s)))

    @property
    def averages(self) -> Any:
        """Whether more uploads make a round worth more, for every road."""
        return self.noise_uploads > _LEAST_NOISE

    @property
    def noise(self) -> Any:
        """ν; None where one upload is worth as much as many."""
        return self.noise_uploads if agree("averaging counts", self.averages) else None


AnyRoad: TypeAlias = AnyScenario | Conditions


def stay(scenario: AnyScenario) -> Dwell:
    """D, how long a vehicle at random is on the section; of any scenario, whatever its link."""
    scenario = scenario_of(scenario)
    return _dwell(scenario.road.length_m, scenario.traffic.speed_mps, scenario.traffic.speed_sd_mps)


def mean_stay_s(scenario: AnyScenario) -> float:
    """E[D], of any scenario, whatever its link."""
    scenario = scenario_of(scenario)
    return float(average(*stay(scenario).nodes(Constant(scenario.dwell_s))))


def _dwell(length_m: Any, speed_mps: Any, speed_sd_mps: Any) -> Dwell:
    if not agree("speeds spread", _spreads(speed_mps, speed_sd_mps)):
        return Constant(length_m / speed_mps)
    return Traversal(length_m, TruncatedNormal(speed_mps, speed_sd_mps, LEAST_SPEED * speed_mps))


def _spreads(speed_mps: Any, speed_sd_mps: Any) -> Any:
    return speed_sd_mps > _LEAST_SPREAD * speed_mps


# ---- delays -------------------------------------------------------------------------------------


def compute_delay_cdf(scenario: AnyRoad, local_steps: ArrayLike, t: ArrayLike) -> Array:
    """P{τ_cp ≤ t}, the chance that H local steps take at most t seconds (Eq. 2)."""
    road, h = Conditions.of(scenario), positive("local_steps", local_steps)
    return road.delays.compute(h).cdf(t)


def delay(scenario: AnyRoad, local_steps: ArrayLike) -> Delay:
    """S, the time for download, H local steps and upload together, of a vehicle at random."""
    return Conditions.of(scenario).delays.total(positive("local_steps", local_steps))


def min_delay_s(scenario: AnyRoad, local_steps: ArrayLike) -> Array:
    """T_min(H) = αH + τ_down + τ_up, the least time from download to upload; of the quickest class."""
    return Conditions.of(scenario).delays.least_s(local_steps)


def slack_s(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> Array:
    """Ξ = min(T, T0) − T_min(H): no upload is possible unless it is positive (zero is enough at β = 0).

    Where speeds spread, T0 is the longest dwell.
    """
    road = Conditions.of(scenario)
    return np.minimum(round_s, road.dwell.longest) - min_delay_s(road, local_steps)


def fits(scenario: AnyRoad, local_steps: ArrayLike) -> NDArray[np.bool_]:
    """Whether a vehicle can ever upload after H local steps, however long the round."""
    road = Conditions.of(scenario)
    spare = road.dwell.longest - min_delay_s(road, local_steps)
    return (spare > 0) | ((spare == 0) & road.delays.quickest_may_be_least)


def max_local_steps(scenario: AnyRoad) -> NDArray[np.int64]:
    """H_max, the largest H that fits; 0 if none does.

    The paper's ⌊(T0 − τ_down − τ_up)/α⌋ may be rounded to either side, so T_min(H) decides.
    """
    road = Conditions.of(scenario)
    quotient = np.floor((road.dwell.longest - road.delays.transfer_s) / road.delays.min_step_s)
    near = np.maximum(quotient, 0.0).astype(np.int64)
    return np.maximum(near - 1 + fits(road, near) + fits(road, near + 1), 0)


# ---- uploads per round --------------------------------------------------------------------------


def uploads_identity(arrivals_per_s: ArrayLike, dwell: Dwell, delay: Delay, round_s: ArrayLike) -> Array:
    """E[uploads per round] = λ·E[(T + D − 2S)·1{S ≤ min(T, D)}] for any dwell D and delay S.

    Theorem 1 is the case of constant D and shifted-exponential S. Here S is averaged out first, which
    leaves λ·E_D[|T − D|·F_S(m) + 2·E(m − S)⁺] with m = min(T, D), a sum of nothing negative.
    """
    t = np.asarray(round_s)
    d, weights = dwell.nodes(delay, t)
    return arrivals_per_s * average(_uploads(t - d, *delay.cdf_and_integral(np.minimum(t, d))), weights)


def _uploads(difference: Any, cdf: Any, integral: Any) -> Any:
    return np.abs(difference) * cdf + 2.0 * integral


def uploads_and_slopes(arrivals_per_s: Any, dwell: Dwell, delay: ShiftedExponential, t: Any) -> tuple[Any, Any, Any]:
    """Λ and its first two derivatives in T, for T ≥ T_min(H)."""
    d, weights = dwell.nodes(delay, t)
    window, stay_on = np.minimum(t, d), d - t
    cdf, integral = delay.cdf_and_integral(window)
    gain = delay.density(t) * np.maximum(stay_on, 0.0)  # a longer round's gain from those who would stay
    uploads = average(_uploads(stay_on, cdf, integral), weights)
    slope, bend = average(cdf + gain, weights), average(gain, weights) / -delay.scale
    return arrivals_per_s * uploads, arrivals_per_s * slope, arrivals_per_s * bend


def uploads_slope(arrivals_per_s: Any, dwell: Dwell, delay: Delay, round_s: ArrayLike) -> Array:
    """∂Λ/∂T = λ·E[F_S(min(T, D)) + f_S(T)·(D − T)⁺] for any dwell and delay, the right-hand one where Λ jumps."""
    t = np.asarray(round_s)
    d, weights = dwell.nodes(delay, t)
    gain = density_from_least(delay, t) * np.maximum(d - t, 0.0)
    return arrivals_per_s * average(delay.cdf(np.minimum(t, d)) + gain, weights)


def promise(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> tuple[Array, Array, Array]:
    """Λ, P{M_suc > 0} and the objective at once."""
    road = Conditions.of(scenario)
    t = positive("round_s", round_s)
    uploads = uploads_identity(road.arrivals_per_s, road.dwell, delay(road, local_steps), t)
    return uploads, *valid_and_objective(uploads, local_steps, t, road.noise)


def valid_and_objective(uploads: Array, h: ArrayLike, t: ArrayLike, noise: Any = None) -> tuple[Array, Array]:
    """1 − e^−Λ and (H/T)·(1 − e^−Λ), or with noise (H/T)·E[M/(M + ν)]."""
    valid = -np.expm1(-uploads)
    return valid, np.divide(h, t) * (valid if noise is None else round_worth(uploads, noise))


def expected_uploads(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> Array:
    """Λ(H, T), the mean number of uploads per round (Theorem 1; with spread speeds, the identity)."""
    return promise(scenario, local_steps, round_s)[0]


def valid_round_prob(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> Array:
    """P{M_suc > 0} = 1 − e^−Λ, the chance that a round has an upload."""
    return promise(scenario, local_steps, round_s)[1]


def objective(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> Array:
    """g(H, T) = (H/T)·P{M_suc > 0}, the valid local steps per second (Eq. 5); with ν > 0, (H/T)·E[M/(M + ν)]."""
    return promise(scenario, local_steps, round_s)[2]


def objective_slope(scenario: AnyRoad, local_steps: ArrayLike, round_s: ArrayLike) -> Array:
    """∂g/∂T = (H/T²)·(T·w′(Λ)·∂Λ/∂T − w(Λ)), the right-hand one where g jumps; 0 below T_min(H).

    w(Λ), the worth of a round, is 1 − e^−Λ, or E[M/(M + ν)] with ν > 0.
    """
    road = Conditions.of(scenario)
    h, t = positive("local_steps", local_steps), positive("round_s", round_s)
    s, rate, least = delay(road, h), road.arrivals_per_s, min_delay_s(road, h)
    uploads, slope = uploads_identity(rate, road.dwell, s, t), uploads_slope(rate, road.dwell, s, t)
    worth, gain = worth_and_slope(uploads, road.noise)
    return np.where((t >= least) & fits(road, h), h / t / t * (t * slope * gain - worth), 0.0)


# ---- what averaging is worth ----------------------------------------------------------------------


def round_worth(uploads: ArrayLike, noise_uploads: ArrayLike) -> Array:
    """E[M/(M + ν)] of a Poisson number M of uploads with mean Λ: what a round is worth if averaging counts."""
    return worth_and_slope(np.asarray(uploads), np.asarray(noise_uploads))[0]


def worth_and_slope(uploads: Any, noise: Any) -> tuple[Any, Any]:
    """E[M/(M + ν)] and its derivative in Λ; without noise 1 − e^−Λ and e^−Λ."""
    if noise is None:
        return -np.expm1(-uploads), np.exp(-uploads)
    d = noise + worth_fraction(uploads, noise)
    chance = d / (uploads + d)  # what M's being random adds to ν
    whole = uploads + noise + chance
    return uploads / whole, chance / whole


def worth_fraction(uploads: Any, noise: Any) -> Any:
    """a(Λ) in [0, 2]: with d = ν + a, E[M/(M + ν)] = Λ/(Λ + ν + d/(Λ + d)).

    A continued fraction of ₁F₁(1; ν + 2; −Λ), written so that nothing is ever subtracted:
    d_n = ν + (n + 1)·d_{n+1}/(Λ + d_{n+1}), and d is d_1.
    """
    d = noise + float(_FRACTION_TERMS)
    for n in range(_FRACTION_TERMS, 2, -1):
        d = noise + n * d / (uploads + d)
    return 2.0 * d / (uploads + d)


# ---- long rounds (Prop. 1) ------------------------------------------------------------------------


def long_round_line(scenario: AnyRoad, local_steps: ArrayLike) -> tuple[Array, Array]:
    """C0(H) and C1(H): Λ = λ·(C0·T + C1) for every T of at least the longest dwell."""
    return long_round_identity(Conditions.of(scenario).dwell, delay(scenario, local_steps))


def long_round_identity(dwell: Dwell, delay: Delay) -> tuple[Array, Array]:
    """C0 and C1 of any dwell and delay: P{S ≤ D} and E[(D − 2S)·1{S ≤ D}]."""
    d, weights = dwell.nodes(delay)
    cdf, integral = delay.cdf_and_integral(d)
    return average(cdf, weights), average(2.0 * integral - d * cdf, weights)


def full_stay_success_prob(scenario: AnyRoad, local_steps: ArrayLike) -> Array:
    """C0(H) = P{S ≤ D}: a vehicle's chance to upload if its whole stay falls into one round."""
    return long_round_line(scenario, local_steps)[0]


def long_round_offset_s(scenario: AnyRoad, local_steps: ArrayLike) -> Array:
    """C1(H), in seconds."""
    return long_round_line(scenario, local_steps)[1]


def max_round_s(scenario: AnyRoad, local_steps: ArrayLike) -> Array:
    """T_max(H), above which g only falls (Prop. 1).

    Where speeds spread T0 is the longest dwell, and the proof stands. Where C0 = 0 the paper divides by
    zero: such an H never uploads, g is 0 throughout and T0 bounds it as well as anything. The paper's 1
    becomes 1 + ν/2 where averaging counts.
    """
    road = Conditions.of(scenario)
    c0, c1 = long_round_line(road, local_steps)
    rate = road.arrivals_per_s
    more = 1.0 + road.noise_uploads / 2 - 12.0 * rate * c1
    beyond = np.divide(more, 4.0 * rate * c0, out=np.zeros_like(c0 * more), where=c0 > 0.0)
    return road.dwell.longest + np.where(c1 < 0.0, beyond, 0.0)


# ---- beyond the paper -----------------------------------------------------------------------------


def contributing_visit_prob(scenario: AnyRoad, local_steps: int, round_s: float) -> float:
    """The share of vehicles that take part and upload at least once while they pass."""
    by_class = contributing_visits_by_class(scenario, local_steps, round_s)
    return sum(each.share * heard for each, heard in zip(Conditions.of(scenario).delays.classes, by_class, strict=True))


def contributing_visits_by_class(scenario: AnyRoad, local_steps: int, round_s: float) -> list[float]:
    """The same within every class: a vehicle is of one class for as long as it is there."""
    road = Conditions.of(scenario)
    return [
        _contributing(road.dwell, s, round_s) for _, s in road.delays.by_class(positive("local_steps", local_steps))
    ]


def _contributing(dwell: Dwell, s: Delay, round_s: float) -> float:
    d, weights = dwell.nodes(s, round_s)
    return float(average(1.0 - _fruitless_visit_prob(np.asarray(d), s, round_s), weights))


def uploads_by_class(scenario: AnyRoad, local_steps: int, round_s: float) -> list[float]:
    """Λ(H, T) of every class: they add up to the fleet's, and each is Poisson."""
    road = Conditions.of(scenario)
    return [
        float(uploads_identity(share * road.arrivals_per_s, road.dwell, s, round_s))
        for share, s in road.delays.by_class(positive("local_steps", local_steps))
    ]


def _fruitless_visit_prob(d: Array, delay: Delay, t: float) -> Array:
    """The chance to upload in none of the rounds that a stay of d seconds touches, for a random arrival."""
    whole, rest = np.divmod(d, t)
    bends = [knot for part in delay.knots() for knot in (part, rest - part, rest + t - part)]
    edges = np.stack(np.broadcast_arrays(0.0, t, rest, *bends))
    first, weights = panels(np.clip(edges, 0.0, t))  # the time from the arrival to the end of its round
    late = first > rest  # then the first and the last round together hold one whole round less
    last = np.where(late, rest + t, rest) - first
    between = whole - late
    alone = between < 0  # the whole stay lies in one round
    fail = 1.0 - delay.cdf(np.where(alone, d, first))
    others = (1.0 - delay.cdf(t)) ** np.maximum(between, 0.0) * (1.0 - delay.cdf(np.maximum(last, 0.0)))
    return (weights * fail * np.where(alone, 1.0, others)).sum(axis=0) / t


def positive(name: str, value: ArrayLike) -> Any:
    value = np.asarray(value)
    if not (value > 0).all():
        raise InputError(f"{name} must be > 0, got {value[~(value > 0)].flat[0]}")
    return value
