"""Classes of vehicles and laws of the step times, as a person writes them."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError, Scenario, load_scenario
from mobfl.cli.options import load

HALF = {"share": 0.5}


@pytest.mark.parametrize(("tables", "sentence"), [
    ({"fleet": [HALF, {"share": 0.6}]}, "the shares of fleet must add up to 1, got 1.1"),
    ({"fleet": [HALF, {"share": 0}]}, "fleet.1.share must be > 0, got 0"),
    ({"fleet": [{"name": "a"}]}, "fleet.0.share must be given, got {'name': 'a'}"),
    ({"fleet": [HALF, {**HALF, "name": "class 1"}]}, "fleet.1.name must be unlike any other class's, got 'class 1'"),
    ({"fleet": [{**HALF, "name": ""}, HALF]}, "fleet.0.name must be text that is not empty, got ''"),
    ({"fleet": [{"share": 1}] * 21}, f"fleet must be a list of at most 20 tables, got {[{'share': 1}] * 21}"),
    ({"fleet": 3}, "fleet must be a list of tables, got 3"),
    ({"fleet": [3]}, "fleet.0 must be a table, got 3"),
    ({"fleet": [{"share": 1, "speed": 3}]}, "fleet.0.speed is not a known key, did you mean fleet.0.share?"),
    ({"fleet": [{"share": 1, "samples_per_vehicle": 8}]},
     "training.batch_size must be <= fleet.0.samples_per_vehicle (8), got 64"),
    ({"fleet": [{"share": 1, "extra_sd_s": 0.1}]},
     "fleet.0.extra_sd_s must come with law = 'lognormal', got law = 'exponential'"),
    ({"fleet": [{"share": 1, "law": "measured"}]}, "fleet.0.law = 'measured' must come with step_samples, got none"),
    ({"fleet": [{"share": 1, "step_samples": [0.1], "min_step_s": 0.1}]},
     "fleet.0 must give either step_samples or min_step_s, got both"),
    ({"fleet": [{"share": 1, "min_step_s": 1e-12}]},
     "fleet.0.min_step_s must be such that at most 1e+12 steps fit into"
     " ten times road.length_m/traffic.speed_mps, got 1e-12"),
    ({"compute": {"law": "normal"}},
     "compute.law must be one of 'exponential', 'lognormal' or 'measured', got 'normal'"),
    ({"compute": {"law": "measured"}}, "compute.law = 'measured' must come with step_samples, got none"),
    ({"compute": {"law": "lognormal", "step_samples": [0.1]}},
     "compute.step_samples must come with law = 'measured', got law = 'lognormal'"),
    ({"compute": {"step_samples": [0.1], "extra_step_s": 0.1}},
     "compute must give either step_samples or extra_step_s, got both"),
    ({"compute": {"step_samples": [0.1, -1.0]}},
     "compute.step_samples must be a list of 1 to 10000 numbers of seconds, each > 0 and <= 1e6, got [0.1, -1.0]"),
    ({"compute": {"step_samples": "times.csv"}},  # a file is read only where a person loads a scenario
     "compute.step_samples must be a list of 1 to 10000 numbers of seconds, each > 0 and <= 1e6, got 'times.csv'"),
    ({"compute": {"law": "lognormal", "extra_sd_s": 0}}, "compute.extra_sd_s must be > 0, got 0"),
])  # fmt: skip
def test_mistakes_get_a_sentence(tables: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        Scenario.from_dict(tables)
    assert caught.value.lines == [sentence]


@pytest.mark.parametrize("bad", [[], [True], ["a"], [[0.1]], [float("nan")], [1e7], 3, [0.1] * 10_001])
def test_measured_times_are_numbers(bad: object) -> None:
    with pytest.raises(InputError, match=r"^compute.step_samples must be a list of 1 to 10000 numbers"):
        Scenario.from_dict({"compute": {"step_samples": bad}})


def test_what_a_class_does_not_say_comes_from_the_tables() -> None:
    road = Scenario.from_dict(
        {
            "compute": {"law": "lognormal", "min_step_s": 0.3, "extra_sd_s": 0.4},
            "training": {"samples_per_vehicle": [100, 200]},
            "fleet": [
                {"share": 0.25, "name": "old", "min_step_s": 0.6},
                {"share": 0.25, "law": "exponential", "samples_per_vehicle": 500},
                {"share": 0.5, "step_samples": [0.2, 0.1, 0.6]},
            ],
        }
    )
    old, plain, measured = road.classes
    assert (old.name, plain.name, measured.name) == ("old", "class 2", "class 3")
    assert (old.compute.law, old.compute.min_step_s, old.compute.extra_step_s, old.compute.spread_s) == (
        "lognormal", 0.6, 0.2, 0.4,
    )  # fmt: skip
    assert (plain.compute.law, plain.compute.min_step_s, plain.compute.extra_sd_s) == ("exponential", 0.3, None)
    assert (measured.compute.law, measured.compute.min_step_s) == ("measured", 0.1)
    assert measured.compute.extra_step_s == pytest.approx(0.2)
    assert [each.training.samples_per_vehicle for each in road.classes] == [(100, 200), 500, (100, 200)]
    assert road.most_samples == 500
    assert Scenario.from_dict(tomllib.loads(road.to_toml())) == road
    assert Scenario.from_dict(road.given()) == road
    assert road.with_values({}) == road
    assert road.with_values({"traffic.speed_mps": 10}).fleet == road.fleet
    assert road.with_values({"fleet": []}).fleet == ()


def test_a_road_without_classes_is_one(paper: Scenario) -> None:
    (all_,) = paper.classes
    assert (all_.share, all_.compute, all_.training) == (1.0, paper.compute, paper.training)
    assert "fleet" not in paper.to_dict()


def test_giving_step_times_one_way_takes_back_the_other(paper: Scenario) -> None:
    measured = paper.with_values({"compute.step_samples": np.array([0.1, 0.3])})
    assert (measured.compute.law, measured.compute.min_step_s) == ("measured", 0.1)
    assert measured.to_dict()["compute"] == {"step_samples": (0.1, 0.3), "law": "measured"}
    back = measured.with_values({"compute.min_step_s": 0.5})
    assert (back.compute.law, back.compute.min_step_s, back.compute.step_samples) == ("exponential", 0.5, None)


def test_a_fleet_is_set_as_a_whole(paper: Scenario) -> None:
    with pytest.raises(
        InputError, match=r"^fleet must be set as a whole, fleet=\[{share=…, …}, …\], got fleet.0.share"
    ):
        paper.with_values({"fleet.0.share": 0.5})
    road = load("paper", ("fleet=[{share=0.5},{share=0.5,min_step_s=0.1}]",))
    assert [each.compute.min_step_s for each in road.classes] == [0.2, 0.1]


def test_measured_times_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "times.csv").write_text("step_s\n0.2\n\n0.5\n0.3\n")
    file = tmp_path / "road.toml"
    file.write_text('[compute]\nlaw = "measured"\nstep_samples = "times.csv"\n'
                    '[[fleet]]\nshare = 1.0\nstep_samples = "times.csv"\n')  # fmt: skip
    road = load_scenario(file)
    assert road.compute.step_samples == road.fleet[0].step_samples == (0.2, 0.5, 0.3)
    monkeypatch.chdir(tmp_path)
    assert load("paper", ("compute.step_samples=times.csv",)).compute == road.compute


@pytest.mark.parametrize(("content", "sentence"), [
    (b"0.2\nfast\n", "must be a file with one number per line, got 'fast' in line 2 of times.csv"),
    (b"", "must be a file of 1 to 10000 numbers, got 0 in times.csv"),
    (b"\xff\xfe", "must be a file of text, got other bytes in 'times.csv'"),
    (None, "must be numbers or a file with one per line, got 'times.csv': No such file or directory"),
])  # fmt: skip
def test_files_that_are_none(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "times.csv").write_bytes(content)
    (tmp_path / "road.toml").write_text('[compute]\nstep_samples = "times.csv"\n')
    with pytest.raises(InputError) as caught:
        load_scenario(tmp_path / "road.toml")
    assert str(caught.value) == f"compute.step_samples {sentence}"
