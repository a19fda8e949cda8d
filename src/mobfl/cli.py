"""The command `mobfl`. Exit status: 0 done, 1 failed, 2 wrong input, 3 infeasible plan, 130 interrupted."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import mobfl
from mobfl.errors import InputError, MobflError
from mobfl.planner import plan as best_plan
from mobfl.scenario import Scenario, load_scenario, packaged_scenarios, parse_setting

FAILED, WRONG_INPUT, INFEASIBLE, INTERRUPTED = 1, 2, 3, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mobfl.__version__, prog_name="mobfl")
def cli() -> None:
    """Federated learning on vehicles that are only passing by."""


def _takes_scenario(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument SCENARIO and the option --set, wherever a scenario is accepted."""
    for decorate in (
        click.option(
            "--set",
            "settings",
            metavar="TABLE.KEY=VALUE",
            multiple=True,
            help="Change one value of the scenario; may be repeated.",
        ),
        click.argument("scenario", default="paper", metavar="[SCENARIO]"),
    ):
        command = decorate(command)
    return command


def _load(scenario: str, settings: tuple[str, ...]) -> Scenario:
    loaded = load_scenario(scenario)
    return loaded.with_values(dict(map(parse_setting, settings))) if settings else loaded


@cli.command()
@_takes_scenario
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw g as a PNG, PDF or SVG.")
@click.pass_context
def plan(context: click.Context, scenario: str, settings: tuple[str, ...], as_json: bool, plot: Path | None) -> None:
    """Find the local steps H and the round length T for a road.

    SCENARIO is a TOML file or the name of a packaged scenario; without it, the paper's road.
    """
    road = _load(scenario, settings)
    best = best_plan(road)
    if plot is not None and best.reason is None:
        from mobfl.figures import draw_plan

        draw_plan(road, best, plot)
    if as_json:
        click.echo(json.dumps(best.to_dict(), indent=2))
    else:
        from rich.console import Console

        from mobfl.report import print_plan

        print_plan(Console(highlight=False), road, scenario, best)
    context.exit(INFEASIBLE if best.reason is not None else 0)


@cli.command()
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


def main() -> None:
    try:
        status = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = WRONG_INPUT
    except InputError as error:
        click.echo(str(error), err=True)
        status = WRONG_INPUT
    except MobflError as error:
        click.echo(str(error), err=True)
        status = FAILED
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    sys.exit(status)
