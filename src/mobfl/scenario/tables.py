"""What a road is: frozen, validated nouns, with TOML in and out.

A scenario has five tables; their keys are the names of docs/background/symbols.md, in SI units.
Whatever is not given takes the paper's value.
"""

import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mobfl.errors import InputError
from mobfl.scenario.wording import mistakes

# No vehicle drives slower than this share of the mean speed.
LEAST_SPEED = 0.1
# What must be positive lies between these: beyond, a unit was mistaken, and doubles would overflow.
LEAST, MOST = 1e-12, 1e12
# More local steps than this in one stay mean a slip in the units, and exceed what doubles can count well.
MOST_STEPS = 1e12


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> Any:
    value = _plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sized(value: float) -> float:
    if value > MOST:
        raise PydanticCustomError("size", "<= {most}", {"most": MOST})
    return value


def _seen(value: float) -> float:
    if 0 < value < LEAST:
        raise PydanticCustomError("least", ">= {least}", {"least": LEAST})
    return value


# The checks are strict (no text, no booleans), but NumPy's numbers and a count written 1e6 are welcome.
Number = Annotated[float, BeforeValidator(_plain), AfterValidator(_sized)]
Positive = Annotated[Number, AfterValidator(_seen), Field(gt=0)]
Count = Annotated[int, BeforeValidator(_whole), AfterValidator(_sized), Field(gt=0)]


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


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
LINK_BYTES = ("model_bytes", "downlink_bps", "uplink_bps")


_PAPER_TRANSFER_S = 1.0


def transfer_s(model_bytes: Any, rate_bps: Any) -> Any:
    return 8.0 * model_bytes / rate_bps


def _derived_transfer_s(given: dict[str, Any], rate: str) -> float:
    if given.get("model_bytes") is None or given.get(rate) is None:
        return _PAPER_TRANSFER_S
    return float(transfer_s(given["model_bytes"], given[rate]))


class Link(Table):
    """The transfers, given in seconds or as a size and two rates; the seconds are there either way."""

    model_bytes: Count | None = None
    downlink_bps: Positive | None = None
    uplink_bps: Positive | None = None
    download_s: Number = Field(default_factory=lambda given: _derived_transfer_s(given, "downlink_bps"), ge=0)
    upload_s: Number = Field(default_factory=lambda given: _derived_transfer_s(given, "uplink_bps"), ge=0)

    @model_validator(mode="after")
    def _given_one_way(self) -> Self:
        by_bytes = [key for key in LINK_BYTES if getattr(self, key) is not None]
        seconds = [key for key in LINK_SECONDS if key in self.model_fields_set]
        if by_bytes and seconds:
            raise ValueError(
                f"link must give either seconds or model_bytes with both rates, got {' and '.join(seconds + by_bytes)}"
            )
        missing = [key for key in LINK_BYTES if key not in by_bytes]
        if by_bytes and missing:
            raise ValueError(
                f"link.{by_bytes[0]} must come with {' and '.join(missing)}, got {getattr(self, by_bytes[0])}"
            )
        return self


class Compute(Table):
    min_step_s: Positive = Field(
        0.2,
        description="if a local step may take no time at all, the number that fits is unbounded",
    )
    extra_step_s: Number = Field(0.2, ge=0, le=1e6)


def _count_or_range(value: Any) -> Any:
    ranged = isinstance(value, list | tuple)
    ends = [_whole(each) for each in (value if ranged else [value])]
    counts = [each for each in ends if isinstance(each, int) and not isinstance(each, bool) and 0 < each <= MOST]
    if counts != ends or len(ends) != 1 + ranged or ends != sorted(ends):
        raise PydanticCustomError("count_or_range", "")
    return tuple(ends) if ranged else ends[0]


# A number for all, or the least and the most of what differs from vehicle to vehicle.
CountOrRange = Annotated[int | tuple[int, int], PlainValidator(_count_or_range)]


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


