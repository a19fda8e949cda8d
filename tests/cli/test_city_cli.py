"""Commands on a scenario that lists its stations."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mobfl.errors import InputError
from mobfl.figures import draw_stations


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mobfl", *arguments], capture_output=True, text=True, cwd=cwd)


def test_every_station_is_planned_by_itself(tmp_path: Path) -> None:
    (tmp_path / "city.toml").write_text(
        '[[stations]]\nname = "long"\nroad = {length_m = 800.0}\n'
        '[[stations]]\nname = "short"\nroad = {length_m = 20.0}\n'
    )
    done = run("plan", "city.toml", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert done.returncode == 3
    assert told["status"] == "infeasible"
    assert told["reason"] == "no plan is possible at short"
    assert [each["name"] for each in told["stations"]] == ["long", "short"]
    alone = json.loads(run("plan", "--set", "road.length_m=800", "--json").stdout)
    assert told["stations"][0]["objective"] == alone["objective"]
    assert told["stations"][1]["status"] == "infeasible"


def test_a_station_that_cannot_be_planned_is_named(tmp_path: Path) -> None:
    (tmp_path / "city.toml").write_text(
        '[[stations]]\nname = "plain"\n[[stations]]\nname = "radio"\nradio = {station_beside_m = 10.0}\n'
    )
    done = run("plan", "city.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("station radio: ")


def test_rounds_are_simulated_by_station() -> None:
    told = json.loads(run("simulate", "corridor", "--rounds", "200", "--json").stdout)["stations"]
    assert [each["name"] for each in told] == [f"station {number}" for number in range(1, 6)]
    assert {each["rounds"] for each in told} == {200}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "corridor", "--within", "1%"], "--within is for one station"),
        (["plan", "corridor", "--for", "anytime"], "--for is for one station"),
        (
            ["simulate", "corridor", "--plan", "async:3"],
            "--plan must be H,T or mobfl to be simulated",
        ),
        (["deploy", "corridor", "--local", "--out", "run"], "mobfl deploy runs one base station"),
        (["plan", "corridor", "--set", "stations.0.plan=3"], "stations must be set as a whole"),
    ],
)
def test_what_is_for_one_station_says_so(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_figure_of_stations_is_drawn(tmp_path: Path) -> None:
    told = [
        {"name": "a", "section": "circle:0,0,50", "local_steps": 24, "round_s": 11.8, "objective": 1.2},
        {"name": "b$", "section": "box:100,0,180,60", "local_steps": None, "round_s": None, "objective": None},
    ]
    draw_stations(told, tmp_path / "map.svg")
    assert "b$" in (tmp_path / "map.svg").read_text()
    with pytest.raises(InputError, match="something to show"):
        draw_stations([], tmp_path / "nothing.svg")
