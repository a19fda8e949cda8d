"""What simulated rounds came to, beside what was promised."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.cli.tables.plans import KNOWN
from mobfl.errors import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mobfl.policies.adaptive.following import Following
    from mobfl.rounds.airtime import AirResult
    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.by_class import ClassResult
    from mobfl.rounds.estimates import Compared
    from mobfl.rounds.simulation import Simulation


def print_simulation(console: Console, result: "Simulation") -> None:
    console.print(
        f"[bold]{counted(result.rounds, 'round')}[/bold] with H = {result.local_steps}, T = {result.round_s:.4f} s"
    )
    theorem = None if result.poisson is None else (*result.poisson, 1.0, None)
    console.print(_measured_table(result.compared, theorem))
    if result.air is not None:
        _print_air(console, result.air)
    if result.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {result.assumed}.", soft_wrap=True)
    if result.classes:
        console.print("\n[bold]By class[/bold]")
        console.print(_class_table(result.classes))
    if result.warning is not None:
        console.print(f"\n[bold]Warning[/bold]: {result.warning}", soft_wrap=True)


def print_anytime_simulation(console: Console, result: "AnytimeSimulation") -> None:
    known = KNOWN[result.asked.knows] + (f", wrong by {result.asked.error:.0%}" if result.asked.error else "")
    console.print(
        f"[bold]{counted(result.rounds, 'anytime round')}[/bold] with T = {result.round_s:.4f} s"
        f" of vehicles that know {known}"
    )
    console.print(_measured_table(result.compared))
    console.print(f"\n[bold]v[/bold] = {result.objective:.4f} valid local steps per second")
    if result.air is not None:
        _print_air(console, result.air)
    if result.assumed is not None:
        console.print(f"\n[bold]Assumed[/bold]: {result.assumed}.", soft_wrap=True)
    if result.classes:
        console.print("\n[bold]By class[/bold]")
        console.print(_class_table(result.classes))


def _print_air(console: Console, air: "AirResult") -> None:
    """What the radio did, beside what the promise above was made with."""
    console.print("\n[bold]On the air[/bold]")
    table, taken = Table(box=None), air.expected
    for column in ("", "measured", *["taken for the promise"] * (taken is not None)):
        table.add_column(column, justify="left" if not column else "right")
    for name, measured, expected in (
        ("a download takes", f"{air.download_s:.3f} s", taken and f"{taken.download_s:.3f} s"),
        ("an upload takes", f"{air.upload_s:.3f} s", taken and f"{taken.upload_s:.3f} s"),
        ("its rate", f"{air.upload_bps / 1e6:.3f} Mbit/s", ""),
        ("sending at a time", f"{air.sending:.3f}", ""),
        ("lost to the radio", f"{air.lost_by_radio:.2%}", ""),
        ("lost to the clock", f"{air.lost_by_clock:.2%}", ""),
    ):
        table.add_row(name, measured, *[expected or ""] * (taken is not None))
    console.print(table)


def _measured_table(rows: "Iterable[tuple[str, Compared]]", theorem: "Sequence[float | None] | None" = None) -> Table:
    """With what Theorem 1 says of each row in a column of its own, where something else is promised."""
    table, beside = Table(box=None), theorem is not None
    for column in ("", "measured", "95 % interval", "promised", *["by Theorem 1"] * beside):
        table.add_column(column, justify="left" if not column else "right")
    for i, (name, each) in enumerate(rows):
        measured = each.measured
        said = [each.expected] if theorem is None else [each.expected, theorem[i]]
        numbers = ("" if number is None else f"{number:.4f}" for number in said)
        table.add_row(name, f"{measured.value:.4f}", f"{measured.low:.4f} to {measured.high:.4f}", *numbers)
    return table


_OF_CLASS = {"heard": "heard", "uploads_per_visit": "uploads per visit", "steps_per_visit": "steps per visit"}


def _class_table(classes: "Sequence[ClassResult]") -> Table:
    told = [name for name in _OF_CLASS if hasattr(classes[0], name)]
    table = Table(box=None)
    for column in ("class", "visits", *(word for name in told for word in (_OF_CLASS[name], "promised"))):
        table.add_column(column, justify="left" if column == "class" else "right")
    for each in classes:
        values = [getattr(each, key) for name in told for key in (name, f"expected_{name}")]
        numbers = ("–" if value is None else f"{value:.4f}" for value in values)
        table.add_row(escape(each.name), f"{each.visits}", *numbers)
    return table


def print_following(console: Console, result: "Following") -> None:
    last, gain = result.notes[-1], result.objective / result.kept_objective - 1 if result.kept_objective else None
    table = Table(box=None, show_header=False)
    table.add_row("rounds", f"{result.rounds}", f"in {result.seconds:.0f} s, {result.empty_prob:.1%} without an upload")
    table.add_row("objective", f"[bold]{result.objective:.4g}[/bold] /s", "valid local steps per second")
    better = "" if gain is None else f", following gives {gain:+.1%}"
    table.add_row("kept", f"{result.kept_objective:.4g} /s", f"with the first plan throughout{better}")
    h = "" if last.local_steps is None else f"H = {last.local_steps}, "
    table.add_row("changes", f"{result.changes}", f"of the plan; at last {h}T = {last.round_s:.2f} s")
    console.print(table)
    console.print(f"\n[bold]Known[/bold] after {last.at_s - result.notes[0].at_s:.0f} s, with 95 % intervals")
    known = Table(box=None, show_header=False)
    delay = last.known.delay
    for estimate, unit, meaning in (
        (last.known.arrivals_per_s, "1/s", "arrivals"),
        (last.known.stay_s, "s", "mean stay"),
        (delay.transfer_s, "s", "both transfers"),
        (delay.min_step_s, "s", "least time of a local step"),
        (delay.extra_step_s, "s", "mean random time on top"),
    ):
        known.add_row(f"{estimate.value:.3g} {unit}", f"{estimate.low:.3g} to {estimate.high:.3g}", meaning)
    known.add_row(f"{last.known.variance_to_mean:.2g}", "", "variance/mean of arrivals in 30 s, 1 if Poisson")
    console.print(known)
