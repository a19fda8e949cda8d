"""Recorded traffic: every format read, every mistake named with file, line and rule."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings, write_crossings
from mobfl.mobility.sections import Box, Circle, Edge, parse_section

OWN = "vehicle,enter_s,leave_s\nred,0.5,20\nblue,3,21.5\n"
TRIPS = (
    '<tripinfos>\n<tripinfo id="b" depart="9.00" arrival="29.00"/>\n'
    '<tripinfo id="a" depart="1.50" arrival="30.00"/>\n'
    '<tripinfo id="c" depart="50.00" arrival="-1.00"/>\n</tripinfos>\n'
)


def fcd_xml(rows: list[tuple[float, list[tuple[str, float, float, str, float, float]]]]) -> str:
    steps = [
        f'<timestep time="{t}">'
        + "".join(
            f'<vehicle id="{v}" x="{x}" y="{y}" lane="{lane}" pos="{pos}" speed="{speed}"/>\n'
            for v, x, y, lane, pos, speed in seen
        )
        + "</timestep>\n"
        for t, seen in rows
    ]
    return "<fcd-export>\n" + "".join(steps) + "</fcd-export>\n"


# One car at 10 m/s from x = -100 along the x axis: edge "in" up to 0, then edge "mid" for 100 m, then "out".
def drive() -> list[tuple[float, list[tuple[str, float, float, str, float, float]]]]:
    steps = []
    for k in range(31):
        x = -100.0 + 10.0 * k
        edge, pos = ("in", x + 100) if x < 0 else ("mid", x) if x < 100 else ("out", x - 100)
        steps.append((float(k), [("car", x, 0.0, f"{edge}_0", pos, 10.0)] if k < 30 else []))
    return steps


def rows(crossings: Crossings) -> list[tuple[object, float, float]]:
    return [
        (vehicle, round(enter, 6), round(leave, 6))
        for vehicle, enter, leave in zip(
            crossings.vehicle.tolist(), crossings.enter_s.tolist(), crossings.leave_s.tolist(), strict=True
        )
    ]


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    if name.endswith(".gz"):
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text, encoding="utf-8")
    return file


# ---- what is read -----------------------------------------------------------------------------------


def test_our_own_tables(tmp_path: Path) -> None:
    crossings = read_crossings(write(tmp_path, "own.csv", OWN))
    assert rows(crossings) == [("red", 0.5, 20.0), ("blue", 3.0, 21.5)]
    for name in ("copy.csv", "copy.parquet"):
        write_crossings(crossings, tmp_path / name)
        assert rows(read_crossings(tmp_path / name)) == rows(crossings)
    numbered = Crossings(np.array([4, 2]), np.array([0.1, 1 / 3]), np.array([1.0, 2 / 3]))
    write_crossings(numbered, tmp_path / "numbers.csv")
    back = read_crossings(tmp_path / "numbers.csv")
    assert back.vehicle.dtype.kind == "i"
    assert np.array_equal(back.enter_s, numbered.enter_s)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.csv", "copy.parquet", "numbers.csv", "own.csv"]


@pytest.mark.parametrize("name", ["trips.xml", "trips.xml.gz"])
def test_tripinfo(tmp_path: Path, name: str) -> None:
    assert rows(read_crossings(write(tmp_path, name, TRIPS))) == [("a", 1.5, 30.0), ("b", 9.0, 29.0)]


@pytest.mark.parametrize(
    ("section", "enter", "leave"),
    [
        ("edge:mid", 10.0, 20.0),
        ("edge:mid:25:75", 12.5, 17.5),
        ("box:25,-5,75,5", 12.5, 17.5),
        ("circle:50,0,25", 12.5, 17.5),
        ("circle:50,3,5", 14.6, 15.4),  # in and out between two samples
    ],
)
def test_sections_of_floating_car_data(tmp_path: Path, section: str, enter: float, leave: float) -> None:
    crossings = read_crossings(write(tmp_path, "fcd.xml", fcd_xml(drive())), parse_section(section))
    assert rows(crossings) == [("car", enter, leave)]


@pytest.mark.parametrize(
    "header",
    [
        "timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_lane;vehicle_pos;vehicle_speed",
        "time;id;x;y;lane;pos;speed",
        "timestep_time,vehicle_id,vehicle_x,vehicle_y,vehicle_lane,vehicle_pos,vehicle_speed",
    ],
)
@pytest.mark.parametrize("section", ["edge:mid", "box:0,-5,100,5"])
def test_floating_car_tables(tmp_path: Path, header: str, section: str) -> None:
    separator = ";" if ";" in header else ","
    lines = [header]
    for t, seen in drive():
        lines += [separator.join(map(str, (t, *values))) for values in seen] or [f"{t}" + 6 * separator]
    crossings = read_crossings(write(tmp_path, "fcd.csv.gz", "\n".join(lines)), parse_section(section))
    assert rows(crossings) == [("car", 10.0, 20.0)]


def test_floating_car_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    flat = [(t, *values) for t, seen in drive() for values in seen]
    names = ["timestep_time", "vehicle_id", "vehicle_x", "vehicle_y", "vehicle_lane", "vehicle_pos", "vehicle_speed"]
    table = pa.table(dict(zip(names, map(list, zip(*flat, strict=True)), strict=True)))
    parquet.write_table(table, tmp_path / "fcd.parquet")
    assert rows(read_crossings(tmp_path / "fcd.parquet", parse_section("edge:mid"))) == [("car", 10.0, 20.0)]


def test_a_vehicle_that_returns_is_two_crossings(tmp_path: Path) -> None:
    there_and_back = [0.0, 10.0, 20.0, 30.0, 20.0, 10.0, 0.0]
    steps = [(float(k), [("taxi", x, 0.0, "e_0", x, 10.0)]) for k, x in enumerate(there_and_back)]
    crossings = read_crossings(write(tmp_path, "fcd.xml", fcd_xml(steps)), parse_section("box:5,-1,15,1"))
    assert rows(crossings) == [("taxi", 0.5, 1.5), ("taxi", 4.5, 5.5)]
    assert len(set(crossings.keys.tolist())) == 2


def test_a_vehicle_that_vanishes_left_where_it_was_last_seen(tmp_path: Path) -> None:
    steps = [(0.0, [("v", 0.0, 0.0, "e_0", 0.0, 1.0)]), (1.0, [("v", 1.0, 0.0, "e_0", 1.0, 1.0)]), (2.0, [])]
    crossings = read_crossings(write(tmp_path, "fcd.xml", fcd_xml(steps)), parse_section("box:-9,-9,9,9"))
    assert rows(crossings) == [("v", 0.0, 1.0)]


def test_ngsim(tmp_path: Path) -> None:
    """Feet and milliseconds; after a gap the number belongs to another visit."""
    lines = ["Vehicle_ID,Frame_ID,Global_Time,Local_X,Local_Y"]
    for start_ms in (1000, 60_000):
        lines += [f"2,{k},{start_ms + 100 * k},10,{k * 10}" for k in range(31)]
    crossings = read_crossings(write(tmp_path, "i80.csv", "\n".join(lines)), parse_section("box:0,15.24,10,45.72"))
    assert rows(crossings) == [(2, 1.5, 2.5), (2, 60.5, 61.5)]


def test_highd(tmp_path: Path) -> None:
    lines = ["frame,id,x,y,width,height"] + [f"{k},7,{k * 1.0 - 2},8,4,2" for k in range(1, 101)]
    crossings = read_crossings(write(tmp_path, "01_tracks.csv", "\n".join(lines)), parse_section("box:25,0,75,20"))
    assert rows(crossings) == [(7, 1.0, 3.0)]


# ---- what is refused ----------------------------------------------------------------------------------

BOX = "box:-9,-9,9,9"


@pytest.mark.parametrize(
    ("name", "text", "section", "sentence"),
    [
        ("a.csv", "", None, "line 1: there must be a header and rows, got an empty file"),
        ("a.csv", "vehicle,enter_s,leave_s\n", None, "line 1: there must be a header and rows"),
        ("a.csv", "vehicle,enter_s\n1,2\n", None, "line 1: there must be the columns vehicle, enter_s, leave_s, got no leave_s"),
        ("a.csv", OWN + "x,30,29\n", None, "line 4: there must be leave_s >= enter_s, got 30.0 to 29.0"),
        ("a.csv", OWN + "x,1,29\n", None, "line 4: there must be enter_s in order, got 1.0 to 29.0"),
        ("a.csv", OWN + "x,soon,29\n", None, "line 4: there must be a number in enter_s, got 'soon'"),
        ("a.csv", OWN + "x,nan,29\n", None, "line 4: there must be a finite number of at most 1e+12 in enter_s, got nan"),
        ("a.csv", OWN + "x,30\n", None, "line 4: there must be 3 values, as in the header, got 2"),
        ("a.csv", "time;id;x\n1;a;2\n", BOX, "line 1: there must be the columns time, id, x, y, got no y"),
        ("a.csv", "time;id;x;y\n2;a;2;2\n1;a;2;2\n", BOX, "line 3: there must be times in order, got 1 s after 2 s"),
        ("a.csv", "time;id;x;y\n2;a;2;2\n", None, "holds positions: a section must say which part of the road counts"),
        ("a.xml", "", None, "line 1: there must be complete XML, got no element found"),
        ("a.xml", TRIPS[:-20], None, "line 4: there must be complete XML, got"),
        ("a.xml", "<routes/>", None, "line 1: there must be tripinfos or fcd-export, got <routes>"),
        ("a.xml", '<tripinfos>\n<tripinfo id="a" depart="9" arrival="3"/></tripinfos>', None, "line 2: there must be arrival >= depart, got 3 < 9"),
        ("a.xml", '<tripinfos>\n<tripinfo id="a" depart="9"/></tripinfos>', None, "line 2: there must be a number in arrival, got None"),
        ("a.xml", "<tripinfos></tripinfos>", None, "line 1: there must be at least one crossing of the section, got none"),
        ("a.xml", TRIPS, BOX, "holds whole trips, which have no positions"),
        ("a.xml", '<fcd-export><timestep time="2"/>\n<timestep time="1"/></fcd-export>', BOX, "line 2: there must be times in order, got 1 s after 2 s"),
        ("a.xml", fcd_xml(drive()), None, "say which part of the road counts"),
        ("a.xml.gz", "", None, "got no element found"),
        ("a.csv", "vehicle,enter_s,leave_s\n1,0,20\r2,30,50\n", None, "line 2: there must be rows of text"),
        ("a.csv", "vehicle,enter_s,leave_s\n" + 200_000 * "x" + ",1,2\n", None, "line 2: there must be rows of text"),
        ("a.csv", OWN, BOX, "holds crossings, which have no positions"),
        ("a.xml", '<fcd-export><timestep time="2"/>\n<timestep time="2"/></fcd-export>', BOX, "line 2: there must be times in order, got 2 s after 2 s"),
        ("a.dat", OWN, None, "trace must be a .csv, .parquet or .xml file"),
        ("a.parquet", "not parquet", None, "must be Parquet"),
    ],
)  # fmt: skip
def test_bad_traces_get_a_sentence(tmp_path: Path, name: str, text: str, section: str | None, sentence: str) -> None:
    file = write(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_crossings(file, parse_section(section) if section else None)
    assert sentence in str(caught.value)
    assert name in str(caught.value)


def test_a_truncated_gzip_and_a_missing_file(tmp_path: Path) -> None:
    whole = gzip.compress(TRIPS.encode() * 50)
    (tmp_path / "cut.xml.gz").write_bytes(whole[: len(whole) // 2])
    for name in ("cut.xml.gz", "none.csv", "."):
        with pytest.raises(InputError, match="trace"):
            read_crossings(tmp_path / name)


@pytest.mark.parametrize(
    "text", ["", "edge", "edge:", "circle:1,2", "circle:1,2,-3", "box:1,2,3", "box:5,0,1,9", "edge:a:9:3", "disc:1,2,3"]
)
def test_sections_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="section must be edge:ID"):
        parse_section(text)


def test_sections_are_understood() -> None:
    assert parse_section("circle:1,2,3") == Circle(1, 2, 3)
    assert parse_section("box:1,2,3,4") == Box(1, 2, 3, 4)
    assert parse_section("edge:204a[0]") == Edge("204a[0]")
    assert parse_section("edge:a:b:10:20") == Edge("a:b", 10, 20)


def test_circle_against_geometry(tmp_path: Path) -> None:
    rows = "".join(f"{k};v;{k - 10};3\n" for k in range(21))
    crossings = read_crossings(write(tmp_path, "fcd.csv", "time;id;x;y\n" + rows), Circle(0, 0, 5))
    assert (crossings.enter_s[0], crossings.leave_s[0]) == (pytest.approx(6.0), pytest.approx(14.0))
