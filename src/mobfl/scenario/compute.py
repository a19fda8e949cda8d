"""How long local steps take, by one law for all vehicles or by classes of vehicles.

n local steps take n·(α + X) seconds, X drawn once per attempt with mean β: exponential as in the paper, lognormal, or
as often as measured.
"""

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from mobfl.scenario.values import LEAST, CountOrRange, Number, Positive, Table

Law = Literal["exponential", "lognormal", "measured"]
MOST_STEP_SAMPLES = 10_000
MOST_STEP_S = 1e6
_PAPER_STEP_S = 0.2
# Keys that say how long a step takes, beside measured seconds which say it all.
_STEP_NUMBERS = ("min_step_s", "extra_step_s", "extra_sd_s")


def _step_samples(value: Any) -> Any:
    fault = PydanticCustomError("step_samples", "")
    if not isinstance(value, list | tuple | np.ndarray) or not 0 < len(value) <= MOST_STEP_SAMPLES:
        raise fault
    try:
        seconds = np.asarray(value)
        numbers = seconds.astype(float) if seconds.dtype.kind in "fiu" and seconds.ndim == 1 else np.empty(0)
    except (ValueError, OverflowError):
        raise fault from None
    if not len(numbers) or not ((numbers >= LEAST) & (numbers <= MOST_STEP_S)).all():
        raise fault
    return tuple(numbers.tolist())


StepSamples = Annotated[tuple[float, ...], PlainValidator(_step_samples)]


def _least_step_s(given: dict[str, Any]) -> float:
    return min(given["step_samples"]) if given.get("step_samples") else _PAPER_STEP_S


def _mean_extra_s(given: dict[str, Any]) -> float:
    if not given.get("step_samples"):
        return _PAPER_STEP_S
    return float((np.array(given["step_samples"]) - min(given["step_samples"])).mean())


class Compute(Table):
    """α and β are there either way: of measured steps the least, and the mean above it."""

    step_samples: StepSamples | None = None
    law: Law = Field(default_factory=lambda given: "measured" if given.get("step_samples") else "exponential")
    min_step_s: Positive = Field(
        default_factory=_least_step_s,
        description="if a local step may take no time at all, the number that fits is unbounded",
    )
    extra_step_s: Number = Field(default_factory=_mean_extra_s, ge=0, le=MOST_STEP_S)
    extra_sd_s: Positive | None = Field(None, le=MOST_STEP_S)

    @model_validator(mode="after")
    def _law_with_its_numbers(self) -> Self:
        if (mistake := self._mistake()) is not None:
            raise ValueError(f"compute{mistake}")
        return self

    def _mistake(self) -> str | None:
        given = [key for key in _STEP_NUMBERS if key in self.model_fields_set and getattr(self, key) is not None]
        if self.law == "measured" and self.step_samples is None:
            return ".law = 'measured' must come with step_samples, got none"
        if self.step_samples is not None and self.law != "measured":
            return f".step_samples must come with law = 'measured', got law = {self.law!r}"
        if self.step_samples is not None and given:
            return f" must give either step_samples or {' and '.join(given)}, got both"
        if self.extra_sd_s is not None and self.law != "lognormal":
            return f".extra_sd_s must come with law = 'lognormal', got law = {self.law!r}"
        return None

    @property
    def spread_s(self) -> float:
        """The standard deviation of X where it is lognormal; as much as its mean if nobody says."""
        return self.extra_step_s if self.extra_sd_s is None else self.extra_sd_s


class VehicleClass(Table):
    """A share of the arriving vehicles; what it does not say comes from `compute` and `training`."""

    name: str | None = Field(None, min_length=1)
    share: Positive = Field(le=1)
    law: Law | None = None
    step_samples: StepSamples | None = None
    min_step_s: Positive | None = None
    extra_step_s: Number | None = Field(None, ge=0, le=MOST_STEP_S)
    extra_sd_s: Positive | None = Field(None, le=MOST_STEP_S)
    samples_per_vehicle: CountOrRange | None = None

    def compute(self, common: Compute) -> Compute:
        """Its own words on top of the common ones, which must not contradict them."""
        own = self.model_dump(exclude_none=True, exclude={"name", "share", "samples_per_vehicle"})
        return Compute.model_validate(overlaid(common.model_dump(exclude_unset=True, exclude_none=True), own))


def overlaid(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Compute's keys with others on top: giving step times one way takes back what was given the other way."""
    kept, law = dict(common), own.get("law")
    if "step_samples" in own:
        kept = {"law": "measured"}
    elif "step_samples" in kept and (any(key in own for key in _STEP_NUMBERS) or law not in (None, "measured")):
        kept = {}
    if law not in (None, "lognormal"):
        kept.pop("extra_sd_s", None)
    return kept | own
