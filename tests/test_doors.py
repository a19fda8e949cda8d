"""Python takes what the command line takes: names and files for scenarios, traffic, plans and parts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mobfl
from fake_task import CountingTask
from mobfl import theory
from mobfl.mobility.recorded import write_crossings


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vehicle every eight seconds or so, each there for twenty."""
    enter_s = 8.0 * np.arange(300) + np.random.default_rng(1).uniform(0, 8, 300)
    file = tmp_path_factory.mktemp("door") / "trace.csv"
    write_crossings(mobfl.Crossings.sorted(np.arange(300), enter_s, enter_s + 20), file)
    return file


@pytest.mark.parametrize(
    "ask",
    [
        mobfl.plan,
        mobfl.plan_anytime,
        lambda road: mobfl.best_round_s(road, 10),
        lambda road: theory.objective(road, 20, 5.0),
        lambda road: theory.mean_stay_s(road),
        lambda road: mobfl.Plan.at(road, 20, 5.0),
        lambda road: mobfl.simulate(road, 20, 5.0, 50).to_dict(),
    ],
)  # fmt: skip
def test_a_scenario_may_be_a_name_a_file_or_tables(ask: Callable[[Any], Any], tmp_path: Path) -> None:
    road = mobfl.load_scenario("highway")
    file = tmp_path / "mine.toml"
    file.write_text(road.to_toml())
    wanted = ask(road)
    for given in ("highway", str(file), file, road.to_dict()):
        assert ask(given) == wanted


def test_algorithm_1_takes_a_name() -> None:
    assert mobfl.algorithm_1("paper") == mobfl.algorithm_1(mobfl.load_scenario("paper"))


def test_a_radio_may_be_tables() -> None:
    road = mobfl.load_scenario("urban-radio")
    sizes = {"link.model_bytes": 1_000_000} if road.lacks_sizes else {}
    road = road.with_values(sizes)
    assert mobfl.plan_quickly(road.to_dict()) == mobfl.plan_quickly(road)
    assert theory.mean_transfers(road.to_dict(), 5, 20.0) == theory.mean_transfers(road, 5, 20.0)
    assert theory.transfers_alone(road.to_dict()) == theory.transfers_alone(road)
    assert theory.least_transfers(road.to_dict()) == theory.least_transfers(road)
    assert theory.coverage(road.to_dict(), [10.0]).to_dicts() == theory.coverage(road, [10.0]).to_dicts()


def test_traffic_may_be_a_file(trace: Path) -> None:
    crossings = mobfl.read_crossings(str(trace))
    assert mobfl.plan("paper", str(trace)) == mobfl.plan("paper", crossings) == mobfl.plan("paper", trace)
    assert mobfl.plan_anytime("paper", crossings=trace) == mobfl.plan_anytime("paper", crossings=crossings)
    by_file = mobfl.simulate("paper", 24, 11.8, 100, crossings=str(trace))
    assert by_file.to_dict() == mobfl.simulate("paper", 24, 11.8, 100, crossings=crossings).to_dict()
    job = mobfl.Job(CountingTask(), "paper", (24, 11.8), crossings=trace)
    assert job.describe()["trace"] == {"file": "trace.csv", "fingerprint": crossings.fingerprint()}


def test_plans_over_a_day_and_sites_take_names_and_files(trace: Path) -> None:
    crossings, road = mobfl.read_crossings(trace), mobfl.load_scenario("paper")
    day = mobfl.plan_over_day("paper", str(trace), "20min")
    assert day == mobfl.plan_over_day(road, crossings, 1200.0)
    assert len(day.spans) == 2
    sites = mobfl.choose_sites("paper", {"here": str(trace)}, 1)
    assert sites.to_dict() == mobfl.choose_sites(road, {"here": crossings}, 1).to_dict()


def test_a_network_may_be_named_by_text(tmp_path: Path) -> None:
    with pytest.raises(mobfl.InputError, match="cannot be read: No such file"):
        mobfl.read_network(str(tmp_path / "none.net.xml"))


def test_traffic_may_be_a_source_or_its_name() -> None:
    class Twice:
        def crossings(self, scenario: mobfl.Scenario, seed: int) -> mobfl.Crossings:
            return mobfl.Crossings.sorted([1, 2], [float(seed), 5.0], [30.0, 40.0])

    day = mobfl.Job(CountingTask(), "paper", (24, 11.8), 3, "day")
    assert day.trace == "day"
    assert day.crossings is not None
    assert len(day.crossings) > 1000
    own = mobfl.Job(CountingTask(), "paper", (24, 11.8), 3, Twice())
    assert own.crossings is not None
    assert own.crossings.enter_s.tolist() == [3.0, 5.0]


