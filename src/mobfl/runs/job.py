"""What a run computes: all that its result depends on."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.codecs import CODECS, Codec, codec_named
from mobfl.learning.heldout import heldout_loss_of
from mobfl.learning.holdings import check_samples
from mobfl.learning.local import LOCALS, LocalTraining, local_named
from mobfl.learning.rules import RULES, Chain, Rule, chain_of
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.observed import ObservedTraffic
from mobfl.parts import Kind, Wish, provenance
from mobfl.rng import stream
from mobfl.rounds.air import delays_and_channel
from mobfl.runs import folder
from mobfl.runs.sizes import Sizes
from mobfl.runs.task_check import check_task
from mobfl.scenario import Scenario
from mobfl.servers.choice import refuse_falling
from mobfl.servers.names import SCHEDULES, AnyPlan, server_of
from mobfl.servers.server import Server
from mobfl.servers.site import Site
from mobfl.servers.steps import server_steps

_MOST_ROUNDS = 1e7


@dataclass(frozen=True)
class Job:
    """One run: a task, a road, a plan and a seed. Every run of a job begins with parts as they were made.

    Args:
        task: Model, data, loss and KPIs.
        scenario: The road, its traffic, links and vehicles, and how they train.
        plan: What `--plan` takes, a `Plan`, a pair of H and T in seconds, a `Policy` or a `Schedule`.
        seed: Of all draws, a whole number >= 0.
        crossings: Recorded traffic; None is Poisson traffic as the scenario has it.
        trace: Where the crossings are from, for run.json.
        rule: What becomes of uploads: what `--rule` takes, or a `Rule`; None is the plan's own.
        local: How vehicles train: what `--local` takes, or a `LocalTraining`; None is SGD.
        codec: How uploads travel: what `--codec` takes, or a `Codec`; None sends the weights as they are.
    """

    task: Task
    scenario: Scenario
    plan: AnyPlan = "mobfl"
    seed: int = 0
    crossings: Crossings | None = None
    trace: str | None = None
    rule: str | Rule | None = None
    local: str | LocalTraining | None = None
    codec: str | Codec | None = None

    @cached_property
    def _server(self) -> Server:
        return server_of(self.plan, self.rule, self.road, self.crossings)

    @cached_property
    def road(self) -> Scenario:
        """The scenario with the sizes of what travels, where it has rates or a radio: what the plan is for."""
        if not self.scenario.by_sizes:
            return self.scenario
        return self._sizes(None if self.rule is None else chain_of(self.rule)).on(self.scenario)

    @cached_property
    def sizes(self) -> Sizes:
        """How many bytes travel up and down."""
        return self._sizes(self._server.rule)

    def _sizes(self, rule: Chain | None) -> Sizes:
        return Sizes.of(self.task.initial_weights(self.seed), self.upload_codec[0], rule)

    @property
    def server(self) -> Server:
        """The schedule and the rule, as they were made."""
        return self._server.anew()

    @cached_property
    def local_training(self) -> tuple[LocalTraining, Wish]:
        """How vehicles train, and its name."""
        if self.local is None or isinstance(self.local, str):
            return local_named(self.local, self.scenario.training)
        return self.local, Wish(type(self.local).__name__)

    @cached_property
    def upload_codec(self) -> tuple[Codec, Wish]:
        """How uploads travel, and its name."""
        if self.codec is None or isinstance(self.codec, str):
            return codec_named(self.codec)
        return self.codec, Wish(type(self.codec).__name__)

    @property
    def site(self) -> Site:
        """Where it trains; on a radio what has arrived of an upload counts if the codec says that it may."""
        site = training_site(self.road, self.seed, self.crossings)
        if site.channel is None or not getattr(self.upload_codec[0], "prefix_counts", False):
            return site
        return replace(site, channel=replace(site.channel, partial=True))

    def describe(self) -> dict[str, Any]:
        """The part of run.json that is known before the first round."""
        description = {
            "task": self.task.name,
            "plan": self._server.describe(),
            "rule": str(self._server.rule),
            "local": str(self.local_training[1]),
            "codec": str(self.upload_codec[1]),
            "seed": self.seed,
            "trace": None
            if self.crossings is None
            else {"file": self.trace, "fingerprint": self.crossings.fingerprint()},
            "scenario": self.road.to_dict(),
            "data": dict(self.task.record),
            "versions": folder.versions(),
            "kpis": {kpi.name: kpi.more_is_better for kpi in self.task.kpis},
            "kpi_labels": {
                kpi.name: {"label": kpi.label, "unit": kpi.unit, "leads": kpi.leads} for kpi in self.task.kpis
            },
            "baselines": {name: dict(scores) for name, scores in self.task.baselines.items()},
        }
        return description | ({"parts": self._code} if self._code else {})

    @property
    def digests(self) -> dict[str, str]:
        """What base station and vehicle must agree on: how vehicles train, and how uploads travel."""
        named = {"local": self.local_training[1], "codec": self.upload_codec[1]}
        texts = {part: json.dumps([str(wish), self._vehicle_code[part]]) for part, wish in named.items()}
        return {part: hashlib.sha256(text.encode()).hexdigest()[:16] for part, text in texts.items()}

    @property
    def _vehicle_code(self) -> dict[str, dict[str, str] | None]:
        """Of what runs on vehicles, which need not have the base station's parts."""
        return {
            "local": _code(LOCALS, self.local, lambda _: self.local_training[1].name),
            "codec": _code(CODECS, self.codec, lambda _: self.upload_codec[1].name),
        }

    @cached_property
    def _code(self) -> dict[str, dict[str, str]]:
        """Which code the parts are that are not ours."""
        links = self._server.rule.links
        by_name = self.rule is None or isinstance(self.rule, str)
        found = {
            f"rule {link.wish.name}": RULES.code(link.wish.name) if by_name else provenance(link.part) for link in links
        }
        found["task"] = None if "code" in self.task.record else provenance(self.task)
        found["plan"] = _code(SCHEDULES, self.plan, lambda text: SCHEDULES.parse(text).name)
        selection = getattr(self._server.schedule, "selection", None)
        found["selection"] = None if selection is None else provenance(selection)
        found |= self._vehicle_code
        return {name: code for name, code in found.items() if code is not None}

    @property
    def own_files(self) -> set[str]:
        """The files of parts that somebody wrote himself."""
        codes = [*self._code.values(), self.task.record.get("code") or {}]
        return {code["file"] for code in codes if "file" in code}


