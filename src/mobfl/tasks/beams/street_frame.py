"""The street and its frame: metres across (towards the east side), along (towards the south) and high.

The positions of house fronts were read off the real street (Raymobtime s010).
"""

import numpy as np
from numpy.typing import NDArray

from mobfl.tasks.beams.conventions import BASE_STATION_M, GRID_ORIGIN_M, GRID_SHAPE, GRID_STEP_M

Array = NDArray[np.float64]

NORTH_END_M, _SOUTH_END_M = np.array([747.0, 675.2]), np.array([765.1, 417.0])
ALONG = (_SOUTH_END_M - NORTH_END_M) / np.linalg.norm(_SOUTH_END_M - NORTH_END_M)
ACROSS = np.array([-ALONG[1], ALONG[0]])

# House fronts, a row each: the axis they stand across (0 across, 1 along), where, begin and end on the other axis,
# height. Side streets open between those of a side. The west side's northern houses stand back (x = 739 beside the
# base station); its southern ones do not: real grids show them 1.7 m behind the base station's line.
HOUSE_FRONTS = np.array(
    [
        [0.0, -10.75, 110.0, 218.0, np.inf],
        [0.0, -16.0, 16.0, 100.0, np.inf],
        [0.0, 15.0, 65.0, 226.0, np.inf],
        [0.0, 15.0, 16.0, 58.0, np.inf],
        [1.0, -20.0, -15.0, 11.5, np.inf],
        [1.0, 262.0, -15.0, 15.0, np.inf],
    ]
)


def street_from_map(position_m: Array) -> Array:
    """Metres across and along (and high, where given) of positions in the map's coordinates."""
    level = (position_m[..., :2] - NORTH_END_M) @ np.stack([ACROSS, ALONG], axis=1)
    return np.concatenate([level, position_m[..., 2:]], axis=-1)


def map_from_street(position_m: Array) -> Array:
    """The map's coordinates of positions in the street's frame."""
    # Written out: a matrix product's last bits may depend on how many positions there are.
    level = NORTH_END_M + position_m[..., :1] * ACROSS + position_m[..., 1:2] * ALONG
    return np.concatenate([level, position_m[..., 2:]], axis=-1)


BASE_M: tuple[float, float, float] = tuple(street_from_map(np.array(BASE_STATION_M)).tolist())


def cell_of(position_m: Array) -> tuple[int, ...]:
    """The grid's cell of a position in the map's coordinates: the nearest, at the edge for those beyond it."""
    cell = np.rint((position_m - np.array(GRID_ORIGIN_M)) / np.array(GRID_STEP_M))
    return tuple(np.clip(cell, 0, np.array(GRID_SHAPE) - 1).astype(int).tolist())
