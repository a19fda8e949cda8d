"""An uploaded trace: what the road's own rounds look like beside Poisson's, with a plan for each."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from mobfl.app.commands import MOST_ROUNDS, trace_commands
from mobfl.app.taken_over import taken_over
from mobfl.app.uploads import file_name, uploaded
from mobfl.files.json import plain
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.planner import plan
from mobfl.planning.plans import TracePlan
from mobfl.rounds.simulation import Promise, simulate
from mobfl.scenario import Scenario
from mobfl.theory import Knows

_STAGES = ("reading the file", "planning", "planning anytime rounds", "its own plan's rounds", "Theorem 1's rounds")


def compared(
    content: bytes,
    name: str,
    section: str,
    scenario: Scenario,
    knows: str = "nothing",
    start: str | None = None,
    tell: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """What the trace is, its best plan, both plans' rounds on it, and the best anytime rounds; `tell` hears how far.

    `start` is the packaged scenario that commands for it begin with.
    """

    def begin(stage: int) -> None:
        tell({"done": stage, "of": len(_STAGES), "stage": _STAGES[stage]})

    begin(0)
    crossings = _read(content, name, section)
    begin(1)
    best = plan(scenario, crossings)
    begin(2)
    anytime = _anytime(scenario, crossings, knows)
    simulations = list[dict[str, Any]]()
    plans = _plans(best)
    for stage, each in enumerate(plans, 3):
        begin(stage)
        simulations.append(_rounds(scenario, crossings, *each))
    stay = crossings.stays_s
    answer = {
        "crossings": len(crossings),
        "arrivals_per_s": crossings.arrivals_per_s,
        "dwell_s": float(stay.mean()),
        "dwell_sd_s": float(stay.std()),
        "plan": best.to_dict(),
        "road": taken_over(scenario, crossings) if best.reason is None else None,
        "anytime": anytime,
        "simulations": simulations,
        "commands": trace_commands(scenario, start, file_name(name), section, knows, [each[1:] for each in plans]),
    }
    return plain(answer)


def _anytime(scenario: Scenario, crossings: Crossings, knows: str) -> dict[str, Any] | None:
    """None where averaging counts, which anytime rounds do not know."""
    if scenario.training.noise_uploads > 0:
        return None
    return plan_anytime(scenario, cast(Knows, knows), crossings).to_dict()


def _plans(best: TracePlan) -> list[tuple[str, int, float]]:
    if best.reason is not None:
        return []
    found = [("the trace's own plan", *best.numbers[:2])]
    if best.poisson_plan is not None:
        found.append(("Theorem 1's plan", best.poisson_plan.local_steps, best.poisson_plan.round_s))
    return found


def _rounds(scenario: Scenario, crossings: Crossings, title: str, h: int, t: float) -> dict[str, Any]:
    """How often a round of this plan has 0, 1, 2, … uploads on the trace, and would on a Poisson road."""
    from scipy.stats import poisson

    simulated = simulate(scenario, h, t, MOST_ROUNDS, crossings=crossings)
    counts = np.arange(len(simulated.histogram))
    law = simulated.poisson or Promise(simulated.expected_uploads, simulated.expected_empty_prob)
    return {
        "title": title,
        **simulated.to_dict(),
        "histogram": (simulated.histogram / simulated.rounds).tolist(),
        "poisson": poisson.pmf(counts, law.uploads).tolist(),
    }


def _read(content: bytes, name: str, section: str) -> Crossings:
    where = parse_section(section) if section else None
    with uploaded(content, name) as (file, kind):
        return read_crossings(file, where, kind)
