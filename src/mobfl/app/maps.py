"""A map to draw a section on: the edges of a SUMO network, or where the vehicles of a recording were."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mobfl.app.uploads import uploaded
from mobfl.errors import InputError, broken_line
from mobfl.files.json import plain
from mobfl.files.xml import Element, xml_elements
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.scenario import MOST

_EVERYWHERE = parse_section(f"box:{-MOST},{-MOST},{MOST},{MOST}")
_MOST_POINTS = 20_000  # of a recording: more than can be told apart
_MOST_EDGES, _MOST_CORNERS = 200_000, 1_000_000
_MOST_UNPACKED = 400_000_000  # bytes: a network is read edge by edge
_LANE_POINTS = 2
_DIGITS = 2  # of a metre


def drawn(content: bytes, name: str) -> dict[str, Any]:
    """`edges` of a network with their names and shapes, or `points` of a recording; and what is around all of them."""
    with uploaded(content, name, _MOST_UNPACKED) as (file, kind):
        edges = _edges(file) if kind == ".xml" and _is_network(file) else None
        points = _points(file, kind) if edges is None else np.empty((0, 2))
    corners = points if edges is None else np.array([place for _, shape in edges for place in shape])
    return plain(
        {
            "edges": [{"id": edge, "shape": shape} for edge, shape in edges or []],
            "points": points.round(_DIGITS).tolist(),
            "bounds": [*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()],
        }
    )


def _elements(file: Path) -> Iterator[Element]:
    with file.open("rb") as binary:
        yield from xml_elements(file, binary)


def _is_network(file: Path) -> bool:
    first = next(_elements(file), None)
    return first is not None and first[1] == "net"


def _edges(file: Path) -> list[tuple[str, list[list[float]]]]:
    """Every edge by its first lane; those within crossings, which have no name of their own, are left out."""
    found = dict[str, list[list[float]]]()
    corners, edge = 0, ""
    for line, name, values in _elements(file):
        if name == "edge":
            edge = "" if values.get("function") == "internal" else values.get("id", "")
        elif name == "lane" and edge and edge not in found:
            found[edge] = _shape(file, line, values.get("shape", ""))
            corners += len(found[edge])
        if len(found) > _MOST_EDGES or corners > _MOST_CORNERS:
            raise InputError(f"a network must have at most {_MOST_EDGES} edges to be drawn, got more")
    if not found:
        raise broken_line(file, 1, "edges with lanes", "none")
    return list(found.items())


def _shape(file: Path, line: int, text: str) -> list[list[float]]:
    """`0,0 10,5` as places; a height is left out."""
    try:
        shape = [[float(number) for number in place.split(",")[:2]] for place in text.split()]
    except ValueError:
        shape = []
    good = all(len(place) == _LANE_POINTS and all(abs(each) <= MOST for each in place) for place in shape)
    if len(shape) < _LANE_POINTS or not good:
        raise broken_line(file, line, "a lane's shape of two places or more", repr(text[:60]))
    return [[round(each, _DIGITS) for each in place] for place in shape]


def _points(file: Path, kind: str) -> np.ndarray[Any, Any]:
    """Where vehicles were, evenly thinned out."""
    tracks = read_crossings(file, _EVERYWHERE, kind, keep_tracks=True).tracks
    if tracks is None:
        raise InputError("a map must be of a SUMO network or of recorded positions, got crossings without positions")
    places = np.column_stack([tracks.x_m, tracks.y_m])
    places = places[np.isfinite(places).all(axis=1)]
    if not len(places):
        raise InputError("a map must have positions x and y, got none")
    return places[:: -(-len(places) // _MOST_POINTS)]
