"""What each known kind of table of positions says: who was where when, chunk by chunk, in one shape for all.

By their published descriptions: SUMO's floating-car data, NGSIM, highD and its sisters inD, rounD and exiD, pNEUMA,
Porto's taxis (Moreira-Matias et al. 2013), and GPS traces as most others write them: T-Drive (Yuan et al. 2010),
Cabspotting (Piorkowski et al. 2009), roma/taxi (Bracciale et al. 2014) and TAPAS Cologne's koln.tr (Uppoor et al.
2014).
"""

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.errors import InputError, broken_line
from mobfl.files.bounds import in_sentences
from mobfl.mobility.chunks import Chunk
from mobfl.mobility.clocks import Clock, Codes, Lanes
from mobfl.mobility.rows import IDS, LATITUDES, LONGITUDES, PNEUMA, TIMES, csv_rows
from mobfl.mobility.samples import Array, Ints, Rows, empty_rows
from mobfl.mobility.sections import Section

_METRES_PER_FOOT = 0.3048
_NGSIM_GAP_S = 0.35  # of samples every 0.1 s
_FRAMES_PER_S = 25.0  # of highD and its sisters, if nothing else says so
_FEWEST_FRAMES_PER_S, _MOST_FRAMES_PER_S = 1e-3, 1e6
_GAP_FRAMES = 2.5
_PORTO_S = 15.0  # between two places of a polyline
_PORTO_GAP_S = 45.0
_MOST_PLACES = 100_000  # in one line


@dataclass
class Source:
    """What a reader of a kind needs besides the chunk, and where it stands."""

    file: Path
    sections: Collection[Section]
    codes: Codes
    lanes: Lanes
    now_s: float = -math.inf
    step: int = -1

    def in_order(self, chunk: Chunk, time_s: Array) -> Ints:
        """The steps of times that never go back: one more for every later time."""
        back = np.flatnonzero(np.diff(time_s, prepend=self.now_s) < 0)
        if len(back):
            row = int(back[0])
            before = time_s[row - 1] if row else self.now_s
            raise chunk.broken(row, "times in order", f"{time_s[row]:g} s after {before:g} s")
        steps = self.step + np.cumsum(np.diff(time_s, prepend=self.now_s) > 0)
        self.now_s, self.step = float(time_s[-1]), int(steps[-1])
        return steps

    def one_by_one(self, rows: int) -> Ints:
        """Steps of rows that have no order in common."""
        self.step += rows
        return np.arange(self.step - rows + 1, self.step + 1)


@dataclass(frozen=True)
class Format:
    """A kind of table."""

    read: Callable[[Chunk, Source], Rows]
    clock: Clock | None = None  # None: as the first rows show
    in_degrees: bool = False
    sortable: bool = False
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that a quick reader takes, none if there is no quick one."""
        return self.numbers + self.texts + self.dates


def format_of(file: Path, columns: Collection[str], sections: Collection[Section]) -> Format:
    """By the names of the columns; what is missing is said."""
    if "frame" in columns:
        sister = "trackid" in columns
        _need(file, columns, ("trackid", "frame", "xcenter", "ycenter") if sister else ("id", "frame", "x", "y"))
        rate = _frames_per_s(file)
        read = _sister_of_highd if sister else _highd
        boxes = ("id", "trackid", "frame", "x", "y", "width", "height", "xcenter", "ycenter")
        clock = Clock(gap_s=_GAP_FRAMES / rate)
        return Format(lambda chunk, source: read(chunk, source, rate), clock, sortable=True, numbers=boxes)
    for names, what in (
        ({"initialframe", "numframes"}, "one row per vehicle (tracksMeta)"), ({"framerate"}, "one row (recordingMeta)")
    ):  # fmt: skip
        if names <= set(columns):
            raise InputError(f"trace {str(file)!r} holds {what} and no positions: give its file of tracks")
    if "global_time" in columns:
        _need(file, columns, ("vehicle_id", "global_time", "local_x", "local_y"))
        numbers = ("vehicle_id", "global_time", "local_x", "local_y")
        return Format(_ngsim, Clock(gap_s=_NGSIM_GAP_S), sortable=True, numbers=numbers)
    if "polyline" in columns:
        _need(file, columns, ("taxi_id", "timestamp", "polyline"))
        return Format(_porto, Clock(gap_s=_PORTO_GAP_S, loses=True), in_degrees=True, sortable=True)
    if "samples" in columns or tuple(columns)[:4] == PNEUMA:
        return Format(_pneuma, Clock(gap_s=0.2), in_degrees=True, sortable=True)
    if "point" in columns:
        return Format(_roma, in_degrees=True, sortable=True)
    lon, lat = (_first(columns, names) for names in (LONGITUDES, LATITUDES))
    if lon and lat:
        return _gps(file, columns, lon, lat)
    return _fcd(file, columns, sections)


def _need(file: Path, columns: Collection[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise broken_line(file, 1, f"the columns {', '.join(wanted)}", f"no {', '.join(missing)}")


def _first(columns: Collection[str], names: Sequence[str]) -> str:
    return next((name for name in names if name in columns), "")


def _fcd(file: Path, columns: Collection[str], sections: Collection[Section]) -> Format:
    """SUMO's floating-car data: rows in the order of time."""
    name = "id" if "id" in columns else "vehicle_id"
    for section in sections:
        _need(file, columns, ("time", name, *(("lane", "pos", "speed") if section.along_edges else ("x", "y"))))
    numbers = ("time", "x", "y", "pos", "speed")
    return Format(lambda chunk, source: fcd(chunk, source, name), numbers=numbers, texts=(name, "lane"))


