"""`mobfl radio`, as a shell sees it."""

import json
from pathlib import Path

import pytest

from command import mobfl as run
from mobfl import InputError
from mobfl.cli import cli


def test_the_section_as_table_json_and_figure(tmp_path: Path) -> None:
    table = run("radio", "urban-radio", "--plot", "radio.png", cwd=tmp_path)
    assert (table.returncode, table.stderr) == (0, "")
    assert "3.75 / 8.86 / 18.8" in table.stdout
    assert "from path_loss" in table.stdout
    assert "14,835,468 bytes" in table.stdout
    assert (tmp_path / "radio.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run("radio", "urban-radio", "--senders", "1,2", "--json").stdout)
    assert (told["status"], told["senders"], told["reason"]) == ("ok", [1, 2], None)
    assert [place["way_m"] for place in told["places"]] == [0.0, 62.5, 125.0, 187.5, 250.0]
    assert len(told["places"][0]["upload_s"]) == 2
    assert told["radio"]["path_loss"] == "urban-nlos"


def test_a_setting_makes_a_radio_and_sizes_may_be_open() -> None:
    done = run("radio", "--set", "radio.path_loss=urban-nlos")
    assert done.returncode == 0
    assert "-2.5" in done.stdout
    assert "how long an upload takes is unknown" in done.stdout


def test_what_is_wrong_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, line in (
        (["radio"], "the scenario must have a radio, got none"),
        (["radio", "urban-radio", "--senders", "0"], "--senders must be 1 to 6 whole numbers from 1 to 10000"),
        (["radio", "urban-radio", "--set", "link.upload_s=1"], "link must give only sizes with a radio"),
        (["radio", "urban-radio", "--plot", "radio.doc"], "--plot must end in one of"),
        (["radio", "urban-radio", "--over-arrivals", "0"], "--over-arrivals must be 1 to 12 numbers above 0"),
        (["radio", "urban-radio", "--over-arrivals", "much"], "--over-arrivals must be 1 to 12 numbers above 0"),
        (["radio", "--over-arrivals", "0.1"], "the scenario must have a radio"),
        (["radio", "urban-radio", "--over-rounds"], "--over-rounds must have --plot FILE"),
        (["radio", "urban-radio", "--over-rounds", "--over-arrivals", "1"], "must be given one at a time, got both"),
    ):
        with pytest.raises(InputError) as caught:
            cli.main(arguments, standalone_mode=False)
        assert line in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_band_that_is_too_narrow_is_infeasible() -> None:
    done = run("radio", "urban-radio", "--set", "radio.uplink_hz=1e4")
    assert (done.returncode, done.stderr) == (3, "")
    assert "No upload is possible: an upload alone takes" in done.stdout


def test_promises_over_arrivals_as_table_json_and_figure(tmp_path: Path) -> None:
    asked = ("radio", "urban-radio", "--over-arrivals", "0.1,0.2", "--rounds", "30")
    table = run(*asked, "--plot", "kept.png", cwd=tmp_path)
    assert (table.returncode, table.stderr) == (0, "")
    assert "promised by the quick plan, and simulated (95 % intervals)" in table.stdout
    assert table.stdout.count("±") == 4
    assert (tmp_path / "kept.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(run(*asked, "--json").stdout)
    assert [each["arrivals_per_s"] for each in told] == [0.1, 0.2]
    assert all(each["plan"]["planner"] == "fixed-point" for each in told)
    assert all(each["rounds"] == 30 and each["mean_uploads"] > 0 for each in told)
    none = run("radio", "urban-radio", "--set", "radio.uplink_hz=1e4", "--over-arrivals", "0.1")
    assert (none.returncode, none.stderr) == (3, "")
    assert "widen radio.uplink_hz" in none.stdout


def test_radios_are_listed() -> None:
    names = [line.split()[0] for line in run("scenarios").stdout.splitlines()]
    assert names == sorted(names)
    assert {"paper-radio", "highway-radio", "urban-radio"} <= set(names)
