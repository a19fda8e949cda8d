"""The traffic of every station of a city, on one clock: recorded, of a corridor, or of sections that nobody shares."""

import math
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError, broken_line
from mobfl.files.bounds import in_sentences
from mobfl.mobility.corridor import VEHICLES, corridor_crossings
from mobfl.mobility.crossings import COLUMNS, Crossings, named
from mobfl.mobility.observed import ObservedTraffic
from mobfl.mobility.participation import taking_part
from mobfl.mobility.poisson import poisson_table
from mobfl.mobility.recorded import CrossingRows, check_crossings_file, ending, read_stations
from mobfl.mobility.rows import Row, csv_rows, parquet_rows
from mobfl.mobility.sections import parse_section
from mobfl.mobility.stored import write_table
from mobfl.scenario import Scenario, at_station, listed

_STATION, _CUT = "station", "cut"
_TABLE = (_STATION, *COLUMNS, _CUT)
_TABLES = (".csv", ".parquet")
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
    with in_sentences("trace", file):
        found = _read_table(file, [station.name for station in stations]) if _has_stations(file) else None
    if found is not None:
        return found if longest_stay_s is None else {n: each.up_to(longest_stay_s, True) for n, each in found.items()}
    if without := [station.name for station in stations if not station.section]:
        raise InputError(
            f"station {without[0]} must have a section, or trace {str(file)!r} a column {_STATION}, got neither"
        )
    sections = {station.name: parse_section(station.section) for station in stations}
    return read_stations(file, sections, keep_tracks=keep_tracks, longest_stay_s=longest_stay_s, gap_s=gap_s)


def write_city(crossings: Recorded, file: Path) -> None:
    """Writes CSV or Parquet with a row per crossing: station, vehicle, enter_s, leave_s."""
    check_crossings_file(file)
    names = [name for name, each in crossings.items() for _ in range(len(each))]
    columns = {
        name: [value for each in crossings.values() for value in getattr(each, name).tolist()] for name in COLUMNS
    }
    if any(each.cut is not None for each in crossings.values()):
        columns[_CUT] = [value for each in crossings.values() for value in _cut_of(each).tolist()]
    write_table({_STATION: named(names)} | {name: named(column) for name, column in columns.items()}, file)


def _cut_of(crossings: Crossings) -> Any:
    return np.zeros(len(crossings), np.int8) if crossings.cut is None else crossings.cut


def _has_stations(file: Path) -> bool:
    """Whether it is a table of a city's crossings."""
    if not ending(file).endswith(_TABLES) or not os.path.isfile(file):  # noqa: PTH113, see `is_there`
        return False
    with closing(_rows(file)) as rows:
        first = next(rows, None)
    return first is not None and _STATION in first[1]


def _rows(file: Path) -> Generator[Row, None, None]:
    yield from parquet_rows(file, _TABLE) if ending(file).endswith(".parquet") else csv_rows(file)


def _read_table(file: Path, stations: Sequence[str]) -> dict[str, Crossings]:
    """A station's crossings may come in any order, and so may the stations."""
    place, rows, of = {name: number for number, name in enumerate(stations)}, CrossingRows(file), list[int]()
    for line, row in _rows(file):
        if (name := row.get(_STATION, "")) not in place:
            raise broken_line(file, line, f"a station of the scenario ({', '.join(stations)})", name)
        of.append(place[name])
        rows.take(line, row)
    columns, cut = (rows.vehicle, np.array(rows.enter_s), np.array(rows.leave_s)), rows.cut
    return {name: _of_station(np.array(of) == number, columns, cut) for name, number in place.items()}


def _of_station(chosen: Any, columns: Sequence[Any], cut: Any) -> Crossings:
    vehicle, enter_s, leave_s = (column[chosen] for column in columns)
    return Crossings.sorted(vehicle, enter_s, leave_s, cut=None if cut is None else cut[chosen])