def fcd(chunk: Chunk, source: Source, name: str = "id") -> Rows:
    time_s = chunk.numbers("time")
    found: dict[str, Any] = {"step": source.in_order(chunk, time_s), "vehicle": chunk.codes(name, source.codes)}
    for column, field in (("x", "x"), ("y", "y"), ("pos", "along_m"), ("speed", "speed_mps")):
        if column in chunk.columns:
            found[field] = chunk.numbers(column, optional=True)
    if "lane" in chunk.columns:
        found["edge"] = chunk.codes("lane", source.lanes)
    return empty_rows(len(chunk))._replace(time_s=time_s, **found)


def _apart(source: Source, vehicle: Any, time_s: Array, x: Array, y: Array) -> Rows:
    """Of vehicles that have no steps in common."""
    return empty_rows(len(time_s))._replace(
        vehicle=vehicle, time_s=time_s, x=x, y=y, step=source.one_by_one(len(time_s))
    )


def _whole(chunk: Chunk, column: str, codes: Codes) -> Any:
    numbers, found = chunk.numbers(column).astype(np.int64), Codes()
    of_chunk = np.fromiter(map(found.__getitem__, numbers.tolist()), np.int64, len(numbers))
    return np.array([codes[number] for number in found], np.int64)[of_chunk]


def _ngsim(chunk: Chunk, source: Source) -> Rows:
    """NGSIM trajectories: milliseconds and feet."""
    x, y = (_METRES_PER_FOOT * chunk.numbers(axis) for axis in ("local_x", "local_y"))
    vehicle = _whole(chunk, "vehicle_id", source.codes)
    return _apart(source, vehicle, chunk.numbers("global_time") / 1000, x, y)


def _highd(chunk: Chunk, source: Source, frames_per_s: float) -> Rows:
    """highD tracks: metres, the corner of each vehicle's box."""
    time_s, vehicle = chunk.numbers("frame") / frames_per_s, _whole(chunk, "id", source.codes)
    x, y = (
        chunk.numbers(axis) + (chunk.numbers(size) / 2 if size in chunk.columns else 0.0)
        for axis, size in (("x", "width"), ("y", "height"))
    )
    return _apart(source, vehicle, time_s, x, y)


def _sister_of_highd(chunk: Chunk, source: Source, frames_per_s: float) -> Rows:
    """inD, rounD and exiD: metres, the centre of each vehicle's box."""
    time_s, vehicle = chunk.numbers("frame") / frames_per_s, _whole(chunk, "trackid", source.codes)
    return _apart(source, vehicle, time_s, chunk.numbers("xcenter"), chunk.numbers("ycenter"))


def _frames_per_s(file: Path) -> float:
    """As the file recordingMeta beside the file of tracks says."""
    beside = file.with_name(re.sub("tracks", "recordingMeta", file.name, count=1))
    if beside == file or not beside.is_file():
        return _FRAMES_PER_S
    with in_sentences("recordingMeta", beside):
        line, row = next(csv_rows(beside), (1, {}))
    try:
        rate = float(row["framerate"])
    except (KeyError, ValueError):
        rate = math.nan
    if not _FEWEST_FRAMES_PER_S <= rate <= _MOST_FRAMES_PER_S:
        rule = f"a frameRate from {_FEWEST_FRAMES_PER_S:g} to {_MOST_FRAMES_PER_S:g}"
        raise broken_line(beside, line, rule, row.get("framerate"))
    return rate


