"""The command, as a shell sees it: what is printed where, and the exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mobfl
from command import mobfl as run


def test_the_papers_plan_as_json() -> None:
    done = run("plan", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert list(plan) == [
        "status", "local_steps", "round_s", "objective", "expected_uploads", "valid_round_prob", "reason",
        "planner", "contributing_visit_prob", "sensitivity",
    ]  # fmt: skip
    assert plan["sensitivity"]["off_by"] == 0.2
    assert plan["sensitivity"]["round_s"]["below"] == pytest.approx(0.0943, abs=1e-4)
    assert (plan["status"], plan["local_steps"], plan["reason"]) == ("ok", 24, None)
    assert plan["round_s"] == pytest.approx(11.7763, abs=1e-4)


def test_results_by_class_and_the_error_of_a_search() -> None:
    told = json.loads(run("simulate", "mixed-fleet", "--rounds", "500", "--json").stdout)
    assert [each["name"] for each in told["classes"]] == ["ordinary", "quick"]
    assert "uploads per visit" in run("simulate", "mixed-fleet", "--rounds", "500").stdout
    assert "ordinary" in run("plan", "mixed-fleet").stdout
    assert "objective_error" in run("plan", "--set", "compute.law=lognormal").stdout
    refused = run("plan", "--set", "fleet.0.share=1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "fleet must be set as a whole" in refused.stderr


def test_settings_names_and_files(tmp_path: Path) -> None:
    (tmp_path / "road.toml").write_text("[compute]\nmin_step_s = 0.1\nextra_step_s = 0.1\n")
    assert json.loads(run("plan", "road.toml", "--json", cwd=tmp_path).stdout)["local_steps"] == 48
    changed = run("plan", "paper", "--set", "compute.min_step_s=0.1", "--set", "compute.extra_step_s=0.1", "--json")
    assert json.loads(changed.stdout)["local_steps"] == 48


def test_a_plan_for_anytime_rounds() -> None:
    found = json.loads(run("plan", "--for", "anytime", "--json").stdout)
    assert (found["status"], found["schedule"], found["knows"], found["reason"]) == ("ok", "anytime", "nothing", None)
    assert found["round_s"] == pytest.approx(10.0969, abs=1e-4)
    assert found["objective"] == pytest.approx(1.94460, abs=1e-5)
    assert found["local_steps"] == pytest.approx(found["round_s"] * found["objective"])
    table = run("plan", "--for", "anytime:knows=leaving").stdout
    assert "14.2814 s" in table
    assert "The best rounds of one H, (24, 11.78 s), have g = 1.215 /s." in table


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--for", "anytime:knows=all"], "--for must be anytime or anytime:knows=nothing|mean|predicted|leaving, got"),
        (["--for", "mobfl"], "--for must be anytime or anytime:knows=nothing|mean|predicted|leaving, got 'mobfl'"),
        (["--for", "anytime", "--plot", "plan.pdf"], "--plot and --least-uploads are for plans of one H, got --for"),
        (["--for", "anytime", "--set", "training.noise_uploads=2"], "training.noise_uploads must be 0 for anytime"),
    ],
)
def test_what_cannot_be_planned_for_is_named(arguments: list[str], line: str) -> None:
    done = run("plan", *arguments)
    assert done.returncode == 2
    assert line in done.stderr


def test_classes_stand_beside_a_plan_for_anytime_rounds() -> None:
    assert "ordinary" in run("plan", "mixed-fleet", "--for", "anytime").stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--day", "--keep-tracks"], "--day must come without --keep-tracks, got both"),
        (["--duration", "-5"], "--duration must be > 0 s, got -5"),
        (["--section", "edge:a"], "--section goes with --trace or --sumo"),
    ],
)
def test_traffic_that_cannot_be_made_is_named(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = run("traffic", *arguments, "--out", "x.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{line}\n")
    assert not list(tmp_path.iterdir())


def test_anytime_rounds_are_simulated(tmp_path: Path) -> None:
    fleet = ("simulate", "mixed-fleet", "--plan", "anytime:9,knows=leaving", "--rounds", "500")
    done = run(*fleet, "--json", "--plot", "longest.png", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["schedule"], told["knows"], told["round_s"], told["rounds"]) == ("anytime", "leaving", 9.0, 500)
    low, high = told["longest_steps_interval"]
    assert low < told["longest_steps"] < high
    assert told["objective"] == told["longest_steps"] / 9.0
    assert told["expected_lost_share"] == told["lost_share"] == 0.0
    assert told["classes"][1]["expected_steps_per_visit"] == pytest.approx(100.3, abs=0.1)
    assert (tmp_path / "longest.png").exists()
    table = run(*fleet).stdout
    assert all(word in table for word in ("anytime rounds with T = 9.0000 s", "steps of the longest training", "v = "))


def test_an_infeasible_plan_for_anytime_is_status_3_too() -> None:
    done = run("plan", "--for", "anytime", "--set", "road.length_m=40", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (3, "infeasible")
    assert "No plan is possible" in run("plan", "--for", "anytime", "--set", "road.length_m=40").stdout


def test_an_infeasible_plan_is_status_3_with_nulls() -> None:
    done = run("plan", "--set", "road.length_m=40", "--json")
    plan = json.loads(done.stdout)
    assert done.returncode == 3
    assert plan.pop("status") == "infeasible"
    assert "lengthen the section beyond 44 m" in plan.pop("reason")
    assert set(plan.values()) == {None}
    table = run("plan", "--set", "road.length_m=40")
    assert table.returncode == 3
    assert "No plan is possible: the vehicles leave after 2.0 s" in table.stdout


def test_wrong_input_is_status_2_a_line_per_mistake_and_no_traceback() -> None:
    done = run("plan", "--set", "road.lenght_m=4", "--set", "traffic.speed_mps=-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "road.lenght_m is not a known key, did you mean road.length_m?",
        "traffic.speed_mps must be > 0, got -1",
    ]


@pytest.mark.parametrize(
    "arguments",
    [("plan", "nowhere.toml"), ("plan", "--frob"), ("frob",), ("scenarios", "x"), ("plan", "--set", "x")],
)
def test_other_wrong_input(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_the_table_promises_and_marks_defaults() -> None:
    lines = run("plan").stdout.splitlines()

    def line(start: str) -> str:
        return next(line for line in lines if line.strip().startswith(start))

    assert "11.7763 s" in line("round_s")
    assert "default" in line("traffic.speed_sd_mps")
    assert "default" not in line("road.length_m")
    assert any("305.7" in line and "rounds per hour" in line for line in lines)
    assert any("68.44%" in line and "visits that contribute" in line for line in lines)
    assert any(line.split()[:3] == ["traffic.speed_mps", "1.30%", "1.16%"] for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_the_table_says_when_averaging_counts() -> None:
    lines = run("plan", "--set", "training.noise_uploads=2").stdout.splitlines()
    assert any("training.noise_uploads" in line and "2" in line for line in lines)
    assert "Plan for the greatest g_ν = (H/T)·E[M/(M + ν)], ν = 2" in lines
    assert any(line.split()[:3] == ["objective", "0.50855", "/s"] and "g_ν" in line for line in lines)
    assert any(line.startswith("Loss of g_ν when") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert list(json.loads(run("plan", "--set", "training.noise_uploads=2", "--json").stdout)) == list(
        json.loads(run("plan", "--json").stdout)
    )


def test_scenarios_are_listed_and_printed(tmp_path: Path) -> None:
    assert {"paper", "highway", "urban", "carpark"} <= {
        line.split()[0] for line in run("scenarios").stdout.splitlines()
    }
    (tmp_path / "mine.toml").write_text(run("scenarios", "highway").stdout)
    mine, packaged = run("plan", "mine.toml", "--json", cwd=tmp_path), run("plan", "highway", "--json")
    assert mine.stdout == packaged.stdout


def test_version() -> None:
    assert run("--version").stdout.split() == ["mobfl,", "version", mobfl.__version__]


def test_a_plot_in_every_format(tmp_path: Path) -> None:
    for name, start in (("g.png", b"\x89PNG"), ("g.pdf", b"%PDF"), ("g.svg", b"<?xml")):
        done = run("plan", "urban", "--json", "--plot", name, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / name).read_bytes().startswith(start)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["g.pdf", "g.png", "g.svg"]


@pytest.mark.parametrize("name", ["g.bmp", "g", "nowhere/g.png"])
def test_a_plot_that_cannot_be(tmp_path: Path, name: str) -> None:
    done = run("plan", "--plot", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--plot")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("interrupt", ["raise KeyboardInterrupt", "exec('raise KeyboardInterrupt')"])
def test_an_interruption_is_status_130(tmp_path: Path, interrupt: str) -> None:
    """Also in code that was given as text: of a module that is run, Python would think that nobody had caught it."""
    (tmp_path / "interrupted.py").write_text(
        "import mobfl.cli, mobfl.cli.planning as planning\n"
        f"def interrupted(*_): {interrupt}\n"
        "planning.best_plan = interrupted\n"
        "import sys; sys.argv = ['mobfl', 'plan']; mobfl.cli.main()"
    )
    command = [sys.executable, "-m", "interrupted"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 130


def test_without_matplotlib_the_command_that_installs_it_is_named() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.argv = ['mobfl', 'plan', '--plot', 'x.png']\n"
        "from mobfl.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == "drawing a figure needs the extra 'figures': pip install 'mobfl[figures]'"


def test_cores_are_counted_where_nobody_tells_which_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS and Windows have no `sched_getaffinity`."""
    import os

    from mobfl.cli.options import cores

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores(None) == os.cpu_count()
    assert cores(3) == 3