def test_a_section_may_be_text(tmp_path: Path) -> None:
    file = tmp_path / "fcd.csv"
    rows = [f"{t},a,{10 * t - 50},0" for t in range(11)]
    file.write_text("\n".join(["time,id,x,y", *rows]))
    seen = mobfl.read_crossings(str(file), "circle:0,0,20")
    assert (seen.enter_s.tolist(), seen.leave_s.tolist()) == ([3.0], [7.0])


def test_a_plan_may_be_a_name() -> None:
    best = mobfl.plan("highway")
    h, t, _ = best.numbers
    wanted = mobfl.simulate("highway", h, t, 500, 1).to_dict()
    for plan in ("mobfl", best, (h, t)):
        assert mobfl.simulate("highway", rounds=500, seed=1, plan=plan).to_dict() == wanted
    anytime = mobfl.plan_anytime("highway", "leaving")
    found = mobfl.simulate("highway", rounds=50, plan=anytime)
    assert isinstance(found, mobfl.AnytimeSimulation)
    assert (found.round_s, found.asked.knows) == (anytime.round_s, "leaving")


def test_a_job_takes_names() -> None:
    job = mobfl.Job("beams", "paper", plan="fedbuff:24", rule=None, local="fedprox:mu=0.01", codec="topk:share=0.1")
    told = job.describe()
    assert (told["task"], told["plan"]["policy"], told["plan"]["local_steps"]) == ("beams", "fedbuff", 24)
    assert told["rule"].endswith("fedbuff:server_rate=1")
    assert (told["local"], told["codec"]) == ("fedprox:momentum=0,mu=0.01", "topk:share=0.1")
    assert told["data"]["loss_scale"] == "paper"  # the scenario's own
    assert mobfl.Job(CountingTask()).scenario == mobfl.load_scenario("paper")


def test_a_share_may_be_a_percentage() -> None:
    assert mobfl.plan_by_simulation("paper", "30%") == mobfl.plan_by_simulation("paper", 0.3)


def test_least_uploads_may_be_a_number() -> None:
    assert mobfl.plan("paper", least=3) == mobfl.plan("paper", least=mobfl.LeastUploads(3))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: mobfl.plan("hghway"), "scenario 'hghway' must be a file or one of"),
        (lambda: mobfl.plan(5), "scenario must be a Scenario, a packaged one's name, a file or tables, got 5"),
        (lambda: mobfl.plan({"rod": {}}), "rod is not a known key, did you mean road?"),
        (lambda: mobfl.plan("paper", "none.csv"), "crossings 'none.csv' cannot be read: No such file"),
        (lambda: mobfl.plan("paper", 7), "crossings must be Crossings, a file, a name"),
        (lambda: mobfl.plan("paper", "nowhere:object"), "crossings 'nowhere:object' cannot be found"),
        (lambda: mobfl.simulate("paper", plan="fedbuff:24"), "plan must be H,T, mobfl or anytime to be simulated"),
        (lambda: mobfl.simulate("paper", plan=3), "plan must be what --plan takes, a Plan, a pair"),
        (lambda: mobfl.simulate("paper", 24), "round_s must be given"),
        (lambda: mobfl.read_crossings("f.csv", "circle:1"), "section must be edge:ID[:FROM:TO], edge:ID,ID"),
        (lambda: mobfl.plan_by_simulation("paper", "9x"), "within must be a share from 0.001% to 50%"),
        (lambda: mobfl.plan_over_day("paper", "none.csv"), "crossings 'none.csv' cannot be read: No such file"),
        (lambda: mobfl.plan_over_day("paper", "day", "soon"), "every must be a time such as 1h, 30min or 900s"),
        (lambda: mobfl.Job("beam"), "task must be one of beams"),
        (lambda: mobfl.Job(CountingTask(), plan="fedbuf:24").server, "plan must be H,T, one of"),
        (lambda: mobfl.Results("nowhere"), "results must be in a folder, got 'nowhere'"),
        (lambda: mobfl.run_sweep("nosweep", "out"), "sweep 'nosweep' must be a file or one of"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_the_parameters_name(ask: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(mobfl.InputError) as caught:
        ask()
    assert str(caught.value).startswith(sentence)


def test_a_scenario_from_tables_reads_measured_steps_but_a_checked_one_opens_no_file(tmp_path: Path) -> None:
    """What comes over a network is checked by `Scenario.from_dict`, which must not open files."""
    file = tmp_path / "steps.csv"
    file.write_text("0.2\n0.4\n")
    tables = {"compute": {"law": "measured", "step_samples": str(file)}}
    assert mobfl.plan(tables).objective is not None
    with pytest.raises(mobfl.InputError):
        mobfl.Scenario.from_dict(tables)
