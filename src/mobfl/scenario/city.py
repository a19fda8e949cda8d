"""Several base stations and the cloud above them: three optional tables of a scenario.

`[[stations]]` lists them. On a `[corridor]` they stand one after the other along a road that is driven in one
direction, and may be left to their number and distance. `[cloud]` says when their models meet; without it they never
do. A scenario without these tables is one station on one section, as ever.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from mobfl.errors import InputError, shown
from mobfl.scenario.values import MOST, Count, Number, Positive, Table

if TYPE_CHECKING:
    from mobfl.scenario.tables import Scenario

CLOUD = "cloud"  # as a row of a run says that it is no station's
CITY_TABLES = ("stations", "corridor", "cloud")
MOST_STATIONS = 1000
_OVERRIDES = ("road", "traffic", "radio", "link")
_STRETCH = "stretch"
_HALF = 0.5

Carried = Literal["forget", "mix", "continue"]


class Station(Table):
    """A base station: its section, its plan, and in which values it differs from the scenario's tables.

    `section` is what `--section` takes, or on a corridor `stretch:FROM:TO` in metres.
    """

    name: str = Field("", max_length=100)
    section: str = ""
    plan: str = ""
    road: dict[str, Any] = Field({})
    traffic: dict[str, Any] = Field({})
    radio: dict[str, Any] = Field({})
    link: dict[str, Any] = Field({})

    @property
    def overrides(self) -> dict[str, Any]:
        """Its own values by their dotted names."""
        return {f"{table}.{key}": value for table in _OVERRIDES for key, value in getattr(self, table).items()}


class Corridor(Table):
    """A road in one direction with stations along it, on which vehicles keep their speed."""

    stations: Count | None = Field(None, le=MOST_STATIONS)
    every_m: Positive = 1000.0
    turns_off: Number = Field(0.0, ge=0, le=1)  # the share that does, behind every station
    joins: bool = True  # whether as many come onto the road there


class Cloud(Table):
    """When the stations' models are averaged, how long that takes, and what vehicles carry from one to the next."""

    every_rounds: Annotated[int, Field(ge=0, le=10**9)] | None = None  # κ; 0 is one model for all stations
    every_s: Positive | None = None
    backhaul_s: Number = Field(0.0, ge=0)  # one way
    weights: Literal["samples", "equal"] = "samples"
    carried: Carried = "forget"
    carried_share: Number | None = Field(None, ge=0, le=1)  # of the carried model, where it is mixed; else a half

    @model_validator(mode="after")
    def _one_rhythm(self) -> Self:
        if self.every_rounds is not None and self.every_s is not None:
            raise ValueError("cloud must give either every_rounds or every_s, got both")
        if self.every_rounds == 0 and self.backhaul_s:
            raise ValueError(
                f"cloud.backhaul_s must be 0 with every_rounds = 0, one model for all, got {self.backhaul_s:g}"
            )
        if self.carried_share is not None and self.carried != "mix":
            raise ValueError(f"cloud.carried_share must come with carried = 'mix', got carried = {self.carried!r}")
        return self

    @property
    def is_shared(self) -> bool:
        """Whether all stations have one model."""
        return self.every_rounds == 0

    @property
    def mixed_share(self) -> float:
        """Of the carried model in what a vehicle begins with."""
        return _HALF if self.carried_share is None else self.carried_share

    @property
    def averages(self) -> bool:
        return self.every_s is not None or bool(self.every_rounds)


Stations = Annotated[
    tuple[Station, ...],
    BeforeValidator(lambda rows: tuple(rows) if isinstance(rows, list) else rows),
    Field(max_length=MOST_STATIONS),
]


class Stretch(NamedTuple):
    """A part of a corridor, in metres from its beginning."""

    from_m: float
    to_m: float

    @property
    def length_m(self) -> float:
        return self.to_m - self.from_m

    @property
    def section(self) -> str:
        return f"{_STRETCH}:{self.from_m:.15g}:{self.to_m:.15g}"


