"""`mobfl simulate`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mobfl.cli.options import (
    console,
    find_traffic,
    gap_option,
    json_option,
    load,
    longest_stay_option,
    need,
    plan_option,
    planning,
    plot_option,
    section_option,
    seed_option,
    takes_scenario,
    trace_option,
    traffic_option,
    working,
)
from mobfl.cli.stations import refuse, simulate_stations
from mobfl.errors import InputError
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings
    from mobfl.policies.adaptive.policy import AdaptivePolicy
    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.simulation import Simulation


@click.command()
@takes_scenario
@plan_option
@trace_option
@section_option
@longest_stay_option
@gap_option
@traffic_option
@click.option("--rounds", default=10_000, show_default=True, help="How many; a shorter trace is used as a whole.")
@seed_option
@json_option
@plot_option
def simulate(
    scenario: str,
    settings: tuple[str, ...],
    wanted: str,
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    gap_s: float | None,
    traffic: str | None,
    rounds: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Run rounds over Poisson or recorded traffic and compare what happens with what the theory promises.

    With --plan adaptive, compare following the traffic with keeping the first plan.
    """
    need("simulation", "simulate", "numba")
    from mobfl.policies.adaptive.policy import AdaptivePolicy
    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.orders import FixedPlan
    from mobfl.rounds.simulation import simulate as run
    from mobfl.servers.anytime import needs_tracks
    from mobfl.servers.names import server_of

    loaded = load(scenario, settings)
    needed = needs_tracks(wanted, loaded)
    crossings, _ = find_traffic(traffic, trace, section, longest_stay_s, loaded, seed, needed, gap_s)
    if loaded.is_city or isinstance(crossings, dict):
        refuse(plot=plot)
        recorded = crossings if isinstance(crossings, dict) else None
        simulate_stations(loaded, wanted, recorded, rounds, seed, as_json)
        return
    with planning():
        schedule = server_of(wanted, None, loaded, crossings).schedule
    policy = getattr(schedule, "policy", None)
    if isinstance(policy, AdaptivePolicy):
        _follow(loaded, policy, rounds, seed, crossings, as_json, plot)
        return
    if not isinstance(policy, FixedPlan):
        raise InputError(f"--plan must be H,T, mobfl, anytime or adaptive to be simulated, got {wanted!r}")
    with working("simulating", rounds) as progress:
        result = run(loaded, policy.local_steps, policy.round_s, rounds, seed, crossings, progress)
    if not isinstance(result, AnytimeSimulation):
        result = _advised(result, "objective" in schedule.describe())
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    if isinstance(result, AnytimeSimulation):
        _show_anytime(result, as_json, plot)
    else:
        _show(result, as_json, plot)


def _show(result: "Simulation", as_json: bool, plot: Path | None) -> None:
    if plot is not None:
        from mobfl.figures import draw_simulation

        draw_simulation(result, plot)
    if not as_json:
        from mobfl.cli.tables.simulations import print_simulation

        print_simulation(console(), result)


def _advised(result: "Simulation", planned: bool) -> "Simulation":
    """With what to do about traffic that is not Poisson, if the plan was not made from it anyway."""
    if result.warning is None:
        return result
    advice = "this plan was made from the crossings and allows for it" if planned else "plan from the crossings instead"
    return replace(result, warning=f"{result.warning}; {advice}")


def _show_anytime(result: "AnytimeSimulation", as_json: bool, plot: Path | None) -> None:
    if plot is not None:
        from mobfl.figures import draw_anytime_simulation

        draw_anytime_simulation(result, plot)
    if not as_json:
        from mobfl.cli.tables.simulations import print_anytime_simulation

        print_anytime_simulation(console(), result)


def _follow(
    loaded: Scenario,
    policy: "AdaptivePolicy",
    rounds: int,
    seed: int,
    crossings: "Crossings | None",
    as_json: bool,
    plot: Path | None,
) -> None:
    from mobfl.policies.adaptive.following import follow

    with working("simulating", rounds) as progress:
        result = follow(loaded, rounds, seed, crossings, policy.settings, progress, policy.chooser)
    if plot is not None:
        from mobfl.figures import draw_following

        draw_following(result.notes, plot, loaded.road.length_m)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        from mobfl.cli.tables.simulations import print_following

        print_following(console(), result)
