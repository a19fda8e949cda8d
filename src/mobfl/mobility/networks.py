"""A SUMO network as far as places on it go: edges with their lines and street names, junctions, and where it lies."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError, MissingExtraError, brief, broken_line, shown
from mobfl.files.bounds import in_sentences, opened
from mobfl.files.xml import xml_elements
from mobfl.scenario import MOST

Array = NDArray[np.float64]
Bounds = tuple[float, float, float, float]  # x0, y0, x1, y1 in metres

_NET_FILE = ("net-file", "net", "n")  # as configurations of SUMO may call it
_NO_PROJECTION = ("", "!", "-")
_NO_CROSSING = ("dead_end", "internal")


@dataclass(frozen=True)
class NetworkEdge:
    """A road from one junction to the next.

    Args:
        street: Its name, empty if the network has none.
        length_m: Of its first lane.
        line: Points along it, (n, 2) in metres.
        start: The junction where it begins.
        end: The junction where it ends.
    """

    street: str
    length_m: float
    line: Array
    start: str
    end: str


@dataclass(frozen=True)
class Network:
    """Edges by name, junctions' places by name, and the projection that the network was made with.

    Args:
        edges: Those that vehicles drive on between junctions.
        junctions: Where roads meet, (x, y) in metres.
        projection: As PROJ takes it; empty if the network has none.
        offset_m: What was added to projected coordinates.
        within: Edges inside junctions, by the two edges that they join.
    """

    edges: dict[str, NetworkEdge]
    junctions: dict[str, tuple[float, float]]
    projection: str = ""
    offset_m: tuple[float, float] = (0.0, 0.0)
    within: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def bounds(self) -> Bounds:
        points = np.concatenate([edge.line for edge in self.edges.values()])
        return (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())

    @cached_property
    def streets(self) -> dict[str, list[str]]:
        """The edges of every street that has a name."""
        found = dict[str, list[str]]()
        for name, edge in self.edges.items():
            if edge.street:
                found.setdefault(edge.street, []).append(name)
        return found

    def chain(self, edges: Iterable[str]) -> str:
        """The section of these edges and the junctions between them."""
        own = list(edges)
        inner = [each for a in own for b in own for each in self.within.get((a, b), ())]
        return "edge:" + ",".join(dict.fromkeys([*own, *inner]))

    def street_section(self, name: str) -> str:
        """The section of a street."""
        if name not in self.streets:
            known = brief(", ".join(sorted(self.streets))) or "none: its edges have no names"
            raise InputError(f"section must name a street of the network, got {name!r}; there are {known}")
        return self.chain(self.streets[name])

    def degrees(self) -> Callable[[Array], Array] | None:
        """What turns points in metres into longitudes and latitudes; None if the network lies nowhere on Earth."""
        if self.projection in _NO_PROJECTION:
            return None
        try:
            from pyproj import Proj
            from pyproj.exceptions import CRSError
        except ImportError:
            raise MissingExtraError("degrees instead of metres", "positions") from None
        try:
            project = Proj(self.projection)
        except CRSError:
            raise InputError(f"a network's projParameter must be one of PROJ, got {shown(self.projection)}") from None

        def convert(points: Array) -> Array:
            x, y = (np.asarray(points) - self.offset_m).T
            lon, lat = project(x, y, inverse=True)
            return np.stack([lon, lat], axis=-1)

        return convert


def street_section(name_at_network: str) -> str:
    """The section of a street, written NAME@NETWORK.net.xml."""
    name, _, file = name_at_network.rpartition("@")
    return read_network(Path(file)).street_section(name)


def is_network(file: Path) -> bool:
    return _bare(file).endswith(".net.xml")


def is_configuration(file: Path) -> bool:
    return _bare(file).endswith(".sumocfg")


def _bare(file: Path) -> str:
    return file.name.lower().removesuffix(".gz")


def network_file(configuration: Path) -> Path:
    """The network that a configuration of SUMO names."""
    with in_sentences("SUMO's configuration", configuration), opened(configuration) as binary:
        for _, name, values in xml_elements(configuration, binary):
            if name in _NET_FILE and (given := values.get("value") or values.get("v")):
                return configuration.parent / given
    raise broken_line(configuration, 1, "a net-file", "none")


def read_network(file: str | os.PathLike[str]) -> Network:
    """A network of SUMO, `.net.xml`, also `.gz`."""
    file = Path(file)
    reader = _Reader(file)
    with in_sentences("network", file), opened(file) as binary:
        for line, name, values in xml_elements(file, binary):
            reader.take(line, name, values)
    if not reader.edges:
        raise broken_line(file, 1, "a network of SUMO with edges that have lanes", "none")
    return Network(reader.edges, reader.junctions, reader.projection, reader.offset_m, reader.between())


@dataclass
class _Reader:
    """Takes a network's elements one after the other."""

    file: Path
    edges: dict[str, NetworkEdge] = field(default_factory=dict)
    junctions: dict[str, tuple[float, float]] = field(default_factory=dict)
    projection: str = ""
    offset_m: tuple[float, float] = (0.0, 0.0)
    via: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _edge: dict[str, str] | None = None  # whose lanes come next

    def take(self, line: int, name: str, values: dict[str, str]) -> None:
        try:
            match name:
                case "location":
                    x, y = map(_number, values.get("netOffset", "0,0").split(","))
                    self.offset_m, self.projection = (x, y), values.get("projParameter", "")
                case "edge":
                    self._edge = values if "function" not in values or values["function"] == "normal" else None
                case "lane" if self._edge is not None:
                    self._take_lane(self._edge, values)
                    self._edge = None  # the other lanes lie beside the first
                case "junction" if values.get("type") not in _NO_CROSSING:
                    self.junctions[values["id"]] = (_number(values["x"]), _number(values["y"]))
                case "connection" if "via" in values:
                    inner = values["via"].rpartition("_")[0]
                    self.via.setdefault((values["from"], values["to"]), set()).add(inner)
        except (KeyError, ValueError) as error:
            raise broken_line(
                self.file, line, f"a {name} as SUMO writes it", f"{brief(str(error))} in {values}"
            ) from None

    def _take_lane(self, edge: dict[str, str], lane: dict[str, str]) -> None:
        line = np.array([[_number(each) for each in point.split(",")[:2]] for point in lane["shape"].split()])
        if line.ndim != 2 or line.shape[1] != 2:
            raise ValueError("its shape")
        if not (length_m := _number(lane["length"])) > 0:
            raise ValueError("its length")
        street, ends = edge.get("name", ""), (edge.get("from", ""), edge.get("to", ""))
        self.edges[edge["id"]] = NetworkEdge(street, length_m, line, *ends)

    def between(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Edges inside junctions by the two edges that they join; some lead on to a second one."""
        found = dict[tuple[str, str], tuple[str, ...]]()
        for (start, end), inner in self.via.items():
            if start in self.edges:
                further = {each for one in inner for each in self.via.get((one, end), ())}
                found[start, end] = tuple(sorted(inner | further))
        return found


def _number(text: str) -> float:
    number = float(text)
    if not abs(number) <= MOST:
        raise ValueError(f"no number of at most {MOST:g}: {text}")
    return number
