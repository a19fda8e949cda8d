"""The optional table [radio]: what it takes, what it refuses, and that nothing changes without it."""

from pathlib import Path

import pytest

from mobfl import InputError, Scenario, load_scenario, plan, plan_many, theory
from mobfl.learning.codecs.plain import Plain
from mobfl.runs.sizes import Sizes
from mobfl.scenario import RADIO_FIELDS, Radio
from mobfl.scenario.symbols import SYMBOLS


def line_of(tables: dict[str, object]) -> str:
    with pytest.raises(InputError) as caught:
        Scenario.from_dict(tables)
    (line,) = caught.value.lines
    return line


def test_without_a_radio_everything_stays_as_it_is(paper: Scenario) -> None:
    assert paper.radio is None
    assert list(paper.to_dict()) == ["road", "traffic", "link", "compute", "training"]
    assert paper.value("radio.carrier_ghz") is None
    assert "radio" not in paper.to_toml()
    assert paper.with_values({"radio": None}) == paper
    assert "radio" not in paper.with_values({"radio": None}).given()


def test_defaults_are_a_roadside_units() -> None:
    radio = Radio()
    assert (radio.carrier_ghz, radio.uplink_hz, radio.downlink_hz) == (5.9, 20e6, 20e6)
    assert (radio.vehicle_dbm, radio.station_dbm, radio.gain_dbi, radio.noise_figure_db) == (23.0, 23.0, 3.0, 9.0)
    assert (radio.path_loss, radio.fading, radio.sharing, radio.download) == ("urban-los", "none", "equal", "broadcast")
    assert (radio.efficiency, radio.most_bps_per_hz) == (0.92, 7.4)
    assert radio.along_m(400.0) == 200.0


@pytest.mark.parametrize(
    ("values", "shadowing"),
    [
        ({}, (3.0, 10.0)),
        ({"path_loss": "urban-nlos"}, (4.0, 13.0)),
        ({"path_loss": "highway-los"}, (3.0, 10.0)),
        ({"path_loss": "cell", "carrier_ghz": 2.0}, (8.0, 50.0)),
        ({"path_loss": "urban-nlos", "shadowing_db": 0.0, "shadowing_m": 25.0}, (0.0, 25.0)),
    ],
)
def test_shadowing_follows_the_path_loss_unless_it_is_given(
    values: dict[str, object], shadowing: tuple[float, float]
) -> None:
    radio = Radio.model_validate(values)
    assert (radio.shadow_sd_db, radio.shadow_distance_m) == shadowing


@pytest.mark.parametrize(
    ("radio", "line"),
    [
        ({"carrier_ghz": -1}, "radio.carrier_ghz must be > 0, got -1"),
        ({"uplink_hz": 0}, "radio.uplink_hz must be > 0, got 0"),
        ({"downlink_hz": float("inf")}, "radio.downlink_hz must be finite, got inf"),
        ({"vehicle_dbm": 300}, "radio.vehicle_dbm must be <= 200, got 300"),
        ({"station_gain_dbi": "high"}, "radio.station_gain_dbi must be a number, got 'high'"),
        ({"noise_figure_db": -1}, "radio.noise_figure_db must be >= 0, got -1"),
        ({"shadowing_db": -1}, "radio.shadowing_db must be >= 0, got -1"),
        ({"shadowing_m": 0}, "radio.shadowing_m must be > 0, got 0"),
        ({"hidden_share": 1.5}, "radio.hidden_share must be <= 1, got 1.5"),
        (
            {"hidden_share": 0.5, "path_loss": "urban-nlos"},
            "radio.hidden_share must be 0 with path_loss = 'urban-nlos', which has no line of sight that a vehicle"
            " could cut, got 0.5",
        ),
        ({"efficiency": 1.1}, "radio.efficiency must be <= 1, got 1.1"),
        ({"most_bps_per_hz": 65}, "radio.most_bps_per_hz must be <= 64, got 65"),
        ({"carrier": 5.9}, "radio.carrier is not a known key, did you mean radio.carrier_ghz?"),
        ({"fading": "rice"}, "radio.fading must be one of 'none' or 'rayleigh', got 'rice'"),
        (
            {"path_loss": "cell"},
            "radio.carrier_ghz must be 2 with path_loss = 'cell', which is measured there, got 5.9",
        ),
        (
            {"station_beside_m": 0, "station_above_m": 0},
            "radio.station_beside_m and radio.station_above_m must not both be 0, got a station in the lane: move it"
            " aside or up",
        ),
        ({"station_along_m": 401}, "radio.station_along_m must be <= road.length_m (400), got 401"),
        ({"station_along_m": -1}, "radio.station_along_m must be >= 0, got -1"),
        (5, "radio must be a table, got 5"),
    ],
)
def test_what_cannot_be_is_named(radio: object, line: str) -> None:
    assert line_of({"radio": radio}) == line


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ({"upload_s": 1.0}, "link must give only sizes with a radio, which makes rates and seconds, got upload_s"),
        (
            {"model_bytes": 5, "download_s": 1.0, "uplink_bps": 1e6},
            "link must give only sizes with a radio, which makes rates and seconds, got download_s and uplink_bps",
        ),
        ({"upload_bytes": 5}, "link.upload_bytes must come with model_bytes, got 5"),
    ],
)
def test_with_a_radio_the_link_has_sizes_and_nothing_else(link: dict[str, object], line: str) -> None:
    assert line_of({"radio": {}, "link": link}) == line
    assert Scenario.from_dict({"radio": {}, "link": {"model_bytes": 5, "upload_bytes": 3}}).to_dict()["link"] == {
        "model_bytes": 5, "upload_bytes": 3,
    }  # fmt: skip


