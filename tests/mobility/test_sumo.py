"""Traffic that SUMO drives, in its own process."""

import functools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command import mobfl as command
from mobfl import InputError, Scenario, plan
from mobfl.errors import MissingExtraError
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.mobility.sumo import Signal, SumoError, _straight_road, explained, straight_road_crossings, sumo_crossings
from mobfl.rounds.simulation import simulate

pytest.importorskip("libsumo", reason="SUMO or its system libraries are not installed", exc_type=ImportError)


@pytest.fixture(scope="module")
def behind_a_signal() -> tuple[Scenario, Crossings]:
    """3 lanes, 90 s cycle, 36 s green, λ = 0.3."""
    scenario = Scenario.from_dict({"traffic": {"arrivals_per_s": 0.3, "speed_sd_mps": 2.0}})
    return scenario, straight_road_crossings(scenario, lanes=3, signal=Signal(90, 36), duration_s=14_400, seed=1)


def test_free_flow_is_poisson_with_the_scenarios_rate_and_stay() -> None:
    scenario = Scenario.from_dict({"traffic": {"arrivals_per_s": 0.15, "speed_sd_mps": 1.0}})
    shares = list[float]()
    crossings = straight_road_crossings(scenario, lanes=3, duration_s=14_400, seed=2, progress=shares.append)
    assert crossings.arrivals_per_s == pytest.approx(0.15, rel=0.1)
    assert crossings.dwell_s.mean() == pytest.approx(20.0, rel=0.05)
    assert crossings.enter_s[0] >= 300.0
    assert shares == sorted(shares)
    assert len(shares) > 10
    result = simulate(scenario, 24, 11.776, 10**6, 1, crossings)
    assert result.warning is None
    assert result.variance_to_mean.value == pytest.approx(1.0, abs=0.25)


def test_behind_a_signal_the_poisson_law_fails_and_the_trace_plan_does_better(
    behind_a_signal: tuple[Scenario, Crossings],
) -> None:
    scenario, crossings = behind_a_signal
    result = simulate(scenario, 24, 11.775, 10**6, 1, crossings)
    assert result.mean_uploads.low < result.expected_uploads < result.mean_uploads.high
    assert result.poisson.empty_prob < 0.06
    assert result.empty_prob.value > 0.35
    assert result.expected_empty_prob == pytest.approx(result.empty_prob.value, abs=0.05)
    assert 2.9 < result.variance_to_mean.value < 8
    assert result.warning is not None
    ours = plan(scenario, crossings)
    theirs = ours.poisson_plan
    assert theirs.promised_objective > 1.5 * theirs.real_objective
    # Run both for real on the same traffic, many times over.
    delivered = [
        np.mean([h / t * (1 - simulate(scenario, h, t, 10**6, seed, crossings).empty_prob.value) for seed in range(20)])
        for h, t in (ours.numbers[:2], (theirs.local_steps, theirs.round_s))
    ]
    assert delivered[0] > delivered[1]


