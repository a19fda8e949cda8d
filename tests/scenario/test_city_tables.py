"""The tables of a city: what they may say, and that a scenario without them is what it was."""

from typing import Any

import pytest

from mobfl import InputError, Scenario, load_scenario
from mobfl.scenario import at_station, listed

CORRIDOR = {"corridor": {"stations": 3, "every_m": 500.0, "turns_off": 0.25}}


def test_a_scenario_without_a_city_says_nothing_of_it() -> None:
    assert not {"stations", "corridor", "cloud"} & load_scenario("paper").to_dict().keys()
    assert "alike" not in load_scenario("paper").to_dict()["training"]
    assert listed(load_scenario("paper")) == ()


@pytest.mark.parametrize(
    "tables",
    [
        CORRIDOR | {"cloud": {"every_rounds": 2, "carried": "mix"}},
        {"stations": [{"name": "a", "link": {"upload_s": 2.0}}, {"plan": "24,12"}], "cloud": {"every_s": 5.0}},
    ],
)
def test_what_is_written_is_read_again(tables: dict[str, Any]) -> None:
    city = Scenario.from_dict(tables)
    assert Scenario.from_dict(city.to_dict()) == city
    assert city.with_values({"training.duration_s": 5.0}).stations == city.stations
    assert not city.alone.is_city


def test_a_station_is_a_road_of_its_own() -> None:
    city = Scenario.from_dict({"stations": [{"link": {"upload_s": 2.0}}, {"road": {"length_m": 100.0}}]})
    assert [each.name for each in listed(city)] == ["station 1", "station 2"]
    assert at_station(city, 0).link.upload_s == 2.0
    assert at_station(city, 1).road.length_m == 100.0
    assert at_station(city, 1).link.upload_s == 1.0


def test_on_a_corridor_who_turns_off_is_missing_farther_on_unless_others_join() -> None:
    assert at_station(Scenario.from_dict(CORRIDOR), 2).traffic.arrivals_per_s == 0.1
    alone = Scenario.from_dict({"corridor": {**CORRIDOR["corridor"], "joins": False}})
    assert at_station(alone, 2).traffic.arrivals_per_s == pytest.approx(0.1 * 0.75**2)
    assert [each.section for each in listed(alone)] == ["stretch:0:400", "stretch:500:900", "stretch:1000:1400"]


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"cloud": {}}, "cloud must come with stations or a corridor, got it alone"),
        ({"corridor": {}}, "corridor.stations must be given where no stations are listed, got none"),
        ({"corridor": {"stations": 0}}, "corridor.stations must be > 0, got 0"),
        ({"stations": [{"name": "a"}, {"name": "a"}]}, "stations.1.name must be unlike any other"),
        ({"stations": [{"name": "cloud"}]}, "not cloud, got 'cloud'"),
        (
            {"stations": [{"section": "circle:0,0,5"}, {}]},
            "stations.1.section must be given as the other stations' are",
        ),
        ({"stations": 3}, "stations must be a list of tables, got 3"),
        (CORRIDOR | {"stations": [{}]}, "stations must list all 3 of corridor.stations or none, got 1"),
        ({"corridor": {}, "stations": [{"section": "box:0,0,1,1"}]}, "must be stretch:FROM:TO on a corridor"),
        ({"corridor": {"every_m": 100.0, "stations": 2}}, "stations.1.section must begin behind the one before"),
        (CORRIDOR | {"cloud": {"every_rounds": 1, "every_s": 1.0}}, "either every_rounds or every_s, got both"),
        (CORRIDOR | {"cloud": {"every_rounds": 0, "backhaul_s": 1.0}}, "cloud.backhaul_s must be 0 with every_rounds"),
        (CORRIDOR | {"cloud": {"carried_share": 0.1}}, "cloud.carried_share must come with carried = 'mix'"),
        (CORRIDOR | {"cloud": {"every_rounds": -1}}, "cloud.every_rounds must be >= 0, got -1"),
        (CORRIDOR | {"training": {"alike": 1.5}}, "training.alike must be <= 1, got 1.5"),
        ({"stations": [{"nam": "a"}]}, "stations.0.nam is not a known key, did you mean stations.0.name?"),
    ],
)
def test_mistakes_name_field_rule_and_value(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence.replace("(", r"\(").replace("?", r"\?")):
        Scenario.from_dict(tables)


def test_a_station_with_a_wrong_value_is_named() -> None:
    city = Scenario.from_dict({"stations": [{"name": "north", "link": {"upload_s": -1.0}}]})
    with pytest.raises(InputError, match=r"station north: link\.upload_s must be >= 0, got -1\.0"):
        at_station(city, 0)


@pytest.mark.parametrize("length_m", [None, "x", True, -1, 10**400, float("nan"), [400.0], {"a": 1}])
def test_a_length_that_is_none_is_named_where_a_stretch_would_follow_from_it(length_m: Any) -> None:
    tables = {"corridor": {"every_m": 900.0}, "stations": [{}, {"road": {"length_m": length_m}}]}
    with pytest.raises(InputError, match=r"stations\.1\.road\.length_m must be a number > 0 and <= 1e\+12, got "):
        Scenario.from_dict(tables)
