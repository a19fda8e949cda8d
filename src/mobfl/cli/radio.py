"""`mobfl radio`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mobfl.cli.options import INFEASIBLE, console, json_option, load, plot_option, takes_scenario
from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.planning.radio import plan_quickly, too_narrow
from mobfl.scenario import Scenario
from mobfl.theory.section import coverage

if TYPE_CHECKING:
    from mobfl.theory.section import Coverage

_PLACES = 5
_MOST_SENDERS, _MOST_NUMBERS = 10_000, 6
_MOST_RATES, _BUSIEST_PER_S = 12, 100.0


@click.command()
@takes_scenario
@click.option("--senders", default="1,5,15", show_default=True, metavar="N,…", help="How many send at once.")
@click.option(
    "--over-arrivals",
    metavar="RATE,…",
    help="Instead: the quick plan for each of these arrivals per second, and what simulated rounds deliver.",
)
@click.option(
    "--over-rounds", is_flag=True, help="Instead: the quick plan's uploads and g for shorter and longer rounds."
)
@click.option("--rounds", default=400, show_default=True, type=click.IntRange(20, 1_000_000), help="Simulated rounds.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the simulated rounds.")
@json_option
@plot_option
@click.pass_context
def radio(
    context: click.Context,
    scenario: str,
    settings: tuple[str, ...],
    senders: str,
    over_arrivals: str | None,
    over_rounds: bool,
    rounds: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Show SNR, rate and seconds of an upload along the section of a scenario with a radio.

    SCENARIO is a TOML file or the name of a packaged scenario, such as paper-radio. All without shadowing.
    """
    loaded, crowds = load(scenario, settings), _crowds(senders)
    if over_arrivals is not None and over_rounds:
        raise InputError("--over-arrivals and --over-rounds must be given one at a time, got both")
    if over_arrivals is not None:
        context.exit(_tell_kept_promises(loaded, _arrivals(over_arrivals), rounds, seed, as_json, plot))
    if over_rounds:
        context.exit(_draw_over_rounds(loaded, rounds, seed, as_json, plot))
    there = coverage(loaded, np.linspace(0.0, loaded.road.length_m, _PLACES), crowds)
    reason = too_narrow(loaded) if loaded.link.model_bytes is not None else None
    if plot is not None:
        from mobfl.figures import draw_radio

        draw_radio(loaded, plot, crowds)
    if as_json:
        click.echo(json.dumps(_as_json(loaded, there, reason), indent=2))
    else:
        from mobfl.cli.tables.radio import print_radio

        print_radio(console(), loaded, scenario, there, reason)
    context.exit(0 if reason is None else INFEASIBLE)


def _tell_kept_promises(
    scenario: Scenario, arrivals_per_s: tuple[float, ...], rounds: int, seed: int, as_json: bool, plot: Path | None
) -> int:
    from mobfl.rounds.kept_promises import kept_promises

    kept = kept_promises(scenario, arrivals_per_s, rounds, seed)
    planned = any(each.rounds is not None for each in kept)
    if plot is not None and planned:
        from mobfl.figures import draw_kept_promises

        draw_kept_promises(kept, plot)
    if as_json:
        click.echo(json.dumps(plain([each.to_dict() for each in kept]), indent=2))
    else:
        from mobfl.cli.tables.radio import print_kept_promises

        print_kept_promises(console(), kept)
    return 0 if planned else INFEASIBLE


def _draw_over_rounds(scenario: Scenario, rounds: int, seed: int, as_json: bool, plot: Path | None) -> int:
    if plot is None or as_json:
        raise InputError(
            "--over-rounds must have --plot FILE and no --json, got " + ("--json" if as_json else "no file")
        )
    found = plan_quickly(scenario)
    if found.reason is not None:
        console().print(f"[bold]No plan is possible[/bold]: {found.reason}.", soft_wrap=True)
        return INFEASIBLE
    from mobfl.figures import draw_radio_plan

    draw_radio_plan(scenario, found, plot, rounds, seed)
    h, t, g = found.numbers
    console().print(f"H = {h}, T = {t:.1f} s, g = {g:.3f} /s, by {found.planner}; drawn for T up to {2.5 * t:.1f} s")
    return 0


def _arrivals(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(map(float, text.split(",")))
    except ValueError:
        rates = ()
    if not 0 < len(rates) <= _MOST_RATES or not all(0 < each <= _BUSIEST_PER_S for each in rates):
        rule = f"1 to {_MOST_RATES} numbers above 0 and at most {_BUSIEST_PER_S:g} with commas between"
        raise InputError(f"--over-arrivals must be {rule}, got {text!r}")
    return rates


def _crowds(text: str) -> tuple[int, ...]:
    try:
        crowds = tuple(map(int, text.split(",")))
    except ValueError:
        crowds = ()
    if not 0 < len(crowds) <= _MOST_NUMBERS or not all(0 < each <= _MOST_SENDERS for each in crowds):
        rule = f"1 to {_MOST_NUMBERS} whole numbers from 1 to {_MOST_SENDERS} with commas between"
        raise InputError(f"--senders must be {rule}, got {text!r}")
    return crowds


def _as_json(scenario: Scenario, there: "Coverage", reason: str | None) -> dict[str, Any]:
    return {
        "status": "ok" if reason is None else "infeasible",
        "radio": scenario.to_dict()["radio"],
        "model_bytes": scenario.link.model_bytes,
        "senders": list(there.senders),
        "places": there.to_dicts(),
        "reason": reason,
    }
