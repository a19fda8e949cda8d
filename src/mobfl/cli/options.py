"""What the commands share: the scenario, options, progress, and what is missing."""

import importlib.util
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.completion import complete_scenario, complete_setting, completing, completing_words
from mobfl.errors import InputError, MissingExtraError
from mobfl.files.bounds import is_there
from mobfl.scenario import Scenario, load_scenario, parse_setting, with_samples_read

if TYPE_CHECKING:
    from rich.console import Console

    from mobfl.mobility.crossings import Crossings

FAILED, WRONG_INPUT, INFEASIBLE = 1, 2, 3
AT_ONCE_S = 2.0  # a plan that takes longer says that it does


def takes_scenario(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the argument SCENARIO and the option --set, wherever a scenario is accepted."""
    for decorate in (
        click.option(
            "--set",
            "settings",
            metavar="TABLE.KEY=VALUE",
            multiple=True,
            shell_complete=complete_setting,
            help="Change one value of the scenario; may be repeated.",
        ),
        click.argument("scenario", default="paper", metavar="[SCENARIO]", shell_complete=complete_scenario),
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


def _floats(count: int, rule: str) -> Callable[..., Any]:
    """Reads so many numbers with commas between."""

    def read(_: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, ...] | None:
        if text is None:
            return None
        try:
            numbers = tuple(map(float, text.split(",")))
        except ValueError:
            numbers = ()
        if len(numbers) != count:
            raise InputError(f"{parameter.opts[0]} must be {rule}, got {text!r}")
        return numbers

    return read


def look_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds how figures are to look; a command that has --plot needs it for that."""

    @wraps(command)
    def drawing(*arguments: Any, **given: Any) -> Any:
        size, style, letters = (given.pop(name) for name in ("size", "style", "font_size"))
        if size is None and style is None and letters is None:
            return command(*arguments, **given)
        if "plot" in given and given["plot"] is None and given.get("scenes") is None:
            raise InputError("--size, --style and --font-size go with --plot, got one of them alone")
        need("drawing a figure", "figures", "matplotlib")
        from mobfl.figures import Look, looking

        with looking(Look(size, style, None if letters is None else letters[0])):
            return command(*arguments, **given)

    for decorate in (
        click.option(
            "--font-size", metavar="PT", callback=_floats(1, "a number of points"), help="Size of figures' letters."
        ),
        click.option("--style", metavar="FILE", help="A matplotlib style for figures, a file or a name."),
        click.option(
            "--size",
            metavar="W,H",
            callback=_floats(2, "width,height in inches, such as 3.5,2.2"),
            help="Of figures, in inches, such as 3.5,2.2.",
        ),
    ):
        drawing = decorate(drawing)
    return drawing


def plot_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --plot, and how the figure is to look."""
    return _picture_option("--plot", "Draw a PNG, PDF or SVG.")(look_options(command))


scenes_option = _picture_option("--scenes", "Draw what was predicted best and worst (trajectories).")
seed_option = click.option("--seed", default=0, show_default=True, help="The same seed draws the same numbers.")
section_option = click.option(
    "--section",
    metavar="SECTION",
    help="edge:ID[:FROM:TO], edge:ID,ID,…, street:NAME@NETWORK, circle:X,Y,R or box:X0,Y0,X1,Y1; for positions in"
    " degrees circle:LON,LAT,R with R in metres or box:LON0,LAT0,LON1,LAT1.",
)
trace_option = click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recorded traffic: crossings, SUMO's tripinfo, or positions (floating-car data, NGSIM, highD, GPS traces, …).",
)
longest_stay_option = click.option(
    "--longest-stay",
    "longest_stay_s",
    type=float,
    metavar="S",
    help="Leave longer stays out of the trace, as those of parked vehicles.",
)
gap_option = click.option(
    "--gap",
    "gap_s",
    type=float,
    metavar="S",
    help="For how long a vehicle of a trace of positions may not be seen and still be under way; by default one step"
    " where all vehicles share them, otherwise three usual intervals.",
)


data_option = click.option(
    "--data", type=click.Path(path_type=Path), metavar="PATH", help="A data set; by default generated data."
)
workers_option = click.option("--workers", type=int, metavar="N", help="How many at once; by default one per core.")


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


def trace_if_given(
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None = None,
    keep_tracks: bool = False,
    gap_s: float | None = None,
) -> "Crossings | None":
    if trace is not None:
        return read_trace(trace, section, longest_stay_s, keep_tracks, gap_s)
    if gap_s is not None:
        raise InputError("--gap goes with --trace")
    if section is not None:
        raise InputError("--section goes with --trace or --sumo")
    if longest_stay_s is not None:
        raise InputError("--longest-stay goes with --trace")
    return None


def read_trace(
    trace: Path,
    section: str | None,
    longest_stay_s: float | None = None,
    keep_tracks: bool = False,
    gap_s: float | None = None,
) -> "Crossings":
    need("a plan or a simulation from a trace", "simulate", "numba")
    from mobfl.mobility.recorded import read_crossings
    from mobfl.mobility.sections import parse_section

    with working(f"reading {trace.name}"):
        where = parse_section(section) if section else None
        crossings = read_crossings(trace, where, keep_tracks=keep_tracks, gap_s=gap_s)
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
    shell_complete=completing("mobfl.servers.names:SCHEDULES"),
    help="mobfl, the planner's; adaptive, which follows the traffic; H,T; words such as 1,best, epoch,best or"
    " best,T0/2; or another server (see the guide).",
)


def _part_option(name: str, kind: str, text: str) -> Callable[..., Any]:
    complete = completing(kind)
    return click.option(name, metavar="NAME", shell_complete=complete, help=f"{text}; `mobfl parts` lists them.")


rule_option = _part_option(
    "--rule", "mobfl.learning.rules:RULES", "What becomes of uploads, such as clip+median; by default the plan's own"
)
local_option = _part_option(
    "--local", "mobfl.learning.local:LOCALS", "How vehicles train, such as fedprox:mu=0.01; by default sgd"
)
codec_option = _part_option("--codec", "mobfl.learning.codecs:CODECS", "How uploads travel; by default plain")
traffic_option = _part_option(
    "--traffic", "mobfl.mobility.sources:TRAFFIC", "Traffic instead of Poisson arrivals, such as day or MODULE:OBJECT"
)


backend_option = click.option(
    "--backend",
    default="auto",
    show_default=True,
    metavar="NAME",
    shell_complete=completing_words("auto", "fused", "torch"),
    help="auto, fused or torch.",
)
device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    metavar="NAME",
    shell_complete=completing_words("cpu", "cuda"),
    help="cpu or cuda.",
)


def find_traffic(
    traffic: str | None,
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    scenario: Scenario,
    seed: int,
    keep_tracks: bool = False,
    gap_s: float | None = None,
) -> "tuple[Crossings | dict[str, Crossings] | None, str | None]":
    """The recorded or made traffic with its name, by station where there are several; none where it is Poisson."""
    if scenario.is_city:
        return _find_city_traffic(traffic, trace, section, longest_stay_s, scenario, keep_tracks, gap_s)
    if traffic is None:
        return trace_if_given(trace, section, longest_stay_s, keep_tracks, gap_s), None if trace is None else trace.name
    if trace is not None or section is not None:
        raise InputError(f"--traffic must come without --trace and --section, got {traffic!r} with one of them")
    if longest_stay_s is not None:
        raise InputError("--longest-stay goes with --trace")
    if gap_s is not None:
        raise InputError("--gap goes with --trace")
    need("traffic", "simulate", "numba")
    from mobfl.mobility.sources import crossings_of

    with working("making traffic"):
        return crossings_of(traffic, scenario, seed), traffic


def _find_city_traffic(
    traffic: str | None,
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    scenario: Scenario,
    keep_tracks: bool,
    gap_s: float | None,
) -> "tuple[dict[str, Crossings] | None, str | None]":
    if traffic is not None or section is not None:
        option = "--traffic" if traffic is not None else "--section"
        raise InputError(f"{option} is for one station, got a scenario that lists its stations with their sections")
    if trace is None:
        return None, None
    need("crossings of several stations", "simulate", "numba")
    from mobfl.mobility.cities import read_city

    with working(f"reading {trace.name}"):
        return read_city(scenario, trace, longest_stay_s, keep_tracks, gap_s), trace.name


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
def planning() -> Iterator[None]:
    """Where a plan may take minutes: a bar on a terminal, elsewhere a line on stderr if it is not there at once."""
    late = threading.Timer(AT_ONCE_S, click.echo, ["planning …"], {"err": True})
    late.daemon = True
    if not sys.stderr.isatty():
        late.start()
    try:
        with working("planning"):
            yield
    finally:
        late.cancel()


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
