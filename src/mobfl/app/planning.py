"""A plan as the page shows it once a slider rests: in `mobfl plan`'s numbers and words, with the scenario as TOML."""

from typing import Any, cast

from mobfl import theory
from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.planner import plan
from mobfl.scenario import Scenario, load_scenario, packaged_scenarios

# Beyond this a plan may take many seconds where speeds spread.
MOST_STEPS = 200_000


def presets() -> dict[str, dict[str, Any]]:
    """The packaged scenarios: a line about each, and all of its values.

    Those with a radio are left out: the page computes with seconds.
    """
    return {
        name: {
            "summary": file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "),
            "tables": scenario.to_dict(),
        }
        for name, file in packaged_scenarios().items()
        if (scenario := load_scenario(name)).radio is None
    }


def planned(tables: Any) -> Any:
    scenario = scenario_from(tables)
    best = plan(scenario)
    visits = None if best.reason else theory.contributing_visit_prob(scenario, *best.numbers[:2])
    return plain({"plan": best.to_dict(), "contributing_visit_prob": visits, "toml": scenario.to_toml()})


def planned_anytime(tables: Any, knows: str) -> Any:
    """The best T of anytime rounds for vehicles that know this of their leaving."""
    return plain({"plan": plan_anytime(scenario_from(tables), cast(theory.Knows, knows)).to_dict()})


def scenario_from(tables: Any) -> Scenario:
    """The scenario of a request; one on which a plan would take too long is refused."""
    scenario = Scenario.from_dict(tables)
    most = int(theory.max_local_steps(scenario))
    if most > MOST_STEPS:
        raise InputError(
            f"compute.min_step_s must be such that at most {MOST_STEPS} steps fit into a stay in the page, got {most};"
            " mobfl plan has no such limit"
        )
    return scenario
