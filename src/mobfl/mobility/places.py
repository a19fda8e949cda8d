"""Places that could be a section: edges and streets of a network, circles at its junctions or on a grid."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from mobfl.errors import InputError
from mobfl.mobility.networks import Bounds, Network

Array = NDArray[np.float64]
PlaceKind = Literal["edges", "junctions", "streets", "grid"]
PLACE_KINDS: tuple[PlaceKind, ...] = ("edges", "junctions", "streets", "grid")

MOST_PLACES = 5000
_MOST_POINTS = 1_000_000  # along all roads together
_CORNERS = 48  # of a circle on a map


@dataclass(frozen=True)
class Place:
    """A possible section.

    Args:
        name: Of the edge, junction or street, or where it is on the grid.
        section: As `--section` takes it.
        lines: What to draw: lines along edges or the rim of a circle, each (n, 2) in metres.
        length_m: Along the road, or across a circle; None if that is not known.
        centre: Where a number stands on a map; None if it is known only by its name.
        is_area: Whether the line is a rim.
    """

    name: str
    section: str
    lines: tuple[Array, ...]
    length_m: float | None
    centre: tuple[float, float] | None
    is_area: bool = False


def places_of(
    kind: PlaceKind,
    network: Network | None,
    bounds: Bounds,
    radius_m: float = 100.0,
    spacing_m: float | None = None,
    length_m: float | None = None,
) -> list[Place]:
    """All places of one kind.

    Args:
        kind: "edges", "junctions" or "streets", which need the network, or "grid".
        network: If there is one; a circle of the grid that no road meets is left out.
        bounds: Of the grid.
        radius_m: Of circles.
        spacing_m: Between circles of the grid; by default their radius.
        length_m: Edges that are longer are cut into equal parts of at most this length.
    """
    for name, value in (("radius", radius_m), ("spacing", spacing_m), ("length", length_m)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name} must be > 0 m, got {value:g}")
    if kind == "grid":
        found = list(_grid(network, bounds, radius_m, spacing_m or radius_m))
    elif network is None:
        raise InputError(f"candidates must be grid where there is no network, got {kind!r}")
    elif kind == "edges":
        _check_pieces(network, length_m)
        found = list(_edges(network, length_m))
    elif kind == "streets":
        found = [_street(network, name, edges) for name, edges in network.streets.items()]
    else:
        found = [_circle(name, x, y, radius_m) for name, (x, y) in network.junctions.items()]
    if not found:
        raise InputError(f"candidates must be of a kind that the network has, got {kind!r}, of which there are none")
    if len(found) > MOST_PLACES:
        raise InputError(f"candidates must be at most {MOST_PLACES}, got {len(found)}")
    return found


def places_by_name(edges: Iterable[str]) -> list[Place]:
    """Edges that a recording names, where no network tells how long they are and where they lie."""
    return [Place(name, f"edge:{name}", (), None, None) for name in edges]


def districts_of(bounds: Bounds, across: int, along: int) -> dict[str, str]:
    """Boxes that cover the map, by their names: sections, columns from the west and rows from the south."""
    if not (1 <= across <= 100 and 1 <= along <= 100):
        raise InputError(f"districts must be 1x1 to 100x100, got {across}x{along}")
    x, y = np.linspace(bounds[0], bounds[2], across + 1), np.linspace(bounds[1], bounds[3], along + 1)
    cells = product(range(across), range(along))
    return {f"{i + 1},{j + 1}": f"box:{x[i]:.2f},{y[j]:.2f},{x[i + 1]:.2f},{y[j + 1]:.2f}" for i, j in cells}


def _check_pieces(network: Network, longest_m: float | None) -> None:
    """Told before they are made: a wrong unit may ask for billions."""
    pieces = sum(edge.length_m / longest_m for edge in network.edges.values()) if longest_m is not None else 0.0
    if pieces > MOST_PLACES:
        raise InputError(
            f"length must leave at most {MOST_PLACES} parts of edges, got {longest_m:g} m for {pieces:.3g}"
        )


def _edges(network: Network, longest_m: float | None) -> Iterator[Place]:
    for name, edge in network.edges.items():
        pieces = 1 if longest_m is None else math.ceil(edge.length_m / longest_m - 1e-9)
        ends = np.linspace(0.0, edge.length_m, pieces + 1)
        for start, end in pairwise(ends):
            line = part_of_line(edge.line, start / edge.length_m, end / edge.length_m)
            part = "" if pieces == 1 else f":{start:.1f}:{end:.1f}"
            yield Place(f"{name}{part}", f"edge:{name}{part}", (line,), float(end - start), _middle(line))


def _street(network: Network, name: str, edges: list[str]) -> Place:
    lines = tuple(network.edges[edge].line for edge in edges)
    metres = sum(network.edges[edge].length_m for edge in edges)
    return Place(name, network.chain(edges), lines, metres, _middle(lines[len(lines) // 2]))


def _circle(name: str, x: float, y: float, radius_m: float) -> Place:
    angles = np.linspace(0, 2 * np.pi, _CORNERS + 1)
    rim = np.array([x, y]) + radius_m * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    rim[-1] = rim[0]  # the same corner, whatever was rounded
    return Place(name, f"circle:{x:.2f},{y:.2f},{radius_m:g}", (rim,), 2 * radius_m, (x, y), is_area=True)


def _grid(network: Network | None, bounds: Bounds, radius_m: float, spacing_m: float) -> Iterator[Place]:
    x0, y0, x1, y1 = bounds
    if max(x1 - x0, y1 - y0) < radius_m:  # as of degrees
        raise InputError(
            f"area must be wider than a radius of {radius_m:g} m, got {x1 - x0:g} by {y1 - y0:g}, in metres"
        )
    # Told before it is made: a wrong unit may ask for billions.
    if (1 + (x1 - x0) / spacing_m) * (1 + (y1 - y0) / spacing_m) > 10 * MOST_PLACES:
        raise InputError(f"spacing must leave at most {MOST_PLACES} circles, got {spacing_m:g} m between them")
    across, along = _centred(x0, x1, spacing_m), _centred(y0, y1, spacing_m)
    centres = np.stack(np.meshgrid(across, along, indexing="ij"), axis=-1)
    met = np.ones(centres.shape[:2], bool) if network is None else _meets_road(centres, network, radius_m)
    for i, j in np.argwhere(met).tolist():
        x, y = centres[i, j].tolist()
        yield _circle(f"{i + 1},{j + 1}", x, y, radius_m)


def _meets_road(centres: Array, network: Network, radius_m: float) -> NDArray[np.bool_]:
    road = KDTree(_points_along(network, radius_m / 4))
    return np.asarray(road.query(centres)[0] <= radius_m)


def _centred(low: float, high: float, spacing: float) -> Array:
    """Points at this spacing, with as much left over on one side as on the other."""
    count = max(int((high - low) / spacing), 0) + 1
    return np.asarray((low + high - (count - 1) * spacing) / 2 + spacing * np.arange(count), float)


def _points_along(network: Network, every_m: float) -> Array:
    lengths_m = [edge.length_m for edge in network.edges.values()]
    if sum(lengths_m) / every_m > _MOST_POINTS:
        raise InputError(
            f"radius must be at least {4 * sum(lengths_m) / _MOST_POINTS:.3g} m for {sum(lengths_m) / 1000:.6g} km of"
            f" roads, got {4 * every_m:g}"
        )
    shares = (np.linspace(0, 1, 2 + int(length_m / every_m)) for length_m in lengths_m)
    return np.concatenate([_at(edge.line, each).T for edge, each in zip(network.edges.values(), shares, strict=True)])


def part_of_line(line: Array, start: float, end: float) -> Array:
    """From one share of a line's length to another."""
    so_far = _shares(line)
    inner = line[(so_far > start) & (so_far < end)]
    return np.concatenate([[_at(line, start)], inner, [_at(line, end)]])


def _at(line: Array, share: float | Array) -> Array:
    """The point there; of several shares, their x and their y."""
    so_far = _shares(line)
    return np.array([np.interp(share, so_far, line[:, axis]) for axis in (0, 1)])


def _shares(line: Array) -> Array:
    metres = np.append(0.0, np.cumsum(np.hypot(*np.diff(line, axis=0).T)))
    return np.asarray(metres / max(metres[-1], 1e-9))


def _middle(line: Array) -> tuple[float, float]:
    x, y = _at(line, 0.5)
    return float(x), float(y)
