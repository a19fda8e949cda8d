"""The base station: plans, runs rounds over a grid, averages, records, and goes on where it was cut off.

Uploads are judged and averaged by the functions that simulation uses, and the run's folder is the same. A checkpoint is
written after every round, before the next one begins: a server that is killed loses the round it was in, no more.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from mobfl import run_folder
from mobfl.adaptive.policy import AdaptivePolicy
from mobfl.deploy.clock import Clock, WallClock
from mobfl.deploy.evaluations import Evaluations
from mobfl.deploy.events import EVENTS, Event, EventLog, read_events
from mobfl.deploy.measuring import measured_round_trip_s
from mobfl.deploy.round_loop import Attempt, RoundLoop, RoundSeen, RoundWork, as_rounds
from mobfl.deploy.settings import Deployment
from mobfl.errors import InputError
from mobfl.experiment import Learnt, Models, row_of
from mobfl.history import History, Row
from mobfl.learning.aggregation import Weights, aggregate
from mobfl.learning.rates import learning_rate
from mobfl.learning.task import Task
from mobfl.mobility.crossings import Crossings
from mobfl.recording import Recording, begin, take_up
from mobfl.rounds import FOREVER, Order, Policy, Rounds, joined
from mobfl.servers.adaptive import AdaptiveRounds
from mobfl.servers.planned_rounds import PlannedRounds, single_steps
from mobfl.theory import min_delay_s
from mobfl.training import Job, check_job

# Of the road's time at the start, when that is on the wall, and the scale.
MakeClock = Callable[[float, float, float], Clock]
Measure = Callable[[Grid, str, Weights, EventLog], float]


@dataclass(frozen=True)
class Station:
    """What the base station goes by, once it knows how long messages take."""

    job: Job
    scale: float
    described: Mapping[str, Any]  # the part of run.json that does not change


def policy_of(job: Job) -> Policy:
    """What gives the rounds their H and T."""
    server = job.server
    if isinstance(server, AdaptiveRounds):
        return AdaptivePolicy(job.scenario, job.scenario.link, server.settings)
    if isinstance(server, PlannedRounds):
        return server.policy
    raise InputError("--plan must have rounds of a length T to be deployed, got another server")


def settle(deployment: Deployment, task: Task, crossings: Crossings | None, measure: Callable[[], float]) -> Station:
    """The station of a new deployment, with the time that messages take; a resumed one keeps what was settled."""
    road, out = deployment.road, Path(deployment.out)
    if deployment.resume:
        told = run_folder.read_run(out, task.kpis)["deployment"]
        scale, round_trip_s = float(told["scale"]), told["round_trip_s"]
    else:
        scale, round_trip_s = deployment.scale or 1.0, measure() if deployment.measures else None
    if round_trip_s is not None and not deployment.impose:  # what Flower takes is part of download and upload
        half_s = round_trip_s / scale / 2
        road = road.with_values({"link.download_s": half_s, "link.upload_s": half_s})
    job = deployment.job(task, road, crossings)
    check_job(job)
    if round_trip_s is not None and deployment.scale is None and deployment.impose and not deployment.resume:
        first = policy_of(job).next_order(None).local_steps
        scale = stretched(round_trip_s, float(min_delay_s(road, first)))
    told = {"scale": scale, "round_trip_s": round_trip_s, "impose": deployment.impose}
    described = job.describe()
    described["versions"] |= {"flwr": version("flwr")}
    return Station(job, scale, described | {"deployment": told})


def stretched(round_trip_s: float, shortest_s: float) -> float:
    """Wall-clock seconds per second such that delays of the road leave time for messages; in tenths, at least 1."""
    return max(1.0, math.ceil(10 * _ROOM * round_trip_s / shortest_s) / 10)


_ROOM = 1.3  # messages take longer when many vehicles are there


class Orders:
    """A policy's orders round by round; told of rounds that were run before, it is where it was then."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._seen = policy, list[Rounds]()
        self.now: Order = policy.next_order(None)

    def add(self, seen: Rounds) -> None:
        if self.now.rounds == FOREVER:
            return
        self._seen.append(seen)
        if len(self._seen) == self.now.rounds:
            self.now, self._seen = self._policy.next_order(joined(self._seen)), []


def serve(
    deployment: Deployment,
    grid: Grid,
    run: str,
    crossings: Crossings | None = None,
    make_clock: MakeClock = WallClock,
    measure: Measure = measured_round_trip_s,
    progress: Callable[[Row], None] = lambda _: None,
) -> History:
    """Runs the deployment's rounds to the end of its training; `run` is what its messages are told apart by."""
    out, task = Path(deployment.out), deployment.build_task()
    with run_folder.locked(out):
        log, model = EventLog(out / EVENTS), task.initial_weights(deployment.seed)
        station = settle(deployment, task, crossings, partial(measure, grid, run, model, log))
        recording = _opened(deployment, station, out)
        if recording.status != "done":
            _run_rounds(deployment, station, grid, run, recording, log, make_clock, progress)
        return recording.history


