"""The command line that does what the page shows; what cannot be said exactly is said in a sentence instead."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import tomli_w

from mobfl.errors import InputError
from mobfl.experiments.folder import Entry
from mobfl.experiments.runs import PARTS, Run
from mobfl.files.json import plain
from mobfl.scenario import Scenario, load_scenario, packaged_scenarios, parse_setting

MOST_ROUNDS = 1_000_000  # on a trace: all that it has
_USUAL = "paper"
# What a task's record tells of its options; these three are those of generated data alone.
_OPTIONS = {"beams": ("targets", "model"), "trajectories": ("width",), "images": ("width",)}
_OF_GENERATED = ("data_seed", "training_samples", "validation_samples")
_GENERATED = "generated "


class Asked(NamedTuple):
    """A scenario as a command has it: a packaged one, and the values that differ."""

    scenario: str
    values: Mapping[str, Any]

    @property
    def words(self) -> list[str]:
        settings = [word for key, value in self.values.items() for word in ("--set", f"{key}={_literal(value)}")]
        return [self.scenario, *settings]


def asked_for(scenario: Scenario, start: str | None = None) -> Asked | None:
    """The shortest way to ask for this scenario, from a packaged one if it is named; None if --set cannot say it."""
    names = [start] if start in packaged_scenarios() else list(packaged_scenarios())
    ways = [way for name in names if (way := _way(name, scenario)) is not None]
    return min(ways, key=lambda way: (len(way.values), way.scenario != _USUAL), default=None)


def _way(name: str, scenario: Scenario) -> Asked | None:
    """From a packaged scenario, checked by reading the words again as the command line does."""
    before, wanted = _flat(_packaged(name).to_dict()), _flat(plain(scenario.to_dict()))
    asked = Asked(name, {key: value for key, value in wanted.items() if before.get(key) != value})
    try:
        read = dict(parse_setting(f"{key}={_literal(value)}") for key, value in asked.values.items())
        same = plain(_packaged(name).with_values(read).to_dict()) == plain(scenario.to_dict())
    except InputError:
        return None
    return asked if same else None


@lru_cache
def _packaged(name: str) -> Scenario:
    return load_scenario(name)


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    found = dict[str, Any]()
    for table, values in tables.items():
        found |= {f"{table}.{key}": value for key, value in values.items()} if isinstance(values, dict) else {}
        found |= {} if isinstance(values, dict) else {table: values}  # the fleet
    return found


def _literal(value: Any) -> str:
    """As TOML writes it, in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def scenario_command(scenario: Scenario, start: str | None) -> dict[str, Any] | None:
    """What stands behind `mobfl plan`, and the same for a sweep's file; None: only the scenario's TOML says it."""
    asked = asked_for(scenario, start)
    if asked is None:
        return None
    return {"words": shlex.join(asked.words), "scenario": asked.scenario, "set": _literal(_dotted(asked.values))}


def _dotted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys as a table of a sweep's file has them, in quotes."""
    return {f'"{key}"': value for key, value in values.items()}


def trace_commands(
    scenario: Scenario, start: str | None, file: str, section: str, knows: str, plans: Iterable[tuple[int, float]]
) -> dict[str, Any]:
    """What does all that the page says of a trace: its plans, their rounds, and a training; `file` is where it is."""
    asked = asked_for(scenario, start)
    words = [f"{start or _USUAL}.toml"] if asked is None else asked.words
    trace = ["--trace", file, *(["--section", section] if section else [])]
    schedule = "anytime" if knows == "nothing" else f"anytime:knows={knows}"
    simulate = [["simulate", *words, *trace, "--plan", f"{h},{t!r}", "--rounds", str(MOST_ROUNDS)] for h, t in plans]
    anytime = [] if scenario.training.noise_uploads > 0 else [["plan", *words, *trace, "--for", schedule]]
    train = ["train", "beams", *words, *trace, "--plan", "mobfl", "--seed", "1", "--out", "run"]
    lines = [["plan", *words, *trace], *anytime, *simulate, train]
    return {"needs_file": asked is None, "lines": [shlex.join(["mobfl", *line]) for line in lines]}


# ---- runs -------------------------------------------------------------------------------------------


class _Again(NamedTuple):
    """What it takes to train a run again."""

    run: str
    task: str
    asked: Asked
    plan: str
    parts: Mapping[str, str]
    options: Mapping[str, Any]
    data: str | None
    seed: int

    @property
    def command(self) -> str:
        options = [word for key, value in self.options.items() for word in ("--option", f"{key}={_literal(value)}")]
        parts = [word for part, name in self.parts.items() for word in (f"--{part}", name)]
        data = [] if self.data is None else ["--data", self.data]
        plan = ["--plan", self.plan, *parts, "--seed", str(self.seed), "--out", f"again-{self.seed}"]
        return shlex.join(["mobfl", "train", self.task, *self.asked.words, *data, *options, *plan])

    @property
    def block(self) -> dict[str, Any]:
        """Of a sweep, without its seed."""
        wanted = {
            "tasks": [self.task],
            "scenarios": [self.asked.scenario],
            "set": dict(self.asked.values),
            "options": dict(self.options),
            "entries": [{"plan": self.plan, **self.parts}],
        }
        return wanted if self.data is None else {**wanted, "data": self.data}


def runs_again(runs: Sequence[tuple[Run, Entry | None]]) -> dict[str, Any]:
    """Per run the command that trains it, or why there is none; and the TOML of a sweep of all of them."""
    told, known = list[dict[str, Any]](), list[_Again]()
    for run, entry in runs:
        try:
            again = _again(run, entry)
            known.append(again)
            told.append({"run": run.name, "command": again.command})
        except InputError as error:
            told.append({"run": run.name, "reason": str(error)})
    return {"train": told, "toml": _sweep(known) if known else None}


def _again(run: Run, entry: Entry | None) -> _Again:
    description, data = run.description, run.description["data"]
    if description["task"] not in _OPTIONS or "parts" in description:
        raise InputError("parts that are not mobfl's own, and a run does not tell how they are called")
    if description["trace"] is not None or "deployment" in description:
        raise InputError("trained on recorded traffic, and a run does not keep the file and the section")
    asked = asked_for(run.scenario)
    if asked is None:
        raise InputError("--set cannot say the scenario")
    generated = str(data.get("data", "")).startswith(_GENERATED)
    told = (*_OPTIONS[description["task"]], *(_OF_GENERATED if generated else ()))
    options = {key: data[key] for key in told if data.get(key) is not None}
    parts = {part: str(description[part]) for part in PARTS if description.get(part)}
    source = None if generated else str(data.get("data"))
    plan = _plan(run, entry)
    return _Again(run.name, description["task"], asked, plan, parts, options, source, description["seed"])


def _plan(run: Run, entry: Entry | None) -> str:
    """As a sweep asked for it; else H and T with all their digits."""
    if entry is not None and entry.plan:
        return entry.plan
    plan = run.description["plan"]
    return f"{plan['local_steps']},{plan['round_s']!r}" if plan["policy"] == "rounds" else run.plan


def _sweep(known: Iterable[_Again]) -> str:
    """A block for whatever differs by its seeds only."""
    ordered = sorted(known, key=lambda each: (repr(each.block), each.seed))
    blocks = [
        {**block, "seeds": [each.seed for each in alike]}
        for _, group in groupby(ordered, key=lambda each: repr(each.block))
        if (alike := list(group)) and (block := alike[0].block)
    ]
    return tomli_w.dumps({"title": "What the page showed", "runs": blocks})
