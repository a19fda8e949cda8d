"""The traffic of every station of a city, on one clock: recorded, of a corridor, or of sections that nobody shares."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from mobfl.errors import InputError, broken_line
from mobfl.mobility.corridor import VEHICLES, corridor_crossings
from mobfl.mobility.crossings import COLUMNS, Crossings, named
from mobfl.mobility.observed import ObservedTraffic
from mobfl.mobility.participation import taking_part
from mobfl.mobility.poisson import poisson_table
from mobfl.mobility.recorded import check_crossings_file, read_stations
from mobfl.mobility.rows import Row, csv_rows, parquet_rows
from mobfl.mobility.sections import parse_section
from mobfl.mobility.stored import write_table
from mobfl.scenario import Scenario, at_station, listed

_STATION = "station"
_TABLE = (_STATION, *COLUMNS)
Recorded = Mapping[str, Crossings]
"""Recorded crossings by the names of their stations."""


def city_traffic(scenario: Scenario, seed: int, recorded: Recorded | None = None) -> list[ObservedTraffic]:
    """Who passes each station, in the stations' order; a vehicle that passes several has one name in all of them."""
    if recorded is not None:
        return _recorded(scenario, seed, recorded)
    if scenario.corridor is not None:
        tables = corridor_crossings(scenario, seed)
    elif any(each.section for each in scenario.stations):
        raise InputError("stations with a section of their own must come with a trace to read them from, got none")
    else:
        count = len(scenario.stations)
        tables = [poisson_table(at_station(scenario, i), seed, i * VEHICLES).at(i) for i in range(count)]
    return [ObservedTraffic([table], 0.0, math.inf) for table in tables]


def _recorded(scenario: Scenario, seed: int, recorded: Recorded) -> list[ObservedTraffic]:
    """One clock for all: from when the first vehicle has left any section to when the last enters one."""
    names = [station.name for station in listed(scenario)]
    if [*recorded] != names:
        raise InputError(f"crossings must be of the stations {', '.join(names)}, got {', '.join(recorded)}")
    seen = [crossings.observed_s for crossings in recorded.values() if len(crossings)]
    if not seen:
        raise InputError("crossings must not be empty, got none at any station")
    start_s, end_s = min(start for start, _ in seen), max(end for _, end in seen)
    share = scenario.traffic.participation
    tables = [taking_part(crossings.at(i), share, seed) for i, crossings in enumerate(recorded.values())]
    return [ObservedTraffic([table], start_s, end_s) for table in tables]


def read_city(
    scenario: Scenario,
    file: Path,
    longest_stay_s: float | None = None,
    keep_tracks: bool = False,
    gap_s: float | None = None,
) -> dict[str, Crossings]:
    """The crossings at all stations: of their sections in one pass over a file of positions, or of a table of them."""
    stations = listed(scenario)
    if scenario.corridor is not None:
        raise InputError("a corridor makes its own traffic: it must come without a trace, got one")
    if _has_stations(file):
        found = _read_table(file, [station.name for station in stations])
        return found if longest_stay_s is None else {n: each.up_to(longest_stay_s, True) for n, each in found.items()}
    if without := [station.name for station in stations if not station.section]:
        raise InputError(f"station {without[0]} must have a section of the trace, got none")
    sections = {station.name: parse_section(station.section) for station in stations}
    return read_stations(file, sections, keep_tracks=keep_tracks, longest_stay_s=longest_stay_s, gap_s=gap_s)


def write_city(crossings: Recorded, file: Path) -> None:
    """Writes CSV or Parquet with a row per crossing: station, vehicle, enter_s, leave_s."""
    check_crossings_file(file)
    names = [name for name, each in crossings.items() for _ in range(len(each))]
    columns = {
        name: [value for each in crossings.values() for value in getattr(each, name).tolist()] for name in COLUMNS
    }
    write_table({_STATION: named(names)} | {name: named(column) for name, column in columns.items()}, file)


def _has_stations(file: Path) -> bool:
    """Whether it is a table of a city's crossings."""
    if file.suffix not in (".csv", ".parquet") or not file.is_file():
        return False
    with closing(_rows(file)) as rows:
        first = next(rows, None)
    return first is not None and _STATION in first[1]


def _rows(file: Path) -> Generator[Row, None, None]:
    yield from parquet_rows(file, _TABLE) if file.suffix == ".parquet" else csv_rows(file)


def _read_table(file: Path, stations: Sequence[str]) -> dict[str, Crossings]:
    found: dict[str, list[tuple[str, float, float]]] = {name: [] for name in stations}
    for line, row in _rows(file):
        try:
            own, crossing = row[_STATION], (row["vehicle"], float(row["enter_s"]), float(row["leave_s"]))
        except (KeyError, ValueError):
            got = ", ".join(str(row.get(name)) for name in _TABLE)
            raise broken_line(file, line, f"{', '.join(_TABLE)} with times in seconds", got) from None
        if own not in found:
            raise broken_line(file, line, f"a station of the scenario ({', '.join(stations)})", own)
        found[own].append(crossing)
    return {name: _sorted(each) for name, each in found.items()}


def _sorted(rows: Sequence[tuple[str, float, float]]) -> Crossings:
    vehicle, enter_s, leave_s = zip(*rows, strict=True) if rows else ((), (), ())
    return Crossings.sorted(named(vehicle), enter_s, leave_s)
