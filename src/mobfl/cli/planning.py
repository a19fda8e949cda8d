"""`mobfl plan` and `mobfl scenarios`."""

import json
from contextlib import nullcontext
from pathlib import Path

import click

from mobfl.cli.options import (
    INFEASIBLE,
    console,
    json_option,
    load,
    plot_option,
    read_trace,
    section_option,
    takes_scenario,
    trace_option,
    working,
)
from mobfl.errors import InputError
from mobfl.planning.planner import plan as best_plan
from mobfl.scenario import packaged_scenarios


@click.command()
@takes_scenario
@trace_option
@section_option
@json_option
@plot_option
@click.pass_context
def plan(
    context: click.Context,
    scenario: str,
    settings: tuple[str, ...],
    trace: Path | None,
    section: str | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Find the local steps H and the round length T for a road.

    SCENARIO is a TOML file or the name of a packaged scenario; without it, the paper's road. With --trace the traffic
    is the recorded one, and the plan knows that it may come in platoons.
    """
    if plot is not None and trace is not None:
        raise InputError("--plot draws Theorem 1's surface, which a plan from a --trace does not use")
    loaded = load(scenario, settings)
    crossings = read_trace(trace, section)
    with working("planning") if crossings is not None else nullcontext():
        best = best_plan(loaded, crossings)
    if plot is not None and best.reason is None:
        from mobfl.figures import draw_plan

        draw_plan(loaded, best, plot)
    if as_json:
        click.echo(json.dumps(best.to_dict(), indent=2))
    else:
        from mobfl.cli.tables import print_plan, print_trace_plan

        if crossings is None:
            print_plan(console(), loaded, scenario, best)
        else:
            print_trace_plan(console(), crossings, str(trace), best)
    context.exit(INFEASIBLE if best.reason is not None else 0)


@click.command()
@click.argument("name", required=False)
def scenarios(name: str | None) -> None:
    """List the packaged scenarios, or print the TOML of one as a start for your own."""
    packaged = packaged_scenarios()
    if name is None:
        for each, file in packaged.items():
            summary = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            click.echo(f"{each:10} {summary}")
    elif name in packaged:
        click.echo(packaged[name].read_text(encoding="utf-8"), nl=False)
    else:
        raise InputError(f"scenario must be one of {', '.join(packaged)}, got {name!r}")
