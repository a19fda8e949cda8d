"""The stations of a city: their plans, their rounds, and what came of a training at each."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mobfl.learning.task import Kpi
    from mobfl.planning.plans import Plan
    from mobfl.rounds.simulation import Simulation


def _table(*columns: str) -> Table:
    table = Table(box=None)
    for column in columns:
        is_name = column in ("station", "section")
        table.add_column(column, justify="left" if is_name else "right", no_wrap=is_name)
    return table


def print_station_plans(console: Console, title: str, sections: "Mapping[str, str]", plans: "Sequence[Plan]") -> None:
    console.print(f"[bold]{len(plans)} stations[/bold] ({escape(title)})")
    table, impossible = _table("station", "section", "H", "T s", "g /s", "uploads", "valid rounds"), list[str]()
    for (name, section), plan in zip(sections.items(), plans, strict=True):
        if plan.reason is not None:
            table.add_row(escape(name), escape(section), *["-"] * 5)
            impossible.append(f"[bold]No plan is possible[/bold] at {escape(name)}: {escape(plan.reason)}.")
            continue
        h, t, g = plan.numbers
        promised = f"{plan.expected_uploads:.3f}", f"{plan.valid_round_prob:.3f}"
        table.add_row(escape(name), escape(section), str(h), f"{t:.3f}", f"{g:.4f}", *promised)
    console.print(table)
    total = sum(plan.objective or 0.0 for plan in plans)
    console.print(f"[bold]Together[/bold] {total:.4f} valid local steps per second")
    for sentence in impossible:
        console.print(sentence, soft_wrap=True)


def print_station_rounds(console: Console, results: "Mapping[str, Simulation]") -> None:
    table = _table("station", "rounds", "H", "T s", "uploads", "promised", "empty rounds", "promised ")
    for name, each in results.items():
        uploads = f"{each.mean_uploads.value:.3f}", _number(each.expected_uploads)
        empty = f"{each.empty_prob.value:.3f}", _number(each.expected_empty_prob)
        table.add_row(escape(name), str(each.rounds), str(each.local_steps), f"{each.round_s:.3f}", *uploads, *empty)
    console.print(table)
    for name, each in results.items():
        if each.warning is not None:
            console.print(f"[bold]Warning[/bold] for {escape(name)}: {each.warning}", soft_wrap=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def print_stations(console: Console, told: "Sequence[Mapping[str, Any]]", kpi: "Kpi") -> None:
    """What a training came to: every station's model and the cloud's, on all data and on the station's own."""
    console.print("[bold]By station[/bold]")
    own = any("final_own" in each for each in told)
    table = _table("station", "rounds", "uploads", "least loss", "loss", kpi.name, *(["own loss"] if own else []))
    if own:
        table.add_column(f"own {kpi.name}", justify="right")
    for each in told:
        final, there = each["final"], each.get("final_own", {})
        mine = [f"{there[name]:.4f}" if name in there else "-" for name in ("loss", kpi.name)] if own else []
        counts = str(each["rounds"]), str(each["uploads"]), f"{each['min_loss']:.4f}"
        table.add_row(escape(each["name"]), *counts, f"{final['loss']:.4f}", f"{final[kpi.name]:.4f}", *mine)
    console.print(table)
