"""What a sweep's TOML asks for: blocks of runs, each the product of its lists, in the order in which they matter.

[[runs]]
tasks = ["beams"]
scenarios = ["paper"]                  # names or files
plans = ["mobfl", "5,10"]              # as `mobfl train --plan` has them, and a grid if both of these are given:
local_steps = [5, 24]
round_s = [5, 10, 20]
rules = ["mean", "clip+median"]        # these three as --rule, --local and --codec have them; without, the defaults
locals = ["sgd", "fedprox:mu=0.01"]
codecs = ["plain"]
entries = [{label = "ours", plan = "anytime:8", rule = "clip+steps"}]  # single cases beside that product
seeds = [1, 2]
data = "raymobtime/s010.npz"           # without it, generated data
options = {targets = "soft"}           # of the task
traffic = "my_traffic:bursts"          # a source of traffic; or trace = "crossings.csv", with
longest_stay_s = 120                   # of which longer stays are left out
set = {"training.duration_s" = 2500}
vary = {"training.learning_rate" = [0.05, 0.1]}
study = "steps and rounds"             # what the report shows together, and how it calls these runs
label = "ordinary rounds"

A study's name may hold keys of `vary` in braces: then every value has a study of its own. Above the blocks:

title = "Many algorithms"
order = "seeds"                        # the first seed of all blocks, then the second; by default block after block
baseline = "MOB-FL's plan"             # the label that the report compares all others with, seed by seed
targets = ["80%", "loss=1.7"]          # to which it counts the time: shares of the baseline's own way, or values
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mobfl import theory
from mobfl.errors import InputError, shown
from mobfl.experiments.targets import NO_COMPARISON, Comparison
from mobfl.files.bounds import is_there
from mobfl.files.toml import read_toml
from mobfl.parts import said
from mobfl.scenario import Count, Positive, Scenario, Table, load_scenario
from mobfl.scenario.wording import mistakes


@dataclass(frozen=True)
class Request:
    """One run that is asked for, in words: nothing is loaded or planned yet."""

    task: str
    scenario: Scenario
    plan: str
    seed: int
    data: Path | None = None
    options: Mapping[str, Any] | None = None
    trace: Path | None = None
    section: str | None = None
    study: str = ""
    label: str = ""
    rule: str | None = None
    local: str | None = None
    codec: str | None = None
    traffic: str | None = None
    longest_stay_s: float | None = None


@dataclass(frozen=True)
class Sweep:
    """A sweep's requests in their order, and how many plans of its grids were left out because nobody could upload.

    `comparison` is how its report compares them.
    """

    title: str
    requests: tuple[Request, ...]
    hopeless: int
    comparison: Comparison = NO_COMPARISON


class _Entry(Table):
    """One case: a plan with whatever else is not the default."""

    plan: str
    label: str = ""
    rule: str | None = None
    local: str | None = None
    codec: str | None = None


class _Block(Table):
    tasks: list[str] = Field(min_length=1)
    scenarios: list[str] = Field(["paper"], min_length=1)
    plans: list[str] = Field([])
    rules: list[str] = Field([])
    locals: list[str] = Field([])
    codecs: list[str] = Field([])
    entries: list[_Entry] = Field([])
    local_steps: list[Count] = Field([])
    round_s: list[Positive] = Field([])
    seeds: list[int] = Field([0], min_length=1)
    data: str | None = None
    options: dict[str, Any] = Field({})
    trace: str | None = None
    section: str | None = None
    longest_stay_s: Positive | None = None
    traffic: str | None = None
    set: dict[str, Any] = Field({})
    vary: dict[str, list[Any]] = Field({})
    study: str = ""
    label: str = ""


class _File(Table):
    title: str = ""
    order: Literal["blocks", "seeds"] = "blocks"
    baseline: str = ""
    targets: list[str] = Field([])
    runs: list[_Block] = Field(min_length=1)


def packaged_sweeps() -> dict[str, Traversable]:
    """The sweeps that come with mobfl, by name."""
    files = (resources.files("mobfl.experiments") / "packaged").iterdir()
    return {file.name.removesuffix(".toml"): file for file in sorted(files, key=lambda file: file.name)}


def load_sweep(
    source: str | os.PathLike[str], data: str | os.PathLike[str] | None = None, generated: bool = False
) -> Sweep:
    """The sweep in a TOML file, or the packaged one of that name.

    Args:
        source: A file, or a packaged sweep's name.
        data: The folder in which data sets are looked for that are not where the file says.
        generated: Take generated data instead of all data sets.
    """
    packaged = packaged_sweeps()
    file = packaged.get(str(source)) or Path(source)
    try:
        content = read_toml(file, f"sweep {shown(str(source))}")
    except FileNotFoundError:
        raise InputError(
            f"sweep {shown(str(source))} must be a file or one of {', '.join(packaged)}: no such file"
        ) from None
    return sweep_from_dict(content, str(source), None if data is None else Path(data), generated)


def joined(sweeps: Sequence[Sweep]) -> Sweep:
    """One sweep of all their runs."""
    title = "; ".join(sweep.title for sweep in sweeps)
    requests = tuple(request for sweep in sweeps for request in sweep.requests)
    comparison = next((sweep.comparison for sweep in sweeps if sweep.comparison.baseline), NO_COMPARISON)
    return Sweep(title, requests, sum(sweep.hopeless for sweep in sweeps), comparison)


def sweep_from_dict(
    content: Mapping[str, Any], title: str = "", data: Path | None = None, generated: bool = False
) -> Sweep:
    """The sweep with these tables, as TOML has them."""
    try:
        wanted = _File.model_validate(dict(content))
    except ValidationError as error:
        raise InputError(f"sweep: {line}" for line in mistakes(error, _Block.model_fields, {})) from None
    comparison = Comparison.of(wanted.baseline, wanted.targets)
    requests, hopeless = list[Request](), set[tuple[str, str]]()
    for block in wanted.runs:
        _check(block)
        for request in _requests(block.model_copy(update={"data": None}) if generated else block, data):
            if not _has_hope(request, block):
                hopeless.add((request.plan, request.scenario.to_toml()))
            elif request not in requests:
                requests.append(request)
    if not requests:
        raise InputError(
            f"sweep: there must be a plan in which a vehicle can upload in time, got {len(hopeless)} without"
        )
    _check_baseline(comparison, requests)
    ordered = seeds_first(requests) if wanted.order == "seeds" else requests
    return Sweep(wanted.title or title, tuple(ordered), len(hopeless), comparison)


def seeds_first(requests: Sequence[Request]) -> list[Request]:
    """All that the first seed has, then all that the second has, and so on."""
    seeds = list(dict.fromkeys(request.seed for request in requests))
    return sorted(requests, key=lambda request: seeds.index(request.seed))


def _check_baseline(comparison: Comparison, requests: Sequence[Request]) -> None:
    labels = dict.fromkeys(request.label for request in requests)
    if comparison.baseline and comparison.baseline not in labels:
        raise InputError(f"sweep: baseline must be one of {', '.join(labels)}, got {comparison.baseline!r}")


def _check(block: _Block) -> None:
    if bool(block.local_steps) != bool(block.round_s):
        missing = "round_s" if block.local_steps else "local_steps"
        raise InputError(f"sweep: a grid must have both local_steps and round_s, got no {missing}")
    if not block.plans and not block.local_steps and not block.entries:
        raise InputError(
            "sweep: a block of runs must have plans, entries or a grid of local_steps and round_s, got neither"
        )
    if block.traffic is not None and block.trace is not None:
        raise InputError(f"sweep: traffic must come without a trace, got {block.traffic!r} and {block.trace!r}")
    if block.section is not None and block.trace is None:
        raise InputError(f"sweep: section must come with a trace, got {block.section!r} alone")
    if block.longest_stay_s is not None and block.trace is None:
        raise InputError(f"sweep: longest_stay_s must come with a trace, got {block.longest_stay_s:g} alone")
    empty = [key for key, values in block.vary.items() if not values]
    if empty:
        raise InputError(f"sweep: vary must give at least one value, got none for {empty[0]}")


def _requests(block: _Block, data: Path | None) -> Iterator[Request]:
    """Seeds vary slowest: after the first one, every plan has been seen."""
    variations = [dict(zip(block.vary, values, strict=True)) for values in itertools.product(*block.vary.values())]
    for seed, task, source, values in itertools.product(block.seeds, block.tasks, block.scenarios, variations):
        scenario = load_scenario(source).with_values(block.set | values)
        study, unsaid = _filled_in(block.study or task, values)
        apart = [source] * (len(block.scenarios) > 1) + [f"{key}={said(value)}" for key, value in unsaid.items()]
        for case in _cases(block):
            label = ", ".join([case.label, *apart])
            files = _found(block.data, data), block.options, _found(block.trace, data), block.section
            parts = case.rule, case.local, case.codec
            made = Request(task, scenario, case.plan, seed, *files, study, label, *parts, block.traffic)
            yield replace(made, longest_stay_s=block.longest_stay_s)


def _filled_in(study: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The study's name with the values that it has places for, and those that it has none for."""
    unsaid = {key: value for key, value in values.items() if f"{{{key}}}" not in study}
    for key, value in values.items():
        study = study.replace(f"{{{key}}}", said(value))
    return study, unsaid


