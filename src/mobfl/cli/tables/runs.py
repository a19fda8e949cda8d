"""Runs as they end, and deployments while they go on."""

from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mobfl.errors import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mobfl.deploy.local.board import Board
    from mobfl.runs.by_class import ClassShare
    from mobfl.runs.history import History


def print_class_shares(console: Console, shares: "Sequence[ClassShare]") -> None:
    console.print("[bold]By class[/bold]")
    table = Table(box=None)
    for column in ("class", "visits", "heard", "uploads", "uploads per visit", "local steps"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for each in shares:
        numbers = f"{each.visits}", f"{each.heard:.1%}", f"{each.uploads}", f"{each.uploads_per_visit:.3f}"
        table.add_row(escape(each.name), *numbers, f"{each.local_steps}")
    console.print(table)


def print_training(
    console: Console,
    history: "History",
    baselines: "Mapping[str, Mapping[str, float]]",
    goals: "Sequence[tuple[str, float]]",
    notices: "Sequence[str]",
    out: "Path",
    privacy: "Mapping[str, Any] | None" = None,
) -> None:
    on_roads = history.of_vehicles
    uploads = on_roads.columns["uploads"]
    rejected = int(on_roads.columns["rejected"].sum())
    console.print(
        f"[bold]{counted(len(on_roads), 'round')}[/bold], {history.columns['end_s'][-1]:.0f} s of virtual time,"
        f" {counted(int(uploads.sum()), 'upload')} in {counted(int((uploads > 0).sum()), 'round')}, {rejected} rejected"
    )
    if (told := _cost_line(on_roads)) is not None:
        console.print(told)
    table = Table(box=None)
    for column in ("", "at the start", "at the end", "best", *baselines):
        table.add_column(column, justify="left" if not column else "right")
    for name in ("loss", *(kpi.name for kpi in history.kpis)):
        best = history.min_loss() if name == "loss" else history.best(name)
        floors = (f"{scores[name]:.4f}" if name in scores else "" for scores in baselines.values())
        table.add_row(name, f"{history.initial[name]:.4f}", f"{history.final(name):.4f}", f"{best:.4f}", *floors)
    console.print(table)
    for name, value in goals:
        reached = history.time_to(name, value)
        console.print(f"{name} {value:g}: " + ("not reached" if reached is None else f"after {reached:.1f} s"))
    if privacy is not None:
        console.print(_privacy_line(privacy), soft_wrap=True)
    for sentence in notices:
        console.print(f"[bold]Note[/bold]: {escape(sentence)}", soft_wrap=True)
    console.print(f"The run is in {escape(str(out))}.", soft_wrap=True)


def _cost_line(history: "History") -> str | None:
    sent, energy_j = history.total("bytes"), history.total("energy_j")
    if sent is None or energy_j is None:
        return None
    return f"{sent / 1e6:.4g} MB sent, {energy_j / 1e3:.4g} kJ drawn by vehicles"


def _privacy_line(told: "Mapping[str, Any]") -> str:
    return (
        f"[bold]Privacy[/bold]: ε = {told['epsilon']:.4g} at δ = {told['delta']:g} for a vehicle that joined"
        f" {told['most_rounds']} rounds, the most of {told['vehicles']}; clip {told['clip']:g}, noise {told['noise']:g}"
    )


def deployment_table(board: "Board") -> Group:
    """A deployment at a glance: the clock, the vehicles on the road, the latest rounds."""
    rounds = Table(box=None, title_justify="left")
    for column in ("round", "ended at s", "H", "T s", "there", "uploads", "rejected", "late by s"):
        rounds.add_column(column, justify="right")
    for row in board.rounds:
        length_s = row["end_s"] - row["start_s"]
        rounds.add_row(
            str(row["round"]), f"{row['at_s']:.1f}", str(row["local_steps"]), f"{length_s:.1f}", str(row["present"]),
            str(row["uploads"]), str(row["rejected"]), f"{row['overshoot_s']:.2f}",
        )  # fmt: skip
    vehicles = "  ".join(
        f"{board.names.get(node, node[-4:])} {doing}" for node, doing in sorted(board.vehicles.items())
    )
    return Group(_deployment_headline(board), Text(vehicles or "nobody is on the road"), rounds)


def _deployment_headline(board: "Board") -> Text:
    if board.clock is None:
        return Text(board.stage)
    headline = [f"{max(board.clock.now_s(), 0.0):.1f} s on the road"]
    headline += [f"{board.clock.scale:g} s per second"] if board.clock.scale != 1 else []
    headline += [f"{board.counts[kind]} {word}" for kind, word in _COUNTED.items() if board.counts[kind]]
    return Text(", ".join(headline), style="bold")


_COUNTED = {
    "began": "orders",
    "uploaded": "uploads",
    "rejected": "rejected",
    "sat_out": "sat out",
    "cut_off": "cut off",
    "late": "late",
    "failed": "failed",
    "dropped": "dropped",
}
