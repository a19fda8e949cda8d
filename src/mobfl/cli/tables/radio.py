"""What a radio gives along the section, and what plans for it promise and deliver."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.cli.tables.scenarios import values_table, without_seconds
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mobfl.rounds.kept_promises import KeptPromise
    from mobfl.theory.section import Coverage


def print_radio(console: Console, scenario: Scenario, title: str, there: "Coverage", reason: str | None) -> None:
    """What the radio gives along the section."""
    console.print(f"[bold]Scenario[/bold] {escape(title)}", soft_wrap=True)
    of_radio = (key for key in without_seconds(scenario) if key.startswith(("link.", "radio.")))
    console.print(values_table(scenario, ["road.length_m", *of_radio]))
    queued = ", of the last in the queue" if scenario.radio is not None and scenario.radio.sharing == "fifo" else ""
    console.print(f"\n[bold]Uploads[/bold] along the section, without shadowing; {_crowds(there)}{queued}")
    console.print(_coverage_table(there))
    if there.upload_s is None:
        console.print("\nlink.model_bytes is not given: how long an upload takes is unknown.", soft_wrap=True)
    if reason is not None:
        console.print(f"\n[bold]No upload is possible[/bold]: {reason}.", soft_wrap=True)


def print_kept_promises(console: Console, kept: "Sequence[KeptPromise]") -> None:
    """Promised and delivered, a line for every number of arrivals."""
    table = Table(box=None)
    for column in (
        "λ (1/s)",
        "H",
        "T (s)",
        "promised empty",
        "simulated empty",
        "promised g (1/s)",
        "simulated g (1/s)",
    ):
        table.add_column(column, justify="right")
    for each in kept:
        table.add_row(f"{each.arrivals_per_s:g}", *_kept_row(each))
    told = "[bold]Rounds without upload, and g[/bold]: promised by the quick plan, and simulated (95 % intervals)"
    console.print(told, soft_wrap=True)
    console.print(table)
    for each in kept:
        if each.plan.reason is not None:
            console.print(f"λ = {each.arrivals_per_s:g}: {each.plan.reason}.", soft_wrap=True)


def _kept_row(kept: "KeptPromise") -> list[str]:
    if kept.rounds is None or kept.objective is None:
        return ["–"] * 6
    h, t, promised = kept.plan.numbers
    empty, g = kept.rounds.empty_prob, kept.objective
    return [
        f"{h}", f"{t:.1f}", f"{kept.rounds.expected_empty_prob:.3f}",
        f"{empty.value:.3f} ± {(empty.high - empty.low) / 2:.3f}",
        f"{promised:.3f}", f"{g.value:.3f} ± {(g.high - g.low) / 2:.3f}",
    ]  # fmt: skip


def _crowds(there: "Coverage") -> str:
    first, *others = (f"{n}" for n in there.senders)
    return f"with {' / '.join((first, *others))} {'senders' if others or first != '1' else 'sender'}"


def _coverage_table(there: "Coverage") -> Table:
    table = Table(box=None)
    for column in ("way", "distance", "SNR (dB)", "rate (Mbit/s)", *["upload (s)"] * (there.upload_s is not None)):
        table.add_column(column, justify="right")
    for place, way_m in enumerate(there.way_m):
        told = [f"{way_m:.0f} m", f"{there.distance_m[place]:.0f} m"]
        told.append(" / ".join(f"{snr:.1f}" for snr in there.uplink_snr_db[:, place]))
        told.append(" / ".join(f"{rate / 1e6:.3g}" for rate in there.uplink_bps[:, place]))
        if there.upload_s is not None:
            told.append(" / ".join(f"{seconds:.3g}" for seconds in there.upload_s[:, place]))
        table.add_row(*told)
    return table
