"""Places as GeoJSON (RFC 7946): in degrees where the network has a projection, else in its own metres."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mobfl.mobility.networks import Array
from mobfl.mobility.places import Place

IN_METRES = "coordinates are metres of the network, which has no projection, not degrees as RFC 7946 has them"
_DIGITS = 7  # of degrees: a centimetre


def feature_collection(
    places: Sequence[Place], properties: Sequence[Mapping[str, Any]], degrees: Callable[[Array], Array] | None
) -> dict[str, Any]:
    """A feature for every place: lines along its edges or the area of its circle."""
    features = [
        {"type": "Feature", "geometry": _geometry(place, degrees), "properties": dict(told)}
        for place, told in zip(places, properties, strict=True)
    ]
    note = {} if degrees else {"note": IN_METRES}
    return {"type": "FeatureCollection", **note, "features": features}


def _geometry(place: Place, degrees: Callable[[Array], Array] | None) -> dict[str, Any]:
    lines = [_points(line, degrees) for line in place.lines]
    if place.is_area:
        return {"type": "Polygon", "coordinates": lines}
    return {"type": "LineString", "coordinates": lines[0]} if len(lines) == 1 else _many(lines)


def _many(lines: list[list[list[float]]]) -> dict[str, Any]:
    return {"type": "MultiLineString", "coordinates": lines}


def _points(line: Array, degrees: Callable[[Array], Array] | None) -> list[list[float]]:
    points = line if degrees is None else degrees(line)
    return np.round(points, 2 if degrees is None else _DIGITS).tolist()
