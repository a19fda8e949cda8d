"""What `mobfl plan` and `mobfl simulate` do where a scenario lists its stations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import INFEASIBLE, console, need, planning, working
from mobfl.errors import InputError
from mobfl.planning.planner import plan as best_plan
from mobfl.planning.plans import Plan
from mobfl.scenario import Scenario, at_station, listed

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings

    Recorded = dict[str, Crossings]


def refuse(**given: Any) -> None:
    """Options that are for one station."""
    for option, value in given.items():
        if value is not None:
            name = option.replace("_", "-")
            raise InputError(f"--{name} is for one station, got a scenario that lists its stations")


def plan_stations(
    scenario: Scenario, title: str, crossings: "Recorded | None", plot: Path | None, as_json: bool
) -> int:
    """Plans every station by itself, and returns the exit status."""
    stations = listed(scenario)
    with working("planning", len(stations)) as progress:
        plans = list[Plan]()
        for place, station in enumerate(stations):
            passing = None if crossings is None else crossings[station.name]
            plans.append(_plan_of(station.name, at_station(scenario, place), passing))
            progress(place + 1)
    sections = {station.name: station.section for station in stations}
    if plot is not None:
        from mobfl.figures import draw_stations

        draw_stations(_told(sections, plans), plot)
    if as_json:
        impossible = [name for name, each in zip(sections, plans, strict=True) if each.reason is not None]
        reason = f"no plan is possible at {', '.join(impossible)}" if impossible else None
        click.echo(
            json.dumps({"status": _status(plans), "reason": reason, "stations": _told(sections, plans)}, indent=2)
        )
    else:
        from mobfl.cli.tables.stations import print_station_plans

        print_station_plans(console(), title, sections, plans)
    return 0 if _status(plans) == "ok" else INFEASIBLE


def _told(sections: Mapping[str, str], plans: Sequence[Plan]) -> list[dict[str, Any]]:
    rows = zip(sections.items(), plans, strict=True)
    return [{"name": name, "section": section, **plan.to_dict()} for (name, section), plan in rows]


def _status(plans: list[Plan]) -> str:
    return "ok" if all(each.reason is None for each in plans) else "infeasible"


def _plan_of(station: str, scenario: Scenario, crossings: "Crossings | None") -> Plan:
    """Of one station, which is named where its plan cannot be asked for."""
    try:
        return _plan(scenario, crossings)
    except InputError as error:
        raise InputError(f"station {station}: {line}" for line in error.lines) from None


def _plan(scenario: Scenario, crossings: "Crossings | None") -> Plan:
    if crossings is not None and not len(crossings):
        return Plan("infeasible", reason="nobody crosses its section")
    if scenario.radio is None:
        return best_plan(scenario, crossings)
    need("a plan by simulation", "simulate", "numba")
    from mobfl.rounds.planned import plan_by_simulation

    return plan_by_simulation(scenario, crossings=crossings)


def simulate_stations(
    scenario: Scenario, wanted: str, crossings: "Recorded | None", rounds: int, seed: int, as_json: bool
) -> None:
    """Runs every station's rounds over the city's traffic."""
    from mobfl.mobility.cities import city_traffic
    from mobfl.rounds.orders import FixedPlan
    from mobfl.rounds.simulation import Simulation
    from mobfl.rounds.simulation import simulate as run
    from mobfl.servers.names import server_of

    results = dict[str, Simulation]()
    traffic = city_traffic(scenario, seed, crossings)
    for place, station in enumerate(listed(scenario)):
        road = at_station(scenario, place)
        recorded = None if crossings is None else crossings[station.name]
        with planning():
            policy = getattr(server_of(station.plan or wanted, None, road, recorded).schedule, "policy", None)
        if not isinstance(policy, FixedPlan) or not isinstance(policy.local_steps, int):
            raise InputError(f"--plan must be H,T or mobfl to be simulated at several stations, got {wanted!r}")
        (there,) = traffic[place].crossings
        with working(f"simulating {station.name}", rounds) as progress:
            found = run(road, policy.local_steps, policy.round_s, rounds, seed, there, progress)
        if not isinstance(found, Simulation):
            raise InputError(f"--plan must be H,T or mobfl to be simulated at several stations, got {wanted!r}")
        results[station.name] = found
    if as_json:
        told = [{"name": name, **each.to_dict()} for name, each in results.items()]
        click.echo(json.dumps({"stations": told}, indent=2))
    else:
        from mobfl.cli.tables.stations import print_station_rounds

        print_station_rounds(console(), results)
