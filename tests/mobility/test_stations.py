"""Several sections in one pass: each is read as if it were alone, and a vehicle is the same in all of them."""

from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError, Scenario
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings, read_stations
from mobfl.mobility.sections import Chain, Tentative, parse_section

TEXTS = {
    "west": "box:0,-5,30,5",
    "mid": "circle:50,0,15",
    "edge": "edge:b:10:40",
    "chain": "edge:a,b",
    "nobody": "box:900,900,901,901",
}
SECTIONS = {name: parse_section(text) for name, text in TEXTS.items()}


def fcd(vehicles: int = 30) -> str:
    """Vehicles that start 3 s apart along the x axis at speeds of their own, and turn round at 100 m."""
    rng = np.random.default_rng(1)
    speeds = rng.uniform(3, 15, vehicles)
    lines = ["time;id;x;y;lane;pos;speed"]
    for step in range(200):
        for i, speed in enumerate(speeds):
            way = (step - 3 * i) * speed
            if not 0 <= way <= 200:
                continue
            x = way if way < 100 else 200 - way
            edge, along = ("a", x) if x < 40 else ("b", x - 40)
            lines.append(f"{step};car{i};{x};0;{edge}_0;{along};{speed}")
    return "\n".join(lines) + "\n"


def test_in_one_pass_as_each_alone(tmp_path: Path) -> None:
    (tmp_path / "fcd.csv").write_text(fcd())
    together = read_stations(tmp_path / "fcd.csv", SECTIONS, keep_tracks=True)
    assert list(together) == list(SECTIONS)
    assert len(together["nobody"]) == 0
    for name in set(SECTIONS) - {"nobody"}:
        alone = read_crossings(tmp_path / "fcd.csv", SECTIONS[name], keep_tracks=True)
        assert len(alone) > 25, name
        assert together[name].fingerprint() == alone.fingerprint()


def test_a_vehicle_is_who_it_is_on_every_visit_and_at_every_station(tmp_path: Path) -> None:
    (tmp_path / "fcd.csv").write_text(fcd())
    found = read_stations(tmp_path / "fcd.csv", SECTIONS)
    who = {}
    for crossings in found.values():
        for name, key in zip(crossings.vehicle, crossings.vehicle_keys, strict=True):
            assert who.setdefault(str(name), key) == key
    assert len(set(who.values())) == len(who) == 30
    west = found["west"]  # everybody comes there twice
    assert len(set(west.keys.tolist())) == len(west) > len(set(west.vehicle_keys.tolist()))


def test_numbers_are_their_own_keys() -> None:
    crossings = Crossings(np.array([4, 2, 4]), np.arange(3.0), np.arange(3.0) + 1)
    assert crossings.vehicle_keys.tolist() == [4, 2, 4]
    assert crossings.keys.tolist()[:2] == [4, 2]
    assert crossings.keys[2] != 4


def test_longest_stay_may_leave_nobody_at_one_station(tmp_path: Path) -> None:
    (tmp_path / "fcd.csv").write_text(fcd())
    found = read_stations(tmp_path / "fcd.csv", SECTIONS, longest_stay_s=4.0)
    assert all((each.dwell_s <= 4.0).all() for each in found.values())
    assert 0 < len(found["west"]) < 60


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({}, "sections must name at least one section, got none"),
        ({"a": TEXTS["nobody"]}, "there must be at least one crossing of one of 1 sections, got none"),
    ],
)
def test_stations_without_traffic(tmp_path: Path, sections: dict[str, str], sentence: str) -> None:
    (tmp_path / "fcd.csv").write_text(fcd())
    with pytest.raises(InputError, match=sentence):
        read_stations(tmp_path / "fcd.csv", {name: parse_section(text) for name, text in sections.items()})


def test_chains_are_understood() -> None:
    assert parse_section("edge:a,:j_0,b") == Chain(("a", ":j_0", "b"))
    for text in ("edge:a,", "edge:,a", "edge:a,,b"):
        with pytest.raises(InputError, match="section must be edge:ID"):
            parse_section(text)


def test_sumo_is_run_once_for_all(paper: Scenario, tmp_path: Path) -> None:
    pytest.importorskip("libsumo", reason="SUMO or its system libraries are not installed", exc_type=ImportError)
    from mobfl.mobility.sumo import _straight_road, sumo_crossings, sumo_stations

    config = _straight_road(tmp_path, paper, 2, None, 300.0)
    texts = {
        "edge": "edge:section",
        "box": "box:300,-50,700,50",
        "both": "edge:approach,section",
        "none": "box:0,90,1,91",
    }
    together = sumo_stations(config, texts, duration_s=300.0, keep_tracks=True)
    assert len(together["none"]) == 0
    for name in ("edge", "box", "both"):
        alone = sumo_crossings(config, texts[name], duration_s=300.0, keep_tracks=True)
        assert len(alone) > 5
        assert together[name].fingerprint() == alone.fingerprint()
    both, edge = together["both"], together["edge"]
    left = dict(zip(both.vehicle, both.leave_s, strict=True))
    assert [left[name] for name in edge.vehicle] == pytest.approx(edge.leave_s.tolist(), abs=0.6)


def test_of_sections_that_were_not_chosen_by_hand_one_without_traffic_is_empty(tmp_path: Path) -> None:
    (tmp_path / "fcd.csv").write_text(fcd())
    edges = {name: parse_section(f"edge:{name}") for name in ("a", "unknown")}
    with pytest.raises(InputError, match="section must name an edge that vehicles were on, got 'unknown'"):
        read_stations(tmp_path / "fcd.csv", edges)
    found = read_stations(tmp_path / "fcd.csv", Tentative(edges))
    assert len(found["a"]) > 25
    assert len(found["unknown"]) == 0
