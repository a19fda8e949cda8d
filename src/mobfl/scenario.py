"""What a road is: frozen, validated nouns, with TOML in and out.

A scenario has five tables; their keys are the names of docs/background/symbols.md, in SI units.
Whatever is not given takes the paper's value.
"""

import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mobfl.errors import InputError
from mobfl.wording import mistakes

# More local steps than this in one stay mean a slip in the units, and exceed what doubles can count well.
MOST_STEPS = 1e12


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _whole(value: Any) -> Any:
    value = _plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The checks are strict (no text, no booleans), but NumPy's numbers and a count written 1e6 are welcome.
Number = Annotated[float, BeforeValidator(_plain)]
Count = Annotated[int, BeforeValidator(_whole)]


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


class Road(Table):
    length_m: Number = Field(400.0, gt=0)


class Traffic(Table):
    speed_mps: Number = Field(20.0, gt=0)
    speed_sd_mps: Number = Field(0.0, ge=0)
    arrivals_per_s: Number = Field(0.1, gt=0)
    participation: Number = Field(1.0, gt=0, le=1)


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

    model_bytes: Count | None = Field(None, gt=0)
    downlink_bps: Number | None = Field(None, gt=0)
    uplink_bps: Number | None = Field(None, gt=0)
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
    min_step_s: Number = Field(
        0.2,
        gt=0,
        description="if a local step may take no time at all, the number that fits is unbounded",
    )
    extra_step_s: Number = Field(0.2, ge=0)


class Training(Table):
    learning_rate: Number = Field(0.1, gt=0)
    momentum: Number = Field(0.0, ge=0, lt=1)
    batch_size: Count = Field(64, gt=0)
    samples_per_vehicle: Count = Field(1024, gt=0)
    duration_s: Number = Field(10_000.0, gt=0)
    loss_scale: Literal["sample", "paper"] = "sample"
    split: Literal["random", "place", "dirichlet"] = "random"


def most_steps(length_m: Any, speed_mps: Any, min_step_s: Any) -> Any:
    """A bound on H: no vehicle is slower than a tenth of the mean speed."""
    return np.float64(10.0) * length_m / speed_mps / min_step_s


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
        with np.errstate(over="ignore"):
            steps = most_steps(self.road.length_m, self.traffic.speed_mps, step_s)
        if not steps <= MOST_STEPS:
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

    def given(self) -> dict[str, Any]:
        """The values that were given, without those that are defaults."""
        return self.model_dump(exclude_unset=True)

    def with_values(self, values: Mapping[str, Any]) -> "Scenario":
        """A copy in which the dotted keys (`road.length_m`) have these values."""
        tables = self.given()
        # Giving a link one way takes back what was given the other way.
        for these, others in ((LINK_BYTES, LINK_SECONDS), (LINK_SECONDS, LINK_BYTES)):
            if any(f"link.{key}" in values for key in these):
                tables["link"] = {k: v for k, v in tables.get("link", {}).items() if k not in others}
        for name, value in values.items():
            table, _, key = name.partition(".")
            tables[table] = {**tables.get(table, {}), key: value} if key else value
        return Scenario.from_dict(tables)


# Every key by its dotted name.
FIELDS = {
    f"{table}.{key}": field
    for table, info in Scenario.model_fields.items()
    for key, field in info.annotation.model_fields.items()  # type: ignore[union-attr]
}
_REASONS = {key: field.description for key, field in FIELDS.items() if field.description}


def packaged_scenarios() -> dict[str, Traversable]:
    """The scenarios that come with mobfl, by name."""
    files = (resources.files("mobfl") / "scenarios").iterdir()
    return {file.name.removesuffix(".toml"): file for file in sorted(files, key=lambda file: file.name)}


def load_scenario(source: str | Path = "paper") -> Scenario:
    """The scenario in a TOML file, or the packaged one of that name."""
    packaged = packaged_scenarios()
    file = packaged.get(str(source)) or Path(source)
    try:
        return Scenario.from_dict(tomllib.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        names = ", ".join(packaged)
        raise InputError(f"scenario {str(source)!r} must be a file or one of {names}: no such file") from None
    except OSError as error:
        raise InputError(f"scenario {str(source)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"scenario {str(source)!r} must be TOML in UTF-8, got other bytes") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"scenario {str(source)!r} must be TOML: {error}") from None


def parse_setting(text: str) -> tuple[str, Any]:
    """`road.length_m=500` as key and value; a value that is not TOML is taken as text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set must be TABLE.KEY=VALUE, got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
