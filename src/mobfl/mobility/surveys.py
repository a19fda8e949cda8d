"""Traffic all over a network or a recording, from one pass: what many sections see of the same vehicles."""

import fnmatch
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mobfl.errors import InputError, MissingExtraError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.networks import Bounds, Network, is_configuration, is_network, network_file, read_network
from mobfl.mobility.places import Place, PlaceKind, places_by_name, places_of
from mobfl.mobility.recorded import read_stations
from mobfl.mobility.scanning import Scan, scan
from mobfl.mobility.sections import Tentative, parse_section
from mobfl.mobility.sumo import LONGEST_STEP_S, explained

_DRIVEN = "id,x,y,lane,pos,speed,type"


@dataclass(frozen=True)
class Survey:
    """Recorded positions, and the network that they are on if it is known."""

    positions: Path
    network: Network | None

    @cached_property
    def bounds(self) -> Bounds:
        """Of the network, or where there is none of all positions, which takes a pass of its own."""
        return self._scan.bounds if self.network is None else self.network.bounds

    @cached_property
    def _scan(self) -> Scan:
        return scan(self.positions)

    def places(
        self,
        kind: PlaceKind | None = None,
        area: Bounds | None = None,
        radius_m: float = 100.0,
        spacing_m: float | None = None,
        length_m: float | None = None,
    ) -> list[Place]:
        """Possible sections, as `places_of` has them; edges of a recording without a network by their names alone."""
        wanted: PlaceKind = kind or "edges"
        if self.network is None and wanted == "edges":
            if not self._scan.edges:
                raise InputError("kind must be grid where neither a network nor the file names edges, got edges")
            return places_by_name(self._scan.edges)
        return places_of(wanted, self.network, area or self.bounds, radius_m, spacing_m, length_m)

    def crossings(
        self,
        sections: Mapping[str, str],
        classes: Collection[str] = (),
        longest_stay_s: float | None = None,
    ) -> dict[str, Crossings]:
        """Of every section, by its name, in one pass over the positions.

        Args:
            sections: As `--section` takes them.
            classes: Only vehicles of one of these types; patterns such as `bus*` may match several. Takes a pass of its
                own.
            longest_stay_s: Longer stays are left out.
        """
        parsed = Tentative({name: parse_section(section) for name, section in sections.items()})
        kept = _of_classes(self._scan.class_of, classes) if classes else None
        found = read_stations(self.positions, parsed, longest_stay_s=longest_stay_s)
        if kept is None:
            return found
        return {name: each.take(_chosen(each, kept)) for name, each in found.items()}


def _of_classes(class_of: Mapping[str, str], wanted: Collection[str]) -> set[str]:
    """The vehicles of these classes."""
    kept = {vehicle for vehicle, each in class_of.items() if any(fnmatch.fnmatchcase(each, want) for want in wanted)}
    if not kept:
        known = ", ".join(sorted(set(class_of.values()))) or "none: the file tells no types"
        raise InputError(f"class must be one that vehicles have, got {', '.join(wanted)}; there are {known}")
    return kept


def _chosen(crossings: Crossings, kept: Collection[str]) -> "np.typing.NDArray[np.bool_]":
    return np.array([str(vehicle) in kept for vehicle in crossings.vehicle], np.bool_)


@contextmanager
def surveyed(source: Path, trace: Path | None = None, keep: Path | None = None, seed: int = 0) -> Iterator[Survey]:
    """What a network or a recording has to tell.

    Args:
        source: A configuration of SUMO (`.sumocfg`), which drives first; a network (`.net.xml`) with a `trace` on it;
            or a file of positions alone.
        trace: Positions on the network.
        keep: A `.parquet` file for what SUMO drives; by default it is removed in the end.
        seed: Of SUMO.
    """
    if is_configuration(source):
        if trace is not None:
            raise InputError(f"trace goes with a network, got it with the configuration {str(source)!r}, which drives")
        network = read_network(network_file(source))
        with tempfile.TemporaryDirectory(prefix="mobfl-survey-") as folder:
            positions = Path(folder) / "positions.parquet" if keep is None else keep
            drive(source, positions, seed)
            yield Survey(positions, network)
        return
    if keep is not None:
        raise InputError(f"keep goes with a configuration of SUMO (.sumocfg), got {str(source)!r}")
    if is_network(source):
        if trace is None:
            raise InputError(f"network {str(source)!r} has no traffic: give a trace on it, or its .sumocfg")
        yield Survey(trace, read_network(source))
    elif trace is not None:
        raise InputError(f"trace goes with a network (.net.xml), got {str(source)!r}")
    else:
        yield Survey(source, None)


def drive(config: Path, positions: Path, seed: int = 0, step_s: float = LONGEST_STEP_S) -> None:
    """Lets SUMO drive and write where everybody is at every step, as Parquet."""
    if positions.suffix != ".parquet":
        raise InputError(f"keep must be a .parquet file, got {str(positions)!r}")
    try:
        import sumo
    except ImportError:
        raise MissingExtraError("traffic from SUMO", "sumo") from None
    command = [
        str(Path(sumo.SUMO_HOME) / "bin/sumo"), "-c", str(config), "--step-length", str(step_s), "--seed", str(seed),
        "--no-step-log", "true", "--no-warnings", "true", "--duration-log.disable", "true",
        "--fcd-output", str(positions.absolute()), "--fcd-output.attributes", _DRIVEN,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        positions.unlink(missing_ok=True)
        raise explained(done.stderr, done.returncode)