def _code(kind: Kind, given: Any, name_of: Callable[[str], str]) -> dict[str, str] | None:
    """Of a part that was given by name or as it is; H,T, plans and defaults are ours."""
    if given is None or isinstance(given, tuple):
        return None
    if not isinstance(given, str):
        return provenance(given)
    name = name_of(given)
    return None if "," in name else kind.code(name)


def training_site(scenario: Scenario, seed: int, crossings: Crossings | None) -> Site:
    """The scenario's road until T_A, or the recorded one for as long as it was observed."""
    seen = ObservedTraffic.of(scenario, seed, crossings)
    duration_s = min(scenario.training.duration_s, seen.end_s - seen.start_s)
    delays, channel = delays_and_channel(scenario)
    return Site(seen.crossings, delays, seed, seen.start_s, duration_s, channel)


def _check_heldout(job: Job) -> None:
    if job.server.rule.needs_heldout and heldout_loss_of(job.task) is None:
        raise InputError(
            f"rule {job.server.rule} needs a task with the method heldout_loss, which the task {job.task.name} has not"
        )


def _check_along(job: Job) -> None:
    """A rule that bends local steps needs local training that lets itself be bent."""
    (local, wish), rule = job.local_training, job.server.rule
    if rule.along is not None and not getattr(local, "corrects", False):
        raise InputError(
            f"rule {rule} corrects local steps, and needs local training that is sgd without momentum, got {wish}"
        )


def _check_budget(job: Job) -> None:
    """A schedule that says for how many bytes there is time needs a codec that keeps to it."""
    schedule, (codec, wish) = job.server.schedule, job.upload_codec
    if getattr(schedule, "sets_budget", False) and not getattr(codec, "takes_budget", False):
        raise InputError(f"plan {schedule.name} sends some uploads in part: the codec must take a budget, got {wish}")


def _check_rounds(round_s: float | None, duration_s: float) -> None:
    """A T that is off by its unit would make a run that never ends."""
    if round_s and duration_s / round_s > _MOST_ROUNDS:
        raise InputError(
            f"plan must have at most {_MOST_ROUNDS:g} rounds in {duration_s:g} s, got rounds of {round_s:g} s"
        )


def check_job(job: Job) -> float:
    """How many seconds of virtual time the job trains; raises if it cannot take a single server step."""
    stream(job.seed, "")  # which checks it
    training, site, schedule = job.scenario.training, job.site, job.server.schedule
    check_task(job.task, job.seed)
    for each in job.scenario.classes:
        check_samples(job.task.pool, each.training)
    _ = job.local_training, job.upload_codec  # which checks them
    used = job.task.record.get("loss_scale")
    if used is not None and used != training.loss_scale:
        raise InputError(f"training.loss_scale must be the task's, {used!r}, got {training.loss_scale!r}")
    _check_heldout(job)
    _check_along(job)
    _check_budget(job)
    refuse_falling(job.scenario, schedule)
    _check_rounds(schedule.describe().get("round_s"), site.duration_s)
    if next(server_steps(schedule, site), None) is None:
        limit = "training.duration_s must be" if site.duration_s == training.duration_s else "the trace must last"
        raise InputError(f"{limit} at least {schedule.least}, got {site.duration_s:g} s")
    return site.duration_s
