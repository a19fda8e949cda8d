"""`mobfl arena`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mobfl.cli.completion import Complete, complete_setting, complete_sweep, completing
from mobfl.cli.options import look_options
from mobfl.cli.sweeps import (
    checked_folder,
    end,
    need_experiments,
    prepared,
    run_all,
    runs_sweep,
    say,
    table_option,
    write_page,
)
from mobfl.errors import InputError
from mobfl.scenario import parse_setting

if TYPE_CHECKING:
    from mobfl.experiments.sweep_file import Sweep

_MOST_SEEDS = 10_000


class _Asked(NamedTuple):
    """What the command line says, by the names of its parameters."""

    task: str | None
    quick: bool
    source: str | None
    data: Path | None
    seeds: str | None
    studies: tuple[str, ...]
    only: tuple[str, ...]
    settings: tuple[str, ...]
    plans: tuple[str, ...]
    rules: tuple[str, ...]
    locals_: tuple[str, ...]
    codecs: tuple[str, ...]
    targets: tuple[str, ...]
    table: Path | None
    only_list: bool
    out: Path
    workers: int | None
    ray: str | None
    checkpoint_s: float
    as_json: bool


def _many(flag: str, name: str, metavar: str, text: str, complete: Complete | None = None) -> Callable[..., Any]:
    told = f"{text}; may be repeated."
    return click.option(flag, name, multiple=True, metavar=metavar, shell_complete=complete, help=told)


@click.command()
@click.argument("task", required=False, shell_complete=completing("mobfl.tasks.catalogue:TASKS"))
@click.option("--quick", is_flag=True, help="Four algorithms for 300 s on a generated street: a few minutes.")
@click.option(
    "--sweep",
    "source",
    metavar="SWEEP",
    shell_complete=complete_sweep,
    help="A sweep with a baseline, instead of the packaged arena.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FOLDER", help="Real data; without it, generated data."
)
@click.option("--seeds", metavar="A,B,…", help="Instead of the arena's: 1,2,3 or 1-5.")
@_many("--study", "studies", "TEXT", "Only studies with this text in their titles")
@_many("--only", "only", "TABLE.KEY=VALUE", "Only runs whose scenario has this value")
@_many("--set", "settings", "TABLE.KEY=VALUE", "Change one value of all scenarios", complete_setting)
@_many(
    "--plans",
    "plans",
    "NAME",
    "Beside MOB-FL's plan only this entry, or a plan that enters",
    completing("mobfl.servers.names:SCHEDULES"),
)
@_many("--rules", "rules", "NAME", "Plans enter with this rule", completing("mobfl.learning.rules:RULES"))
@_many("--locals", "locals_", "NAME", "Plans enter with this local training", completing("mobfl.learning.local:LOCALS"))
@_many("--codecs", "codecs", "NAME", "Plans enter with this codec", completing("mobfl.learning.codecs:CODECS"))
@_many("--targets", "targets", "TARGET", "Targets that are timed: 80%, top_10=80% or loss=1.7")
@table_option
@runs_sweep
@look_options
@click.option("--list", "only_list", is_flag=True, help="Say what would run, and how far it is.")
@click.option("--out", type=click.Path(path_type=Path), default="out/arena", show_default=True, metavar="FOLDER")
def arena(**given: Any) -> None:
    """Train algorithms on identical vehicles, delays, samples and batches, and compare them with MOB-FL's plan.

    A packaged sweep and its report: seeds in turn, the same command continues where it was stopped, and pieces of it
    (TASK, --seeds, --study, --only, --plans) add up in one folder. An algorithm of your own enters by its name:
    --plans MODULE:OBJECT, --rules MODULE:OBJECT, ….
    """
    asked = _Asked(**given)
    need_experiments()
    from mobfl.experiments.sweep import states

    wanted = _wanted(asked)
    runs = prepared(wanted)
    if asked.only_list:
        say(states(asked.out, runs), asked.as_json, every_run=True)
        return
    came = run_all(wanted, runs, asked.out, asked.workers, asked.ray, asked.checkpoint_s, add=True)
    page = write_page(asked.out, asked.table)
    say(came, asked.as_json)
    click.echo(f"The report is {page}.", err=asked.as_json)
    end(click.get_current_context(), came)


def _wanted(asked: _Asked) -> "Sweep":
    from dataclasses import replace

    from mobfl.experiments.arena import Wanted
    from mobfl.experiments.sweep_file import load_sweep
    from mobfl.experiments.targets import Comparison

    if asked.quick and asked.source is not None:
        raise InputError(f"--quick must come without --sweep, got {asked.source!r} with it")
    packaged = "arena-quick" if asked.quick else "arena"
    folder, source = checked_folder(asked.data), packaged if asked.source is None else asked.source
    sweep = load_sweep(source, folder, generated=folder is None)
    if not sweep.comparison.baseline:
        raise InputError(f"--sweep must have a baseline that others are compared with, got none in {source!r}")
    if asked.targets:
        sweep = replace(sweep, comparison=Comparison.of(sweep.comparison.baseline, asked.targets))
    return Wanted(
        asked.task,
        [] if asked.seeds is None else _seeds(asked.seeds),
        asked.studies,
        _each_once("--only", asked.only),
        dict(parse_setting(each, "--set") for each in asked.settings),
        asked.plans,
        asked.rules,
        asked.locals_,
        asked.codecs,
    ).of(sweep)


def _each_once(flag: str, given: tuple[str, ...]) -> dict[str, Any]:
    """TABLE.KEY=VALUE by key; a run cannot have two values of one key."""
    found = dict[str, Any]()
    for key, value in (parse_setting(each, flag) for each in given):
        if key in found:
            raise InputError(f"{flag} must give {key} once, got it twice")
        found[key] = value
    return found


def _seeds(text: str) -> list[int]:
    """`1,2,5` and `1-5`, in any mixture, each once."""
    found = dict[int, None]()
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        try:
            ends = int(first), int(last) if dash else int(first)
        except ValueError:
            raise InputError(f"--seeds must be whole numbers or ranges such as 1-5, got {text!r}") from None
        if not 0 <= ends[1] - ends[0] < _MOST_SEEDS:
            raise InputError(f"--seeds must have ranges of 1 to {_MOST_SEEDS} that go up, got {piece.strip()!r}")
        found |= dict.fromkeys(range(ends[0], ends[1] + 1))
    return list(found)
