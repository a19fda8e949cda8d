"""`mobfl simulate` and `mobfl traffic`."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mobfl.cli.options import (
    console,
    find_traffic,
    gap_option,
    json_option,
    load,
    longest_stay_option,
    need,
    plan_option,
    plot_option,
    read_trace,
    section_option,
    seed_option,
    takes_scenario,
    trace_option,
    traffic_option,
    two_numbers,
    working,
)
from mobfl.cli.stations import refuse, simulate_stations
from mobfl.errors import InputError, counted
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


def _refuse(context: click.Context, option: str, *others: str) -> None:
    """Options that would do nothing beside this one."""
    given = [name for name in others if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise InputError(f"{option} must come without --{given[0].replace('_', '-')}, got both")


@click.command()
@takes_scenario
@click.option("--sumo", type=click.Path(path_type=Path), metavar="FILE.sumocfg", help="Your own SUMO configuration.")
@trace_option
@section_option
@longest_stay_option
@gap_option
@click.option("--lanes", default=1, show_default=True, help="Lanes of the generated road.")
@click.option("--signal", metavar="CYCLE,GREEN", help="Seconds of a traffic light where the section begins.")
@click.option("--day", is_flag=True, help="A day with two rush hours and a signal from noon on, without SUMO.")
@click.option("--duration", type=float, metavar="S", help="Seconds to simulate after the warm-up.")
@click.option("--warmup", default=300.0, show_default=True, metavar="S", help="Seconds at the start to leave out.")
@click.option("--step", default=0.5, show_default=True, metavar="S", help="SUMO's step, at most 0.5 s.")
@click.option("--keep-tracks", is_flag=True, help="Also where everybody was, in FILE.tracks.csv or .parquet beside it.")
@seed_option
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .csv or .parquet file.")
@click.pass_context
def traffic(
    context: click.Context,
    scenario: str,
    settings: tuple[str, ...],
    sumo: Path | None,
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    gap_s: float | None,
    lanes: int,
    signal: str | None,
    day: bool,
    duration: float | None,
    warmup: float,
    step: float,
    keep_tracks: bool,
    seed: int,
    out: Path,
) -> None:
    """Let SUMO drive, or read a trace, and write who crossed the section when.

    With --trace, recorded positions become a table of crossings, which every command reads. With --sumo, your own
    simulation and --section of it; else a straight road with SCENARIO's length, arrivals and speeds, behind a traffic
    light if you say so. --day needs no SUMO, and of SCENARIO only the section's length.
    """
    need("traffic", "simulate", "numba")
    from mobfl.mobility.recorded import check_crossings_file, write_crossings

    loaded = load(scenario, settings)
    check_crossings_file(out)
    if duration is not None and not 0 < duration < math.inf:
        raise InputError(f"--duration must be > 0 s, got {duration:g}")
    if trace is None and (longest_stay_s is not None or gap_s is not None):
        raise InputError("--longest-stay and --gap go with --trace")
    if day:
        _refuse(
            context, "--day", "sumo", "trace", "section", "lanes", "signal", "duration", "warmup", "step", "keep_tracks"
        )
        from mobfl.mobility.day import Day, day_crossings

        crossings = day_crossings(Day(loaded.road.length_m), seed)
        write_crossings(crossings, out)
        click.echo(f"{counted(len(crossings), 'crossing')} in {out}")
        return
    if loaded.is_city:
        _refuse(context, "a scenario that lists its stations", "section", "lanes", "signal", "keep_tracks")
        if sumo is None:
            raise InputError("--sumo must be given where the scenario lists its stations, got none")
        need("traffic from SUMO", "sumo", "libsumo")
        _drive_city(loaded, sumo, out, duration=duration, warmup=warmup, step=step, seed=seed)
        return
    if trace is not None:
        _refuse(context, "--trace", "sumo", "lanes", "signal", "duration", "warmup", "step")
        found = read_trace(trace, section, longest_stay_s, keep_tracks, gap_s)
        assert found is not None  # for there is a trace
        write_crossings(found, out)
        click.echo(f"{len(found)} crossings in {out}")
        return
    if sumo is not None:
        _refuse(context, "--sumo", "lanes", "signal")
    need("traffic from SUMO", "sumo", "libsumo")
    from mobfl.mobility.sumo import Signal, straight_road_crossings, sumo_crossings

    lights = Signal(*two_numbers("--signal", signal)) if signal else None
    with working("driving", 100) as progress:

        def share(done: float) -> None:
            progress(round(100 * done))

        common: dict[str, Any] = {
            "warmup_s": warmup, "step_s": step, "seed": seed, "keep_tracks": keep_tracks, "progress": share,
        }  # fmt: skip
        if sumo is None:
            seconds = 3600.0 if duration is None else duration
            crossings = straight_road_crossings(loaded, lanes=lanes, signal=lights, duration_s=seconds, **common)
        elif section is None:
            raise InputError("--sumo needs a --section of the network")
        else:
            total = None if duration is None else warmup + duration
            crossings = sumo_crossings(sumo, section, duration_s=total, **common)
    write_crossings(crossings, out)
    click.echo(f"{counted(len(crossings), 'crossing')} in {out}")


def _drive_city(
    scenario: Scenario, sumo: Path, out: Path, *, duration: float | None, warmup: float, step: float, seed: int
) -> None:
    """One simulation for all stations, written as one table."""
    from mobfl.mobility.cities import write_city
    from mobfl.mobility.sumo import sumo_stations
    from mobfl.scenario import listed

    sections = {station.name: station.section for station in listed(scenario)}
    with working("driving", 100) as progress:
        found = sumo_stations(
            sumo, sections, duration_s=None if duration is None else warmup + duration, warmup_s=warmup, step_s=step,
            seed=seed, progress=lambda done: progress(round(100 * done)),
        )  # fmt: skip
    write_city(found, out)
    crossings = counted(sum(map(len, found.values())), "crossing")
    click.echo(f"{crossings} of {counted(len(found), 'station')} in {out}")
