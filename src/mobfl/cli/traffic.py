"""`mobfl traffic`: crossings from SUMO, from a trace or of a day, as a table."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mobfl.cli.options import (
    gap_option,
    load,
    longest_stay_option,
    need,
    read_trace,
    section_option,
    seed_option,
    takes_scenario,
    trace_option,
    two_numbers,
    working,
)
from mobfl.errors import InputError, counted
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings


@dataclass(frozen=True)
class _Drive:
    """How SUMO drives, as the flags say."""

    duration_s: float | None
    warmup_s: float
    step_s: float
    seed: int

    @property
    def whole_s(self) -> float | None:
        """With the warm-up; None is until the simulation's own end."""
        return None if self.duration_s is None else self.warmup_s + self.duration_s


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
    if section is not None and trace is None and sumo is None and not (day or loaded.is_city):
        raise InputError("--section goes with --trace or --sumo")
    drive = _Drive(duration, warmup, step, seed)
    if day:
        _refuse(
            context, "--day", "sumo", "trace", "section", "lanes", "signal", "duration", "warmup", "step", "keep_tracks"
        )
        from mobfl.mobility.day import Day, day_crossings

        found = day_crossings(Day(loaded.road.length_m), seed)
    elif loaded.is_city:
        _refuse(context, "a scenario that lists its stations", "section", "lanes", "signal", "keep_tracks")
        _drive_city(loaded, sumo, drive, out)
        return
    elif trace is not None:
        _refuse(context, "--trace", "sumo", "lanes", "signal", "duration", "warmup", "step")
        found = read_trace(trace, section, longest_stay_s, keep_tracks, gap_s)
    elif sumo is not None:
        _refuse(context, "--sumo", "lanes", "signal")
        found = _drive_network(sumo, section, drive, keep_tracks)
    else:
        found = _drive_road(loaded, lanes, signal, drive, keep_tracks)
    write_crossings(found, out)
    click.echo(f"{counted(len(found), 'crossing')} in {out}")


def _refuse(context: click.Context, option: str, *others: str) -> None:
    """Options that would do nothing beside this one."""
    given = [name for name in others if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise InputError(f"{option} must come without --{given[0].replace('_', '-')}, got both")


def _drive_road(scenario: Scenario, lanes: int, signal: str | None, drive: _Drive, keep_tracks: bool) -> "Crossings":
    need("traffic from SUMO", "sumo", "libsumo")
    from mobfl.mobility.sumo import Signal, straight_road_crossings

    lights = Signal(*two_numbers("--signal", signal)) if signal else None
    with working("driving", 100) as progress:
        return straight_road_crossings(
            scenario, lanes=lanes, signal=lights, duration_s=3600.0 if drive.duration_s is None else drive.duration_s,
            keep_tracks=keep_tracks, **_common(drive, progress),
        )  # fmt: skip


def _drive_network(sumo: Path, section: str | None, drive: _Drive, keep_tracks: bool) -> "Crossings":
    if section is None:
        raise InputError("--sumo needs a --section of the network")
    need("traffic from SUMO", "sumo", "libsumo")
    from mobfl.mobility.sumo import sumo_crossings

    with working("driving", 100) as progress:
        return sumo_crossings(
            sumo, section, duration_s=drive.whole_s, keep_tracks=keep_tracks, **_common(drive, progress)
        )


def _drive_city(scenario: Scenario, sumo: Path | None, drive: _Drive, out: Path) -> None:
    """One simulation for all stations, written as one table."""
    if sumo is None:
        raise InputError("--sumo must be given where the scenario lists its stations, got none")
    need("traffic from SUMO", "sumo", "libsumo")
    from mobfl.mobility.cities import write_city
    from mobfl.mobility.sumo import sumo_stations
    from mobfl.scenario import listed

    sections = {station.name: station.section for station in listed(scenario)}
    with working("driving", 100) as progress:
        found = sumo_stations(sumo, sections, duration_s=drive.whole_s, **_common(drive, progress))
    write_city(found, out)
    crossings = counted(sum(map(len, found.values())), "crossing")
    click.echo(f"{crossings} of {counted(len(found), 'station')} in {out}")


def _common(drive: _Drive, progress: Callable[[int], None]) -> dict[str, Any]:
    return {
        "warmup_s": drive.warmup_s, "step_s": drive.step_s, "seed": drive.seed,
        "progress": lambda done: progress(round(100 * done)),
    }  # fmt: skip