def _opened(deployment: Deployment, station: Station, out: Path) -> Recording:
    job = station.job
    recording = (take_up if deployment.resume else begin)(station.described, job.task, job.seed, out)
    if recording.status != "done":
        recording.save("running", 1)
    return recording


def _run_rounds(
    deployment: Deployment,
    station: Station,
    grid: Grid,
    run: str,
    recording: Recording,
    log: EventLog,
    make_clock: MakeClock,
    progress: Callable[[Row], None],
) -> None:
    base = _BaseStation(station, recording, log)
    there = base.remember(read_events(recording.folder))
    begins = time.time() + deployment.lead_s
    clock = make_clock(base.next_start_s, begins, station.scale)
    log.add("started", len(recording.rows), base.next_start_s, unix_s=begins, scale=station.scale)
    loop = RoundLoop(grid, clock, run, log, station.job.scenario.training.most_samples, there)
    clock.wait(deployment.lead_s)
    try:
        while (work := base.next_work()) is not None:
            progress(base.finish(work, loop.run_round(work)))
    except Exception as error:
        recording.save("failed", 1, str(error))
        raise
    base.close()


class _BaseStation:
    """Between the rounds: from what came back to the next model, its row and the next order."""

    def __init__(self, station: Station, recording: Recording, log: EventLog) -> None:
        self._job, self._recording, self._log = station.job, recording, log
        self._site, self._orders = station.job.site, Orders(policy_of(station.job))
        self._models = Models(recording.start, self._job.scenario.training.average_s)
        self._evaluations = Evaluations(self._job.task.evaluate)
        link = self._job.scenario.link
        self._transfer_s = link.download_s + link.upload_s
        if recording.rows and math.isnan(recording.rows[-1]["loss"]):  # it was killed before that was known
            self._evaluations.add(len(recording.rows) - 1, self._models.served)

    @property
    def next_start_s(self) -> float:
        """On the traffic's clock: where the last round ended."""
        rows = self._recording.rows
        return self._site.start_s + (rows[-1]["end_s"] if rows else 0.0)

    def remember(self, events: list[Event]) -> dict[int, int]:
        """Tells the policy of the rounds before, and returns the nodes that were there with their attempts."""
        there = dict[int, int]()
        for number, row in enumerate(self._recording.rows):
            mine = [event for event in events if event["round"] == number]
            work = self._work(number, self._site.start_s + row["start_s"])
            self._orders.add(as_rounds(work, attempts_in(mine), self._transfer_s))
            there |= {int(each["node"]): each["attempt"] + 1 for each in mine if each["kind"] == "began"}
            for gone in (each for each in mine if each["kind"] == "left"):
                there.pop(int(gone["node"]), None)
        return there

    def next_work(self) -> RoundWork | None:
        """The next round, if it ends within the training."""
        work = self._work(len(self._recording.rows), self.next_start_s)
        return work if work.end_s - self._site.start_s <= self._site.end_s else None

    def _work(self, number: int, start_s: float) -> RoundWork:
        order, passed = self._orders.now, (start_s - self._site.start_s) / self._site.duration_s
        rate = learning_rate(self._job.scenario.training, passed)
        return RoundWork(number, start_s, order.round_s, order.local_steps, rate, self._models.latest)

    def finish(self, work: RoundWork, seen: RoundSeen) -> Row:
        """The model moves, and all that is needed to go on is on disk before anybody gets the next one."""
        block = as_rounds(work, seen.attempts, self._transfer_s)
        (step,) = single_steps(block, self._site.start_s)
        new, rejections = aggregate(self._models.latest, seen.uploads, self._job.server.merge)
        rejected = [*seen.refused, *rejections]
        self._models.advance(step, new, work.round_s)
        unknown = dict.fromkeys(("loss", *self._job.task.kpis), math.nan)
        row = row_of(step, len(rejected)) | unknown
        self._recording.add(Learnt(row, self._models.served, tuple(rejected), self._models.others))
        self._evaluations.add(work.number, self._models.served)
        self._note_scores()
        self._recording.save("running", 1)
        known = {name: value for name, value in row.items() if name not in ("round", "loss", *self._job.task.kpis)}
        self._log.add("ended", work.number, work.end_s, overshoot_s=seen.overshoot_s, **known)
        self._orders.add(block)
        return self._recording.rows[-1]

    def _note_scores(self, wait: bool = False) -> None:
        for rounds, model, scores in self._evaluations.done(wait):
            self._recording.score(rounds, model, scores)

    def close(self) -> None:
        self._note_scores(wait=True)
        self._evaluations.close()
        self._recording.save("done", 1)


def attempts_in(events: list[Event]) -> list[Attempt]:
    """The attempts of one round, as its events tell them."""
    attempts = dict[str, Attempt]()
    for event in events:
        node = event.get("node", "")
        if event["kind"] == "began":
            attempts[node] = Attempt(int(node), event["attempt"], event["at_s"])
        elif node in attempts and event["kind"] == "left":
            attempts[node] = replace(attempts[node], left_s=event["at_s"])
        elif node in attempts and event["kind"] in ("uploaded", "rejected"):
            attempts[node] = replace(attempts[node], answer_s=event["at_s"])
    return list(attempts.values())
