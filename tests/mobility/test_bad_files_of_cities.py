"""Networks, tables of a city and files that are looked over before their sections are known: what is wrong is said."""

import gzip
from pathlib import Path

import pytest

from mobfl import InputError, Scenario
from mobfl.mobility.cities import read_city
from mobfl.mobility.networks import read_network
from mobfl.mobility.places import places_of
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.scanning import scan
from small_files import FCD_CSV, NETWORK

CITY = Scenario.from_dict({"stations": [{"name": "A"}, {"name": "B"}]})
ROWS = "station,vehicle,enter_s,leave_s\nA,red,0.5,20\n"


def network(folder: Path, old: str = "", new: str = "") -> Path:
    file = folder / "road.net.xml"
    file.write_text(NETWORK.replace(old, new, 1))
    return file


def test_a_network_that_was_cut_off_is_said(tmp_path: Path) -> None:
    file = tmp_path / "road.net.xml.gz"
    file.write_bytes(gzip.compress(NETWORK.encode())[:-40])
    with pytest.raises(InputError, match=r"network '.*road\.net\.xml\.gz' must be complete text, got Compressed file"):
        read_network(file)


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ('length="95"', 'length="inf"', "a lane as SUMO writes it, got no number of at most 1e"),
        ('length="95"', 'length="0"', "a lane as SUMO writes it, got its length in"),
        ('shape="0,0 50', 'shape="0,1e300 50', "a lane as SUMO writes it, got no number of at most 1e"),
        ('x="98"', 'x="nan"', "a junction as SUMO writes it, got no number of at most 1e"),
        ('netOffset="-690000', 'netOffset="-inf', "a location as SUMO writes it, got no number of at most 1e"),
        ('x="98"', f'x="{"9" * 5000}x"', "a junction as SUMO writes it, got could not convert string to float: '9999"),
    ],
)
def test_numbers_of_a_network_are_finite(tmp_path: Path, old: str, new: str, got: str) -> None:
    with pytest.raises(InputError) as error:
        read_network(network(tmp_path, old, new))
    assert got in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_projection_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"projParameter must be one of PROJ, got '.proj=nowhere"):
        read_network(network(tmp_path, "proj=utm", "proj=nowhere")).degrees()


def test_a_length_that_cuts_edges_into_billions_is_told_before_they_are_made(tmp_path: Path) -> None:
    road = read_network(network(tmp_path, 'length="95"', 'length="1e11"'))
    with pytest.raises(InputError, match=r"length must leave at most 5000 parts of edges, got 1 m for 1e\+11"):
        places_of("edges", road, road.bounds, length_m=1.0)
    with pytest.raises(InputError, match=r"radius must be at least 4e\+05 m for 1e\+08 km of roads, got 40"):
        places_of("grid", road, road.bounds, radius_m=40.0)


def test_circles_of_the_grid_that_no_road_meets_are_left_out(tmp_path: Path) -> None:
    road = read_network(network(tmp_path))
    found = places_of("grid", road, (0.0, -100.0, 190.0, 100.0), radius_m=30.0, spacing_m=50.0)
    assert {place.centre[1] for place in found if place.centre is not None} == {0.0}  # the road is at y = 0 and 0.5
    assert len(found) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ROWS.encode() + b"B,\xff,1,2\n", "must be complete text, got 'utf-8' codec can't decode byte 0xff"),
        (ROWS.encode() + b"B,x,1,nan\n", "line 3: there must be a finite number of at most .* in leave_s, got nan"),
        (ROWS.encode() + b"B,x,3,2\n", "line 3: there must be leave_s >= enter_s, got 3.0 to 2.0"),
        (ROWS.encode() + b"B," + b"x" * 300 + b",1,2\n", "a name of at most 256 characters in vehicle, got 300"),
        (
            b"vehicle,enter_s,leave_s\nred,1,2\n",
            r"station A must have a section, or trace .*city\.csv. a column station",
        ),
    ],
)
def test_a_table_of_a_citys_crossings_says_what_is_wrong(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "city.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_city(CITY, tmp_path / "city.csv")


def test_parquet_of_a_city_that_is_broken_is_said(tmp_path: Path) -> None:
    (tmp_path / "city.parquet").write_bytes(b"PAR1" + b"x" * 20 + b"\x08\0\0\0PAR1")
    with pytest.raises(InputError, match=r"trace '.*city\.parquet' (cannot be read|must be Parquet): "):
        read_city(CITY, tmp_path / "city.parquet")


def test_a_table_of_a_city_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "city.csv.gz").write_bytes(gzip.compress((ROWS + "B,7,1,2\n").encode()))
    found = read_city(CITY, tmp_path / "city.csv.gz")
    assert [found[name].vehicle.tolist() for name in "AB"] == [["red"], ["7"]]


def test_vehicles_with_numbers_are_the_same_as_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "city.csv").write_text("station,vehicle,enter_s,leave_s,cut\nA,5,0,9,2\nB,7,1,8,0\n")
    (tmp_path / "own.csv").write_text("vehicle,enter_s,leave_s,cut\n5,0,9,2\n")
    own, found = read_crossings(tmp_path / "own.csv"), read_city(CITY, tmp_path / "city.csv")
    assert found["A"].fingerprint() == own.fingerprint()


@pytest.mark.parametrize("cell", ["nan", "-1e300", "9" * 5000 + "x", "north"])
def test_what_is_no_position_is_told_with_its_line(tmp_path: Path, cell: str) -> None:
    (tmp_path / "p.csv").write_text(f"time;id;x;y\n0;a;1;2\n1;a;{cell};2\n")
    with pytest.raises(InputError, match=r"p\.csv, line 3: there must be a .*number.* in x, got ") as error:
        scan(tmp_path / "p.csv")
    assert len(str(error.value)) < 1000


def test_positions_that_were_cut_off_are_said(tmp_path: Path) -> None:
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(FCD_CSV.encode())[:-20])
    with pytest.raises(InputError, match=r"trace '.*p\.csv\.gz' must be complete text"):
        scan(tmp_path / "p.csv.gz")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"frameRate\n5e-324\n",
            r"recordingMeta\.csv, line 2: there must be a frameRate from 0.001 to 1e\+06, got 5e-324",
        ),
        (b"frameRate\n\xff\n", r"recordingMeta '.*00_recordingMeta\.csv' must be complete text"),
        (b"", "there must be a frameRate from 0.001 to"),
    ],
)
def test_a_frame_rate_that_is_none_is_said_of_its_own_file(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "00_tracks.csv").write_text("trackId,frame,xCenter,yCenter\n3,1,0,0\n3,2,1,0\n")
    (tmp_path / "00_recordingMeta.csv").write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_crossings(tmp_path / "00_tracks.csv", "circle:0,0,9")
