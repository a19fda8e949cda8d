"""Numbers as the tables of a scenario have them: strict, finite, within sizes that doubles can bear."""

from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

# What must be positive lies between these: beyond, a unit was mistaken, and doubles would overflow.
LEAST, MOST = 1e-12, 1e12


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


def _count_or_range(value: Any) -> Any:
    ranged = isinstance(value, list | tuple)
    ends = [_whole(each) for each in (value if ranged else [value])]
    counts = [each for each in ends if isinstance(each, int) and not isinstance(each, bool) and 0 < each <= MOST]
    if counts != ends or len(ends) != 1 + ranged or ends != sorted(ends):
        raise PydanticCustomError("count_or_range", "")
    return tuple(ends) if ranged else ends[0]


# A number for all, or the least and the most of what differs from vehicle to vehicle.
CountOrRange = Annotated[int | tuple[int, int], PlainValidator(_count_or_range)]