def _cases(block: _Block) -> Iterator[_Entry]:
    """Single entries, and every plan with every rule, every local training and every codec."""
    for each in block.entries:
        yield each.model_copy(update={"label": each.label or each.plan})
    grid = [f"{h},{t!r}" for h, t in itertools.product(block.local_steps, block.round_s)]
    choices = block.rules, block.locals, block.codecs
    combined = list(itertools.product(*map(or_default, choices)))
    for plan, parts in itertools.product((*block.plans, *grid), combined):
        named = [str(part) for part, several in zip(parts, choices, strict=True) if len(several) > 1]
        rule, local, codec = parts
        label = ", ".join([block.label or plan, *named])
        yield _Entry(plan=plan, label=label, rule=rule, local=local, codec=codec)


def or_default(choices: Sequence[str]) -> list[str | None]:
    """These parts, or None, which is the default."""
    return [*choices] or [None]


def _has_hope(request: Request, block: _Block) -> bool:
    """Of a grid only plans in which a vehicle can upload in time are taken; those that are named are."""
    named = (*block.plans, *(each.plan for each in block.entries))
    if request.plan in named or block.trace is not None or block.traffic is not None:
        return True
    road = request.scenario
    if road.radio is not None or road.lacks_sizes or (road.by_sizes and request.codec is not None):
        # the run will know how long transfers take
        return True
    h, t = map(float, request.plan.split(","))
    return bool(theory.expected_uploads(request.scenario, h, t) > 0)


def _found(name: str | None, below: Path | None) -> Path | None:
    """As given, or below the folder of data."""
    if name is None:
        return None
    return Path(name) if below is None or is_there(Path(name)) else below / name
