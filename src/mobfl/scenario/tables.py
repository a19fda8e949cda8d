"""What a road is: frozen, validated nouns.

A scenario has six tables, a seventh where the transfers are a radio's, a list of them where vehicles are of several
classes, and three more where there are several stations (`mobfl.scenario.city`); their keys are the names of
docs/background/symbols.md, in SI units. Whatever is not given takes the paper's value, or where the paper has none, a
usual one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator

from mobfl.errors import InputError
from mobfl.scenario.city import CITY_TABLES, Cloud, Corridor, Station, Stations, city_mistake
from mobfl.scenario.compute import Compute, VehicleClass, overlaid
from mobfl.scenario.energy import Energy
from mobfl.scenario.radio import Radio
from mobfl.scenario.sheets import DisplayedScenario
from mobfl.scenario.values import Count, CountOrRange, Number, Positive, Table
from mobfl.scenario.wording import mistakes

# No vehicle drives slower than this share of the mean speed.
LEAST_SPEED = 0.1
# More local steps than this in one stay mean a slip in the units, and exceed what doubles can count well.
MOST_STEPS = 1e12


class Road(Table):
    length_m: Positive = 400.0


class Traffic(Table):
    speed_mps: Positive = 20.0
    speed_sd_mps: Number = Field(0.0, ge=0)
    arrivals_per_s: Positive = 0.1
    participation: Positive = Field(1.0, le=1)

    @model_validator(mode="after")
    def _spread_within_mean(self) -> Self:
        if self.speed_sd_mps > self.speed_mps:
            raise ValueError(
                f"traffic.speed_sd_mps must be <= traffic.speed_mps ({self.speed_mps:g}), got {self.speed_sd_mps}"
            )
        return self


LINK_SECONDS = ("download_s", "upload_s")
LINK_RATES = ("downlink_bps", "uplink_bps")
LINK_BYTES = ("model_bytes", *LINK_RATES)
LINK_SIZES = ("download_bytes", "upload_bytes")  # of what really travels, where that is not the model as it is


_PAPER_TRANSFER_S = 1.0


def transfer_s(model_bytes: Any, rate_bps: Any) -> Any:
    return 8.0 * model_bytes / rate_bps


def _derived_transfer_s(given: dict[str, Any], size: str, rate: str) -> float:
    travels = given.get(size) if given.get(size) is not None else given.get("model_bytes")
    if travels is None or given.get(rate) is None:
        return _PAPER_TRANSFER_S
    return float(transfer_s(travels, given[rate]))


class Link(Table):
    """The transfers, given in seconds or as a size and two rates; the seconds are there either way.

    Rates alone leave the sizes to the task and the codec of a run. Until these are known, nobody may ask for seconds;
    nor where the scenario has a radio, for which the link has only sizes.
    """

    model_bytes: Count | None = None
    download_bytes: Count | None = None
    upload_bytes: Count | None = None
    downlink_bps: Positive | None = None
    uplink_bps: Positive | None = None
    download_s: Number = Field(
        default_factory=lambda given: _derived_transfer_s(given, "download_bytes", "downlink_bps"), ge=0
    )
    upload_s: Number = Field(
        default_factory=lambda given: _derived_transfer_s(given, "upload_bytes", "uplink_bps"), ge=0
    )

    @property
    def by_rates(self) -> bool:
        """Whether sizes decide how long transfers take."""
        return self.uplink_bps is not None

    @property
    def lacks_sizes(self) -> bool:
        """Whether nobody knows yet how long transfers take: there are rates, and no bytes."""
        return self.by_rates and self.model_bytes is None

    def mistake(self, radio: Radio | None) -> str | None:
        """What is too much or too little in it; a radio wants sizes alone, and without one they come with rates."""
        seconds, by_bytes, sizes = (self._given(keys) for keys in (LINK_SECONDS, LINK_BYTES, LINK_SIZES))
        if radio is not None and (too_much := seconds + self._given(LINK_RATES)):
            return f"link must give only sizes with a radio, which makes rates and seconds, got {_listed(too_much)}"
        if (by_bytes or sizes) and seconds:
            found = _listed(seconds + by_bytes + sizes)
            return f"link must give either seconds or model_bytes with both rates, got {found}"
        wanted = LINK_BYTES if radio is None else ("model_bytes",)
        missing = [key for key in wanted if key not in by_bytes]
        if sizes and missing:
            return f"link.{sizes[0]} must come with {_listed(missing)}, got {getattr(self, sizes[0])}"
        if by_bytes and missing and missing != ["model_bytes"]:
            return f"link.{by_bytes[0]} must come with {_listed(missing)}, got {getattr(self, by_bytes[0])}"
        return None

    def _given(self, keys: tuple[str, ...]) -> list[str]:
        return [key for key in keys if key in self.model_fields_set and getattr(self, key) is not None]


def _listed(keys: list[str]) -> str:
    return " and ".join(keys)


class Training(Table):
    learning_rate: Positive = 0.1
    decay_to: Positive = Field(1.0, le=1)
    momentum: Number = Field(0.0, ge=0, lt=1)
    batch_size: Count = 64
    samples_per_vehicle: CountOrRange = 1024
    duration_s: Positive = 10_000.0
    loss_scale: Literal["sample", "paper"] = "sample"
    split: str = "random"  # or a name that the task's samples can be split by
    dirichlet_alpha: Positive = 1.0
    alike: Number | None = Field(None, ge=0, le=1)  # of districts, where the split is by these; else 0
    falling_to: Positive = Field(1.0, le=1)
    average_s: Number = Field(0.0, ge=0)
    noise_uploads: Number = Field(0.0, ge=0)

    @property
    def least_samples(self) -> int:
        return self._sample_range[0]

    @property
    def most_samples(self) -> int:
        return self._sample_range[1]

    @property
    def _sample_range(self) -> tuple[int, int]:
        given = self.samples_per_vehicle
        return given if isinstance(given, tuple) else (given, given)

    @model_validator(mode="after")
    def _batch_within_samples(self) -> Self:
        if self.batch_size > self.least_samples:
            raise ValueError(
                f"training.batch_size must be <= training.samples_per_vehicle ({self.least_samples}),"
                f" got {self.batch_size}"
            )
        return self


def most_steps(length_m: Any, speed_mps: Any, min_step_s: Any) -> Any:
    """A bound on H, from the slowest vehicle there is."""
    return length_m / (LEAST_SPEED * speed_mps) / min_step_s


@dataclass(frozen=True)
class FleetClass:
    """One class of vehicles with all that holds for it: `share` is of those that arrive."""

    name: str
    share: float
    compute: Compute
    training: Training  # with this class's samples


_MOST_CLASSES = 20
Classes = Annotated[
    tuple[VehicleClass, ...],
    BeforeValidator(lambda rows: tuple(rows) if isinstance(rows, list) else rows),
    Field(max_length=_MOST_CLASSES),
]
# Shares are decimals that a person typed: they add up to one within so much.
_SHARE_ROUNDING = 1e-9


class Scenario(DisplayedScenario, Table):
    """Road, traffic, link, compute and training: all that a plan, a simulation and a run depend on; and energy.

    Vehicles may be of several classes; then `fleet` has what differs from compute and training. With a `radio`, how
    long transfers take depends on places and on who else sends.
    """

    road: Road = Road()
    traffic: Traffic = Traffic()
    radio: Radio | None = None
    link: Link = Link()
    compute: Compute = Compute()
    training: Training = Training()
    energy: Energy = Energy()
    fleet: Classes = ()
    corridor: Corridor | None = None
    stations: Stations = ()
    cloud: Cloud | None = None

    @field_validator("link")
    @classmethod
    def _link_fits_radio(cls, link: Link, info: ValidationInfo) -> Link:
        if "radio" in info.data and (mistake := link.mistake(info.data["radio"])) is not None:
            raise ValueError(mistake)
        return link

    @model_validator(mode="after")
    def _station_on_the_section(self) -> Self:
        along_m = None if self.radio is None else self.radio.station_along_m
        if along_m is not None and along_m > self.road.length_m:
            raise ValueError(
                f"radio.station_along_m must be <= road.length_m ({self.road.length_m:g}), got {along_m:g}"
            )
        return self

    @model_validator(mode="after")
    def _shares_of_a_whole(self) -> Self:
        total = sum(each.share for each in self.fleet)
        if self.fleet and abs(total - 1) > _SHARE_ROUNDING:
            raise ValueError(f"the shares of fleet must add up to 1, got {total:.10g}")
        names = [each.name for each in self.classes]
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            place = len(names) - 1 - names[::-1].index(twice[0])
            raise ValueError(f"fleet.{place}.name must be unlike any other class's, got {twice[0]!r}")
        return self

    @model_validator(mode="after")
    def _countable(self) -> Self:
        for place, each in enumerate(self.classes):
            table, step_s = f"fleet.{place}" if self.fleet else "compute", each.compute.min_step_s
            if most_steps(self.road.length_m, self.traffic.speed_mps, step_s) > MOST_STEPS:
                raise ValueError(
                    f"{table}.min_step_s must be such that at most {MOST_STEPS:.0e} steps fit into"
                    f" ten times road.length_m/traffic.speed_mps, got {step_s}"
                )
        return self

    @model_validator(mode="after")
    def _a_whole_city(self) -> Self:
        if (mistake := city_mistake(self)) is not None:
            raise ValueError(mistake)
        return self

    @property
    def is_city(self) -> bool:
        """Whether it lists its stations, be it a single one."""
        return self.corridor is not None or bool(self.stations)

    @property
    def alone(self) -> "Scenario":
        """Without the tables of a city: one station on one section."""
        given = {table: values for table, values in self.given().items() if table not in CITY_TABLES}
        return Scenario.from_dict(given) if self.is_city else self

    @cached_property
    def classes(self) -> tuple[FleetClass, ...]:
        """The classes of vehicles; one that is all of them where the scenario lists none."""
        if not self.fleet:
            return (FleetClass("all", 1.0, self.compute, self.training),)
        return tuple(self._class(place, each) for place, each in enumerate(self.fleet))

    def _class(self, place: int, each: VehicleClass) -> FleetClass:
        samples = each.samples_per_vehicle
        try:
            own = {} if samples is None else {"samples_per_vehicle": samples}
            training = Training.model_validate({**self.training.model_dump(), **own})
            return FleetClass(each.name or f"class {place + 1}", each.share, each.compute(self.compute), training)
        except ValidationError as error:  # our own sentences, about the table that the class stands in for
            lines = mistakes(error, [], {})
            named = [line.replace("compute", f"fleet.{place}", 1) for line in lines]
            raise ValueError(
                "; ".join(line.replace("training.samples", f"fleet.{place}.samples", 1) for line in named)
            ) from None

    @property
    def most_samples(self) -> int:
        """The most that any vehicle holds."""
        return max(each.training.most_samples for each in self.classes)

    @property
    def by_sizes(self) -> bool:
        """Whether sizes decide how long transfers take."""
        return self.radio is not None or self.link.by_rates

    @property
    def lacks_sizes(self) -> bool:
        """Whether nobody knows yet how long transfers take: there are rates or a radio, and no bytes."""
        return self.by_sizes and self.link.model_bytes is None

    @property
    def transmit_w(self) -> float:
        """What a vehicle draws while it sends: its radio's power, unless `energy` says otherwise."""
        if self.radio is None or "transmit_w" in self.energy.model_fields_set:
            return self.energy.transmit_w
        return 10.0 ** (self.radio.vehicle_dbm / 10 - 3)

    @property
    def dwell_s(self) -> float:
        """T0 = L/v, the time from one end of the section to the other at the mean speed."""
        return self.road.length_m / self.traffic.speed_mps

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "Scenario":
        """The scenario with these tables, as TOML has them; raises `InputError` with a line per mistake."""
        if not isinstance(tables, Mapping):
            raise InputError(f"a scenario must be a mapping of tables, got {tables!r}")
        try:
            return cls.model_validate(dict(tables))
        except ValidationError as error:
            classes = (f"fleet.0.{key}" for key in VehicleClass.model_fields)
            stations = (f"stations.0.{key}" for key in Station.model_fields)
            known = [*FIELDS, *RADIO_FIELDS, *CITY_FIELDS, *Scenario.model_fields, *classes, *stations]
            raise InputError(mistakes(error, known, _REASONS)) from None

    def to_dict(self) -> dict[str, Any]:
        """All values as nested tables, link and step times as they were given."""
        tables = self.model_dump(exclude_none=True)
        tables["energy"] = self.energy.model_dump(exclude_unset=True, exclude_none=True)
        if not tables["energy"]:  # nothing that is computed depends on it
            del tables["energy"]
        for key in LINK_SECONDS if self.by_sizes else ():
            del tables["link"][key]
        for key in ("min_step_s", "extra_step_s") if self.compute.step_samples is not None else ():
            del tables["compute"][key]
        for key in ("fleet", "stations"):
            if not tables[key]:
                del tables[key]
        if self.stations:
            tables["stations"] = [each.model_dump(exclude_unset=True) for each in self.stations]
        return tables

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    def value(self, key: str) -> Any:
        """The value under a dotted key, such as `road.length_m`; None under those of a radio that is not there."""
        table, _, name = key.partition(".")
        return None if getattr(self, table) is None else getattr(getattr(self, table), name)

    def given(self) -> dict[str, Any]:
        """The values that were given, without those that are defaults."""
        return {table: keys for table, keys in self.model_dump(exclude_unset=True).items() if keys is not None}

    def with_values(self, values: Mapping[str, Any]) -> "Scenario":
        """A copy in which the dotted keys (`road.length_m`) have these values."""
        tables = self.given()
        # Giving a link one way takes back what was given the other way.
        if self.radio is None and _asks_for_radio(values):
            tables["link"] = {k: v for k, v in tables.get("link", {}).items() if k in ("model_bytes", *LINK_SIZES)}
        elif any(f"link.{key}" in values for key in (*LINK_BYTES, *LINK_SIZES)):
            tables["link"] = {k: v for k, v in tables.get("link", {}).items() if k in (*LINK_BYTES, *LINK_SIZES)}
        elif self.link.by_rates and any(f"link.{key}" in values for key in LINK_SECONDS):
            tables["link"] = {key: getattr(self.link, key) for key in LINK_SECONDS}
        steps = {str(name): value for name, value in values.items() if str(name).startswith("compute.")}
        if steps and isinstance(tables.setdefault("compute", {}), dict):
            own = {name.removeprefix("compute."): value for name, value in steps.items()}
            tables["compute"] = overlaid(tables["compute"], own)
        for name, value in values.items():
            table, _, key = str(name).partition(".")
            if name in steps:
                continue
            if table in ("fleet", "stations") and key:
                form = "{share=…, …}" if table == "fleet" else "{name=…, …}"
                raise InputError(f"{table} must be set as a whole, {table}=[{form}, …], got {name}")
            if not key:
                tables[table] = value
            elif isinstance(tables.setdefault(table, {}), dict):
                tables[table] = {**tables[table], key: value}
        return Scenario.from_dict(tables)


def _asks_for_radio(values: Mapping[str, Any]) -> bool:
    return any(str(name).startswith("radio.") or (name == "radio" and values[name] is not None) for name in values)


# Every key of the tables that are always there, by its dotted name, without those of the fleet's list.
FIELDS = {
    f"{table}.{key}": field
    for table, info in Scenario.model_fields.items()
    if table not in ("radio", "fleet", *CITY_TABLES)
    for key, field in cast(type[Table], info.annotation).model_fields.items()
}
RADIO_FIELDS = {f"radio.{key}": field for key, field in Radio.model_fields.items()}
_OF_CITIES: dict[str, type[Table]] = {"corridor": Corridor, "cloud": Cloud}
CITY_FIELDS = [f"{table}.{key}" for table, kind in _OF_CITIES.items() for key in kind.model_fields]
_REASONS = {key: field.description for key, field in FIELDS.items() if field.description}
