"""Chosen sites, and sections with their traffic."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.mobility.section_traffic import SectionTraffic
from mobfl.planning.sites import SiteChoice

_WIDEST = 32
_WORDS = {
    "steps": ("g in sum", "valid local steps per second"),
    "vehicles": ("heard", "different vehicles that upload at least once"),
    "districts": ("slowest", "seconds until the slowest district is first heard"),
}


def print_choice(console: Console, choice: SiteChoice, sections: Sequence[str]) -> None:
    short, meaning = _WORDS[choice.goal]
    table = Table(box=None)
    _add_columns(table, ("", "section"), ("veh/h", "stay s", "H", "T s", "g 1/s", short, "gain"))
    for rank, (site, section) in enumerate(zip(choice.sites, sections, strict=True), start=1):
        h, t, g = site.plan.numbers
        table.add_row(
            str(rank), escape(_short(section, site.name)), f"{site.crossings_per_hour:.0f}",
            f"{site.median_stay_s:.1f}", str(h), f"{t:.2f}", f"{g:.3f}", f"{site.value:.4g}", f"{site.gain:.3g}",
        )  # fmt: skip
    console.print(f"[bold]{len(choice.sites)} sites[/bold] for the goal {choice.goal}: {meaning}")
    console.print(table)
    for line in _sentences(choice):
        console.print(f"\n{line}", soft_wrap=True)


def print_sections(console: Console, rows: Sequence[SectionTraffic], top: int, places: int) -> None:
    """The first rows of all that somebody crosses."""
    table = Table(box=None)
    _add_columns(table, ("", "section"), ("m", "veh/h", "there", "stay s", "10 %", "90 %"))
    for rank, each in enumerate(rows[:top], start=1):
        table.add_row(
            str(rank), escape(_short(each.section, each.name)), _metres(each.length_m),
            f"{each.crossings_per_hour:.0f}", f"{each.mean_present:.3g}", f"{each.median_stay_s:.1f}",
            f"{each.short_stay_s:.1f}", f"{each.long_stay_s:.1f}",
        )  # fmt: skip
    console.print(table)
    console.print(f"{min(top, len(rows))} of {len(rows)} sections with traffic; {places - len(rows)} have none.")


def _metres(length_m: float | None) -> str:
    return "–" if length_m is None else f"{length_m:.0f}"


def _add_columns(table: Table, texts: Sequence[str], numbers: Sequence[str]) -> None:
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)


def _short(section: str, name: str) -> str:
    """The section, or where that is long its name."""
    return section if len(section) <= _WIDEST else name


def _sentences(choice: SiteChoice) -> list[str]:
    told = [_how_good(choice)]
    if len(choice.sites) < choice.wanted:
        told.append(
            f"{choice.wanted} were asked for, but no other candidate adds anything without sharing a vehicle's time."
        )
    told.append(f"{len(choice.objectives)} candidates have a plan, {len(choice.left_out)} have none.")
    if choice.districts:
        told.append(f"Districts (columns from the west, rows from the south) and who begins there: {_begins(choice)}.")
    return told


def _begins(choice: SiteChoice) -> str:
    return ", ".join(f"({name}) {vehicles}" for name, vehicles in choice.districts.items())


def _how_good(choice: SiteChoice) -> str:
    reached, bound = choice.screened_values[-1], choice.bounds[-1]
    if choice.goal == "districts":
        return (
            f"With the plans of the choice the slowest district takes {reached:.4g} s; no {choice.wanted} candidates"
            f" can bring it below {bound:.4g} s."
        )
    return (
        f"With the plans of the choice they give {reached:.5g}; no {choice.wanted} candidates can give more than"
        f" {bound:.5g}. So this is at least {choice.share_of_best:.1%} of the best."
    )
