"""What other plans would have done on a recorded deployment."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.cli.tables.plans import print_notices

if TYPE_CHECKING:
    from mobfl.deploy.hindsight import Hindsight, PlayedPlan
    from mobfl.rounds.estimates import Estimate


def print_hindsight(console: Console, result: "Hindsight", title: str) -> None:
    """What was run, the same rounds replayed, and other plans on the same vehicles."""
    recorded, (start_s, end_s) = result.recorded, result.recorded.observed_s
    law = recorded.law
    console.print(
        f"[bold]{escape(title)}[/bold]: {len(recorded.crossings)} visits in {end_s - start_s:.0f} s;"
        f" transfers {recorded.transfer_s:.3g} s, a local step {law.min_step_s:.3g} s and {law.extra_step_s:.3g} s on"
        " average on top",
        soft_wrap=True,
    )
    table = Table(box=None)
    for column in ("plan", "rounds", "uploads/round", "empty", "valid steps/s", "gain"):
        table.add_column(column, justify="left" if column == "plan" else "right")
    seen = result.happened
    told = f"{seen['uploads']:.2f}", f"{seen['empty_share']:.0%}", f"{seen['valid_steps_per_s']:.2f}"
    table.add_row("what happened", f"{seen['rounds']}", *told, "")
    for each in (result.as_it_was, *result.plans):
        table.add_row(*_played_row(each, result.as_it_was))
    if not console.is_terminal:  # a file wants all of it on one line each
        console.width = max(console.width, _HINDSIGHT_WIDTH)
    console.print(table)
    console.print(f"\n{escape(result.conclusion)}", soft_wrap=True)
    print_notices(console, [*([] if result.disagreement is None else [result.disagreement]), *recorded.notices])


_HINDSIGHT_WIDTH = 120


def _played_row(plan: "PlayedPlan", base: "PlayedPlan") -> list[str]:
    gain = None if plan is base else plan.gain_over(base)
    return [
        escape(f"{plan.name}, replayed" if plan is base else _played_name(plan)),
        f"{plan.rounds.mean():.0f}",
        _spread(plan.estimate("uploads"), ".2f"),
        f"{plan.empty_share.mean():.0%}",
        _spread(plan.estimate("valid_steps_per_s"), ".2f"),
        "" if gain is None else _spread(gain, "+.0%"),
    ]


def _played_name(plan: "PlayedPlan") -> str:
    """With H and T where they were found, not asked for."""
    if plan.round_s is None or any(letter.isdigit() for letter in plan.name):
        return plan.name
    h = "" if plan.local_steps is None else f"{plan.local_steps}, "
    return f"{plan.name} ({h}{plan.round_s:.4g} s)"


def _spread(estimate: "Estimate", form: str) -> str:
    return f"{estimate.value:{form}} \\[{estimate.low:{form}}, {estimate.high:{form}}]"
