"""Traffic from SUMO: a configuration of your own, or a straight road made for a scenario.

SUMO's library allows one simulation per process, so it runs in a child process (`sumo_worker`), which sends back its
progress and the crossings. Needs the extra `sumo`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypedDict, Unpack
from xml.etree import ElementTree

import numpy as np

from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.mobility.crossings import Crossings, named
from mobfl.mobility.sections import parse_section
from mobfl.mobility.tracks import Tracks
from mobfl.scenario import Scenario

LONGEST_STEP_S = 0.5
_APPROACH_M = 300.0
_EXIT_M = 100.0
_YELLOW_S = 3.0
_LIBRARIES = "libgl1 libx11-6 libxrender1 libatomic1"


class SumoError(MobflError):
    """SUMO could not run what it was given."""


class _Settings(TypedDict, total=False):
    """Of a simulation, as `sumo_stations` has them."""

    duration_s: float | None
    warmup_s: float
    step_s: float
    seed: int
    keep_tracks: bool
    progress: Callable[[float], None]


def sumo_crossings(config: Path, section: str, **settings: Unpack[_Settings]) -> Crossings:
    """The crossings of a section in a SUMO simulation, without those who enter during the warm-up.

    With a step of one second a dwell of twenty would be off by 4 %: steps are at most half a second long, and the
    instants of entering and leaving are found between them. With `keep_tracks`, where everybody was at each step.
    """
    return sumo_stations(config, {"": section}, **settings)[""]


def sumo_stations(
    config: Path,
    sections: Mapping[str, str],
    *,
    duration_s: float | None = None,
    warmup_s: float = 0.0,
    step_s: float = LONGEST_STEP_S,
    seed: int = 0,
    keep_tracks: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, Crossings]:
    """As `sumo_crossings`, of several sections by the names of their stations, in one simulation.

    A vehicle has the same name in all of them. A section that nobody crosses has an empty table.
    """
    for section in sections.values():
        parse_section(section)
    if not 0 < step_s <= LONGEST_STEP_S:
        raise InputError(f"step must be > 0 and <= {LONGEST_STEP_S} s, got {step_s:g}")
    if not config.is_file():
        raise InputError(f"SUMO's configuration must be a file, got {str(config)!r}")
    with tempfile.TemporaryDirectory(prefix="mobfl-crossings-") as folder:
        job = {
            "config": str(config), "sections": list(sections.values()), "duration_s": duration_s, "warmup_s": warmup_s,
            "step_s": step_s, "seed": seed, "tracks": keep_tracks, "folder": folder,
        }  # fmt: skip
        _run(job, progress)
        return {name: _read(Path(folder) / f"{i}.npz") for i, name in enumerate(sections)}


def _read(file: Path) -> Crossings:
    with np.load(file) as stored:
        tracks = Tracks(*(stored[field.name] for field in fields(Tracks))) if "first" in stored else None
        who = named(stored["vehicle"].tolist())
        return Crossings(who, stored["enter_s"], stored["leave_s"], tracks, stored.get("cut"))


@dataclass(frozen=True)
class Signal:
    """A traffic light where the section begins: green for `green_s` in every cycle."""

    cycle_s: float
    green_s: float

    def __post_init__(self) -> None:
        if not 0 < self.green_s < self.cycle_s - _YELLOW_S:
            rule = f"0 < GREEN < CYCLE - {_YELLOW_S:g} s"
            raise InputError(f"signal must have {rule}, got {self.cycle_s:g},{self.green_s:g}")


def straight_road_crossings(
    scenario: Scenario,
    *,
    lanes: int = 1,
    signal: Signal | None = None,
    duration_s: float = 3600.0,
    warmup_s: float = 300.0,
    step_s: float = LONGEST_STEP_S,
    seed: int = 0,
    keep_tracks: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> Crossings:
    """SUMO on a straight road with the scenario's length, arrivals, speed and spread of speeds."""
    if lanes < 1:
        raise InputError(f"lanes must be >= 1, got {lanes}")
    with tempfile.TemporaryDirectory(prefix="mobfl-sumo-") as folder:
        config = _straight_road(Path(folder), scenario, lanes, signal, warmup_s + duration_s)
        crossings = sumo_crossings(
            config, "edge:section", duration_s=warmup_s + duration_s, warmup_s=warmup_s,
            step_s=step_s, seed=seed, keep_tracks=keep_tracks, progress=progress,
        )  # fmt: skip
    # A random flow's first vehicle departs when the flow begins, which is not random at all.
    return crossings.take(crossings.vehicle != "flow.0")


# ---- the child process ----------------------------------------------------------------------------