def _gps(file: Path, columns: Collection[str], lon: str, lat: str) -> Format:
    """GPS traces with a row per sample; without a column of names, a file is a vehicle's."""
    name, time = _first(columns, IDS), _first(columns, TIMES)
    _need(file, columns, (time or "time", lon, lat))
    only = re.sub(r"^new_|\..*$", "", file.name)

    def read(chunk: Chunk, source: Source) -> Rows:
        vehicle = chunk.codes(name, source.codes) if name else np.full(len(chunk), source.codes[only])
        time_s, x, y = chunk.times_s(time), chunk.numbers(lon), chunk.numbers(lat)
        _check_degrees(chunk, x, y)
        return _apart(source, vehicle, time_s, x, y)

    texts = (name,) if name else ()
    return Format(read, in_degrees=True, sortable=True, numbers=(lon, lat), texts=texts, dates=(time,))


def _check_degrees(chunk: Chunk, lon: Array, lat: Array) -> None:
    for what, values, most in (("longitudes", lon, 180), ("latitudes", lat, 90)):
        beyond = np.flatnonzero(np.abs(values) > most)
        if len(beyond):
            row = int(beyond[0])
            raise chunk.broken(row, f"{what} from -{most} to {most}", f"{values[row]:g}")


def _roma(chunk: Chunk, source: Source) -> Rows:
    """roma/taxi: id;time;POINT(latitude longitude)."""
    places = list[tuple[float, float]]()
    for row, text in enumerate(chunk.texts("point")):
        found = re.fullmatch(r"POINT ?\(([-\d.e]+) ([-\d.e]+)\)", text.strip(), re.IGNORECASE)
        try:
            places.append((float(found[1]), float(found[2])) if found else (math.nan, math.nan))
        except ValueError:
            found = None
        if not found:
            raise chunk.broken(row, "POINT(LATITUDE LONGITUDE)", repr(text[:40]))
    lat, lon = np.array(places).T
    _check_degrees(chunk, lon, lat)
    return _apart(source, chunk.codes("id", source.codes), chunk.times_s("time"), lon, lat)


def _porto(chunk: Chunk, source: Source) -> Rows:
    """Porto's taxis: a trip per row, with a place every 15 s as [[lon,lat],…]."""
    begin_s, vehicle = chunk.times_s("timestamp"), chunk.codes("taxi_id", source.codes)
    owner, places = list[int](), list[list[float]]()
    for row, text in enumerate(chunk.texts("polyline")):
        line = _polyline(chunk, row, text)
        owner += [row] * len(line)
        places += line
    return _lines(chunk, source, vehicle, np.array(owner, np.int64), begin_s, _PORTO_S, places)


def _polyline(chunk: Chunk, row: int, text: str) -> list[list[float]]:
    try:
        line = json.loads(text)
        whole = isinstance(line, list) and len(line) <= _MOST_PLACES
        if whole and all(len(place) == 2 and all(type(each) in (int, float) for each in place) for place in line):
            return line
    except (ValueError, TypeError, RecursionError):
        pass
    raise chunk.broken(row, "a polyline [[LON,LAT],…]", repr(text[:40]))


def _lines(
    chunk: Chunk, source: Source, vehicle: Any, owner: Any, begin_s: Array, every_s: float, places: list[list[float]]
) -> Rows:
    """Of vehicles that have a row each with places at equal distances of time."""
    lon, lat = np.array(places, float).reshape(-1, 2).T
    first = np.searchsorted(owner, owner, side="left")
    time_s = begin_s[owner] + every_s * (np.arange(len(owner)) - first)
    for row in owner[np.flatnonzero((np.abs(lon) > 180) | (np.abs(lat) > 90) | ~np.isfinite(lon + lat))][:1]:
        raise chunk.broken(int(row), "places in degrees", "others")
    return _apart(source, vehicle[owner], time_s, lon, lat)


def _pneuma(chunk: Chunk, source: Source) -> Rows:
    """pNEUMA: a vehicle per row, then lat; lon; speed; two accelerations; time, again and again."""
    vehicle = chunk.codes("id", source.codes)
    owner, samples = list[int](), list[list[float]]()
    for row, text in enumerate(chunk.texts("samples")):
        texts = [each for each in text.split(";") if each.strip()]
        try:
            values = [float(each) for each in texts]
        except ValueError:
            values = [math.nan]
        if len(values) % 6 or len(values) > 6 * _MOST_PLACES or not np.isfinite(values).all():
            raise chunk.broken(row, "lat; lon; speed; lon_acc; lat_acc; time, again and again", f"{len(texts)} values")
        samples += [values[k : k + 6] for k in range(0, len(values), 6)]
        owner += [row] * (len(values) // 6)
    lat, lon, _, _, _, time_s = np.array(samples, float).reshape(-1, 6).T
    for row in np.array(owner, np.int64)[np.flatnonzero((np.abs(lon) > 180) | (np.abs(lat) > 90))][:1]:
        raise chunk.broken(int(row), "places in degrees", "others")
    return _apart(source, vehicle[owner] if owner else np.zeros(0, np.int64), time_s, lon, lat)
