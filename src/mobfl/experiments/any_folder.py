"""Runs that no sweep put together, wherever they are below a folder, as studies: one for each task and setting."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mobfl.experiments.folder import SWEEP
from mobfl.experiments.runs import PARTS, Run, find_runs
from mobfl.experiments.studies import Labelled, Study, read_studies
from mobfl.files.json import plain

_MOST_NAMED = 3  # settings in a title


def studies_below(folder: Path) -> tuple[list[Study], list[str]]:
    """The studies of a sweep's folder, or of whatever runs there are; and a sentence for each that cannot be read."""
    if (folder / SWEEP).exists():
        return read_studies(folder), []
    runs, broken = find_runs(folder)
    groups = dict[str, list[Run]]()
    for run in runs:
        groups.setdefault(repr((run.description["task"], _setting(run))), []).append(run)
    studies = [_study(group, list(groups.values())) for group in groups.values()]
    return [study for study in studies if study.runs], broken


def _study(group: Sequence[Run], groups: Sequence[Sequence[Run]]) -> Study:
    states = [run.description["status"] for run in group]
    done = [run for run, status in zip(group, states, strict=True) if status == "done"]
    failures = [
        f"{run.name}: {run.description['reason']}"
        for run, status in zip(group, states, strict=True)
        if status == "failed"
    ]
    done.sort(key=lambda run: run.description["seed"])
    labelled = tuple(Labelled(label, run) for label, run in zip(_labels(done), done, strict=True))
    return Study(_title(group[0], groups), labelled, len(group) - len(done) - len(failures), tuple(failures))


def _labels(runs: Sequence[Run]) -> list[str]:
    """The shortest names that tell the runs apart by all but their seeds."""
    differing = [part for part in PARTS if len({run.description.get(part) for run in runs}) > 1]
    names = [_names(run, differing) for run in runs]
    kinds = dict[str, set[str]]()
    for run, candidates in zip(runs, names, strict=True):
        for name in candidates:
            kinds.setdefault(name, set()).add(run.identity)
    return [next((name for name in each if len(kinds[name]) == 1), each[-1]) for each in names]


def _names(run: Run, parts: Sequence[str]) -> list[str]:
    """From short to long: the plan's words, the whole plan, and with its parts."""
    pieces = run.plan.split(",")
    words = [piece for piece in pieces if "=" not in piece.partition(":")[2] and ("=" not in piece or ":" in piece)]
    short = ",".join(words) or run.plan.partition(":")[0]
    with_parts = [run.plan, *(f"{part} {run.description.get(part)}" for part in parts)]
    return [short, run.plan, ", ".join(with_parts)]


def _setting(run: Run) -> dict[str, Any]:
    """All that a run depends on but its task, plan, parts and seed, under dotted keys."""
    told = {"data": run.description["data"], "trace": run.traffic or {}}
    return dict(_flat(plain(run.scenario.to_dict() | told)))


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _title(run: Run, groups: Sequence[Sequence[Run]]) -> str:
    """The task, and in what its setting differs from others' of the same task."""
    task, own = str(run.description["task"]), _setting(run)
    others = [_setting(each[0]) for each in groups if each[0].description["task"] == task]
    differing = [key for key in own if any(other.get(key) != own[key] for other in others)]
    named = [f"{key} = {own[key]}" for key in differing[:_MOST_NAMED]]
    return ", ".join([task, *named, *(["…"] if len(differing) > _MOST_NAMED else [])])
