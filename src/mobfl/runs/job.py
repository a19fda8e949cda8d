"""What a run computes: all that its result depends on."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.codecs import CODECS, Codec, codec_named
from mobfl.learning.districts import BY_DISTRICT, cut_training
from mobfl.learning.heldout import heldout_loss_of
from mobfl.learning.holdings import check_samples
from mobfl.learning.local import LOCALS, LocalTraining, local_named
from mobfl.learning.rules import RULES, Chain, Rule, chain_of
from mobfl.learning.task import Task, TaskRequest
from mobfl.mobility.cities import city_traffic
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.given import AnyCrossings, crossings_given, trace_name
from mobfl.mobility.observed import ObservedTraffic
from mobfl.parts import Kind, Wish, provenance
from mobfl.rng import stream
from mobfl.rounds.air import delays_and_channel
from mobfl.runs import folder
from mobfl.runs.sizes import Sizes
from mobfl.runs.task_check import check_task
from mobfl.scenario import AnyScenario, Cloud, Scenario, at_station, listed, scenario_of
from mobfl.servers.anytime import needs_tracks
from mobfl.servers.carrying import carried_on
from mobfl.servers.choice import refuse_falling
from mobfl.servers.city import Event, city_steps
from mobfl.servers.names import SCHEDULES, AnyPlan, server_of
from mobfl.servers.rounds import PlannedRounds
from mobfl.servers.server import Server
from mobfl.servers.site import Site
from mobfl.servers.steps import server_steps
from mobfl.tasks.catalogue import build_task

_MOST_ROUNDS = 1e7


@dataclass(frozen=True, init=False)
class Job:
    """One run: a task, a road, a plan and a seed. Every run of a job begins with parts as they were made.

    Args:
        task: Model, data, loss and KPIs, or the name of a task, which is then built with its usual options.
        scenario: The road, its traffic, links and vehicles, and how they train: a `Scenario`, a packaged one's name, a
            file or tables.
        plan: What `--plan` takes, a `Plan`, a pair of H and T in seconds, a `Policy` or a `Schedule`.
        seed: Of all draws, a whole number >= 0.
        crossings: Recorded traffic, its file, or what `--traffic` takes; None is Poisson traffic as the scenario says.
            Where there are several stations, recorded traffic by their names.
        trace: Where the crossings are from, for run.json; by default the name by which they were given.
        rule: What becomes of uploads: what `--rule` takes, or a `Rule`; None is the plan's own.
        local: How vehicles train: what `--local` takes, or a `LocalTraining`; None is SGD.
        codec: How uploads travel: what `--codec` takes, or a `Codec`; None sends the weights as they are.
        traffic: What passes, where that is not found from the scenario or the crossings: a city knows for its stations.
    """

    task: Task
    scenario: Scenario
    plan: AnyPlan = "mobfl"
    seed: int = 0
    crossings: Crossings | Mapping[str, Crossings] | None = None
    trace: str | None = None
    rule: str | Rule | None = None
    local: str | LocalTraining | None = None
    codec: str | Codec | None = None
    traffic: ObservedTraffic | None = None

    def __init__(
        self,
        task: Task | str,
        scenario: AnyScenario = "paper",
        plan: AnyPlan = "mobfl",
        seed: int = 0,
        crossings: AnyCrossings | Mapping[str, Crossings] | None = None,
        trace: str | None = None,
        rule: str | Rule | None = None,
        local: str | LocalTraining | None = None,
        codec: str | Codec | None = None,
        traffic: ObservedTraffic | None = None,
    ) -> None:
        road = scenario_of(scenario)
        tracks = isinstance(plan, str) and needs_tracks(plan, road)
        seen = crossings if isinstance(crossings, Mapping) else crossings_given(crossings, road, seed, tracks)
        built = _built(task, road) if isinstance(task, str) else task
        vars(self).update(
            task=built, scenario=road, plan=plan, seed=seed, crossings=seen,
            trace=trace or (None if isinstance(crossings, Mapping) else trace_name(crossings)),
            rule=rule, local=local, codec=codec, traffic=traffic,
        )  # fmt: skip

    @cached_property
    def stations(self) -> "tuple[Job, ...]":
        """The job of every station as if it were alone: this one where there are not several."""
        return station_jobs(self) if self.scenario.is_city else (self,)

    def steps(self) -> Iterator[Event]:
        """All stations' server steps within the training, in the order of time, and what the cloud does."""
        if not self.scenario.is_city:
            return server_steps(self.server.schedule, self.site)
        cloud, sites = self.scenario.cloud, [job.site for job in self.stations]
        goes_on = cloud is not None and cloud.carried == "continue"
        sites = [replace(site, tells_interrupted=goes_on) for site in sites]
        each = [server_steps(job.server.schedule, site) for job, site in zip(self.stations, sites, strict=True)]
        if goes_on:
            each = [iter(steps) for steps in carried_on([list(steps) for steps in each], sites)]
        return city_steps(each, cloud, sites[0].duration_s)

    @cached_property
    def _server(self) -> Server:
        return server_of(self.plan, self.rule, self.road, self._recorded)

    @property
    def _recorded(self) -> Crossings | None:
        if self.scenario.is_city or isinstance(self.crossings, Mapping):
            raise InputError("this is of one station's run, got one of several stations")
        return self.crossings

    @cached_property
    def road(self) -> Scenario:
        """The scenario with the sizes of what travels, where it has rates or a radio: what the plan is for."""
        if self.scenario.is_city or not self.scenario.by_sizes:
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
        return self._server.fresh()

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
        site = site_of(self.road, self.seed, self.traffic or ObservedTraffic.of(self.road, self.seed, self._recorded))
        if site.channel is None or not getattr(self.upload_codec[0], "prefix_counts", False):
            return site
        return replace(site, channel=replace(site.channel, partial=True))

    def describe(self) -> dict[str, Any]:
        """The part of run.json that is known before the first round."""
        description = {
            "task": self.task.name,
            **(city_description(self) if self.scenario.is_city else self._own_description),
            "local": str(self.local_training[1]),
            "codec": str(self.upload_codec[1]),
            "seed": self.seed,
            "trace": self._trace,
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
    def _own_description(self) -> dict[str, Any]:
        return {"plan": self._server.describe(), "rule": str(self._server.rule)}

    @property
    def _trace(self) -> dict[str, Any] | None:
        if self.crossings is None:
            return None
        tables = self.crossings.values() if isinstance(self.crossings, Mapping) else [self.crossings]
        prints = [each.fingerprint() for each in tables]
        one = prints[0] if not isinstance(self.crossings, Mapping) else hashlib.sha256("".join(prints).encode())
        told = {"file": self.trace, "fingerprint": one if isinstance(one, str) else one.hexdigest()[:32]}
        return told | ({"drawn": True} if all(each.drawn for each in tables) else {})

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
        if self.scenario.is_city:
            return {name: code for job in self.stations for name, code in job._code.items()}
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


def _built(task: str, scenario: Scenario) -> Task:
    return build_task(task, TaskRequest(loss_scale=scenario.training.loss_scale))


def station_jobs(job: Job) -> tuple[Job, ...]:
    """The job of every station as if it were alone: its own section, plan and traffic, on a clock for all."""
    if isinstance(job.crossings, Crossings):
        raise InputError("crossings must be by station where there are several, got one table")
    seen = city_traffic(job.scenario, job.seed, job.crossings)
    recorded = [None] * len(seen) if job.crossings is None else [*job.crossings.values()]
    return tuple(
        replace(
            job, scenario=at_station(job.scenario, place), plan=station.plan or job.plan, crossings=recorded[place],
            traffic=seen[place],
        )
        for place, station in enumerate(listed(job.scenario))
    )  # fmt: skip


def city_description(job: Job) -> dict[str, Any]:
    """What run.json says of a city's plans and rules: as they were asked for, and what came of it at every station."""
    asked = job.plan if isinstance(job.plan, str) else type(job.plan).__name__
    if isinstance(job.plan, tuple):
        asked = ",".join(f"{number:g}" for number in job.plan)
    told = [
        {"name": station.name, "section": station.section, **each._own_description}
        for station, each in zip(listed(job.scenario), job.stations, strict=True)
    ]
    rules = list(dict.fromkeys(each["rule"] for each in told))
    plan = {"policy": "stations", "local_steps": None, "round_s": None, "plan": asked}
    return {"plan": plan, "rule": rules[0] if len(rules) == 1 else "by station", "stations": told}


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
    return site_of(scenario, seed, ObservedTraffic.of(scenario, seed, crossings))


def site_of(scenario: Scenario, seed: int, seen: ObservedTraffic) -> Site:
    duration_s = min(scenario.training.duration_s, seen.end_s - seen.start_s)
    delays, channel = delays_and_channel(scenario)
    return Site(seen.crossings, delays, seed, seen.start_s, duration_s, channel)


def _check_heldout(job: Job) -> None:
    if job.server.rule.needs_heldout and heldout_loss_of(job.task) is None:
        raise InputError(
            f"rule {job.server.rule} needs a task with the method heldout_loss, which the task {job.task.name} lacks"
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


def _check_city(job: Job) -> None:
    """What several stations together must keep to."""
    training, cloud = job.scenario.training, job.scenario.cloud
    if not job.scenario.is_city:
        if training.split in BY_DISTRICT and training.split not in job.task.pool.groups:
            raise InputError(f"training.split = {training.split!r} must come with stations, got a scenario of one")
        return
    if training.split in BY_DISTRICT:
        cut_training(job.task, len(job.stations), training, job.seed)  # which checks the pool
    if cloud is not None and cloud.every_s is not None and training.duration_s / cloud.every_s > _MOST_ROUNDS:
        raise InputError(
            f"cloud.every_s must leave at most {_MOST_ROUNDS:g} averages in {training.duration_s:g} s,"
            f" got {cloud.every_s:g}"
        )
    rules = {str(each.server.rule) for each in job.stations}
    if job.scenario.cloud is not None and job.scenario.cloud.is_shared and len(rules) > 1:
        raise InputError(
            f"rule must be one for all where all stations have one model, got {' and '.join(sorted(rules))}"
        )
    for each in job.stations:
        if job.scenario.cloud is not None and job.scenario.cloud.carried == "continue":
            _check_carried_on(each, job.scenario.cloud)
        if each.server.rule.hides_content:
            raise InputError(f"rule {each.server.rule} accounts for the uploads to one station, got several stations")


def _check_carried_on(job: Job, cloud: Cloud) -> None:
    """Only in rounds is it known whose training is cut off by leaving, and when it would have been done."""
    schedule = job.server.schedule
    if not isinstance(schedule, PlannedRounds) or schedule.describe()["local_steps"] is None or job.site.channel:
        raise InputError(
            f"cloud.carried = 'continue' needs rounds of one H without a radio, got the plan {schedule.name}"
        )
    if cloud.is_shared:
        raise InputError("cloud.carried must be 'forget' where all stations have one model, got 'continue'")


def check_job(job: Job) -> float:
    """How many seconds of virtual time the job trains; raises if it cannot take a single server step."""
    stream(job.seed, "")  # which checks it
    check_task(job.task, job.seed)
    _check_city(job)
    return max(_check_station(each) for each in job.stations)


def _check_station(job: Job) -> float:
    training, site, schedule = job.scenario.training, job.site, job.server.schedule
    for each in job.scenario.classes if job.scenario.training.split not in BY_DISTRICT else ():
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
