"""Plans for roads with a radio, found by simulation: beside the quick plan, and as commands and runs take them."""

import json

import pytest
from click.testing import CliRunner

from mobfl import InputError, SimulatedPlan, load_scenario, plan_by_simulation, plan_quickly
from mobfl.cli import cli
from mobfl.servers.names import server_of

# Few, small and loud: quick to simulate, and hardly ever two at once.
ROAD = load_scenario("paper-radio").with_values({"compute.min_step_s": 1.0, "compute.extra_step_s": 0.5})


@pytest.fixture(scope="module")
def found() -> SimulatedPlan:
    return plan_by_simulation(ROAD, within=0.05)


def test_where_transfers_are_short_it_agrees_with_the_plan_for_constants(found: SimulatedPlan) -> None:
    quick = plan_quickly(ROAD)
    assert (found.planner, quick.planner) == ("simulation", "fixed-point")
    low, high = found.objective_interval
    assert low * 0.95 < quick.objective < high * 1.05
    other = found.constant_plan
    assert other.promised_objective == pytest.approx(quick.objective, rel=0.01)
    assert other.real_objective == pytest.approx(other.promised_objective, rel=0.05)
    assert found.to_dict()["constant_plan"]["local_steps"] == other.local_steps


def test_a_band_that_is_too_narrow_is_told_before_anything_is_simulated() -> None:
    narrow = ROAD.with_values({"radio.uplink_hz": 10.0})
    assert plan_by_simulation(narrow).reason.startswith("an upload alone takes")


def test_names_of_plans_with_a_radio(found: SimulatedPlan) -> None:
    for wanted in ("best,8", "10,best"):
        with pytest.raises(
            InputError, match="plan must have both H and T, or be mobfl, where the scenario has a radio"
        ):
            server_of(wanted, None, ROAD, None)
    with pytest.raises(InputError, match=r"plan mobfl:least counts on constant transfers"):
        server_of("mobfl:least=3", None, ROAD, None)
    described = server_of(found, None, ROAD, None).schedule.describe()
    assert (described["local_steps"], described["round_s"]) == (found.local_steps, found.round_s)


def test_the_command_says_which_planner_it_was() -> None:
    said = CliRunner().invoke(
        cli, ["plan", "paper-radio", "--set", "compute.min_step_s=1", "--within", "20%", "--json"]
    )
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert (told["status"], told["planner"]) == ("ok", "simulation")
    assert told["constant_plan"]["real_objective"] > 0
    refused = CliRunner().invoke(cli, ["plan", "paper-radio", "--least-uploads", "3"])
    assert refused.exception is not None
