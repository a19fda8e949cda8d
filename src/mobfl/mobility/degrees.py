"""Positions in degrees: recognised, and laid flat around the sections.

The plane is a transverse Mercator projection (WGS 84) whose centre is in the middle of the sections: 50 km away from
it lengths are 3 in 100,000 too long, 200 km away 5 in 10,000.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mobfl.errors import InputError, MissingExtraError
from mobfl.mobility.samples import Rows
from mobfl.mobility.sections import Box, Circle, Section

_FASTEST_DEG_PER_S = 1e-3  # some 100 m/s; whoever moves less in metres stands
_FARTHEST_DEG = 2.0  # from the middle of the sections


def looks_like_degrees(rows: Rows, way: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether x and y are degrees: none is beyond them, and vehicles move, but by less than a thousandth per second.

    Args:
        rows: The first ones.
        way: Of pairs of samples of one vehicle, the rows of the first and the second.
    """
    known = ~np.isnan(rows.x + rows.y)
    if not known.any() or (np.abs(rows.x[known]) > 180).any() or (np.abs(rows.y[known]) > 90).any():
        return False
    first, second = way
    seconds = rows.time_s[second] - rows.time_s[first]
    moved = np.hypot(rows.x[second] - rows.x[first], rows.y[second] - rows.y[first])
    moves = (moved > 0) & (seconds > 0)
    return bool(moves.any()) and bool(np.median(moved[moves] / seconds[moves]) < _FASTEST_DEG_PER_S)


class Plane:
    """From degrees to metres east and north of the middle of the sections."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        areas = [section for section in sections.values() if isinstance(section, Circle | Box)]
        centres = np.array([_centre(section) for section in areas])
        self._lon, self._lat = centres.mean(axis=0)
        if np.abs(centres - (self._lon, self._lat)).max() > _FARTHEST_DEG:
            raise InputError(
                f"sections in degrees must lie within {2 * _FARTHEST_DEG:g} degrees, got some farther apart"
            )
        self._project = _projection(self._lon, self._lat)
        self.sections = {name: self._flat(section) for name, section in sections.items()}

    def _flat(self, section: Section) -> Section:
        match section:
            case Circle(lon, lat, radius):
                x, y = self._project(lon, lat)
                return Circle(float(x), float(y), radius)
            case Box(lon0, lat0, lon1, lat1):
                middle_lon, middle_lat = (lon0 + lon1) / 2, (lat0 + lat1) / 2
                across, _ = self._project(np.array([lon0, lon1]), np.full(2, middle_lat))
                _, along = self._project(np.full(2, middle_lon), np.array([lat0, lat1]))
                return Box(float(across[0]), float(along[0]), float(across[1]), float(along[1]))
        return section

    def rows(self, rows: Rows) -> Rows:
        """In metres; what is far away stays far away."""
        x, y = self._project(rows.x, rows.y)
        lost = ~(np.isfinite(x) & np.isfinite(y))
        return rows._replace(x=np.where(lost, np.nan, x), y=np.where(lost, np.nan, y))


def _centre(section: Circle | Box) -> tuple[float, float]:
    match section:
        case Circle(lon, lat, _):
            centre = lon, lat
        case Box(lon0, lat0, lon1, lat1):
            centre = (lon0 + lon1) / 2, (lat0 + lat1) / 2
    if abs(centre[0]) > 180 or abs(centre[1]) > 90:
        raise InputError(
            "section must be in degrees as the positions are (circle:LON,LAT,R with R in metres or"
            f" box:LON0,LAT0,LON1,LAT1), got a centre of {centre[0]:g}, {centre[1]:g}"
        )
    return centre


def _projection(lon: float, lat: float) -> Callable[[Any, Any], Any]:
    try:
        from pyproj import Proj
    except ImportError:
        raise MissingExtraError("reading positions in degrees", "positions") from None
    return Proj(proj="tmerc", lat_0=float(lat), lon_0=float(lon), k=1, ellps="WGS84")
