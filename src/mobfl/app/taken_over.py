"""A recorded trace as a scenario: Poisson arrivals as frequent, and stays as long and as spread, as there."""

from typing import Any

from scipy.optimize import brentq

from mobfl import theory
from mobfl.mobility.crossings import Crossings
from mobfl.scenario import Scenario
from mobfl.theory.distributions import Constant, average

_MOST_SPREAD = 0.999  # of the mean speed, which is as much as a scenario may have
_LEAST_SPREAD = 1e-3
_DIGITS = 6


def taken_over(scenario: Scenario, crossings: Crossings) -> dict[str, float]:
    """What to set so that the scenario's road, of the length it has, is like the trace.

    A spread of stays beyond what any spread of speeds makes is taken as the greatest there is.
    """
    mean_s, sd_s = float(crossings.dwell_s.mean()), float(crossings.dwell_s.std())
    share = _speed_spread(scenario, sd_s / mean_s)
    speed_mps = _stay(scenario, 1.0, share)[0] / mean_s
    values = {
        "traffic.arrivals_per_s": crossings.arrivals_per_s,
        "traffic.speed_mps": speed_mps,
        "traffic.speed_sd_mps": share * speed_mps,
    }
    return {key: float(f"{value:.{_DIGITS}g}") for key, value in values.items()}


def _speed_spread(scenario: Scenario, wanted: float) -> float:
    """The standard deviation of speeds, as a share of their mean, with which stays have this one."""

    def too_much(share: float) -> float:
        mean_s, sd_s = _stay(scenario, 1.0, share)
        return sd_s / mean_s - wanted

    if too_much(_LEAST_SPREAD) >= 0:
        return 0.0
    if too_much(_MOST_SPREAD) <= 0:
        return _MOST_SPREAD
    return float(brentq(too_much, _LEAST_SPREAD, _MOST_SPREAD, xtol=1e-9))


def _stay(scenario: Scenario, speed_mps: float, share: float) -> tuple[float, float]:
    """Mean and standard deviation of the stays at this mean speed."""
    values: dict[str, Any] = {"traffic.speed_mps": speed_mps, "traffic.speed_sd_mps": share * speed_mps}
    road = scenario.with_values(values)
    nodes, weights = theory.stay(road).nodes(Constant(road.dwell_s))
    mean_s = float(average(nodes, weights))
    return mean_s, max(float(average((nodes - mean_s) ** 2, weights)), 0.0) ** 0.5
