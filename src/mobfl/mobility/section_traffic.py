"""What passes where: sections ranked by their traffic, with length and stay."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.places import Place

RankedBy = Literal["per-hour", "vehicles", "present", "stay", "length"]
RANKED_BY: dict[RankedBy, str] = {
    "per-hour": "crossings_per_hour",
    "vehicles": "vehicles",
    "present": "mean_present",
    "stay": "median_stay_s",
    "length": "length_m",
}


@dataclass(frozen=True)
class SectionTraffic:
    """The traffic of one section, over the time of the whole recording.

    Args:
        name: Of the edge, junction or street.
        section: As `--section` takes it.
        length_m: Along it or across; None if that is not known.
        vehicles: How many different ones cross it.
        crossings: How often it is crossed.
        crossings_per_hour: The same by the hour.
        mean_present: How many are there at a moment, on average.
        median_stay_s: Half of the stays are longer.
        short_stay_s: One in ten is shorter.
        long_stay_s: One in ten is longer.
    """

    name: str
    section: str
    length_m: float | None
    vehicles: int
    crossings: int
    crossings_per_hour: float
    mean_present: float
    median_stay_s: float
    short_stay_s: float
    long_stay_s: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def ranked(
    places: Iterable[Place], crossings: Mapping[str, Crossings], by: RankedBy = "per-hour"
) -> list[SectionTraffic]:
    """Sections that somebody crosses, the one with the most first.

    Args:
        places: The sections.
        crossings: Of each, by its name, from one recording.
        by: "per-hour", "vehicles", "present", "stay" or "length".
    """
    if by not in RANKED_BY:
        raise InputError(f"by must be one of {', '.join(RANKED_BY)}, got {by!r}")
    seen = [each for each in crossings.values() if len(each)]
    if not seen:
        return []
    lasts_s = max(float(each.leave_s.max()) for each in seen) - min(float(each.enter_s[0]) for each in seen)
    found = [_told(place, crossings[place.name], lasts_s) for place in places if len(crossings[place.name])]
    return sorted(found, key=lambda each: (-(getattr(each, RANKED_BY[by]) or 0.0), each.name))


def _told(place: Place, there: Crossings, lasts_s: float) -> SectionTraffic:
    short, median, long = np.quantile(there.dwell_s, [0.1, 0.5, 0.9]).tolist()
    span_s = max(lasts_s, 1e-9)  # of a recording of one instant
    return SectionTraffic(
        place.name, place.section, place.length_m, len(np.unique(there.vehicle_keys)), len(there),
        3600 * len(there) / span_s, float(there.dwell_s.sum()) / span_s, median, short, long,
    )  # fmt: skip
