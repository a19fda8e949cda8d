"""All models of a run: one, or one for every station and the cloud's above them, led on event by event."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mobfl.learning.districts import BY_DISTRICT, Districts, cut_training, cut_validation
from mobfl.learning.rules.cap import Cap
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.runs.adoption import known_sound
from mobfl.runs.carried import Carried
from mobfl.runs.checkpoint import Checkpoint, CloudState
from mobfl.runs.clouds import CloudModel
from mobfl.runs.edges import Edge
from mobfl.runs.history import OF_CLOUD, STATION
from mobfl.runs.job import Job
from mobfl.runs.rows import Learnt, row_of
from mobfl.runs.scoring import Fetch, Scores, Scoring, Submit
from mobfl.servers.city import Average
from mobfl.servers.steps import ServerStep


class Learners:
    """What a run's events do to its models; every event but handing in gives a row, whose scores may come later."""

    def __init__(self, job: Job, begun: Checkpoint, scores: Scores, submit: Submit) -> None:
        self._job, self._submit, self._rows = job, submit, begun.rounds
        self._scoring = Scoring(job.task, submit, _own_samples(job))
        known: Fetch = lambda: scores  # noqa: E731
        self._carried, steps = _carried(job, begun), _all_steps(job)
        self._edges = _edges(job, begun, steps, self._carried)
        for edge in self._edges:
            edge.known = self._scoring.all(edge.adoption.served) if begun.stations else known
        self._at = [self._edges[min(place, len(self._edges) - 1)] for place in range(len(job.stations))]
        self._cloud = _cloud(job, begun, self._may_come)
        self._average, self._average_known = job.task.initial_weights(job.seed), known
        if begun.rounds and self._cloud is not None:
            self._average = self._cloud.state.average or self._average
            self._average_known = self._scoring.all(self._average)
        self._counts_parts = any(_counts_parts(each) for each in job.stations)
        self._states = [_state(edge) for edge in self._edges]

    def tell(self, step: ServerStep) -> tuple[float, dict[str, float]]:
        """Of every step, done before or not: how long it took since the one before, and what it costs."""
        return self._at[step.station].tell(step)

    def step(self, step: ServerStep, elapsed_s: float, costs: Mapping[str, float]) -> Callable[[], Learnt]:
        """A station's round, or whatever else its schedule has."""
        edge = self._at[step.station]
        before = edge.adoption.served
        counted, reasons = edge.lead_on(step, elapsed_s, self._submit)
        self._look_at(edge, before)
        if self._cloud is not None:
            self._cloud.count(step.station, counted)
            self._take_up(step.station, step.end_s)
        row = row_of(step, len(reasons), self._counts_parts) | dict(costs)
        served = edge.adoption.served
        return self._learnt(row, step.station, served, edge.known, self._scoring.own(served, step.station))

    def hand_in(self) -> None:
        """The stations send the cloud their models, of which each is known to be sound."""
        for edge in self._edges:
            self._settle(edge)
        self._above.hand_in([edge.adoption.latest for edge in self._at])

    def average(self, event: Average) -> Callable[[], Learnt]:
        """The cloud's own step: what was handed in is averaged, and is there for stations whose round ends just now."""
        handed, adopted = self._above.average(event)
        for place, edge in enumerate(self._at):
            self._take_up(place, edge.last_end_s)
        own = self._scoring.everywhere(self._average)
        return self._learnt(self._row(event, handed, adopted), OF_CLOUD, self._average, self._average_known, own)

    @property
    def _above(self) -> CloudModel:
        if self._cloud is None:
            raise ValueError("there is no cloud to hand anything in to")
        return self._cloud

    def _take_up(self, place: int, at_s: float) -> None:
        """What has come from the cloud; one that is not sound is left where it is."""
        edge = self._at[place]
        if not self._above.has_come(place, at_s):
            return
        self._settle(edge)
        before = edge.adoption.served
        brought = self._above.brings(place, at_s, edge.adoption.latest)
        if brought is not None:
            edge.adoption.take_up(brought)
        self._look_at(edge, before)

    def _settle(self, edge: Edge) -> None:
        """Waits for what the full evaluation says of a model that goes to the cloud, or is replaced by the cloud's."""
        before = edge.adoption.served
        edge.adoption.settle(edge.known()["loss"])
        self._look_at(edge, before)

    def _may_come(self, average: Weights) -> bool:
        """Whether it is sound by the look at held-out samples and by the full evaluation, which is waited for."""
        if not self._edges[0].adoption.is_sound(average):
            return False
        known = self._scoring.all(average)
        if not math.isfinite(known()["loss"]):
            return False
        self._average, self._average_known = average, known
        return True

    def _look_at(self, edge: Edge, before: Weights) -> None:
        """Evaluates a model that has changed, unless it is the cloud's."""
        served = edge.adoption.served
        if served is not before:
            is_average = self._cloud is not None and served is self._average
            edge.known = self._average_known if is_average else self._scoring.all(served)
            self._states[self._edges.index(edge)] = _state(edge)

    def _row(self, event: Average, handed: int, adopted: bool) -> dict[str, Any]:
        stations, size = len(self._at), self._job.stations[0].sizes.model
        return {
            "round": event.number,
            "start_s": event.start_s,
            "end_s": event.end_s,
            "local_steps": 0,
            "present": stations,
            "uploads": handed,
            "rejected": 0 if adopted else handed,
            "steps": 0,
            "bytes": (stations + stations * adopted) * size,
            "energy_j": 0.0,
            **({"partial": 0} if self._counts_parts else {}),
        }

    def _learnt(
        self, row: dict[str, Any], station: int, model: Weights, known: Fetch, own: Fetch
    ) -> Callable[[], Learnt]:
        self._rows += 1
        if not self._job.scenario.is_city:
            return partial(_of_one, row, self._edges[0].checkpoint, known)
        if station >= 0:
            edge = self._at[station]
            self._states[self._edges.index(edge)] = _state(edge)
        state = None if self._cloud is None else self._cloud.state
        carried = {} if self._carried is None else self._carried.kept
        reached = partial(_of_city, self._rows, model, tuple(self._states), state, carried)
        return partial(_of_many, row | {STATION: station}, reached, known, own)


