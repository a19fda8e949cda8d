"""`mobfl plan` and `mobfl scenarios`."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl import theory
from mobfl.cli.completion import complete_packaged, completing_words
from mobfl.cli.options import (
    INFEASIBLE,
    console,
    find_traffic,
    gap_option,
    json_option,
    load,
    longest_stay_option,
    need,
    plot_option,
    section_option,
    staged,
    takes_scenario,
    trace_if_given,
    trace_option,
    working,
)
from mobfl.cli.stations import plan_stations, refuse
from mobfl.errors import InputError
from mobfl.files.exports import check_export, write_rows
from mobfl.files.json import plain
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.at_least import LeastUploads
from mobfl.planning.planner import plan as best_plan
from mobfl.planning.plans import GuaranteedPlan, Plan
from mobfl.planning.sensitivity import OFF_BY, sensitivity
from mobfl.scenario import Scenario, packaged_scenarios

if TYPE_CHECKING:
    from mobfl.mobility.crossings import Crossings
    from mobfl.planning.by_simulation import Stage


DEFAULT_WITHIN = "1%"  # of a road with a radio


@click.command()
@takes_scenario
@trace_option
@section_option
@longest_stay_option
@gap_option
@click.option("--least-uploads", type=int, metavar="M", help="Plan for rounds with at least so many uploads.")
@click.option("--with-prob", type=float, metavar="P", help="How surely they come, below 1; by default 0.9.")
@click.option(
    "--for",
    "schedule",
    metavar="SCHEDULE",
    shell_complete=completing_words("anytime", *(f"anytime:knows={knows}" for knows in theory.KNOWLEDGE)),
    help="What is planned: rounds of one H (the default), or anytime rounds, `anytime` or `anytime:knows=leaving`.",
)
@click.option(
    "--within", metavar="SHARE", help="Plan by simulation, until no other plan is better by more, such as 1%."
)
@click.option("--seed", type=int, metavar="N", help="Of a plan by simulation; by default 0.")
@click.option("--every", metavar="SPAN", help="A plan for every span of the --trace, such as 1h, 30min or 900s.")
@click.option("--export", type=click.Path(path_type=Path), metavar="FILE.csv", help="Write the table of --every.")
@json_option
@plot_option
@click.pass_context
def plan(
    context: click.Context,
    scenario: str,
    settings: tuple[str, ...],
    trace: Path | None,
    section: str | None,
    longest_stay_s: float | None,
    gap_s: float | None,
    least_uploads: int | None,
    with_prob: float | None,
    schedule: str | None,
    within: str | None,
    seed: int | None,
    every: str | None,
    export: Path | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Find the local steps H and the round length T for a road.

    SCENARIO is a TOML file or the name of a packaged scenario; without it, the paper's road. With --trace the traffic
    is the recorded one, and the plan knows that it may come in platoons. With --least-uploads only rounds count that
    have so many uploads with the probability --with-prob, and the price in g is shown. With --within the plan is found
    by simulation, which needs no formula. With --every there is a plan for every span of the trace, and its gain over
    one plan for all.
    """
    loaded, title = load(scenario, settings), scenario if trace is None else str(trace)
    if loaded.is_city:
        refuse(
            section=section, least_uploads=least_uploads, with_prob=with_prob, within=within, seed=seed,
            every=every, export=export, **{"for": schedule},
        )  # fmt: skip
        found, _ = find_traffic(None, trace, None, longest_stay_s, loaded, 0, gap_s=gap_s)
        context.exit(plan_stations(loaded, title, found if isinstance(found, dict) else None, plot, as_json))
    if within is None and every is None and loaded.radio is not None:  # of which no formula knows
        within = DEFAULT_WITHIN
    least = _least(least_uploads, with_prob)
    _check_together(
        loaded, trace=trace, every=every, within=within, least=least, schedule=schedule, seed=seed, export=export,
        plot=plot,
    )  # fmt: skip
    every_s = None if every is None else _seconds(every)
    share = None if within is None else _share(within)
    knows = None if schedule is None else _knowledge(schedule)
    tracks = knows == "predicted" or loaded.radio is not None
    crossings = trace_if_given(trace, section, longest_stay_s, tracks, gap_s)
    if every_s is not None and crossings is not None:
        status = _plan_every(every_s, knows, loaded, title, crossings, export, plot, as_json)
    elif share is not None:
        status = _plan_by_simulation(knows, loaded, title, crossings, share, seed or 0, as_json)
    elif knows is not None:
        status = _plan_for(knows, loaded, title, crossings, as_json)
    else:
        status = _plan_exactly(loaded, title, crossings, least, plot, as_json)
    context.exit(status)


