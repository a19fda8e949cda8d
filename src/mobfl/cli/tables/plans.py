"""Plans with what they promise."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl import theory
from mobfl.cli.tables.scenarios import print_scenario, print_trace
from mobfl.planning.plans import AnytimePlan, GuaranteedPlan, Plan, SimulatedAnytimePlan, SimulatedPlan, TracePlan
from mobfl.planning.sensitivity import OFF_BY, sensitivity
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mobfl.mobility.crossings import Crossings


def print_plan(console: Console, scenario: Scenario, title: str, plan: Plan) -> None:
    print_scenario(console, scenario, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    noise = scenario.training.noise_uploads
    goal, aim = ("g_ν", f" for the greatest g_ν = (H/T)·E[M/(M + ν)], ν = {noise:g}") if noise else ("g", "")
    console.print(f"\n[bold]Plan[/bold]{aim}")
    console.print(_promise_table(scenario, plan))
    if isinstance(plan, GuaranteedPlan):  # which is not the best: being off may even raise g
        console.print(f"\n[bold]Price[/bold]: {_price(plan)}", soft_wrap=True)
        return
    console.print(f"\n[bold]Loss of {goal}[/bold] when a value is off by {OFF_BY:.0%} and the plan is kept")
    console.print(_sensitivity_table(scenario, plan))


def print_simulated_plan(
    console: Console,
    scenario: Scenario,
    title: str,
    crossings: "Crossings | None",
    plan: SimulatedPlan | SimulatedAnytimePlan,
) -> None:
    """On the scenario's road, or on recorded crossings."""
    if crossings is None:
        print_scenario(console, scenario, title)
    else:
        print_trace(console, crossings, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    aim = f" for anytime rounds of vehicles that know {KNOWN[plan.knows]}" if isinstance(plan, AnytimePlan) else ""
    console.print(f"\n[bold]Plan[/bold] by simulation{aim}")
    noise = scenario.training.noise_uploads
    console.print(_anytime_table(plan) if isinstance(plan, AnytimePlan) else _plan_table(plan, noise))
    console.print(
        f"\nNo other plan is better by more than {plan.regret:.2g} of the objective, except in one search of twenty.",
        soft_wrap=True,
    )
    if isinstance(plan, AnytimePlan) and plan.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {plan.assumed}.", soft_wrap=True)
    if isinstance(plan, SimulatedPlan) and plan.constant_plan is not None:
        other = plan.constant_plan
        console.print(
            f"\nThe plan for constant transfers of the same mean, ({other.local_steps}, {other.round_s:.4g} s),"
            f" promises g = {other.promised_objective:.4g} /s and gives {other.real_objective:.4g} /s on the air.",
            soft_wrap=True,
        )


def print_anytime_plan(console: Console, plan: AnytimePlan, fixed: Plan) -> None:
    """Beside the plan of one H for the same road."""
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    console.print(f"\n[bold]Plan[/bold] for anytime rounds of vehicles that know {KNOWN[plan.knows]}")
    console.print(_anytime_table(plan))
    if plan.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {plan.assumed}.", soft_wrap=True)
    if fixed.reason is None:
        h, t, g = fixed.numbers
        console.print(f"\nThe best rounds of one H, ({h}, {t:.4g} s), have g = {g:.4g} /s.")
    print_notices(console, plan.notices)


def _anytime_table(plan: AnytimePlan) -> Table:
    table = Table(box=None, show_header=False)
    table.add_row("round_s", f"[bold]{plan.round_s:.4f}[/bold] s", "T, the length of a round")
    table.add_row("objective", f"{plan.objective:.5g} /s", "v, local steps per second of the round's longest training")
    _add_objective_interval(table, plan)
    average = "what an average weighted by steps advances per second"
    if plan.averaged_objective is not None:
        table.add_row("averaged_objective", f"{plan.averaged_objective:.5g} /s", average)
    table.add_row("local_steps", f"{plan.local_steps:.4g}", "of a round's longest training, on average")
    table.add_row("expected_uploads", f"{plan.expected_uploads:.4g}", "uploads per round")
    _add_valid_prob(table, plan)
    _add_planner(table, plan)
    return table


KNOWN = {
    "nothing": "nothing of their leaving",
    "mean": "the mean stay",
    "predicted": "the way left and their speed",
    "leaving": "when they leave",
}


def _promise_table(scenario: Scenario, plan: Plan) -> Table:
    h, t, _ = plan.numbers
    contributing = theory.contributing_visit_prob(scenario, h, t)
    table = _plan_table(plan, scenario.training.noise_uploads)
    table.add_row("", f"{3600 / t:.1f}", "rounds per hour")
    table.add_row("", f"{contributing:.2%}", "visits that contribute, of those taking part")
    return table


def _plan_table(plan: Plan, noise_uploads: float = 0.0) -> Table:
    h, t, g = plan.numbers
    table = Table(box=None, show_header=False)
    table.add_row("local_steps", f"[bold]{h}[/bold]", "H, the steps a vehicle takes in a round")
    table.add_row("round_s", f"[bold]{t:.4f}[/bold] s", "T, the length of a round")
    meaning = "g_ν, local steps per second times M/(M + ν)" if noise_uploads else "g, valid local steps per second"
    table.add_row("objective", f"{g:.5g} /s", meaning)
    _add_objective_interval(table, plan)
    if plan.objective_error is not None:
        table.add_row(
            "objective_error", f"{plan.objective_error:.1e}", "share of g by which a better plan may be better"
        )
    table.add_row("expected_uploads", f"{plan.expected_uploads:.4g}", "uploads per round")
    _add_valid_prob(table, plan)
    if isinstance(plan, GuaranteedPlan):
        told = f"P{{M ≥ {plan.least_uploads}}}, chance of at least {plan.least_uploads} uploads"
        table.add_row("least_uploads_prob", f"{plan.least_uploads_prob:.4g}", told)
    _add_planner(table, plan)
    return table


_FOUND = {"exact": "from the road's formulas", "trace": "from the recorded traffic", "simulation": "by simulation"}


def _add_planner(table: Table, plan: Plan | AnytimePlan) -> None:
    table.add_row("planner", plan.planner, f"how it was found: {_FOUND[plan.planner]}")


def _add_objective_interval(table: Table, plan: Plan | AnytimePlan) -> None:
    if isinstance(plan, SimulatedPlan | SimulatedAnytimePlan) and plan.objective_interval is not None:
        low, high = plan.objective_interval
        table.add_row("", f"{low:.5g} to {high:.5g}", "where it is in 95 of 100 simulations")


def _add_valid_prob(table: Table, plan: Plan | AnytimePlan) -> None:
    table.add_row("valid_round_prob", f"{plan.valid_round_prob:.4g}", "chance of a round with an upload")
    if plan.valid_round_prob_interval is not None:
        low, high = plan.valid_round_prob_interval
        simulated = plan.planner == "simulation"
        sure = "where it is in 95 of 100 simulations" if simulated else "in 95 of 100 further recordings as long"
        table.add_row("", f"{low:.4g} to {high:.4g}", sure)


def print_notices(console: Console, notices: "Sequence[str]") -> None:
    for sentence in notices:
        console.print(f"\n[bold]Note[/bold]: {escape(sentence)}.", soft_wrap=True)


def _price(plan: GuaranteedPlan) -> str:
    return (
        f"{plan.price:.1%} of the objective, which is {plan.free_objective:.5g} /s without asking for"
        f" {plan.least_uploads} uploads with a probability of {plan.with_prob:g}."
    )


def _sensitivity_table(scenario: Scenario, plan: Plan) -> Table:
    table = Table(box=None)
    table.add_column("value")
    table.add_column(f"{-OFF_BY:+.0%}", justify="right")
    table.add_column(f"{OFF_BY:+.0%}", justify="right")
    table.add_column("compared with")
    for row in sensitivity(scenario, plan):
        peer = "the plan" if row.name in ("round_s", "local_steps") else "the best plan there"
        table.add_row(row.name, _share(row.loss_below), _share(row.loss_above), peer)
    return table


def _share(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.2%}"


def print_trace_plan(console: Console, crossings: "Crossings", title: str, plan: Plan) -> None:
    print_trace(console, crossings, title)
    if plan.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {plan.reason}.", soft_wrap=True)
        return
    console.print("\n[bold]Plan[/bold]")
    console.print(_plan_table(plan))
    if isinstance(plan, TracePlan) and plan.poisson_plan is not None:
        other = plan.poisson_plan
        console.print(
            f"\n[bold]Theorem 1[/bold] would choose H = {other.local_steps}, T = {other.round_s:.4f} s and promise"
            f" g = {other.promised_objective:.4f} /s; on this road it would give {other.real_objective:.4f} /s.",
            soft_wrap=True,
        )
    if isinstance(plan, TracePlan):
        print_notices(console, plan.notices)