def stretch_of(section: str) -> Stretch | None:
    """Of `stretch:FROM:TO`; None if it is something else."""
    kind, _, rest = section.partition(":")
    if kind != _STRETCH:
        return None
    try:
        found = Stretch(*map(float, rest.split(":")))
    except (ValueError, TypeError):
        return None
    return found if 0 <= found.from_m < found.to_m < float("inf") else None


def listed(scenario: "Scenario") -> tuple[Station, ...]:
    """All stations with their names, on a corridor also with their stretches; none of a scenario that has one."""
    road, given = scenario.corridor, scenario.stations
    count = road.stations if road is not None and road.stations is not None else len(given)
    stations = [*given, *[Station()] * (count - len(given))]
    return tuple(
        station.model_copy(
            update={"name": station.name or f"station {place + 1}", **_stretched(scenario, place, station)}
        )
        for place, station in enumerate(stations)
    )


def _stretched(scenario: "Scenario", place: int, station: Station) -> dict[str, Any]:
    if scenario.corridor is None:
        return {}
    first_m = place * scenario.corridor.every_m
    own = Stretch(first_m, first_m + station.road.get("length_m", scenario.road.length_m))
    return {"section": station.section or own.section}


def city_mistake(scenario: "Scenario") -> str | None:
    """What is wrong with the tables of a city together."""
    road, given = scenario.corridor, scenario.stations
    if road is None and not given:
        return None if scenario.cloud is None else "cloud must come with stations or a corridor, got it alone"
    if road is not None and road.stations is not None and len(given) not in (0, road.stations):
        return f"stations must list all {road.stations} of corridor.stations or none, got {len(given)}"
    if road is not None and road.stations is None and not given:
        return "corridor.stations must be given where no stations are listed, got none"
    return _mistaken_lengths(scenario) or _mistaken_names(listed(scenario)) or _mistaken_sections(scenario)


def _mistaken_lengths(scenario: "Scenario") -> str | None:
    """On a corridor a station's stretch follows from its length, before its own scenario is made and checked."""
    for place, station in enumerate(scenario.stations if scenario.corridor is not None else ()):
        length_m = station.road.get("length_m", scenario.road.length_m)
        if type(length_m) not in (int, float) or not 0 < length_m <= MOST:
            return f"stations.{place}.road.length_m must be a number > 0 and <= {MOST:g}, got {shown(length_m)}"
    return None


def _mistaken_names(stations: Sequence[Station]) -> str | None:
    names = [station.name for station in stations]
    for place, name in enumerate(names):
        if name in names[:place] or name == CLOUD:
            rule = f"unlike any other station's and not {CLOUD}"
            return f"stations.{place}.name must be {rule}, got {name!r}"
    return None


def _mistaken_sections(scenario: "Scenario") -> str | None:
    if scenario.corridor is None:
        without = [place for place, each in enumerate(scenario.stations) if not each.section]
        if without and len(without) < len(scenario.stations):
            return f"stations.{without[0]}.section must be given as the other stations' are, got none"
        return None
    before = Stretch(0.0, 0.0)
    for place, station in enumerate(listed(scenario)):
        found = stretch_of(station.section)
        if found is None:
            return f"stations.{place}.section must be stretch:FROM:TO on a corridor, got {station.section!r}"
        if found.from_m < before.to_m:
            return f"stations.{place}.section must begin behind the one before, got {station.section!r}"
        if station.traffic:
            return f"stations.{place}.traffic must not be given on a corridor, where all stations share it"
        before = found
    return None


def at_station(scenario: "Scenario", place: int) -> "Scenario":
    """The scenario as this station alone would have it: one section, its own values, no city around it."""
    station = listed(scenario)[place]
    values = dict(station.overrides)
    if (stretch := stretch_of(station.section)) is not None and scenario.corridor is not None:
        values["road.length_m"] = stretch.length_m
        values["traffic.arrivals_per_s"] = scenario.traffic.arrivals_per_s * _flow(scenario.corridor, place)
    try:
        return scenario.alone.with_values(values)
    except InputError as error:
        raise InputError(f"station {station.name}: {line}" for line in error.lines) from None


def _flow(road: Corridor, place: int) -> float:
    """The share of the corridor's traffic that passes a station."""
    return 1.0 if road.joins else (1.0 - road.turns_off) ** place
