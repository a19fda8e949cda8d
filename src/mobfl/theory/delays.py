"""How long download, local steps and upload take: the one place that adds delays up.

A vehicle downloads, takes n local steps in n·(α + X) seconds, and uploads. X has mean β and is drawn once per attempt;
its law, α and β are those of the vehicle's class. Numbers may be arrays with one entry per road.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.scenario import Compute, Law, Scenario
from mobfl.theory.distributions import Constant, Delay, Empirical, LogNormal, Mixture, ShiftedExponential, Stretched

Array = NDArray[np.float64]

# Jitter below this share of the least step time cannot be told from none, and would overflow Ξ/(βH).
_LEAST_JITTER = 1e-12


class StepLaws(NamedTuple):
    """The times of H local steps as compiled code wants them: arrays with one entry per class."""

    law: NDArray[np.int64]  # EXPONENTIAL, LOGNORMAL or MEASURED
    share: Array
    least_s: Array  # αH
    extra_s: Array  # βH
    mu: Array  # mean and standard deviation of log(HX), where X is lognormal
    sigma: Array
    samples_s: Array  # H times what was measured above α, in order, class after class
    first: NDArray[np.int64]  # where those of a class begin, with the end of the last


EXPONENTIAL, LOGNORMAL, MEASURED = range(3)


@dataclass(frozen=True)
class StepTimes:
    """How long local steps take in one class of vehicles."""

    min_step_s: Any  # α
    extra_step_s: Any  # β, the mean of X
    share: float = 1.0  # of the vehicles that arrive
    name: str = "all"
    law: Law = "exponential"
    extra_sd_s: float = 0.0  # of X where it is lognormal
    extra_samples_s: Array | None = None  # values of X, equally likely, where it was measured

    @classmethod
    def of(cls, compute: Compute, share: float = 1.0, name: str = "all") -> "StepTimes":
        measured = None if compute.step_samples is None else np.sort(compute.step_samples) - compute.min_step_s
        numbers = compute.min_step_s, compute.extra_step_s
        return cls(*numbers, share, name, compute.law, compute.spread_s, measured)

    @cached_property
    def jitters(self) -> Any:
        """Whether the time of a local step is random, for every road."""
        return self.extra_step_s > _LEAST_JITTER * self.min_step_s

    @property
    def exact(self) -> bool:
        """Whether Λ is concave in T beyond T_min(H), so that the best T is a root and needs no search."""
        return self.law == "exponential" or not self.jitters

    @property
    def may_be_least(self) -> Any:
        """Whether steps take their least time with a chance above zero."""
        return np.asarray(self.extra_step_s == 0) | (self.law == "measured")

    def delay(self, least_s: Any, h: Any) -> Delay:
        """The time of H steps and of whatever takes the rest of `least_s`."""
        if not agree("steps jitter", self.jitters):
            return Constant(least_s)
        if self.law == "lognormal":
            return Stretched(least_s, h, LogNormal(self.extra_step_s, self.extra_sd_s))
        if self.extra_samples_s is not None:
            return Stretched(least_s, h, Empirical(self.extra_samples_s))
        return ShiftedExponential(least_s, self.extra_step_s * h)

    def law_of(self, h: int) -> tuple[int, float, float, float, float, Array]:
        """Law, αH, βH, mean and standard deviation of log(HX), and H times what was measured above α."""
        code, (mu, sigma), samples_s = EXPONENTIAL, (0.0, 1.0), np.empty(0)
        if self.law == "lognormal" and self.jitters:
            code, (mu, sigma) = LOGNORMAL, LogNormal(self.extra_step_s * h, self.extra_sd_s * h).logarithm
        elif self.extra_samples_s is not None and self.jitters:
            code, samples_s = MEASURED, h * self.extra_samples_s
        return code, self.min_step_s * h, self.extra_step_s * h, mu, sigma, samples_s

    def take(self, roads: ArrayLike) -> "StepTimes":
        alpha, beta = (taken(column, roads) for column in (self.min_step_s, self.extra_step_s))
        return replace(self, min_step_s=alpha, extra_step_s=beta)


@dataclass(frozen=True)
class Delays:
    """What every part of mobfl asks about delays; with one class, the paper's."""

    download_s: Any
    upload_s: Any
    classes: tuple[StepTimes, ...]

    @classmethod
    def of(cls, scenario: Scenario) -> "Delays":
        if scenario.lacks_sizes:
            raise sizes_missing("rates" if scenario.radio is None else "radio")
        if scenario.radio is not None:
            raise InputError(
                "the scenario has a radio, so how long transfers take depends on places and on who else sends: plan by"
                " simulation"
            )
        return replace(cls.of_steps(scenario), download_s=scenario.link.download_s, upload_s=scenario.link.upload_s)

    @classmethod
    def of_steps(cls, scenario: Scenario) -> "Delays":
        """Those of local steps alone: transfers are somebody else's matter, and take no time here."""
        return cls(0.0, 0.0, tuple(StepTimes.of(each.compute, each.share, each.name) for each in scenario.classes))

    @classmethod
    def paper(cls, download_s: Any, upload_s: Any, min_step_s: Any, extra_step_s: Any) -> "Delays":
        """One class of vehicles whose steps jitter exponentially: floats, or arrays with one entry per road."""
        return cls(download_s, upload_s, (StepTimes(min_step_s, extra_step_s),))

    @cached_property
    def transfer_s(self) -> Any:
        """τ_down + τ_up."""
        return self.download_s + self.upload_s

    @property
    def only_class(self) -> StepTimes:
        """For those who know only one."""
        if len(self.classes) > 1:
            raise InputError(f"fleet must have one class here, got {len(self.classes)}")
        return self.classes[0]

    @property
    def exact(self) -> bool:
        """Whether the best T of every class alone is a root."""
        return all(each.exact for each in self.classes)

    @cached_property
    def min_step_s(self) -> Any:
        """α of the quickest class."""
        return _least([each.min_step_s for each in self.classes])

    @property
    def mean_min_step_s(self) -> Any:
        """α of a vehicle at random."""
        return sum(each.share * each.min_step_s for each in self.classes)

    @property
    def mean_extra_step_s(self) -> Any:
        """β of a vehicle at random."""
        return sum(each.share * each.extra_step_s for each in self.classes)

    @cached_property
    def quickest_may_be_least(self) -> Any:
        """Whether the least delay of all comes with a chance above zero."""
        if len(self.classes) == 1:
            return self.classes[0].may_be_least
        quickest = (each.may_be_least & (each.min_step_s == self.min_step_s) for each in self.classes)
        return np.logical_or.reduce(list(quickest))

    def least_s(self, local_steps: ArrayLike) -> Any:
        """T_min(H) = αH + τ_down + τ_up, of the quickest class."""
        return self.min_step_s * np.asarray(local_steps) + self.transfer_s

    def least_by_class_s(self, local_steps: ArrayLike) -> list[Any]:
        """T_min(H) of every class."""
        return [each.min_step_s * np.asarray(local_steps) + self.transfer_s for each in self.classes]

    def compute(self, h: Any) -> Delay:
        """The time that H steps take on a vehicle at random."""
        return self._mixed([each.delay(each.min_step_s * h, h) for each in self.classes])

    def total(self, h: Any) -> Delay:
        """S of H steps on a vehicle at random: download, steps and upload."""
        if len(self.classes) == 1:
            return self.classes[0].delay(self.least_s(h), h)
        return self._mixed([delay for _, delay in self.by_class(h)])

    def by_class(self, h: Any) -> Iterator[tuple[float, Delay]]:
        """The share of every class, and S of H steps in it."""
        for each, least_s in zip(self.classes, self.least_by_class_s(h), strict=True):
            yield each.share, each.delay(least_s, h)

    def _mixed(self, delays: list[Delay]) -> Delay:
        return delays[0] if len(delays) == 1 else Mixture(tuple(each.share for each in self.classes), tuple(delays))

    def laws(self, local_steps: int) -> StepLaws:
        """What a draw or a chance needs, in arrays."""
        steps = [each.law_of(local_steps) for each in self.classes]
        codes, *numbers, samples_s = zip(*steps, strict=True)
        first = np.cumsum([0, *map(len, samples_s)])
        shares = np.array([each.share for each in self.classes])
        least_s, extra_s, mu, sigma = np.array(numbers, float)
        return StepLaws(np.array(codes), shares, least_s, extra_s, mu, sigma, np.concatenate(samples_s), first)

    def stages_s(self, begin_s: Array, compute_s: Array) -> tuple[Array, Array, Array]:
        """When steps begin, when the upload begins and when it is done, of downloads that begin at these times."""
        train = begin_s + self.download_s
        upload = train + compute_s
        return train, upload, upload + self.upload_s

    def take(self, roads: ArrayLike) -> "Delays":
        """The delays of the chosen roads; a single road's numbers fit any choice as they are."""
        numbers = taken(self.download_s, roads), taken(self.upload_s, roads)
        return Delays(*numbers, tuple(each.take(roads) for each in self.classes))


def sizes_missing(given: str) -> InputError:
    """Where there are rates or a radio, and nobody says how many bytes travel."""
    return InputError(
        f"link.model_bytes must be given with the {given} where no task is trained, got none: how long transfers take"
        " is unknown"
    )


def taken(column: Any, roads: ArrayLike) -> Any:
    return column[roads] if np.ndim(column) else column


def agree(what: str, answers: Any) -> bool:
    """The one answer of all roads."""
    if not isinstance(answers, np.ndarray):
        return bool(answers)
    if answers.any() and not answers.all():
        raise InputError(f"roads must agree on whether {what}, got some that do and some that do not")
    return bool(answers.any())


def _least(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else np.minimum.reduce(values)