class Scenario(Table):
    """Road, traffic, link, compute and training: all that a plan, a simulation and a run depend on."""

    road: Road = Road()
    traffic: Traffic = Traffic()
    link: Link = Link()
    compute: Compute = Compute()
    training: Training = Training()

    @model_validator(mode="after")
    def _countable(self) -> Self:
        step_s = self.compute.min_step_s
        if most_steps(self.road.length_m, self.traffic.speed_mps, step_s) > MOST_STEPS:
            raise ValueError(
                f"compute.min_step_s must be such that at most {MOST_STEPS:.0e} steps fit into"
                f" ten times road.length_m/traffic.speed_mps, got {step_s}"
            )
        return self

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
            raise InputError(mistakes(error, [*FIELDS, *Scenario.model_fields], _REASONS)) from None

    def to_dict(self) -> dict[str, Any]:
        """All values as nested tables, link times as they were given."""
        tables = self.model_dump(exclude_none=True)
        for key in LINK_SECONDS if self.link.model_bytes is not None else ():
            del tables["link"][key]
        return tables

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    def value(self, key: str) -> Any:
        """The value under a dotted key, such as `road.length_m`."""
        table, _, name = key.partition(".")
        return getattr(getattr(self, table), name)

    def given(self) -> dict[str, Any]:
        """The values that were given, without those that are defaults."""
        return self.model_dump(exclude_unset=True)

    def with_values(self, values: Mapping[str, Any]) -> "Scenario":
        """A copy in which the dotted keys (`road.length_m`) have these values."""
        tables = self.given()
        # Giving a link one way takes back what was given the other way.
        if any(f"link.{key}" in values for key in LINK_BYTES):
            tables["link"] = {k: v for k, v in tables.get("link", {}).items() if k in LINK_BYTES}
        elif self.link.model_bytes is not None and any(f"link.{key}" in values for key in LINK_SECONDS):
            tables["link"] = {key: getattr(self.link, key) for key in LINK_SECONDS}
        for name, value in values.items():
            table, _, key = str(name).partition(".")
            if not key:
                tables[table] = value
            elif isinstance(tables.setdefault(table, {}), dict):
                tables[table] = {**tables[table], key: value}
        return Scenario.from_dict(tables)


# Every key by its dotted name.
FIELDS = {
    f"{table}.{key}": field
    for table, info in Scenario.model_fields.items()
    for key, field in cast(type[Table], info.annotation).model_fields.items()
}
_REASONS = {key: field.description for key, field in FIELDS.items() if field.description}


def packaged_scenarios() -> dict[str, Traversable]:
    """The scenarios that come with mobfl, by name."""
    files = (resources.files("mobfl.scenario") / "packaged").iterdir()
    return {file.name.removesuffix(".toml"): file for file in sorted(files, key=lambda file: file.name)}


def load_scenario(source: str | Path = "paper") -> Scenario:
    """The scenario in a TOML file, or the packaged one of that name."""
    packaged = packaged_scenarios()
    file = packaged.get(str(source)) or Path(source)
    try:
        return Scenario.from_dict(tomllib.loads(file.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        names = ", ".join(packaged)
        raise InputError(f"scenario {str(source)!r} must be a file or one of {names}: no such file") from None
    except OSError as error:
        raise InputError(f"scenario {str(source)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"scenario {str(source)!r} must be TOML in UTF-8, got other bytes") from None
    except (ValueError, RecursionError) as error:  # TOML's own errors are of the first kind
        if isinstance(error, InputError):
            raise
        raise InputError(f"scenario {str(source)!r} must be TOML: {error}") from None


def parse_setting(text: str, option: str = "set", form: str = "TABLE.KEY=VALUE") -> tuple[str, Any]:
    """`road.length_m=500` as key and value; a value that is not TOML is taken as text."""
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise InputError(f"{option} must be {form}, got {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()
