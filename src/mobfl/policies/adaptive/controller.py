"""The controller: estimates the road from what a base station sees, and changes the plan when that pays."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from mobfl.errors import InputError
from mobfl.planning.planner import plan
from mobfl.policies.adaptive.arrivals import ArrivalRate
from mobfl.policies.adaptive.bunching import Bunching
from mobfl.policies.adaptive.choices import Chooser, OneH
from mobfl.policies.adaptive.delays import DelayEstimate, ReplyDelays
from mobfl.policies.adaptive.observed import Observed
from mobfl.policies.adaptive.stays import Stays
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.orders import Order
from mobfl.scenario import Scenario
from mobfl.theory import Conditions, Delays


@dataclass(frozen=True)
class Settings:
    """How quickly the controller forgets, and how readily it changes."""

    memory_s: float = 600.0  # the time constant of forgetting
    worth: float = 0.03  # the gain in g (or v) that a change must promise
    evidence: float = 10.0  # vehicles that came since the last look at the plan, or should have come
    factor: float = 2.0  # by which H and T change at most at a time
    every_s: float = 60.0  # how often it is told what was seen, at least a round
    prior: float = 3.0  # vehicles that the scenario's values count as

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least, may_be_least = 1 if name == "factor" else 0, name in ("worth", "evidence")
            if not (least < value < math.inf or (may_be_least and value == least)):
                sign = ">=" if may_be_least else ">"
                raise InputError(f"adaptive's {name} must be {sign} {least}, got {value:g}")


@dataclass(frozen=True)
class Knowledge:
    """The estimates, each with its 95 % interval, and how bunched arrivals are."""

    arrivals_per_s: Estimate
    stay_s: Estimate
    delay: DelayEstimate
    variance_to_mean: float


class Controller:
    """Starts with the plan for the scenario, which is its prior; then it is told what was seen and gives orders."""

    def __init__(self, prior: Scenario, settings: Settings, chooser: Chooser | None = None) -> None:
        road, self._chooser = Conditions.of(prior), chooser or OneH()
        start = self._chooser.best(prior)
        if start is None:
            raise InputError(f"an adaptive plan must start from a feasible one: {plan(prior).reason}")
        self._settings, self._noise, self._now = settings, prior.training.noise_uploads, start
        self._rate = ArrivalRate(road.arrivals_per_s, settings.prior, settings.memory_s)
        self._stays = Stays(road.dwell, settings.prior, settings.memory_s)
        # It knows one class: of a fleet, the vehicle at random.
        delay = (road.delays.transfer_s, road.delays.mean_min_step_s, road.delays.mean_extra_step_s)
        self._delays = ReplyDelays(delay, settings.prior, settings.memory_s)
        self._bunching = Bunching(2 * settings.memory_s)
        self._evidence = 0.0
        self.changes = 0

    def order(self) -> Order:
        """The present plan, for as many rounds as it takes until the next look."""
        steps, t = self._now
        told = self._chooser.told(steps, self._stays.mean_s())
        return Order(told, t, max(1, round(self._settings.every_s / t)))

    def observe(self, seen: Observed) -> None:
        """Takes in what was seen, and changes the plan if that is worth it."""
        for part in (self._rate, self._stays, self._delays, self._bunching):
            part.add(seen)
        expected = self._rate.value * (seen.end_s - seen.start_s)
        # Who stays away is evidence too, and so is everybody who was there if not one of them replied.
        silent = 0 if np.isfinite(seen.reply_s).any() else len(seen.window_s)
        self._evidence += max(float(len(seen.arrived_s)), expected, silent)
        if self._evidence >= self._settings.evidence:
            self._evidence = 0.0
            self._reconsider(self._estimated())

    def knowledge(self) -> Knowledge:
        return Knowledge(
            self._rate.estimate(), self._stays.estimate(), self._delays.estimate(), self._bunching.variance_to_mean
        )

    def _estimated(self) -> Conditions:
        """The road if arrivals were Poisson and all stayed as long as they do on average.

        Neither spread stays nor a signal move the best H and T by much: behind a signal g promises too much, but the
        plan that it leads to is nearly the best there too (measured in docs/guides/adaptive.md).
        """
        transfer_s, min_step_s, extra_step_s = self._delays.values()
        delays = Delays.paper(transfer_s, 0.0, min_step_s, extra_step_s)
        return Conditions(self._rate.value, self._stays.mean_s(), 1.0, 0.0, delays, self._noise)

    def _reconsider(self, road: Conditions) -> None:
        other = self._chooser.next_choice(road, self._now, self._settings.factor)
        if other is None:
            return  # nothing fits into such stays: better to keep what once did
        now, then = self._chooser.objective(road, [self._now, other])
        # Where the present plan promises nothing any step towards the best one is worth it.
        if other != self._now and (then > (1 + self._settings.worth) * now or now == 0):
            self._now = other
            self.changes += 1
