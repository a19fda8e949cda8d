"""What the commands share: the scenario, options, progress, and what is missing."""

import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.errors import InputError, MissingExtraError
from mobfl.files.bounds import is_there
from mobfl.scenario import Scenario, load_scenario, parse_setting, with_samples_read

if TYPE_CHECKING:
    from rich.console import Console

    from mobfl.mobility.crossings import Crossings

FAILED, WRONG_INPUT, INFEASIBLE = 1, 2, 3


def takes_scenario(command: Callable[..., Any]) -> Callable[..., Any]:
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


def load(scenario: str, settings: tuple[str, ...]) -> Scenario:
    loaded = load_scenario(scenario)
    if not settings:
        return loaded
    return loaded.with_values(with_samples_read(dict(map(parse_setting, settings)), Path()))


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _plot_file(_: click.Context, parameter: click.Parameter, file: Path | None) -> Path | None:
    if file is not None:
        from mobfl.figures import check_plot_file

        check_plot_file(file, parameter.opts[0])
    return file


def _picture_option(name: str, help_text: str) -> Callable[..., Any]:
    return click.option(name, type=click.Path(path_type=Path), metavar="FILE", callback=_plot_file, help=help_text)


plot_option = _picture_option("--plot", "Draw a PNG, PDF or SVG.")
scenes_option = _picture_option("--scenes", "Draw what was predicted best and worst (trajectories).")
seed_option = click.option("--seed", default=0, show_default=True, help="The same seed draws the same numbers.")
section_option = click.option(
    "--section", metavar="SECTION", help="edge:ID[:FROM:TO], circle:X,Y,R or box:X0,Y0,X1,Y1."
)
trace_option = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recorded traffic: crossings, SUMO's tripinfo or floating-car data, NGSIM or highD.",
)
longest_stay_option = click.option(
    "--longest-stay",
    "longest_stay_s",
    type=float,
    metavar="S",
    help="Leave longer stays out of the trace, as those of parked vehicles.",
)


data_option = click.option(
    "--data", type=click.Path(path_type=Path), metavar="PATH", help="A data set; by default generated data."
)
workers_option = click.option("--workers", type=int, metavar="N", help="How much at once; by default one per core.")


def cores(workers: int | None) -> int:
    if workers is not None:
        return workers
    if hasattr(os, "sched_getaffinity"):  # those that this process may use; not every system tells
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_data(data: Path | None) -> Path | None:
    """Where the data are: as given, or below $MOBFL_DATA."""
    below = os.environ.get("MOBFL_DATA")
    if data is None or is_there(data) or data.is_absolute() or not below:
        return data
    return Path(below) / data


def parse_target(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        target = float(value)
    except ValueError:
        target = math.nan
    if not math.isfinite(target):
        raise InputError(f"--target must be NAME=NUMBER, got {text!r}")
    return name.strip(), target


def read_trace(
    trace: Path | None, section: str | None, longest_stay_s: float | None = None, keep_tracks: bool = False
) -> "Crossings | None":
    if trace is None:
        if section is not None:
            raise InputError("--section goes with --trace or --sumo")
        if longest_stay_s is not None:
            raise InputError("--longest-stay goes with --trace")
        return None
    need("a plan or a simulation from a trace", "simulate", "numba")
    from mobfl.mobility.recorded import read_crossings
    from mobfl.mobility.sections import parse_section

    with working(f"reading {trace.name}"):
        crossings = read_crossings(trace, parse_section(section) if section else None, keep_tracks=keep_tracks)
    if longest_stay_s is None:
        return crossings
    kept = crossings.up_to(longest_stay_s)
    told = f"{len(crossings) - len(kept)} of {len(crossings)} stays are longer than {longest_stay_s:g} s and left out"
    click.echo(told, err=True)
    return kept


plan_option = click.option(
    "--plan",
    "wanted",
    default="mobfl",
    metavar="NAME",
    help="mobfl, the planner's; adaptive, which follows the traffic; H,T; words such as 1,best, epoch,best or"
    " best,T0/2; or another server (see the guide).",
)


def _part_option(name: str, text: str) -> Callable[..., Any]:
    return click.option(name, metavar="NAME", help=f"{text}; `mobfl parts` lists them.")


rule_option = _part_option("--rule", "What becomes of uploads, such as clip+median; by default the plan's own")
local_option = _part_option("--local", "How vehicles train, such as fedprox:mu=0.01; by default sgd")
codec_option = _part_option("--codec", "How uploads travel; by default plain")
traffic_option = _part_option("--traffic", "Traffic instead of Poisson arrivals, such as day or MODULE:OBJECT")


def find_traffic(
    traffic: str | None,
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    scenario: Scenario,
    seed: int,
    keep_tracks: bool = False,
) -> "tuple[Crossings | None, str | None]":
    """The recorded or made traffic with its name; none where it is Poisson."""
    if traffic is None:
        return read_trace(trace, section, longest_stay_s, keep_tracks), None if trace is None else trace.name
    if trace is not None or section is not None:
        raise InputError(f"--traffic must come without --trace and --section, got {traffic!r} with one of them")
    if longest_stay_s is not None:
        raise InputError("--longest-stay goes with --trace")
    need("traffic", "simulate", "numba")
    from mobfl.mobility.sources import crossings_of

    with working("making traffic"):
        return crossings_of(traffic, scenario, seed), traffic


def two_numbers(option: str, text: str) -> tuple[float, float]:
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise InputError(f"{option} must be two numbers with a comma between, got {text!r}") from None
    return first, second


def need(purpose: str, extra: str, module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(purpose, extra)


def warn_who_reaches(command: str) -> None:
    """Said before Flower's servers start: what their code may do, and whom this system cannot keep out."""
    from mobfl.deploy.guard import tells_users_apart

    if hasattr(os, "geteuid") and os.geteuid() == 0:
        click.echo(f"{command} runs as root, and so does all code that it starts: an ordinary user is enough", err=True)
    if not tells_users_apart():
        click.echo(f"{command} cannot keep other users of this machine out: this system has no /proc/net/tcp", err=True)


def console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def staged(what: str) -> Iterator[Callable[[float, str, str], None]]:
    """A progress bar with the time left on a terminal; elsewhere a line on stderr as each stage begins.

    Call what it gives with the share that is done, the stage's name, and what there is to say of it.
    """
    if sys.stderr.isatty():
        with working(what, 1000) as progress:
            yield lambda done, _stage, _said: progress(round(1000 * done))
        return
    seen = list[str]()

    def line(_done: float, stage: str, said: str) -> None:
        if stage not in seen:
            click.echo(f"{what}: {stage}, {said} …", err=True)
            seen.append(stage)

    yield line


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing elsewhere; call what it gives with how much is done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
