"""A quick plan for a road with a radio: transfer times and the exact plan for them, in turns until they agree.

It knows crowds only by their mean. Its error against simulation is in docs/guides/radio.md.
"""

import math
from dataclasses import replace

from mobfl.planning.planner import plan
from mobfl.planning.plans import Plan
from mobfl.scenario import MOST, Scenario
from mobfl.theory import stay
from mobfl.theory.crowd import Transfers, least_transfers, mean_transfers, transfers_alone

_MOST_TURNS = 60
_SETTLED = 1e-4  # a share of the transfer times


def plan_quickly(scenario: Scenario) -> Plan:
    """The H and T that maximise g for the mean transfer times that they themselves cause.

    Args:
        scenario: With a radio and the link's sizes.
    """
    if (reason := too_narrow(scenario)) is not None:
        return Plan("infeasible", reason=reason, planner="fixed-point")
    alone = transfers_alone(scenario)
    times, best = alone, plan(in_seconds(scenario, alone))
    if best.reason is not None:
        return replace(best, planner="fixed-point")
    for _ in range(_MOST_TURNS):
        found = plan(in_seconds(scenario, times))
        # Where nobody can upload, nobody is in anybody's way.
        caused = alone if found.reason is not None else mean_transfers(scenario, *found.numbers[:2])
        best = best if found.reason is not None else found
        if _apart(times, caused) < _SETTLED:
            break
        times = _between(times, caused)
    return _as_caused(scenario, best)


def in_seconds(scenario: Scenario, times: Transfers) -> Scenario:
    """The scenario with these seconds instead of its radio."""
    seconds = {"download_s": min(times.download_s, MOST), "upload_s": min(times.upload_s, MOST)}
    return scenario.with_values({"radio": None, "link": seconds})


def too_narrow(scenario: Scenario) -> str | None:
    """Why nobody can ever upload over this radio, and what would help; None where somebody can."""
    least, longest_s = least_transfers(scenario), float(stay(scenario).longest)
    for what, needed_s, sender in (("upload", least.upload_s, "vehicle"), ("download", least.download_s, "station")):
        if needed_s > longest_s:
            return (
                f"{'an' if what == 'upload' else 'a'} {what} alone takes {needed_s:.3g} s where the radio is best but"
                f" vehicles leave after {longest_s:.3g} s: widen radio.{what.replace('load', 'link')}_hz, raise"
                f" radio.{sender}_dbm, or send fewer bytes (link.{what}_bytes)"
            )
    return None


def _as_caused(scenario: Scenario, best: Plan) -> Plan:
    """What H and T promise with the transfer times that they cause."""
    h, t, _ = best.numbers
    return replace(Plan.at(in_seconds(scenario, mean_transfers(scenario, h, t)), h, t), planner="fixed-point")


def _apart(a: Transfers, b: Transfers) -> float:
    pairs = ((a.download_s, b.download_s), (a.upload_s, b.upload_s))
    return max(abs(math.log(x / y)) for x, y in pairs)


def _between(a: Transfers, b: Transfers) -> Transfers:
    means = (math.sqrt(x * y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))
    return Transfers(*means)
