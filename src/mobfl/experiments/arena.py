"""Which of a sweep's runs are wanted, and what enters beside them: the arena is a packaged sweep, cut to measure."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mobfl.errors import InputError
from mobfl.experiments.sweep_file import Request, Sweep, or_default, seeds_first
from mobfl.parts import said


@dataclass(frozen=True)
class Wanted:
    """What the arena is asked for.

    Args:
        task: Only its runs; of a task that the sweep does not have, the first task's runs with this one instead.
        seeds: These instead of the sweep's own.
        studies: Only studies with one of these in their titles.
        only: Scenario keys with the values that a run must have.
        settings: Scenario keys with values that all runs get.
        plans: Labels or plans of entries, beside the baseline; whatever is no entry's enters as a new one.
        rules: With these, local trainings or codecs, every plan enters with every one of them.
        locals_: As rules.
        codecs: As rules.
    """

    task: str | None = None
    seeds: Sequence[int] = ()
    studies: Sequence[str] = ()
    only: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    plans: Sequence[str] = ()
    rules: Sequence[str] = ()
    locals_: Sequence[str] = ()
    codecs: Sequence[str] = ()

    def of(self, sweep: Sweep) -> Sweep:
        """The sweep with these runs, in its order."""
        requests = _of_studies(self._of_task(sweep.requests), self.studies)
        requests = _with_entries(requests, sweep.comparison.baseline, self)
        requests = [each for each in requests if _has(each, self.only or {})]
        if self.settings:
            requests = [_changed(each, self.settings) for each in requests]
        if self.seeds:
            requests = _with_seeds(requests, self.seeds)
        if not requests:
            raise InputError("the arena must have at least one run, got none that is as --only says")
        return replace(sweep, requests=tuple(requests))

    def _of_task(self, requests: Sequence[Request]) -> list[Request]:
        if self.task is None:
            return list(requests)
        if any(each.task == self.task for each in requests):
            return [each for each in requests if each.task == self.task]
        first = requests[0].task
        own = [each for each in requests if each.task == first]
        return [replace(each, task=self.task, data=None, options={}) for each in own]

    @property
    def _new_parts(self) -> bool:
        return bool(self.rules or self.locals_ or self.codecs)

    def entering(self, known: Sequence[Request]) -> list[dict[str, Any]]:
        """What is not among the known, as plan, label and parts."""
        if not self._new_parts:
            unknown = [plan for plan in self.plans if not any(_is(each, plan) for each in known)]
            return [{"plan": plan, "label": plan, "rule": None, "local": None, "codec": None} for plan in unknown]
        choices = map(or_default, (self.rules, self.locals_, self.codecs))
        return [
            {
                "plan": plan,
                "label": ", ".join(each for each in (plan, *parts) if each is not None),
                **dict(zip(_PARTS, parts, strict=True)),
            }
            for plan, *parts in itertools.product(or_default(self.plans or ["mobfl"]), *choices)
        ]

    def is_chosen(self, request: Request) -> bool:
        """Whether one of the sweep's own runs is wanted."""
        if self._new_parts:
            return False
        return not self.plans or any(_is(request, plan) for plan in self.plans)


_PARTS = ("rule", "local", "codec")


def _of_studies(requests: Sequence[Request], wanted: Sequence[str]) -> list[Request]:
    titles = dict.fromkeys(each.study for each in requests)
    for text in wanted:
        if not any(text in title for title in titles):
            raise InputError(f"study must be a part of the title of {' or '.join(titles)}, got {text!r}")
    return [each for each in requests if not wanted or any(text in each.study for text in wanted)]


def _is(request: Request, name: str) -> bool:
    """An entry goes by its label, and by its plan where nothing else makes it what it is."""
    plain = request.rule is None and request.local is None and request.codec is None
    return name == request.label or (plain and name == request.plan)


def _with_entries(requests: Sequence[Request], baseline: str, wanted: Wanted) -> list[Request]:
    """The chosen ones and those that enter, each beside the baseline's run on the same vehicles."""
    entering, found = wanted.entering(requests), list[Request]()
    for each in requests:
        is_baseline = each.label == baseline
        if is_baseline or wanted.is_chosen(each):
            found.append(each)
        if is_baseline:
            found += [replace(each, **entry) for entry in entering]
    return found


def _has(request: Request, values: Mapping[str, Any]) -> bool:
    return all(_value(request, key) == value for key, value in values.items())


def _value(request: Request, key: str) -> Any:
    try:
        return request.scenario.value(key)
    except AttributeError:
        raise InputError(f"only must name a key of the scenario, got {key!r}") from None


def _changed(request: Request, settings: Mapping[str, Any]) -> Request:
    """In a study of its own, since it is not comparable with what was not changed."""
    study = ", ".join([request.study, *(f"{key}={said(value)}" for key, value in settings.items())])
    return replace(request, scenario=request.scenario.with_values(settings), study=study)


def _with_seeds(requests: Sequence[Request], seeds: Sequence[int]) -> list[Request]:
    once = list[Request]()
    for each in requests:
        seedless = replace(each, seed=seeds[0])
        if seedless not in once:
            once.append(seedless)
    return seeds_first([replace(each, seed=seed) for seed in seeds for each in once])
