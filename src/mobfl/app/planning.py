"""A plan as the page shows it once a slider rests: in `mobfl plan`'s numbers and words, with the scenario as TOML."""

from dataclasses import asdict
from typing import Any, cast

from mobfl import theory
from mobfl.app.commands import scenario_command
from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.planner import plan
from mobfl.planning.radio import in_seconds, plan_quickly
from mobfl.scenario import Scenario, load_scenario, packaged_scenarios

# Beyond this a plan may take many seconds where speeds spread.
MOST_STEPS = 200_000
_NO_TIME = theory.Transfers(0.0, 0.0, 1.0)


def presets() -> dict[str, dict[str, Any]]:
    """The packaged scenarios of one station: a line about each, and all of its values."""
    return {
        name: {
            "summary": file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "),
            "tables": load_scenario(name).to_dict(),
        }
        for name, file in packaged_scenarios().items()
        if not load_scenario(name).is_city
    }


def planned(tables: Any, start: str | None = None) -> Any:
    """The plan; with a radio the quick one, and the mean transfer times that it is for.

    `start` is the packaged scenario that a command for it begins with.
    """
    scenario = scenario_from(tables)
    best = plan(scenario) if scenario.radio is None else plan_quickly(scenario)
    answer: dict[str, Any] = {"plan": best.to_dict(), "contributing_visit_prob": None, "toml": scenario.to_toml()}
    answer["command"] = scenario_command(scenario, start)
    if best.reason is not None:
        return plain(answer)
    h, t, _ = best.numbers
    times = None if scenario.radio is None else theory.mean_transfers(scenario, h, t)
    seconds = scenario if times is None else in_seconds(scenario, times)
    answer["contributing_visit_prob"] = theory.contributing_visit_prob(seconds, h, t)
    return plain(answer if times is None else {**answer, "transfers": asdict(times)})


def planned_anytime(tables: Any, knows: str) -> Any:
    """The best T of anytime rounds for vehicles that know this of their leaving."""
    return plain({"plan": plan_anytime(scenario_from(tables), cast(theory.Knows, knows)).to_dict()})


def scenario_from(tables: Any) -> Scenario:
    """The scenario of a request; one on which a plan would take too long is refused."""
    scenario = Scenario.from_dict(tables)
    if scenario.is_city:
        raise InputError("the page plans one station, got a scenario with several: mobfl plan plans them all")
    # Over a radio a transfer takes some time, who knows how much; more steps than without any do not fit.
    seconds = scenario if scenario.radio is None else in_seconds(scenario, _NO_TIME)
    most = int(theory.max_local_steps(seconds))
    if most > MOST_STEPS:
        raise InputError(
            f"compute.min_step_s must be such that at most {MOST_STEPS} steps fit into a stay in the page, got {most};"
            " mobfl plan has no such limit"
        )
    return scenario
