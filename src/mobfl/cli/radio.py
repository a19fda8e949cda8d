"""`mobfl radio`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from mobfl.cli.options import INFEASIBLE, console, json_option, load, plot_option, takes_scenario
from mobfl.errors import InputError
from mobfl.planning.radio import too_narrow
from mobfl.scenario import Scenario
from mobfl.theory.section import coverage

if TYPE_CHECKING:
    from mobfl.theory.section import Coverage

_PLACES = 5
_MOST_SENDERS, _MOST_NUMBERS = 10_000, 6


@click.command()
@takes_scenario
@click.option("--senders", default="1,5,15", show_default=True, metavar="N,…", help="How many send at once.")
@json_option
@plot_option
@click.pass_context
def radio(
    context: click.Context, scenario: str, settings: tuple[str, ...], senders: str, as_json: bool, plot: Path | None
) -> None:
    """Tell SNR, rate and seconds of an upload along the section of a scenario with a radio.

    SCENARIO is a TOML file or the name of a packaged scenario, such as paper-radio. All without shadowing.
    """
    loaded, crowds = load(scenario, settings), _crowds(senders)
    there = coverage(loaded, np.linspace(0.0, loaded.road.length_m, _PLACES), crowds)
    reason = too_narrow(loaded) if loaded.link.model_bytes is not None else None
    if plot is not None:
        from mobfl.figures import draw_radio

        draw_radio(loaded, plot, crowds)
    if as_json:
        click.echo(json.dumps(_as_json(loaded, there, reason), indent=2))
    else:
        from mobfl.cli.tables import print_radio

        print_radio(console(), loaded, scenario, there, reason)
    context.exit(0 if reason is None else INFEASIBLE)


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