def _run(job: dict[str, Any], progress: Callable[[float], None]) -> None:
    """Runs the job; progress is the share that is done."""
    command = [sys.executable, "-m", "mobfl.mobility.sumo_worker", json.dumps(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None and child.stderr is not None  # noqa: PT018
            for line in child.stdout:
                match json.loads(line) if line.startswith("{") else None:  # SUMO may talk in between
                    case {"share": share}:
                        progress(share)
                    case {"refused": reason}:
                        raise InputError(reason)
            complaint = child.stderr.read()
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise explained(complaint, child.returncode)


def explained(complaint: str, status: int) -> MobflError:
    if "No module named 'libsumo'" in complaint:
        return MissingExtraError("traffic from SUMO", "sumo")
    if "cannot open shared object file" in complaint:
        return SumoError(
            f"SUMO needs libGL, libX11, libXrender and libatomic, which are not all there: apt-get install {_LIBRARIES}"
        )
    lines = [line for line in complaint.splitlines() if line.startswith("Error")] or complaint.splitlines()[-1:]
    return SumoError(f"SUMO ended with status {status}: {' '.join(lines) or 'no message'}")


# ---- the straight road ----------------------------------------------------------------------------


def _straight_road(folder: Path, scenario: Scenario, lanes: int, signal: Signal | None, end_s: float) -> Path:
    """Writes network, vehicles and configuration: an approach, the section, an exit."""
    length, traffic = scenario.road.length_m, scenario.traffic
    ends = np.cumsum([0.0, _APPROACH_M, length, _EXIT_M])
    nodes = ElementTree.Element("nodes")
    for name, x in zip(("start", "gate", "end", "out"), ends, strict=True):
        kind = "traffic_light" if signal and name == "gate" else "priority"
        ElementTree.SubElement(nodes, "node", id=name, x=f"{x}", y="0", type=kind)
    edges = ElementTree.Element("edges")
    for name, a, b in (("approach", "start", "gate"), ("section", "gate", "end"), ("exit", "end", "out")):
        values = {"id": name, "from": a, "to": b, "numLanes": str(lanes), "speed": f"{traffic.speed_mps}"}
        ElementTree.SubElement(edges, "edge", values)
    _write(folder / "road.nod.xml", nodes)
    _write(folder / "road.edg.xml", edges)
    _netconvert(folder)
    _write(folder / "road.rou.xml", _vehicles(scenario, end_s))
    additional = ElementTree.Element("additional")
    if signal:
        _add_signal(additional, signal, lanes)
    _write(folder / "road.add.xml", additional)
    config = ElementTree.Element("configuration")
    inputs = ElementTree.SubElement(config, "input")
    for key, file in (("net-file", "net"), ("route-files", "rou"), ("additional-files", "add")):
        ElementTree.SubElement(inputs, key, value=f"road.{file}.xml")
    _write(folder / "road.sumocfg", config)
    return folder / "road.sumocfg"


def _vehicles(scenario: Scenario, end_s: float) -> ElementTree.Element:
    traffic = scenario.traffic
    routes = ElementTree.Element("routes")
    spread = traffic.speed_sd_mps / traffic.speed_mps
    # normc is SUMO's normal law cut off at both ends; vehicles may exceed the road's speed by their factor.
    kind = {"id": "car", "speedFactor": f"normc(1,{spread},0.1,3)", "maxSpeed": f"{3 * traffic.speed_mps}"}
    ElementTree.SubElement(routes, "vType", kind)
    flow = {
        "id": "flow", "type": "car", "begin": "0", "end": f"{end_s}", "from": "approach", "to": "exit",
        "period": f"exp({traffic.arrivals_per_s})", "departLane": "best", "departSpeed": "max",
    }  # fmt: skip
    ElementTree.SubElement(routes, "flow", flow)
    return routes


def _add_signal(additional: ElementTree.Element, signal: Signal, lanes: int) -> None:
    logic = ElementTree.SubElement(additional, "tlLogic", id="gate", type="static", programID="mobfl", offset="0")
    red_s = signal.cycle_s - signal.green_s - _YELLOW_S
    for seconds, state in ((signal.green_s, "G"), (_YELLOW_S, "y"), (red_s, "r")):
        ElementTree.SubElement(logic, "phase", duration=f"{seconds}", state=state * lanes)


def _write(file: Path, root: ElementTree.Element) -> None:
    ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _netconvert(folder: Path) -> None:
    try:
        import sumo
    except ImportError:
        raise MissingExtraError("traffic from SUMO", "sumo") from None
    command = [
        str(Path(sumo.SUMO_HOME) / "bin/netconvert"), "--node-files", "road.nod.xml", "--edge-files", "road.edg.xml",
        "--output-file", "road.net.xml", "--no-turnarounds", "true",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise explained(done.stderr, done.returncode)
