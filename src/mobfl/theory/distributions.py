"""Random times and speeds as values: what the theory asks of them.

A *delay* is asked for its distribution function, a *dwell* for the expectation of a function of it; most
laws here can be either. Parameters may be arrays with one entry per road; everything is elementwise.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.theory.quadrature import panels

Array = NDArray[np.float64]

# A normal law has 1e-19 of its mass beyond nine standard deviations, an exponential one 4e-18 beyond
# forty means: nothing that a double could show. The points between keep each panel's integrand smooth.
_NORMAL_EDGES = np.array([-9.0, -5.0, -2.5, 0.0, 2.5, 5.0, 9.0])
_EXPONENTIAL_EDGES = np.array([0.0, 1.0, 4.0, 12.0, 40.0])
_MOST_KNOTS = 64
_ROUNDING = 4 * np.finfo(float).eps


# Values along a leading axis with weights that sum to one; no weights where there is only one value.
Nodes: TypeAlias = tuple[Any, Array | None]


class Delay(Protocol):
    """How long a vehicle needs from the start of its download to the end of its upload."""

    @property
    def least(self) -> Any:
        """Below which the cdf is zero."""

    def cdf(self, t: ArrayLike) -> Array:
        """P{S ≤ t}."""

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        """P{S ≤ t} and E[(t − S)⁺], which is its integral up to t."""

    def density(self, t: ArrayLike) -> Array:
        """The density at t ≥ `least`, 0 where the law has chances instead."""

    def knots(self) -> list[Any]:
        """The points between which the cdf is smooth."""


class Dwell(Protocol):
    """How long a vehicle stays on the section."""

    @property
    def longest(self) -> Any:
        """The longest stay."""

    def draw(self, u: Any) -> Any:
        """The stay that a uniform u in (0, 1] stands for."""

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        """With which `average` takes E[f(D)] of an f that bends only where `delay` does, or at the knots."""


def average(values: Any, weights: Array | None) -> Any:
    """The weighted mean along the leading axis; of one value without weights, itself."""
    return values if weights is None else (values * weights).sum(axis=0)


@dataclass(frozen=True)
class Constant:
    value: Any

    @property
    def least(self) -> Any:
        return self.value

    @property
    def longest(self) -> Any:
        return self.value

    def density(self, t: ArrayLike) -> Array:
        return np.zeros(np.broadcast_shapes(np.shape(t), np.shape(self.value)))

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        gap = np.subtract(t, self.value)
        return np.where(gap >= 0.0, 1.0, 0.0), np.maximum(gap, 0.0)

    def knots(self) -> list[Any]:
        return [self.value]

    def draw(self, u: Any) -> Any:
        return np.full(np.shape(u), self.value)

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:  # noqa: ARG002
        return self.value, None


@dataclass(frozen=True)
class ShiftedExponential:
    """A least time plus an exponential one with mean `scale` > 0 (Eq. 2)."""

    shift: Any
    scale: Any

    @property
    def least(self) -> Any:
        return self.shift

    @property
    def longest(self) -> Any:
        return self.shift + _EXPONENTIAL_EDGES[-1] * self.scale

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        behind = np.minimum(self.shift - t, 0.0)  # minus the time since the least delay
        cdf = -np.expm1(behind / self.scale)
        return cdf, -behind - self.scale * cdf

    def density(self, t: ArrayLike) -> Array:
        """The density at t ≥ shift."""
        return np.exp((self.shift - t) / self.scale) / self.scale

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def knots(self) -> list[Any]:
        return [self.shift + edge * self.scale for edge in _EXPONENTIAL_EDGES]

    def draw(self, u: Any) -> Any:
        return self.shift - self.scale * np.log(u)

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        standard = [(knot - self.shift) / self.scale for knot in (*knots, *delay.knots())]
        x, weights = _standard_nodes(_EXPONENTIAL_EDGES, 0.0, standard)
        return self.shift + self.scale * x, _normalised(weights * np.exp(-x))


@dataclass(frozen=True)
class TruncatedNormal:
    """A normal law with the given mean and standard deviation > 0, kept only above `low`."""

    mean: Any
    sd: Any
    low: Any

    @property
    def shortest(self) -> Any:
        return np.maximum(self.low, self.mean + self.sd * _NORMAL_EDGES[0])

    @property
    def longest(self) -> Any:
        return np.maximum(self.low, self.mean) + self.sd * _NORMAL_EDGES[-1]

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        from scipy.special import log_ndtr, ndtr

        cut = self._standard(self.low)
        z = np.maximum(self._standard(t), cut)
        # Upper tails throughout: the lower ones lose their digits when the cut lies above the mean.
        integral = (z - cut) - (_normal_call(cut) - _normal_call(z)) / ndtr(-cut)
        return -np.expm1(log_ndtr(-z) - log_ndtr(-cut)), self.sd * integral

    def knots(self) -> list[Any]:
        return [self.low, *(self.mean + edge * self.sd for edge in _NORMAL_EDGES)]

    def draw(self, u: Any) -> Any:
        from scipy.special import ndtr, ndtri

        return self.mean - self.sd * ndtri(u * ndtr(-self._standard(self.low)))

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        return self.split_at([*knots, *delay.knots()])

    def split_at(self, knots: list[Any]) -> Nodes:
        standard = [self._standard(knot) for knot in knots]
        z, weights = _standard_nodes(_NORMAL_EDGES, self._standard(self.low), standard)
        return self.mean + self.sd * z, _normalised(weights * np.exp(-z * z / 2))

    def _standard(self, t: ArrayLike) -> Array:
        return (np.asarray(t) - self.mean) / self.sd


@dataclass(frozen=True)
class LogNormal:
    """A lognormal law with the given mean > 0 and standard deviation > 0 (its own, not its logarithm's)."""

    mean: Any
    sd: Any

    @property
    def logarithm(self) -> tuple[Any, Any]:
        """Mean and standard deviation of its logarithm, which is normal."""
        return self._mu, self._sigma

    @cached_property
    def _sigma(self) -> Any:
        return np.sqrt(np.log1p(np.square(self.sd / self.mean)))

    @cached_property
    def _mu(self) -> Any:
        return np.log(self.mean) - np.square(self._sigma) / 2

    @property
    def least(self) -> Any:
        return 0.0

    @property
    def longest(self) -> Any:
        return np.exp(self._mu + self._sigma * _NORMAL_EDGES[-1])

    def density(self, t: ArrayLike) -> Array:
        z = self._standard(t)
        return np.exp(-z * z / 2) / (np.maximum(t, 5e-324) * self._sigma * np.sqrt(2 * np.pi))

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        from scipy.special import ndtr

        z = self._standard(t)
        return ndtr(z), np.multiply(t, ndtr(z)) - self.mean * ndtr(z - self._sigma)

    def knots(self) -> list[Any]:
        return [np.exp(self._mu + edge * self._sigma) for edge in _NORMAL_EDGES]

    def draw(self, u: Any) -> Any:
        from scipy.special import ndtri

        return np.exp(self._mu + self._sigma * ndtri(u - 2.0**-54))  # never quite 1

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        standard = [self._standard(knot) for knot in (*knots, *delay.knots())]
        z, weights = _standard_nodes(_NORMAL_EDGES, -np.inf, standard)
        return np.exp(self._mu + self._sigma * z), _normalised(weights * np.exp(-z * z / 2))

    def _standard(self, t: ArrayLike) -> Array:
        # A time of zero or less has chance zero; the least positive double stands in for it.
        return (np.log(np.maximum(t, 5e-324)) - self._mu) / self._sigma


@dataclass(frozen=True)
class Empirical:
    """Equally likely samples, such as recorded dwell times."""

    samples: Array

    @cached_property
    def _sorted(self) -> Array:
        return np.sort(np.asarray(self.samples, float))

    @cached_property
    def _sums(self) -> Array:
        return np.concatenate([[0.0], np.cumsum(self._sorted)])

    @property
    def least(self) -> float:
        return float(self._sorted[0])

    @property
    def longest(self) -> float:
        return float(self._sorted[-1])

    def density(self, t: ArrayLike) -> Array:
        return np.zeros(np.shape(t))

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        reached = np.searchsorted(self._sorted, t, side="right")
        integral = reached * np.asarray(t) - self._sums[reached]
        return reached / len(self._sorted), integral / len(self._sorted)

    def knots(self) -> list[Any]:
        # Against another Empirical law no knots are needed; against a smooth one every sample is one, but of many
        # samples each is but a small step.
        if len(self._sorted) <= _MOST_KNOTS:
            return list(self._sorted)
        return list(self._sorted[np.linspace(0, len(self._sorted) - 1, _MOST_KNOTS).astype(np.int64)])

    def draw(self, u: Any) -> Any:
        return self._sorted[np.ceil(np.multiply(u, len(self._sorted))).astype(np.int64) - 1]

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        axes = max((np.ndim(knot) for knot in (*knots, *delay.knots())), default=0)
        values = self._sorted.reshape((-1,) + (1,) * axes)
        return values, np.full_like(values, 1 / len(values))


@dataclass(frozen=True)
class Stretched:
    """A least time plus a multiple of another law."""

    shift: Any
    factor: Any
    law: Delay

    @property
    def least(self) -> Any:
        return self.shift + self.factor * self.law.least

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        cdf, integral = self.law.cdf_and_integral(self._inner(t))
        return cdf, self.factor * integral

    def density(self, t: ArrayLike) -> Array:
        return self.law.density(self._inner(t)) / self.factor

    def knots(self) -> list[Any]:
        return [self.shift, *(self.shift + self.factor * knot for knot in self.law.knots())]

    def _inner(self, t: ArrayLike) -> Any:
        # A deadline met exactly is met: the roundings of two sums and a product are not lateness.
        return (t - self.shift + _ROUNDING * np.asarray(t)) / self.factor


@dataclass(frozen=True)
class Mixture:
    """One of several delays, each with its share. It need not be smooth or unimodal where they are."""

    shares: tuple[float, ...]
    delays: tuple[Delay, ...]

    @property
    def least(self) -> Any:
        return np.minimum.reduce([each.least for each in self.delays])

    def cdf(self, t: ArrayLike) -> Array:
        return self.cdf_and_integral(t)[0]

    def cdf_and_integral(self, t: ArrayLike) -> tuple[Array, Array]:
        parts = [each.cdf_and_integral(t) for each in self.delays]
        return self._mean([cdf for cdf, _ in parts]), self._mean([integral for _, integral in parts])

    def density(self, t: ArrayLike) -> Array:
        return self._mean([density_from_least(each, t) for each in self.delays])

    def knots(self) -> list[Any]:
        return [knot for each in self.delays for knot in each.knots()]

    def _mean(self, values: list[Any]) -> Any:
        return sum(share * value for share, value in zip(self.shares, values, strict=True))


def density_from_least(delay: Delay, t: ArrayLike) -> Array:
    """The density at any t."""
    return np.where(np.asarray(t) >= delay.least, delay.density(np.maximum(t, delay.least)), 0.0)


@dataclass(frozen=True)
class Traversal:
    """The time to drive a section at a random speed: spread enters through the harmonic mean of v."""

    length_m: Any
    speed: TruncatedNormal

    @property
    def longest(self) -> Any:
        return self.length_m / self.speed.shortest

    def draw(self, u: Any) -> Any:
        return self.length_m / self.speed.draw(u)

    def nodes(self, delay: Delay, *knots: Any) -> Nodes:
        speeds, weights = self.speed.split_at([self.length_m / knot for knot in (*knots, *delay.knots())])
        return self.length_m / speeds, weights


def _standard_nodes(edges: Array, low: Any, knots: list[Any]) -> tuple[Array, Array]:
    """Quadrature over the standardised variable from max(low, first edge) to the last, split at knots."""
    inner = np.broadcast_arrays(low, *edges, *knots)
    # A cut above the mean moves the mass that is left, so the far end moves with it.
    least = np.maximum(low, edges[0])
    most = edges[-1] + np.maximum(low, 0.0)
    return panels(np.clip(np.stack([*inner, most + np.zeros_like(inner[0])]), least, most))


def _normalised(weights: Array) -> Array:
    return weights / weights.sum(axis=0)  # which spares a truncated law its constant


def _normal_call(z: Array) -> Array:
    """E[(Z − z)⁺] of a standard normal Z."""
    from scipy.special import ndtr

    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi) - z * ndtr(-z)
