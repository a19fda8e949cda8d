"""A quick plan for a road with a radio: transfer times and the exact plan for them, in turns until they agree.

It knows crowds only by their mean. Its error against simulation is in docs/guides/radio.md.
"""

import math
from dataclasses import replace

from mobfl.planning.planner import plan
from mobfl.planning.plans import Plan
from mobfl.scenario import MOST, AnyScenario, Scenario, scenario_of
from mobfl.theory import stay
from mobfl.theory.crowd import Transfers, least_transfers, mean_transfers, transfers_alone

_MOST_TURNS = 60
_SETTLED = 1e-4  # a share of the transfer times


def plan_quickly(scenario: AnyScenario) -> Plan:
    """The H and T that maximise g for the mean transfer times that they themselves cause.

    Args:
        scenario: With a radio and the link's sizes.
    """
    scenario = scenario_of(scenario)
    if (reason := too_narrow(scenario)) is not None:
        return Plan("infeasible", reason=reason, planner="fixed-point")
    alone = transfers_alone(scenario)
    first = plan(in_seconds(scenario, alone))
    if first.reason is not None:
        return replace(first, planner="fixed-point")
    times, tried = alone, list[tuple[Plan, Transfers]]()
    for _ in range(_MOST_TURNS):
        found = plan(in_seconds(scenario, times))
        if found.reason is not None:  # where nobody can upload, nobody is in anybody's way
            times = _between(times, alone)
            continue
        caused = mean_transfers(scenario, *found.numbers[:2])
        tried.append((_as_caused(scenario, found, caused), caused))
        if _apart(times, caused) < _SETTLED:
            return _promising(*tried[-1])
        times = _between(times, caused)
    return _promising(*max(tried, key=lambda each: each[0].numbers[2]))


def as_constants(scenario: Scenario) -> Scenario:
    """The scenario with the seconds that its quick plan causes instead of its radio, if it has one.

    Where there is no quick plan, they are those of vehicles that are alone.
    """
    if scenario.radio is None:
        return scenario
    found = plan_quickly(scenario)
    alone = found.reason is not None
    times = transfers_alone(scenario) if alone else mean_transfers(scenario, *found.numbers[:2])
    return in_seconds(scenario, times)


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


def _as_caused(scenario: Scenario, found: Plan, times: Transfers) -> Plan:
    """What H and T promise with the transfer times that they cause."""
    h, t, _ = found.numbers
    return replace(Plan.at(in_seconds(scenario, times), h, t), planner="fixed-point")


def _promising(found: Plan, times: Transfers) -> Plan:
    """No plan if it promises nothing."""
    if found.numbers[2] > 0:
        return found
    reason = (
        f"a download takes {times.download_s:.3g} s and an upload {times.upload_s:.3g} s on average where so many share"
        " the band, and no vehicle that takes as long is in time: plan by simulation, which knows that those near the"
        " station need less, widen the band, or send fewer bytes (link.model_bytes)"
    )
    return Plan("infeasible", reason=reason, planner="fixed-point")


def _apart(a: Transfers, b: Transfers) -> float:
    pairs = ((a.download_s, b.download_s), (a.upload_s, b.upload_s))
    return max(abs(math.log(x / y)) for x, y in pairs)


def _between(a: Transfers, b: Transfers) -> Transfers:
    means = (math.sqrt(x * y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))
    return Transfers(*means)
