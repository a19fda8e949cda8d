import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobfl import InputError, Scenario, load_scenario
from mobfl.scenario import FIELDS, packaged_scenarios, parse_setting
from roads_at_random import scenarios


def lines_of(tables: dict[str, object]) -> list[str]:
    with pytest.raises(InputError) as caught:
        Scenario.from_dict(tables)
    return caught.value.lines


def test_missing_keys_take_the_papers_values(paper: Scenario) -> None:
    defaults = Scenario.from_dict({})
    assert defaults.with_values({"training.loss_scale": "paper"}) == paper
    assert defaults.training.loss_scale == "sample"
    assert defaults.dwell_s == 20.0


def test_every_mistake_is_listed_at_once() -> None:
    assert lines_of(
        {
            "road": {"length_m": -5.0, "lenght": 3},
            "raod": {},
            "traffic": {
                "participation": 1.5,
                "speed_mps": "fast",
                "speed_sd_mps": True,
                "arrivals_per_s": np.inf,
            },
            "compute": {"min_step_s": 0},
            "training": {"loss_scale": "papers", "batch_size": 3.5},
            "link": 7,
        }
    ) == [
        "road.length_m must be > 0, got -5.0",
        "road.lenght is not a known key, did you mean road.length_m?",
        "traffic.speed_mps must be a number, got 'fast'",
        "traffic.speed_sd_mps must be a number, got True",
        "traffic.arrivals_per_s must be finite, got inf",
        "traffic.participation must be <= 1, got 1.5",
        "link must be a table, got 7",
        "compute.min_step_s must be > 0, got 0: if a local step may take no time at all,"
        " the number that fits is unbounded",
        "training.batch_size must be a whole number, got 3.5",
        "training.loss_scale must be one of 'sample' or 'paper', got 'papers'",
        "raod is not a known key, did you mean road?",
    ]


def test_absurd_scales_are_refused() -> None:
    assert lines_of({"road": {"length_m": 1e300}, "compute": {"min_step_s": 1e-300}}) == [
        "road.length_m must be <= 1e+12, got 1e+300",
        "compute.min_step_s must be >= 1e-12, got 1e-300: if a local step may take no time at all,"
        " the number that fits is unbounded",
    ]
    (line,) = lines_of({"compute": {"min_step_s": 1e-11}})
    assert line.startswith("compute.min_step_s must be such that at most 1e+12 steps fit")
    assert lines_of({"traffic": {"speed_sd_mps": 21.0}}) == [
        "traffic.speed_sd_mps must be <= traffic.speed_mps (20), got 21.0"
    ]
    assert lines_of({"link": {"model_bytes": 0}}) == ["link.model_bytes must be > 0, got 0"]
    assert lines_of({"link": {"model_bytes": 10**400}})[0].startswith("link.model_bytes must be <= 1e+12")


def test_a_link_in_bytes() -> None:
    given = {"model_bytes": 1e6, "downlink_bps": 8e6, "uplink_bps": 4e6}
    link = Scenario.from_dict({"link": given}).link
    assert (link.model_bytes, link.download_s, link.upload_s) == (1_000_000, 1.0, 2.0)
    assert lines_of({"link": {**given, "upload_s": 1.0}}) == [
        "link must give either seconds or model_bytes with both rates,"
        " got upload_s and model_bytes and downlink_bps and uplink_bps"
    ]
    assert lines_of({"link": {"uplink_bps": 1e6}}) == [
        "link.uplink_bps must come with model_bytes and downlink_bps, got 1000000.0"
    ]


def test_setting_a_link_one_way_takes_back_the_other(paper: Scenario) -> None:
    by_bytes = {"link.model_bytes": 1000, "link.downlink_bps": 8000, "link.uplink_bps": 4000}
    changed = paper.with_values(by_bytes)
    assert (changed.link.download_s, changed.link.upload_s) == (1.0, 2.0)
    back = changed.with_values({"link.download_s": 0.5})
    assert (back.link.model_bytes, back.link.download_s, back.link.upload_s) == (None, 0.5, 2.0)
    with pytest.raises(InputError, match="either seconds or model_bytes"):
        paper.with_values({**by_bytes, "link.download_s": 1.0})


def test_scenarios_cannot_be_changed(paper: Scenario) -> None:
    with pytest.raises(ValueError, match="frozen"):
        paper.road.length_m = 3.0  # type: ignore[misc]


@given(scenarios(spread=st.floats(0.0, 0.5)))
def test_toml_there_and_back(scenario: Scenario) -> None:
    assert Scenario.from_dict(tomllib.loads(scenario.to_toml())) == scenario


@pytest.mark.parametrize("name", packaged_scenarios())
def test_packaged_scenarios_load_and_survive_toml(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    file = tmp_path / "copy.toml"
    file.write_text(scenario.to_toml(), encoding="utf-8")
    assert load_scenario(file) == scenario
    assert Scenario.from_dict(scenario.given()) == scenario


def test_the_four_that_come_along() -> None:
    assert set(packaged_scenarios()) >= {"paper", "highway", "urban", "carpark"}


def test_files_that_are_none(tmp_path: Path) -> None:
    broken, binary = tmp_path / "broken.toml", tmp_path / "binary.toml"
    broken.write_text("[road\nlength_m = 3")
    binary.write_bytes(b"\xff\xfe\x00")
    for source, sentence in (
        (tmp_path / "none.toml", "must be a file or one of carpark, corridor, highway"),
        (tmp_path, "cannot be read: Is a directory"),
        (broken, "must be TOML: .*line 1"),
        (binary, "must be TOML in UTF-8"),
        ("higway", "must be a file or one of"),
    ):
        with pytest.raises(InputError, match=sentence):
            load_scenario(source)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("road.length_m=500", ("road.length_m", 500)),
        ("traffic.participation = 0.5", ("traffic.participation", 0.5)),
        ("training.split=place", ("training.split", "place")),
        ('training.split="place"', ("training.split", "place")),
        ("link.model_bytes=1e6", ("link.model_bytes", 1e6)),
        ("road.length_m=", ("road.length_m", "")),
    ],
)
def test_settings_are_toml_or_text(text: str, setting: tuple[str, object]) -> None:
    assert parse_setting(text) == setting


@given(st.text(st.characters(exclude_characters="=.", exclude_categories=["Z", "C"]), min_size=1), st.text())
def test_no_setting_breaks_the_parser(key: str, value: str) -> None:
    assert parse_setting(f"road.{key}={value}")[0] == f"road.{key}"
    for wrong in (key, f"={value}", f".{key}=3", f"{key}.=3"):
        with pytest.raises(InputError, match="set must be"):
            parse_setting(wrong)


def test_every_key_has_a_dotted_name() -> None:
    assert list(FIELDS)[:3] == ["road.length_m", "traffic.speed_mps", "traffic.speed_sd_mps"]
