"""A small valid file of every kind that a person may give to mobfl, and the reader that takes it."""

import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow
from pyarrow import parquet
from safetensors.numpy import save

from mobfl import InputError
from mobfl.app.deployments import Deployment
from mobfl.app.maps import drawn
from mobfl.deploy.recorded import read_deployment
from mobfl.experiments.sweep_file import load_sweep
from mobfl.files.json import read_json
from mobfl.mobility.cities import read_city
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.networks import network_file, read_network
from mobfl.mobility.places import PLACE_KINDS, places_of
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.scanning import scan
from mobfl.mobility.sections import parse_section
from mobfl.runs.checkpoint import read_checkpoint
from mobfl.scenario import Scenario, at_station, listed, load_scenario
from mobfl.tasks.beams.raymobtime import read_raymobtime
from mobfl.tasks.images.cifar import read_cifar10
from mobfl.tasks.trajectories.argoverse1 import read_sequence
from mobfl.tasks.trajectories.argoverse2 import read_scenario
from mobfl.tasks.trajectories.argoverse_maps import read_centerlines, read_vector_map

T = TypeVar("T")
Content = str | dict[str, Any]  # text, or columns and arrays by name


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name, what a valid one holds, how that becomes bytes, and how the file is read."""

    name: str
    content: Content
    pack: Callable[[Any], bytes]
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()  # other files that its reader wants, which stay as they are
    names_file: bool = True  # whether sentences must name the file: of a TOML they name the key


def text(content: str) -> bytes:
    return content.encode("utf-8", "surrogatepass")


def packed_text(content: str) -> bytes:
    return gzip.compress(text(content), mtime=0)


def table(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


def archive(arrays: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def tensors(arrays: dict[str, Any]) -> bytes:
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(plain, metadata={"mobfl": json.dumps({"rounds": 3, "rejections": {}})})


def raw(arrays: dict[str, Any]) -> bytes:
    return b"".join(np.asarray(array).tobytes() for array in arrays.values())


_OWN = {"vehicle": ["red", "blue", "red", "7"], "enter_s": [0.5, 3.0, 30.0, 31.0], "leave_s": [20.0, 21.5, 50.0, 31.0]}
OWN_CSV = "vehicle,enter_s,leave_s\nred,0.5,20\nblue,3,21.5\nred,30,50\n7,31,31\n"
TRIPS = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<tripinfos>\n<tripinfo id="b" depart="9.00" arrival="29.00"/>\n'
    '<tripinfo id="a" depart="1.50" arrival="30.00"><emissions CO="1"/></tripinfo>\n'
    '<tripinfo id="c" depart="50.00" arrival="-1.00"/>\n</tripinfos>\n'
)
_DRIVE = [(float(k), "car", 10.0 * k - 40, 0.0, "e_0", 10.0 * k, 10.0) for k in range(9)]
_FCD = dict(zip(("time", "id", "x", "y", "lane", "pos", "speed"), map(list, zip(*_DRIVE, strict=True)), strict=True))
FCD_CSV = "time;id;x;y;lane;pos;speed\n" + "".join(";".join(map(str, row)) + "\n" for row in _DRIVE)
FCD_XML = (
    "<fcd-export>\n"
    + "".join(
        f'<timestep time="{t}">\n<vehicle id="{v}" x="{x}" y="{y}" lane="{lane}" pos="{pos}" speed="{speed}"/>\n'
        "</timestep>\n"
        for t, v, x, y, lane, pos, speed in _DRIVE
    )
    + "</fcd-export>\n"
)
_NGSIM = "Vehicle_ID,Global_Time,Local_X,Local_Y\n" + "".join(f"2,{1000 + 100 * k},10,{10 * k}\n" for k in range(9))
_HIGHD = "frame,id,x,y,width,height\n" + "".join(f"{k},7,{k - 2},8,4,2\n" for k in range(1, 9))
# Past a place in Bologna, in 8 s: the same in the ways in which GPS traces are published.
_WAY = [(8 + k, 11.34 + 1e-4 * (k - 4), 44.49) for k in range(9)]
_NEAR = "circle:11.34,44.49,25"
_DAY = "2014-02-01 00:00:"
_POSITIONS = {
    "gps.csv": "time,id,lat,lon\n" + "".join(f"{t},7,{lat},{lon}\n" for t, lon, lat in _WAY),
    "t-drive.txt": "".join(f"7,{_DAY}{t:02},{lon},{lat}\n" for t, lon, lat in _WAY),
    "cab.txt": "".join(f"{lat} {lon} 0 {1213084687 + t}\n" for t, lon, lat in reversed(_WAY)),
    "roma.txt": "".join(f"7;{_DAY}{t:02}.5+01;POINT({lat} {lon})\n" for t, lon, lat in _WAY),
    "porto.csv": 'TAXI_ID,TIMESTAMP,POLYLINE\n7,1372636858,"' + f"{[[lon, lat] for _, lon, lat in _WAY]}" + '"\n',
    "pneuma.csv": "track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time\n1; Car; 8; 30"
    + "".join(f"; {lat}; {lon}; 30; 0; 0; {t / 25}" for t, lon, lat in _WAY) + "\n",
}  # fmt: skip
_KOLN = "".join(f"{k} v1 {10 * k - 40} 0.5 10.0\n" for k in range(9))
_IND = "recordingId,trackId,frame,xCenter,yCenter\n" + "".join(f"0,3,{k},{k - 2},8\n" for k in range(1, 9))
SCENARIO = (
    "[road]\nlength_m = 400\n[traffic]\nspeed_mps = 20.0\narrivals_per_s = 0.1\n[link]\ndownload_s = 1\nupload_s = 1\n"
    "[compute]\nstep_samples = [0.2, 0.25, 0.4]\n[training]\nbatch_size = 64\nsamples_per_vehicle = [64, 1024]\n"
    '[[fleet]]\nname = "old"\nshare = 0.4\n[[fleet]]\nname = "new"\nshare = 0.6\nmin_step_s = 0.1\n'
)
SWEEP = (
    'title = "a few"\n[[runs]]\ntasks = ["images"]\nscenarios = ["paper"]\nplans = ["mobfl"]\nlocal_steps = [5, 24]\n'
    'round_s = [5, 10.5]\nrules = ["mean"]\nseeds = [1, 2]\noptions = {width = 4}\ntrace = "a.csv"\n'
    'set = {"training.duration_s" = 2500}\nvary = {"training.learning_rate" = [0.05, 0.1]}\n'
)
CITY = (
    "[road]\nlength_m = 400\n[traffic]\narrivals_per_s = 0.1\n[training]\nduration_s = 100\n"
    "[corridor]\nevery_m = 900.0\nturns_off = 0.25\njoins = false\n[cloud]\nevery_rounds = 2\nbackhaul_s = 0.05\n"
    'weights = "equal"\ncarried = "mix"\ncarried_share = 0.4\n'
    '[[stations]]\nname = "west"\nsection = "stretch:0:400"\nplan = "24,12"\nlink = {upload_s = 2.0}\n'
    '[[stations]]\nname = "east"\nroad = {length_m = 300.0}\n'
)
_PASSING = {"station": ["A", "B", "B"], **{name: values[:3] for name, values in _OWN.items()}}
_PASSING_CSV = "station,vehicle,enter_s,leave_s\nA,red,0.5,20\nB,blue,3,21.5\nB,red,30,50\n"
_TWO = Scenario.from_dict({"stations": [{"name": "A"}, {"name": "B"}]})
NETWORK = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<net version="1.20">\n'
    '<location netOffset="-690000,-4925000" projParameter="+proj=utm +zone=32 +ellps=WGS84 +units=m +no_defs"/>\n'
    '<edge id=":j_0" function="internal"><lane id=":j_0_0" length="5" shape="95,0 100,0"/></edge>\n'
    '<edge id="a" from="i" to="j" name="Via Roma"><lane id="a_0" length="95" shape="0,0 50,0.5 95,0"/></edge>\n'
    '<edge id="b" from="j" to="k"><lane id="b_0" length="90" shape="100,0,5 190,0,5"/></edge>\n'
    '<junction id="i" type="dead_end" x="0" y="0"/><junction id="j" type="priority" x="98" y="0"/>\n'
    '<connection from="a" to="b" via=":j_0_0" dir="s"/>\n</net>\n'
)
_SUMO = '<configuration>\n<input>\n<net-file value="road.net.xml"/>\n</input>\n</configuration>\n'
_EVENTS = (
    {"kind": "started", "round": 0, "at_s": 0.0, "unix_s": 1e9, "scale": 0.5},
    {"kind": "measured", "round": 0, "at_s": 0.0, "round_trip_s": 0.2, "messages": 5},
    *(
        {
            "kind": kind,
            "round": k,
            "at_s": 8.0 * k + at_s,
            "node": str(2**63 - 1),
            "vehicle": "red",
            "attempt": 0,
            **more,
        }
        for k in range(12)
        for kind, at_s, more in (("began", 0.5, {}), ("uploaded", 6.5, {"compute_s": 4.0}))
    ),
    {"kind": "rejected", "round": 12, "at_s": 97.0, "node": "7", "attempt": 0, "reason": "not finite"},
    {"kind": "left", "round": 12, "at_s": 98.0, "node": "7", "attempt": 0},
    {"kind": "taken_back", "round": 12, "at_s": 99.0, "rounds": [11]},
    {"kind": "ended", "round": 12, "at_s": 104.0, "present": 1},
)
_LOG = "".join(json.dumps(each) + "\n" for each in _EVENTS)
_RUN = json.dumps({"scenario": {"road": {"length_m": 400}}, "seed": 1, "plan": {"local_steps": 24}, "status": "done"})
_SEQUENCE = "TIMESTAMP,TRACK_ID,OBJECT_TYPE,X,Y,CITY_NAME\n" + "".join(
    f"{0.1 * k:.1f},b,AGENT,{k},2.5,MIA\n{0.1 * k:.1f},z,AV,5.0,6.0,MIA\n" for k in range(50)
)
VECTOR_MAP = (
    '<ArgoverseVectorMap>\n<node id="0" x="0.5" y="0.25"/>\n<node id="1" x="10.5" y="0.25"/>\n'
    '<node id="2" x="20" y="0.25"/>\n<way lane_id="100"><tag k="turn_direction" v="NONE"/><nd ref="0"/><nd ref="1"/>'
    '<tag k="successor" v="200"/></way>\n<way lane_id="200"><tag k="is_intersection" v="True"/>'
    '<nd ref="1"/><nd ref="2"/><tag k="l_neighbor_id" v="None"/></way>\n</ArgoverseVectorMap>\n'
)


def _tracks() -> dict[str, Any]:
    seen = [("71", step) for step in range(110)] + [("AV", step) for step in range(0, 110, 2)]
    names = {"scenario_id": "s1", "focal_track_id": "71", "city": "austin"}
    return {
        "track_id": [name for name, _ in seen],
        "timestep": [step for _, step in seen],
        "position_x": [float(step) for _, step in seen],
        "position_y": [1.0] * len(seen),
        **{name: [value] * len(seen) for name, value in names.items()},
    }


def _lane(name: int, x: float) -> dict[str, Any]:
    sides = {
        f"{side}_lane_boundary": [{"x": x, "y": y, "z": 0.0}, {"x": x + 9, "y": y, "z": 0.0}]
        for side, y in (("left", 4.0), ("right", 0.0))
    }
    links = {"successors": [8], "predecessors": [], "left_neighbor_id": None, "right_neighbor_id": 7}
    return {"id": name, "is_intersection": False, **sides, **links}


LANES = json.dumps({"lane_segments": {"7": _lane(7, 0.0), "8": _lane(8, 9.0)}})


def _beams() -> dict[str, Any]:
    grids = np.zeros((5, 20, 200, 10), np.int8)
    grids[:, 3, ::7, 2], grids[:, 5, 10, 0], grids[:, 9, 0, 0] = 1, -2, -1
    return {"LIDAR": grids, "Y": np.eye(256)[:5], "POS": np.arange(15.0).reshape(5, 3)}


def _centre_lines() -> dict[str, Any]:
    points = np.array([(0.0, 0.0), (10.0, 0.0), (10.0, 0.0), (20.0, 0.0), (0.0, 3.0), (10.0, 3.0)])
    return {"points": points, "offsets": np.array([0, 2, 4, 6])}


def _model() -> dict[str, Any]:
    return {"layer.weight": np.ones((3, 2), np.float32), "layer.bias": np.zeros(3, np.float32)}


_PICTURES = np.zeros((2, 3073), np.uint8)
_BOX, _EDGE = parse_section("box:-15,-15,15,15"), parse_section("edge:e:15:55")
_MAP, _RECORDED = "log_map_archive_s1.json", "scenario_s1.parquet"


def _deployed() -> tuple[tuple[str, bytes], ...]:
    """What lies beside a deployment's events."""
    run = {
        "plan": {"policy": "rounds"}, "scenario": {}, "deployment": {"impose": False, "scale": 1.0}, "seed": 0,
        "initial": {"loss": 1.0}, "kpis": {}, "status": "done", "reason": None, "results": None,
    }  # fmt: skip
    rows = {
        "round": list(range(13)),
        "start_s": [8.0 * k for k in range(13)],
        "end_s": [8.0 * k + 8 for k in range(13)],
    }
    counts = {name: [1] * 13 for name in ("local_steps", "present", "uploads", "rejected")}
    return ("run.json", json.dumps(run).encode()), ("rounds.parquet", table({**rows, **counts, "loss": [1.0] * 13}))