def test_the_same_seed_drives_the_same(paper: Scenario) -> None:
    one, two, other = (straight_road_crossings(paper, duration_s=600, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.enter_s, two.enter_s)
    assert not np.array_equal(one.enter_s, other.enter_s)


def test_finer_steps_find_the_same_instants(paper: Scenario) -> None:
    """Constant speeds on an empty road: 20 s, whatever the step. At 1 s steps the bias would be 4 %."""
    lonely = paper.with_values({"traffic.arrivals_per_s": 0.01})
    for step_s in (0.5, 0.1):
        crossings = straight_road_crossings(lonely, duration_s=1800, step_s=step_s, seed=3)
        assert crossings.dwell_s == pytest.approx(np.full(len(crossings), 20.0), rel=0.02)


def test_sumos_own_floating_car_data_tells_the_same(paper: Scenario, tmp_path: Path) -> None:
    """The library's view of an edge against the file that SUMO writes, for the edge and for a box."""
    import sumo

    config = _straight_road(tmp_path, paper, 2, None, 600.0)
    words = [str(Path(sumo.SUMO_HOME) / "bin" / "sumo"), "-c", str(config), "--step-length", "0.5", "--seed", "0"]
    words += ["--end", "600", "--fcd-output", str(tmp_path / "fcd.xml"), "--no-step-log", "true"]
    subprocess.run(words, check=True, capture_output=True)
    ours = sumo_crossings(config, "edge:section", duration_s=600.0)
    file = read_crossings(tmp_path / "fcd.xml", parse_section("edge:section"))
    box = read_crossings(tmp_path / "fcd.xml", parse_section("box:300,-50,700,50"))
    whole = ours.leave_s < 599
    for other in (file, box):
        assert other.vehicle[: whole.sum()].tolist() == ours.vehicle[whole].tolist()
        assert other.enter_s[: whole.sum()] == pytest.approx(ours.enter_s[whole], abs=0.3)
        assert other.leave_s[: whole.sum()] == pytest.approx(ours.leave_s[whole], abs=0.3)


def test_wrong_input_is_named_before_sumo_starts(paper: Scenario, tmp_path: Path) -> None:
    config = tmp_path / "x.sumocfg"
    config.write_text("<configuration/>")
    for call, sentence in (
        (lambda: sumo_crossings(config, "edge:a", step_s=1.0), "step must be > 0 and <= 0.5 s, got 1"),
        (lambda: sumo_crossings(tmp_path / "no.sumocfg", "edge:a"), "configuration must be a file"),
        (lambda: sumo_crossings(config, "edge"), "section must be edge:ID"),
        (lambda: straight_road_crossings(paper, lanes=0), "lanes must be >= 1, got 0"),
        (lambda: Signal(90, 90), "signal must have 0 < GREEN < CYCLE - 3 s, got 90,90"),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_what_sumo_complains_about_is_passed_on(tmp_path: Path) -> None:
    config = tmp_path / "broken.sumocfg"
    config.write_text('<configuration><input><net-file value="none.net.xml"/></input></configuration>')
    with pytest.raises(SumoError, match=r"SUMO ended with status"):
        sumo_crossings(config, "edge:a")
    missing = "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    assert "apt-get install libgl1 libx11-6 libxrender1 libatomic1" in str(explained(missing, 1))
    assert isinstance(explained("ModuleNotFoundError: No module named 'libsumo'", 1), MissingExtraError)


def test_the_command(tmp_path: Path) -> None:
    mobfl = functools.partial(command, cwd=tmp_path)
    done = mobfl("traffic", "--lanes", "2", "--duration", "900", "--out", "road.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    planned = json.loads(mobfl("plan", "--trace", "road.parquet", "--json").stdout)
    assert list(planned)[-5:] == [
        "planner", "valid_round_prob_interval", "poisson_plan", "half_from_vehicles", "notices",
    ]  # fmt: skip
    assert set(planned["poisson_plan"]) == {"local_steps", "round_s", "promised_objective", "real_objective"}
    simulated = mobfl(
        "simulate", "--trace", "road.parquet", "--plan", "24,11.8", "--rounds", "20", "--json", "--plot", "h.svg"
    )
    assert list(json.loads(simulated.stdout)) == [
        "local_steps", "round_s", "rounds", "mean_uploads", "empty_prob", "variance_to_mean", "contributing_share",
        "expected_uploads", "expected_empty_prob", "poisson_uploads", "poisson_empty_prob", "warning",
    ]  # fmt: skip
    assert "uploads per round" in (tmp_path / "h.svg").read_text(encoding="utf-8")
    for arguments in (
        ("traffic", "--out", "x.txt"),
        ("traffic", "--out", "nowhere/x.csv"),
        ("traffic", "--sumo", "x.sumocfg", "--out", "x.csv"),
        ("traffic", "--signal", "90", "--out", "x.csv"),
        ("traffic", "--day", "--lanes", "2", "--out", "x.csv"),
        ("traffic", "--duration", "-5", "--out", "x.csv"),
        ("traffic", "--sumo", "x.sumocfg", "--section", "edge:1", "--signal", "90,36", "--out", "x.csv"),
        ("simulate", "--plan", "24"),
        ("simulate", "--plan", "2.5,10"),
        ("simulate", "--plan", "nan,5"),
        ("simulate", "--plan", "inf,5"),
        ("simulate", "--rounds", "0"),
        ("simulate", "--section", "edge:a"),
        ("simulate", "--seed", "-1"),
        ("plan", "--trace", "nowhere.csv"),
        ("plan", "--trace", "road.parquet", "--plot", "x.png"),
    ):
        wrong = mobfl(*arguments)
        assert (wrong.returncode, wrong.stdout, len(wrong.stderr.splitlines())) == (2, "", 1), arguments
    assert sorted(file.name for file in tmp_path.iterdir()) == ["h.svg", "road.parquet"]
    impossible = mobfl("simulate", "--set", "road.length_m=30")
    assert (impossible.returncode, impossible.stdout) == (3, "")
