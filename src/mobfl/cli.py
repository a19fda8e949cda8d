"""The command `mobfl`. Exit status: 0 done, 1 failed, 2 wrong input, 3 infeasible plan, 130 interrupted."""

import importlib.util
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import mobfl
from mobfl.errors import InputError, MissingExtraError, MobflError
from mobfl.planner import plan as best_plan
from mobfl.scenario import MOST, MOST_STEPS, Scenario, load_scenario, packaged_scenarios, parse_setting

if TYPE_CHECKING:
    from rich.console import Console

    from mobfl.mobility.crossings import Crossings

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


_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _plot_file(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    if file is not None:
        from mobfl.figures import check_plot_file

        check_plot_file(file)
    return file


_plot = click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=_plot_file,
    help="Draw a PNG, PDF or SVG.",
)
_seed = click.option("--seed", default=0, show_default=True, help="The same seed draws the same numbers.")
_section = click.option("--section", metavar="SECTION", help="edge:ID[:FROM:TO], circle:X,Y,R or box:X0,Y0,X1,Y1.")
_trace = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recorded traffic: crossings, SUMO's tripinfo or floating-car data, NGSIM or highD.",
)


@cli.command()
@_takes_scenario
@_trace
@_section
@_json
@_plot
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
    road = _load(scenario, settings)
    crossings = _read_trace(trace, section)
    with _working("planning") if crossings is not None else nullcontext():
        best = best_plan(road, crossings)
    if plot is not None and best.reason is None:
        from mobfl.figures import draw_plan

        draw_plan(road, best, plot)
    if as_json:
        click.echo(json.dumps(best.to_dict(), indent=2))
    else:
        from mobfl.report import print_plan, print_trace_plan

        if crossings is None:
            print_plan(_console(), road, scenario, best)
        else:
            print_trace_plan(_console(), crossings, str(trace), best)
    context.exit(INFEASIBLE if best.reason is not None else 0)


@cli.command()
@_takes_scenario
@click.option("--plan", "wanted", default="mobfl", metavar="H,T", help="The plan; by default the planner's (mobfl).")
@_trace
@_section
@click.option("--rounds", default=10_000, show_default=True, help="How many; a shorter trace is used as a whole.")
@_seed
@_json
@_plot
@click.pass_context
def simulate(
    context: click.Context,
    scenario: str,
    settings: tuple[str, ...],
    wanted: str,
    trace: Path | None,
    section: str | None,
    rounds: int,
    seed: int,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Run rounds over Poisson or recorded traffic and compare what happens with what the theory promises."""
    _need("simulation", "simulate", "numba")
    from mobfl.simulation import simulate as run

    road = _load(scenario, settings)
    crossings = _read_trace(trace, section)
    if wanted == "mobfl":
        best = best_plan(road, crossings)
        if best.reason is not None:
            click.echo(f"No plan is possible: {best.reason}", err=True)
            context.exit(INFEASIBLE)
        h, t, _ = best.numbers
    else:
        h, t = _parse_plan(wanted)
    with _working("simulating", rounds) as progress:
        result = run(road, h, t, rounds, seed, crossings, progress)
    if plot is not None:
        from mobfl.figures import draw_simulation

        draw_simulation(result, plot)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        from mobfl.report import print_simulation

        print_simulation(_console(), result)


@cli.command()
@_takes_scenario
@click.option("--sumo", type=click.Path(path_type=Path), metavar="FILE.sumocfg", help="Your own SUMO configuration.")
@_section
@click.option("--lanes", default=1, show_default=True, help="Lanes of the generated road.")
@click.option("--signal", metavar="CYCLE,GREEN", help="Seconds of a traffic light where the section begins.")
@click.option("--duration", type=float, metavar="S", help="Seconds to simulate after the warm-up.")
@click.option("--warmup", default=300.0, show_default=True, metavar="S", help="Seconds at the start to leave out.")
@click.option("--step", default=0.5, show_default=True, metavar="S", help="SUMO's step, at most 0.5 s.")
@_seed
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .csv or .parquet file.")
def traffic(
    scenario: str,
    settings: tuple[str, ...],
    sumo: Path | None,
    section: str | None,
    lanes: int,
    signal: str | None,
    duration: float | None,
    warmup: float,
    step: float,
    seed: int,
    out: Path,
) -> None:
    """Let SUMO drive and write who crossed the section when.

    With --sumo, your own simulation and --section of it; else a straight road with SCENARIO's length, arrivals and
    speeds, behind a traffic light if you say so.
    """
    _need("traffic from SUMO", "sumo", "libsumo")
    from mobfl.mobility.recorded import check_crossings_file, write_crossings
    from mobfl.mobility.sumo import Signal, straight_road_crossings, sumo_crossings

    road = _load(scenario, settings)
    check_crossings_file(out)
    lights = Signal(*_two_numbers("--signal", signal)) if signal else None
    with _working("driving", 100) as progress:

        def share(done: float) -> None:
            progress(round(100 * done))

        common: dict[str, Any] = {"warmup_s": warmup, "step_s": step, "seed": seed, "progress": share}
        if sumo is None:
            seconds = 3600.0 if duration is None else duration
            crossings = straight_road_crossings(road, lanes=lanes, signal=lights, duration_s=seconds, **common)
        elif section is None:
            raise InputError("--sumo needs a --section of the network")
        else:
            total = None if duration is None else warmup + duration
            crossings = sumo_crossings(sumo, section, duration_s=total, **common)
    write_crossings(crossings, out)
    click.echo(f"{len(crossings)} crossings in {out}")


def _read_trace(trace: Path | None, section: str | None) -> "Crossings | None":
    if trace is None:
        if section is not None:
            raise InputError("--section goes with --trace or --sumo")
        return None
    _need("a plan or a simulation from a trace", "simulate", "numba")
    from mobfl.mobility.recorded import read_crossings
    from mobfl.mobility.sections import parse_section

    with _working(f"reading {trace.name}"):
        return read_crossings(trace, parse_section(section) if section else None)


def _parse_plan(text: str) -> tuple[int, float]:
    h, t = _two_numbers("--plan", text)
    if not (1 <= h <= MOST_STEPS and h.is_integer() and 0 < t <= MOST):
        raise InputError(f"--plan must be H,T with a whole H >= 1 and T > 0 s, both <= {MOST:g}, got {text!r}")
    return int(h), t


def _two_numbers(option: str, text: str) -> tuple[float, float]:
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise InputError(f"{option} must be two numbers with a comma between, got {text!r}") from None
    return first, second


def _need(purpose: str, extra: str, module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(purpose, extra)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def _working(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; call what it gives with how much is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no λ still gets its answer
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = WRONG_INPUT
    except InputError as error:
        click.echo(str(error), err=True)
        status = WRONG_INPUT
    except MobflError as error:
        click.echo(str(error), err=True)
        status = FAILED
    except OSError as error:
        # Nobody reads on (a pipe that ends), or there is no room: whatever is left cannot be written either.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        if not isinstance(error, BrokenPipeError):
            click.echo(f"the result could not be written: {error.strerror or error}", err=True)
        status = FAILED
    except (click.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    sys.exit(status)
