"""What is planned for: the scenario or the trace."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.scenario import RADIO_FIELDS, Scenario
from mobfl.scenario.symbols import SYMBOLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mobfl.mobility.crossings import Crossings


# What planning depends on, in the order of the symbol table.
_PLANNED_WITH = (
    "road.length_m",
    "traffic.speed_mps",
    "traffic.speed_sd_mps",
    "traffic.arrivals_per_s",
    "traffic.participation",
    "link.download_s",
    "link.upload_s",
    "compute.min_step_s",
    "compute.extra_step_s",
)
_NOISE = "training.noise_uploads"


def print_scenario(console: Console, scenario: Scenario, title: str) -> None:
    console.print(f"[bold]Scenario[/bold] {escape(title)}", soft_wrap=True)
    console.print(_scenario_table(scenario))
    if scenario.fleet:
        console.print("\n[bold]Fleet[/bold]")
        console.print(_fleet_table(scenario))


def _scenario_table(scenario: Scenario) -> Table:
    return values_table(scenario, [*without_seconds(scenario), *_more_planned_with(scenario)])


def values_table(scenario: Scenario, keys: "Iterable[str]") -> Table:
    table = Table(box=None, show_header=False)
    if scenario.radio is not None:  # whose keys are long, and must not be cut
        table.add_column(no_wrap=True)
    for key in keys:
        _add_value(table, scenario, key)
    return table


def _add_value(table: Table, scenario: Scenario, key: str) -> None:
    given = {f"{name}.{key}" for name, keys in scenario.given().items() for key in keys}
    _, unit, meaning = SYMBOLS[key]
    value = scenario.value(key) if key not in _BY_PATH_LOSS else getattr(scenario.radio, _BY_PATH_LOSS[key])
    number = f"{value:,.0f}" if unit in ("Hz", "bytes") else value if isinstance(value, str) else f"{value:g}"
    origin = "" if key in given else _derived_from(scenario, key) or "default"
    table.add_row(key, f"{number} {unit}".rstrip(), meaning, f"[dim]{origin}[/dim]")


# What a radio has for each path loss, unless it is given.
_BY_PATH_LOSS = {"radio.shadowing_db": "shadow_sd_db", "radio.shadowing_m": "shadow_distance_m"}


def without_seconds(scenario: Scenario) -> list[str]:
    """What planning depends on; where there is a radio, its values instead of the link's seconds."""
    if scenario.radio is None:
        return list(_PLANNED_WITH)
    there = [key for key in (*_LINK_SIZES, *RADIO_FIELDS) if key in _BY_PATH_LOSS or scenario.value(key) is not None]
    place = _PLANNED_WITH.index("link.download_s")
    return [*_PLANNED_WITH[:place], *there, *_PLANNED_WITH[place + 2 :]]


_LINK_SIZES = ("link.model_bytes", "link.download_bytes", "link.upload_bytes")


def _more_planned_with(scenario: Scenario) -> list[str]:
    """What matters only on some roads."""
    compute = scenario.compute
    wanted = {
        "compute.law": compute.law != "exponential",
        "compute.extra_sd_s": compute.extra_sd_s is not None,
        _NOISE: scenario.training.noise_uploads > 0,
    }
    return [key for key, there in wanted.items() if there]


def _derived_from(scenario: Scenario, key: str) -> str | None:
    if scenario.link.model_bytes is not None and key in ("link.download_s", "link.upload_s"):
        return "from model_bytes"
    if key in _BY_PATH_LOSS:
        return "from path_loss"
    measured = scenario.compute.step_samples
    if measured is not None and key in ("compute.min_step_s", "compute.extra_step_s"):
        return f"from {len(measured)} step_samples"
    return None


def _fleet_table(scenario: Scenario) -> Table:
    table = Table(box=None)
    for column in ("class", "share", "least step", "random time on top", "law", "samples"):
        table.add_column(column, justify="left" if column in ("class", "law") else "right")
    for each in scenario.classes:
        compute, samples = each.compute, each.training.samples_per_vehicle
        held = f"{samples[0]} to {samples[1]}" if isinstance(samples, tuple) else f"{samples}"
        times = f"{compute.min_step_s:g} s", f"{compute.extra_step_s:g} s"
        table.add_row(escape(each.name), f"{each.share:g}", *times, compute.law, held)
    return table


def print_trace(console: Console, crossings: "Crossings", title: str) -> None:
    stay = crossings.stays_s
    console.print(f"[bold]Trace[/bold] {escape(title)}", soft_wrap=True)
    table = Table(box=None, show_header=False)
    table.add_row("crossings", f"{len(crossings)}", "vehicles on the section")
    if crossings.enter_s[-1] > crossings.enter_s[0]:
        table.add_row("arrivals", f"{crossings.arrivals_per_s:.4f} /s", "mean rate")
    table.add_row("dwell", f"{stay.mean():.2f} s", f"mean stay, standard deviation {stay.std():.2f} s")
    console.print(table)
