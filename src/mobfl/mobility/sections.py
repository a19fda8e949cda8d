"""The stretch of road that counts.

A section is written `edge:ID[:FROM:TO]` (metres along an edge), `edge:ID,ID,…` (a chain of edges), `circle:X,Y,R`
(around the base station) or `box:X0,Y0,X1,Y1`: in metres, or for positions in degrees `circle:LON,LAT,R` with R in
metres and `box:LON0,LAT0,LON1,LAT1`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mobfl.errors import InputError
from mobfl.scenario import MOST


@dataclass(frozen=True)
class Circle:
    """Around a base station; the radius is in metres."""

    x: float
    y: float
    radius: float
    along_edges: ClassVar[bool] = False
    edges: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    x0: float
    y0: float
    x1: float
    y1: float
    along_edges: ClassVar[bool] = False
    edges: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Edge:
    """A part of an edge of the network, measured along it; without an end, all of it."""

    edge: str
    from_m: float = 0.0
    to_m: float = math.inf
    along_edges: ClassVar[bool] = True

    @property
    def edges(self) -> tuple[str, ...]:
        return (self.edge,)


@dataclass(frozen=True)
class Chain:
    """Whole edges one after the other, and the junctions between them."""

    edges: tuple[str, ...]
    along_edges: ClassVar[bool] = True


Section: TypeAlias = Circle | Box | Edge | Chain


class Tentative(dict[str, Section]):
    """Sections that were not chosen by hand: one that nobody was on, or that samples are too rare for, has no rows."""


def parse_section(text: str) -> Section:
    kind, _, rest = text.partition(":")
    if kind == "street" and "@" in rest:
        from mobfl.mobility.networks import street_section

        return parse_section(street_section(rest))
    try:
        if kind == "circle":
            x, y, radius = map(_coordinate, rest.split(","))
            if radius > 0:
                return Circle(x, y, radius)
        if kind == "box":
            x0, y0, x1, y1 = map(_coordinate, rest.split(","))
            if x0 < x1 and y0 < y1:
                return Box(x0, y0, x1, y1)
        if kind == "edge" and rest:
            return _parse_edge(rest)
    except ValueError:
        pass
    raise InputError(
        "section must be edge:ID[:FROM:TO], edge:ID,ID,…, street:NAME@NETWORK.net.xml, circle:X,Y,R with R > 0 or"
        f" box:X0,Y0,X1,Y1 with X0 < X1 and Y0 < Y1, in metres of at most {MOST:g}, got {text!r}"
    )


def _coordinate(text: str) -> float:
    metres = float(text)
    if not abs(metres) <= MOST:
        raise ValueError(text)
    return metres


def _parse_edge(rest: str) -> Edge | Chain:
    if "," in rest:  # which no name of SUMO's has
        if not all(edges := tuple(rest.split(","))):
            raise ValueError
        return Chain(edges)
    *name, start, end = rest.rsplit(":", 2) if rest.count(":") >= 2 else (rest, "", "")
    if not start and not end:
        return Edge(rest)
    if not float(start) < float(end):
        raise ValueError
    return Edge(name[0], float(start), float(end))