def test_a_mistake_of_the_link_is_told_beside_others() -> None:
    with pytest.raises(InputError) as caught:
        Scenario.from_dict({"road": {"length_m": -5}, "radio": {}, "link": {"upload_s": 1}})
    assert len(caught.value.lines) == 2


def test_setting_a_value_of_the_radio_makes_one(paper: Scenario) -> None:
    """And takes the link's seconds back, as giving a link one way takes back the other."""
    made = paper.with_values({"radio.path_loss": "urban-nlos"})
    assert made.radio == Radio(path_loss="urban-nlos")
    assert made.to_dict()["link"] == {}
    assert made.lacks_sizes
    sized = load_scenario("highway").with_values({"radio.fading": "rayleigh"})
    assert sized.to_dict()["link"] == {"model_bytes": 62632}
    with pytest.raises(InputError, match="link must give only sizes with a radio"):
        paper.with_values({"radio.path_loss": "urban-nlos", "link.upload_s": 2.0})
    with pytest.raises(InputError, match="link must give only sizes with a radio"):
        made.with_values({"link.upload_s": 2.0})


@pytest.mark.parametrize("name", ["paper-radio", "highway-radio", "urban-radio"])
def test_packaged_radios_survive_toml(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    assert scenario.radio is not None
    (tmp_path / "road.toml").write_text(scenario.to_toml())
    assert load_scenario(tmp_path / "road.toml").to_dict() == scenario.to_dict()


def test_nobody_gets_the_papers_second_where_there_is_a_radio(paper: Scenario) -> None:
    for ask in (theory.Delays.of, theory.Conditions.of, plan):
        with pytest.raises(InputError, match=r"the scenario has a radio.*: plan by simulation"):
            ask(load_scenario("paper-radio"))  # type: ignore[operator]
    with pytest.raises(InputError, match=r"link\.model_bytes must be given with the radio where no task is trained"):
        plan(paper.with_values({"radio.fading": "none"}))
    with pytest.raises(InputError, match=r"links of seconds or rates, got a column radio\.uplink_hz"):
        plan_many({"radio.uplink_hz": [1e6, 2e6]})


def test_stays_need_no_seconds(paper: Scenario) -> None:
    assert theory.stay(load_scenario("paper-radio")).longest == theory.Conditions.of(paper).dwell.longest == 20.0


def test_a_run_fills_the_sizes_in(paper: Scenario) -> None:
    import numpy as np

    model = {"w": np.zeros(10, np.float32)}
    sizes = Sizes.of(model, Plain(), None)
    open_radio = paper.with_values({"radio.fading": "none"})
    assert sizes.on(open_radio).link.model_bytes == sizes.model
    assert sizes.on(load_scenario("paper-radio")) == load_scenario("paper-radio")
    smaller = Sizes(100, 100, 25)
    assert smaller.on(load_scenario("paper-radio")).link.upload_bytes == 66_520 // 4


def test_every_key_has_words() -> None:
    assert {key for key in SYMBOLS if key.startswith("radio.")} == set(RADIO_FIELDS)
