"""Networks, places on them, and what passes there."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import mobfl
from mobfl.cli import cli
from mobfl.errors import InputError
from mobfl.mobility.networks import network_file, read_network
from mobfl.mobility.places import districts_of, part_of_line, places_of
from mobfl.mobility.section_traffic import ranked
from mobfl.mobility.sections import Chain, parse_section
from mobfl.mobility.surveys import surveyed
from places import DATA
from small_town import NETWORK, write_town


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_town(tmp_path_factory.mktemp("town"))


def test_a_network_has_edges_junctions_and_streets(town: tuple[Path, Path]) -> None:
    network = read_network(town[0])
    assert {name: (edge.length_m, edge.start, edge.end) for name, edge in network.edges.items()} == {
        "a": (100, "J0", "J1"), "b": (100, "J1", "J2"), "c": (95, "J1", "J3")
    }  # fmt: skip
    assert network.junctions == {"J1": (100, 0)}
    assert network.streets == {"Main Street": ["a", "b"], "Side Street": ["c"]}
    assert network.bounds == (0, 0, 205, 100)


@pytest.mark.parametrize("name", ["bologna_acosta/acosta_buslanes", "bologna_joined/joined_buslanes"])
def test_a_real_network_is_read_as_sumolib_reads_it(name: str) -> None:
    file = DATA / f"sumo/{name}.net.xml"
    if not file.is_file():
        pytest.skip(f"needs {file}")
    import sumolib

    ours, theirs = read_network(file), sumolib.net.readNet(str(file))
    assert {edge.getID(): edge.getLength() for edge in theirs.getEdges()} == {
        name: edge.length_m for name, edge in ours.edges.items()
    }
    for edge in theirs.getEdges():
        assert ours.edges[edge.getID()].line == pytest.approx(np.array(edge.getLane(0).getShape()))
    assert set(ours.junctions) == {node.getID() for node in theirs.getNodes() if node.getType() != "dead_end"}
    degrees = ours.degrees()
    assert degrees is not None
    assert degrees(np.array([[900.0, 700.0]]))[0] == pytest.approx(theirs.convertXY2LonLat(900.0, 700.0), abs=1e-9)


def test_a_street_is_a_chain_with_the_junctions_between_its_edges(town: tuple[Path, Path]) -> None:
    assert read_network(town[0]).street_section("Main Street") == "edge:a,b,:J1_0"
    assert parse_section(f"street:Main Street@{town[0]}") == Chain(("a", "b", ":J1_0"))
    with pytest.raises(InputError, match="there are Main Street, Side Street"):
        parse_section(f"street:Broadway@{town[0]}")
    crossings = mobfl.read_crossings(town[1], parse_section(f"street:Main Street@{town[0]}"))
    straight = np.array([int(name[1:]) % 3 < 2 for name in crossings.vehicle])
    assert len(crossings) == 60  # nobody is counted twice at the junction
    assert np.median(crossings.dwell_s[straight]) == pytest.approx(20.0, abs=0.51)
    assert np.median(crossings.dwell_s[~straight]) == pytest.approx(10.0, abs=0.51)


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (NETWORK[:400], "complete XML"),
        ("<net/>", "a network of SUMO with edges that have lanes"),
        (NETWORK.replace('length="95"', 'length="far"'), "a lane as SUMO writes it"),
        (NETWORK.replace('shape="100,5 100,100"', 'shape="here there"'), "a lane as SUMO writes it"),
        (NETWORK.replace('x="100" y="0"', 'x="100"'), "a junction as SUMO writes it"),
    ],
)
def test_a_spoilt_network_is_told_by_its_line(spoilt: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "spoilt.net.xml"
    file.write_text(spoilt)
    with pytest.raises(InputError, match=rf"spoilt.net.xml, line \d+: .*{words}"):
        read_network(file)


def test_a_configuration_names_its_network(tmp_path: Path) -> None:
    file = tmp_path / "run.sumocfg"
    file.write_text('<configuration><input><net-file value="nets/town.net.xml"/></input></configuration>')
    assert network_file(file) == tmp_path / "nets/town.net.xml"
    file.write_text("<configuration/>")
    with pytest.raises(InputError, match="a net-file"):
        network_file(file)


def test_places_of_every_kind(town: tuple[Path, Path]) -> None:
    network = read_network(town[0])
    cut = places_of("edges", network, network.bounds, length_m=50)
    assert [place.section for place in cut[:3]] == ["edge:a:0.0:50.0", "edge:a:50.0:100.0", "edge:b:0.0:50.0"]
    assert [place.length_m for place in cut] == [50, 50, 50, 50, 47.5, 47.5]
    assert [place.section for place in places_of("junctions", network, network.bounds, 30)] == ["circle:100.00,0.00,30"]
    grid = places_of("grid", network, network.bounds, 20, 40)
    centres = np.array([place.centre for place in grid])
    assert all(np.hypot(*(centre - [100, 50])) < 1000 for centre in centres)
    assert len(grid) < len(places_of("grid", None, network.bounds, 20, 40))  # none where no road is
    assert [place.name for place in places_of("streets", network, network.bounds)] == ["Main Street", "Side Street"]
    assert part_of_line(np.array([[0.0, 0], [10, 0], [10, 10]]), 0.25, 0.75).tolist() == [[5, 0], [10, 0], [10, 5]]
    assert districts_of((0, 0, 20, 10), 2, 1) == {
        "1,1": "box:0.00,0.00,10.00,10.00",
        "2,1": "box:10.00,0.00,20.00,10.00",
    }


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"radius_m": 0.0}, "radius must be > 0 m, got 0"),
        ({"kind": "edges", "length_m": -1.0}, "length must be > 0 m"),
        ({"spacing_m": 1e-3}, "spacing must leave at most"),
        ({"bounds": (11.3, 44.4, 11.4, 44.5)}, "area must be wider than a radius of 100 m, got 0.1 by 0.1, in metres"),
        ({"kind": "edges", "network": None}, "candidates must be grid where there is no network"),
    ],
)
def test_places_that_cannot_be_are_refused(wish: dict[str, object], words: str, town: tuple[Path, Path]) -> None:
    given = {"kind": "grid", "network": read_network(town[0]), "bounds": (0.0, 0.0, 200.0, 100.0)} | wish
    with pytest.raises(InputError, match=words):
        places_of(**given)


def test_traffic_of_all_edges_in_one_pass(town: tuple[Path, Path]) -> None:
    with surveyed(*town) as survey:
        places = survey.places("edges")
        found = ranked(places, survey.crossings({place.name: place.section for place in places}), "vehicles")
    assert [(each.name, each.vehicles) for each in found] == [("a", 60), ("b", 40), ("c", 20)]
    assert found[0].median_stay_s == pytest.approx(10.0, abs=0.3)
    lasts_h = (8 * 59 + 20) / 3600
    assert found[0].crossings_per_hour == pytest.approx(60 / lasts_h, rel=0.02)
    assert found[0].mean_present == pytest.approx(60 * 10 / (lasts_h * 3600), rel=0.05)  # Little's law


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=True)


def test_a_map_without_the_extra_for_figures_names_it(
    town: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.cm", "matplotlib.colors"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("sections", town[0], "--trace", town[1], "--plot", tmp_path / "s.png")
    assert str(done.exception) == "drawing a figure needs the extra 'figures': pip install 'mobfl[figures]'"


def test_sections_are_listed_written_and_drawn(town: tuple[Path, Path], tmp_path: Path) -> None:
    files = tmp_path / "s.csv", tmp_path / "s.geojson", tmp_path / "s.png"
    done = run(
        "sections", town[0], "--trace", town[1], "--kind", "streets", "--by", "vehicles",
        "--export", files[0], "--export", files[1], "--plot", files[2],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "2 of 2 sections with traffic" in done.output
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    assert [(row["name"], row["vehicles"]) for row in rows] == [("Main Street", "60"), ("Side Street", "20")]
    main, side = json.loads(files[1].read_text())["features"]
    assert main["geometry"]["type"] == "MultiLineString"
    assert side["geometry"]["type"] == "LineString"
    lon, lat = side["geometry"]["coordinates"][0]
    assert (lon, lat) == pytest.approx((11.305, 44.490), abs=0.01)  # in Bologna
    assert files[2].stat().st_size > 10_000


def test_sections_of_a_class_and_with_short_stays(town: tuple[Path, Path]) -> None:
    of = ("sections", town[0], "--trace", town[1], "--json")
    buses = json.loads(run(*of, "--class", "bus").stdout)
    assert {row["name"]: row["vehicles"] for row in buses} == {"a": 10, "b": 10}
    assert json.loads(run(*of, "--longest-stay", "9.2").stdout)[0]["name"] == "c"
    refused = run(*of, "--class", "tram*")
    assert str(refused.exception) == "--class must be one that vehicles have, got tram*; there are bus, car"


def test_edges_of_a_file_without_a_network_are_known_by_name(town: tuple[Path, Path]) -> None:
    rows = json.loads(run("sections", town[1], "--json").stdout)
    assert [(row["section"], row["length_m"]) for row in rows] == [("edge:a", None), ("edge:b", None), ("edge:c", None)]
    drawn = run("sections", town[1], "--plot", "x.png")
    assert "give the network" in str(drawn.exception)


def test_sites_are_chosen_written_and_drawn(town: tuple[Path, Path], tmp_path: Path) -> None:
    files = tmp_path / "s.csv", tmp_path / "s.geojson", tmp_path / "s.toml", tmp_path / "s.png"
    done = run(
        "sites", town[0], "--trace", town[1], "--count", "2", "--candidates", "grid", "--radius", "40", "--spacing",
        "20", *(word for file in files[:3] for word in ("--export", file)), "--plot", files[3],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "2 sites for the goal steps" in done.output
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    one, two = (parse_section(row["section"]) for row in rows)
    assert np.hypot(one.x - two.x, one.y - two.y) > 75  # they share no vehicle's time
    import tomllib

    stations = tomllib.loads(files[2].read_text())["stations"]
    assert [station["section"] for station in stations] == [row["section"] for row in rows]
    h, t = stations[0]["plan"].split(",")
    assert (int(h), float(t)) == (int(rows[0]["local_steps"]), pytest.approx(float(rows[0]["round_s"]), rel=1e-4))
    ring = json.loads(files[1].read_text())["features"][0]["geometry"]["coordinates"][0]
    assert ring[0] == ring[-1]
    assert files[3].stat().st_size > 10_000


def test_sites_that_hear_all_districts(town: tuple[Path, Path]) -> None:
    done = run(
        "sites", town[0], "--trace", town[1], "--count", "2", "--goal", "districts", "--districts", "1x1", "--horizon",
        "100", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["districts"] == {"1,1": 60}
    assert told["bounds"][0] <= told["value"] <= 100
    assert [site["rank"] for site in told["sites"]] == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sites", "town.net.xml", "--count", "2"), "has no traffic: give a trace on it, or its .sumocfg"),
        (("sites", "town.net.xml", "--trace", "town.csv", "--count", "0"), "--count must be >= 1 and <= 3"),
        (
            ("sites", "town.net.xml", "--trace", "town.csv", "--count", "1", "--horizon", "5"),
            "go with --goal districts",
        ),
        (("sites", "town.csv", "--trace", "town.csv", "--count", "1"), "--trace goes with a network"),
        (("sites", "town.csv", "--candidates", "edges", "--keep", "x.parquet", "--count", "1"), "--keep goes with"),
        (("sites", "town.csv", "--count", "1", "--area", "0,0,0,1"), "--area must be X0,Y0,X1,Y1"),
        (
            ("sites", "town.csv", "--count", "1", "--export", "x.pdf"),
            "--export must end in one of .csv, .geojson, .toml",
        ),
        (("sections", "town.csv", "--top", "0"), "--top must be >= 1"),
        (("sections", "nothing.csv"), "cannot be read"),
        (("sections", "town.csv", "--kind", "streets"), "where there is no network"),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...], said: str, town: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(town[0].parent)
    done = run(*words)
    assert isinstance(done.exception, InputError), done.output
    assert said in str(done.exception)
