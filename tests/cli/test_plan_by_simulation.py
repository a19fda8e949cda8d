"""`mobfl plan --within`: what is printed where, and the exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mobfl
from command import mobfl as run
from places import ROOT


def test_the_plan_as_json_and_a_line_for_every_level() -> None:
    done = run("plan", "--within", "2%", "--seed", "3", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(told) == [
        "status", "local_steps", "round_s", "objective", "expected_uploads", "valid_round_prob", "reason", "planner",
        "valid_round_prob_interval", "objective_interval", "regret",
    ]  # fmt: skip
    assert (told["status"], told["planner"], told["reason"]) == ("ok", "simulation", None)
    assert told["objective"] == pytest.approx(1.2147, rel=0.04)
    low, high = told["valid_round_prob_interval"]
    assert low < told["valid_round_prob"] < high
    assert told["regret"] <= 0.02
    lines = done.stderr.splitlines()
    assert all(line.startswith("planning by simulation: level ") and line.endswith("…") for line in lines)
    assert len(lines) == len({line.split(",")[0] for line in lines})
    assert run("plan", "--within", "0.02", "--seed", "3", "--json").stdout == done.stdout


def test_the_table_says_which_planner_it_was() -> None:
    table = run("plan", "--within", "5%").stdout
    assert "Plan by simulation" in table
    assert "No other plan is better by more than" in table
    anytime = run("plan", "--within", "5%", "--for", "anytime:knows=leaving").stdout
    assert "Plan by simulation for anytime rounds of vehicles that know when they leave" in anytime
    for arguments, name in ((("plan",), "exact"), (("plan", "--for", "anytime"), "exact")):
        assert any(line.split()[:2] == ["planner", name] for line in run(*arguments).stdout.splitlines())


def test_a_recording(tmp_path: Path) -> None:
    from made_traffic import made_traffic
    from mobfl.mobility.recorded import write_crossings

    write_crossings(made_traffic(0.3, 1500.0, 1), tmp_path / "crossings.csv")
    done = run("plan", "--trace", "crossings.csv", "--within", "5%", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["planner"] == "simulation"
    assert "Trace crossings.csv" in run("plan", "--trace", "crossings.csv", "--within", "10%", cwd=tmp_path).stdout


def test_an_infeasible_road_keeps_its_status_and_sentence() -> None:
    done = run("plan", "--within", "1%", "--set", "road.length_m=40", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "")
    assert told["reason"] == mobfl.plan(mobfl.load_scenario("paper").with_values({"road.length_m": 40})).reason
    assert told["planner"] is None
    assert "No plan is possible" in run("plan", "--within", "1%", "--set", "road.length_m=40").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--within", "0"), "--within must be a share from 0.001% to 50%, such as 1%, got '0'"),
        (("--within", "200%"), "--within must be a share from 0.001% to 50%, such as 1%, got '200%'"),
        (("--within", "abc"), "--within must be a share from 0.001% to 50%, such as 1%, got 'abc'"),
        (("--within", "NaN"), "--within must be a share from 0.001% to 50%, such as 1%, got 'NaN'"),
        (("--seed", "1"), "--seed goes with --within, got it alone"),
        (("--within", "1%", "--seed", "-1"), "--seed must be >= 0, got -1"),
        (("--within", "1%", "--plot", "a.png"), "--plot and --least-uploads ask Theorem 1 and go without --within"),
        (
            ("--within", "1%", "--least-uploads", "2"),
            "--plot and --least-uploads ask Theorem 1 and go without --within",
        ),
        (("--within", "1%", "--for", "never"), "--for must be anytime or"),
    ],
)
def test_wrong_input_gets_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = run("plan", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_ends_it() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-m", "mobfl", "plan", "--within", "0.001%"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("planning by simulation: level 0")
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=600)
    assert (process.returncode, printed) == (130, "")
    assert "Traceback" not in said