_State = tuple[Checkpoint, Fetch]


def _state(edge: Edge) -> _State:
    return edge.checkpoint, edge.known


def _of_one(row: dict[str, Any], reached: Checkpoint, known: Fetch) -> Learnt:
    row = {**row, **known()}
    return Learnt(row, known_sound(reached, row["loss"]))


def _of_many(row: dict[str, Any], reached: Callable[[], Checkpoint], known: Fetch, own: Fetch) -> Learnt:
    return Learnt({**row, **known(), **own()}, reached())


def _of_city(
    rows: int, model: Weights, states: Sequence[_State], cloud: CloudState | None, carried: Mapping[int, Weights]
) -> Checkpoint:
    stations = tuple(known_sound(reached, known()["loss"]) for reached, known in states)
    rejections = sum((Counter(each.rejections) for each in stations), Counter[str]())
    taken_back = tuple(sorted(number for each in stations for number in each.taken_back))
    return Checkpoint(
        rows, model, rejections=rejections, taken_back=taken_back, stations=stations, cloud=cloud, carried=carried
    )


def _edges(job: Job, begun: Checkpoint, steps: Sequence[ServerStep] | None, carried: Carried | None) -> list[Edge]:
    """One for every station, or one for all of them."""
    jobs, table = dict(enumerate(job.stations)), job.scenario.cloud
    shared = job.scenario.is_city and table is not None and table.is_shared
    groups = [jobs] if shared else [{place: each} for place, each in jobs.items()]
    begins = begun.stations or [begun] * len(groups)
    districts = _districts(job)
    return [Edge(group, start, steps, districts, carried) for group, start in zip(groups, begins, strict=True)]


def _cloud(job: Job, begun: Checkpoint, may_come: Callable[[Weights], bool]) -> CloudModel | None:
    table = job.scenario.cloud
    if not job.scenario.is_city or table is None or not table.averages:
        return None
    return CloudModel(table, len(job.stations), begun.cloud, may_come, min(_caps(job), default=math.inf))


def _caps(job: Job) -> list[float]:
    """How many times the usual claim a vehicle's may be, where the stations' rules bound it."""
    links = (link.part for each in job.stations for link in each.server.rule.links)
    return [part.times for part in links if isinstance(part, Cap)]


def _all_steps(job: Job) -> list[ServerStep] | None:
    """A city's at once, so that it is known what to remember; a run on one section asks for its own if need be."""
    return [step for step in job.steps() if isinstance(step, ServerStep)] if job.scenario.is_city else None


def _carried(job: Job, begun: Checkpoint) -> Carried | None:
    table, steps = job.scenario.cloud, _all_steps(job)
    if steps is None or table is None or table.carried == "forget":
        return None
    owners = {key: vehicle for each in job.stations for key, vehicle in each.site.draws.owners.items()}
    return Carried(steps, owners, table.mixed_share if table.carried == "mix" else None, begun.carried)


def _counts_parts(job: Job) -> bool:
    channel = job.site.channel
    return channel is not None and channel.partial


def _districts(job: Job) -> Districts | None:
    """Where every vehicle gathers its samples: along its way past the stations."""
    training = job.scenario.training
    if not job.scenario.is_city or training.split not in BY_DISTRICT:
        return None
    passing = list[tuple[float, int, int]]()
    for place, each in enumerate(job.stations):
        site = each.site
        for block in site.traffic:
            keys = site.draws.keys(block.vehicle_keys).tolist()
            passing += zip(block.enter_s.tolist(), [place] * len(block), keys, strict=True)
    ways = dict[int, tuple[int, ...]]()
    for _, place, vehicle in sorted(passing):
        ways[vehicle] = (*ways.get(vehicle, ()), place)
    return Districts(cut_training(job.task, len(job.stations), training, job.seed), ways)


def _own_samples(job: Job) -> Sequence[Integers] | None:
    training = job.scenario.training
    if not job.scenario.is_city or training.split not in BY_DISTRICT:
        return None
    return cut_validation(job.task, len(job.stations), training, job.seed)