def _check_together(
    loaded: Scenario,
    *,
    trace: Path | None,
    every: str | None,
    within: str | None,
    least: LeastUploads | None,
    schedule: str | None,
    seed: int | None,
    export: Path | None,
    plot: Path | None,
) -> None:
    """Which flags need another one, and which exclude each other."""
    if every is not None:
        if trace is None or least is not None or within is not None:
            raise InputError("--every goes with --trace, and without --least-uploads and --within")
        if export is not None:
            check_export(export, (".csv",))
    elif export is not None:
        raise InputError("--export goes with --every, got it alone")
    elif plot is not None and trace is not None:
        raise InputError("--plot draws Theorem 1's surface, which a plan from a --trace does not use")
    if least is not None and trace is not None:
        raise InputError("--least-uploads counts on Poisson traffic and goes without --trace")
    if seed is not None and within is None:
        raise InputError("--seed goes with --within, got it alone")
    if within is not None and (plot is not None or least is not None):
        why = "--within" if loaded.radio is None else "a radio"
        raise InputError(f"--plot and --least-uploads ask Theorem 1 and go without {why}")
    if schedule is not None and every is None and (plot is not None or least is not None):
        raise InputError("--plot and --least-uploads are for plans of one H, got --for")


def _plan_exactly(
    loaded: Scenario,
    title: str,
    crossings: "Crossings | None",
    least: LeastUploads | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Plans rounds of one H by Theorem 1 or from the crossings, and returns the exit status."""
    with working("planning") if crossings is not None else nullcontext():
        best = best_plan(loaded, crossings, least)
    if plot is not None and best.reason is None:
        from mobfl.figures import draw_plan

        draw_plan(loaded, best, plot)
    if as_json:
        click.echo(json.dumps(best.to_dict() | _beside(loaded, best, crossings is None), indent=2))
    else:
        from mobfl.cli.tables.plans import print_plan, print_trace_plan

        if crossings is None:
            print_plan(console(), loaded, title, best)
        else:
            print_trace_plan(console(), crossings, title, best)
    return INFEASIBLE if best.reason is not None else 0


def _share(within: str) -> float:
    from mobfl.planning.by_simulation import share_of

    return share_of(within)


def _seconds(every: str) -> float:
    from mobfl.planning.over_day import seconds_of

    return seconds_of(every)


def _plan_every(
    every_s: float,
    knows: theory.Knows | None,
    loaded: Scenario,
    title: str,
    crossings: "Crossings",
    export: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Plans every span of a trace, and returns the exit status."""
    from mobfl.planning.over_day import plan_over_day

    start, end = crossings.observed_s
    with working("planning", math.ceil((end - start) / every_s) + 1) as progress:
        day = plan_over_day(loaded, crossings, every_s, knows, progress)
    if export is not None:
        write_rows(export, day.rows())
    if plot is not None and day.one_plan.reason is None:
        from mobfl.figures import draw_day

        draw_day(day, plot)
    if as_json:
        click.echo(json.dumps(plain(day.to_dict()), indent=2))
    else:
        from mobfl.cli.tables.over_day import print_day

        print_day(console(), day, title)
    return INFEASIBLE if day.one_plan.reason is not None else 0


def _least(uploads: int | None, prob: float | None) -> LeastUploads | None:
    if uploads is None:
        if prob is not None:
            raise InputError("--with-prob goes with --least-uploads, got it alone")
        return None
    return LeastUploads(uploads) if prob is None else LeastUploads(uploads, prob)


def _plan_for(knows: theory.Knows, loaded: Scenario, title: str, crossings: "Crossings | None", as_json: bool) -> int:
    """Plans another kind of rounds, and returns the exit status."""
    with working("planning") if crossings is not None else nullcontext():
        best = plan_anytime(loaded, knows, crossings)
    if as_json:
        click.echo(json.dumps(best.to_dict(), indent=2))
    else:
        from mobfl.cli.tables.plans import print_anytime_plan
        from mobfl.cli.tables.scenarios import print_scenario, print_trace

        if crossings is None:
            print_scenario(console(), loaded, title)
        else:
            print_trace(console(), crossings, title)
        print_anytime_plan(console(), best, best_plan(loaded, crossings))
    return INFEASIBLE if best.reason is not None else 0


def _plan_by_simulation(
    knows: theory.Knows | None,
    loaded: Scenario,
    title: str,
    crossings: "Crossings | None",
    within: float,
    seed: int,
    as_json: bool,
) -> int:
    """Plans whatever can be simulated, and returns the exit status."""
    need("a plan by simulation", "simulate", "numba")
    from mobfl.rounds.planned import plan_by_simulation

    with _searching() as progress:
        best = plan_by_simulation(loaded, within, crossings, seed, anytime=knows, progress=progress)
    if as_json:
        click.echo(json.dumps(best.to_dict(), indent=2))
    else:
        from mobfl.cli.tables.plans import print_simulated_plan

        print_simulated_plan(console(), loaded, title, crossings, best)
    return INFEASIBLE if best.reason is not None else 0


@contextmanager
def _searching() -> "Iterator[Callable[[Stage], None]]":
    """A bar with the time that is left, or a line for every level of the search where nobody watches."""
    with staged("planning by simulation") as tell:

        def told(stage: "Stage") -> None:
            of_one_h = f"H = {stage.local_steps}, " if stage.plans_steps else ""
            where = f"{of_one_h}T = {stage.round_s:.4g} s, told apart to {stage.regret:.2g}"
            tell(stage.done, f"level {stage.level}", f"{stage.plans} plans are left, the best has {where}")

        yield told


def _knowledge(schedule: str) -> theory.Knows:
    """What vehicles know, of `anytime:knows=…`."""
    name, _, parameters = schedule.partition(":")
    key, _, value = parameters.partition("=")
    for knows in theory.KNOWLEDGE:
        if name == "anytime" and (not parameters or (key == "knows" and value == knows)):
            return knows
    choices = "|".join(theory.KNOWLEDGE)
    raise InputError(f"--for must be anytime or anytime:knows={choices}, got {schedule!r}")


def _beside(scenario: Scenario, best: Plan, by_theorem: bool) -> dict[str, Any]:
    """What the table says beside the plan; a plan from a trace has no such table."""
    if not by_theorem or best.reason is not None:
        return {}
    visits = theory.contributing_visit_prob(scenario, *best.numbers[:2])
    if isinstance(best, GuaranteedPlan):  # which is not the best: being off may even raise g
        return {"contributing_visit_prob": visits}
    lost = {each.name: {"below": each.loss_below, "above": each.loss_above} for each in sensitivity(scenario, best)}
    return {"contributing_visit_prob": visits, "sensitivity": {"off_by": OFF_BY, **lost}}


@click.command()
@click.argument("name", required=False, shell_complete=complete_packaged)
def scenarios(name: str | None) -> None:
    """List the packaged scenarios, or print the TOML of one as a start for your own."""
    packaged = packaged_scenarios()
    if name is None:
        wide = max(map(len, packaged))
        for each, file in packaged.items():
            summary = file.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
            click.echo(f"{each:{wide}} {summary}")
    elif name in packaged:
        click.echo(packaged[name].read_text(encoding="utf-8"), nl=False)
    else:
        raise InputError(f"scenario must be one of {', '.join(packaged)}, got {name!r}")