def _read_network(file: Path) -> object:
    """With all places that are on it, where they lie on Earth, too."""
    network = read_network(file)
    kinds = [_asked(partial(places_of, kind, network, network.bounds, length_m=40.0)) or [] for kind in PLACE_KINDS]
    degrees = _asked(network.degrees)
    return [degrees(place.lines[0]) for places in kinds for place in places] if degrees else kinds


def _asked(what: Callable[[], T]) -> T | None:
    """None if a sentence comes instead, which here is of a place or a projection and names no file."""
    with suppress(InputError):
        return what()
    return None


def _read_city(file: Path) -> object:
    scenario = load_scenario(file)
    return [at_station(scenario, place) for place in range(len(listed(scenario)))], scenario.to_dict()


def _read_beside(file: Path) -> Crossings:
    return read_crossings(file.with_name("00_tracks.csv"), _BOX)


def _read_events(file: Path) -> object:
    """As the page shows them, as JSON that a browser takes, and as a trace."""
    json.dumps(Deployment(file.parent).look(), allow_nan=False).encode()
    return read_deployment(file.parent)


def _read_map(file: Path) -> object:
    return drawn(file.read_bytes(), file.name)


def _read_near(file: Path) -> Crossings:
    return read_crossings(file, parse_section(_NEAR))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("own.csv", OWN_CSV, text, read_crossings),
        Kind("own.csv.gz", OWN_CSV, packed_text, read_crossings),
        Kind("own.parquet", _OWN, table, read_crossings),
        Kind("trips.xml", TRIPS, text, read_crossings),
        Kind("trips.xml.gz", TRIPS, packed_text, read_crossings),
        Kind("fcd.xml", FCD_XML, text, lambda file: read_crossings(file, _EDGE)),
        Kind("fcd-box.xml", FCD_XML, text, lambda file: read_crossings(file, _BOX)),
        Kind("fcd.csv", FCD_CSV, text, lambda file: read_crossings(file, parse_section("circle:0,0,15"))),
        Kind("fcd.parquet", _FCD, table, lambda file: read_crossings(file, _EDGE)),
        Kind("ngsim.csv", _NGSIM, text, lambda file: read_crossings(file, _BOX)),
        Kind("highd.csv", _HIGHD, text, lambda file: read_crossings(file, _BOX)),
        *(Kind(name, content, text, _read_near) for name, content in _POSITIONS.items()),
        Kind("koln.tr", _KOLN, text, lambda file: read_crossings(file, _BOX)),
        Kind("00_tracks.csv", _IND, text, lambda file: read_crossings(file, _BOX)),
        Kind("road.toml", SCENARIO, text, load_scenario, names_file=False),
        Kind("sweep.toml", SWEEP, text, load_sweep, names_file=False),
        Kind(
            "steps.txt", "seconds\n0.2\n0.25\n0.4\n", text, lambda file: load_scenario(file.parent / "measured.toml"),
            (("measured.toml", b'[compute]\nstep_samples = "steps.txt"\n'),),
        ),
        Kind("city.toml", CITY, text, _read_city, names_file=False),
        Kind("city.csv", _PASSING_CSV, text, lambda file: read_city(_TWO, file)),
        Kind("city.parquet", _PASSING, table, lambda file: read_city(_TWO, file)),
        Kind("scan.xml", FCD_XML, text, scan),
        Kind("scan.csv.gz", FCD_CSV, packed_text, scan),
        Kind("scan.parquet", _FCD, table, scan),
        Kind("road.net.xml", NETWORK, text, _read_network),
        Kind("road.net.xml.gz", NETWORK, packed_text, _read_network),
        Kind("road.sumocfg", _SUMO, text, network_file),
        Kind("map.xml", NETWORK, text, _read_map),
        Kind("map.xml.gz", NETWORK, packed_text, _read_map, names_file=False),
        Kind("map.csv", FCD_CSV, text, _read_map, names_file=False),
        Kind(
            "00_recordingMeta.csv", "recordingId,frameRate\n0,25\n", text, _read_beside,
            (("00_tracks.csv", text(_IND)),),
        ),
        Kind("events.jsonl", _LOG, text, _read_events, _deployed(), names_file=False),
        Kind("run.json", _RUN, text, lambda file: read_json(file, "a run's folder")),
        Kind("beams.npz", _beams(), archive, lambda file: read_raymobtime(file, "auto")),
        Kind("MIA_lane_centerlines.npz", _centre_lines(), archive, read_centerlines),
        Kind("vector_map.xml", VECTOR_MAP, text, read_vector_map),
        Kind("sequence.csv", _SEQUENCE, text, read_sequence),
        Kind(_RECORDED, _tracks(), table, lambda file: read_scenario(file.parent), ((_MAP, LANES.encode()),)),
        Kind(_MAP, LANES, text, lambda file: read_scenario(file.parent), ((_RECORDED, table(_tracks())),)),
        Kind(
            "test_batch.bin", {"records": _PICTURES}, raw, lambda file: read_cifar10(file.parent),
            tuple((f"data_batch_{k}.bin", _PICTURES.tobytes()) for k in range(1, 6)),
        ),
        Kind("last.safetensors", _model(), tensors, lambda file: read_checkpoint(file, _model())),
    )
}  # fmt: skip
