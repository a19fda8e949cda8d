"""A deployment that has been: who was there from when to when, and how long attempts took, from its folder.

`events.jsonl` tells both. A vehicle is there from when it is first sent the model to when it is seen to have left; what
was there as rounds began or ended is known from then, or until then. An attempt lasts from `began` to its answer. One
that was cut off by the round's end or by leaving, gave up or failed tells only that it would have taken longer. Where
as many steps are taken as fit, only vehicles that stayed to the round's end are asked: there all but those who sat out
answer, while who leaves before is lost however quick it is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl.deploy.events import EVENTS, Event, damaged_lines, is_number, read_events
from mobfl.deploy.step_law import SeenSteps, StepLaw
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.rounds.orders import AsManyAsFit
from mobfl.rounds.rules import TIME_ROUNDING
from mobfl.runs.folder import read_history, read_run
from mobfl.scenario import Scenario
from mobfl.theory import Delays

Array = NDArray[np.float64]

_FEWEST_ANSWERS = 10
_MOST_TRANSFER = 0.9  # of the quickest answer: some of it was local steps
_MOST_CLAIMED = 3.0  # times the usual transfers
_ANSWERED, _CUT = ("uploaded", "rejected"), ("gave_up", "failed", "dropped")


@dataclass(frozen=True)
class PastRounds:
    """The rounds as they happened, on the traffic's clock: a row each."""

    start_s: Array
    end_s: Array
    local_steps: NDArray[np.int64]  # H; where as many are taken as fit, those of the longest upload
    present: NDArray[np.int64]
    uploads: NDArray[np.int64]  # in time, those included that could not be merged

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def lasted_s(self) -> float:
        return float((self.end_s - self.start_s).sum())

    @property
    def valid_steps_per_s(self) -> float:
        return float((self.local_steps * (self.uploads > 0)).sum()) / self.lasted_s


@dataclass(frozen=True)
class RecordedDeployment:
    """A deployment as a trace, with the delays that were measured on it.

    Args:
        scenario: The run's own, with the measured law of local steps and the measured transfers put in. All vehicles
            of the crossings take part, and none is of another class: a base station does not see it.
        crossings: Who was there from when to when, by node.
        rounds: The rounds as they happened.
        seen: What attempts tell of the time of a local step.
        transfer_s: Of download and upload together, the median. What varies of it counts with the steps only where
            vehicles did not say how long these took.
        asked: What vehicles knew, where they took as many steps as fitted; None: all took H.
        notices: What had to be assumed, a sentence each, without its full stop.
    """

    scenario: Scenario
    crossings: Crossings
    rounds: PastRounds
    seen: SeenSteps
    transfer_s: float
    asked: AsManyAsFit | None
    notices: tuple[str, ...]

    @property
    def observed_s(self) -> tuple[float, float]:
        """From the first round's start to the last one's end: all the time it is known who is there."""
        return float(self.rounds.start_s[0]), float(self.rounds.end_s[-1])

    @cached_property
    def law(self) -> StepLaw:
        """Of a local step."""
        return self.seen.law

    def delays(self, law: StepLaw) -> Delays:
        """Of vehicles whose steps follow this law."""
        return Delays(self.transfer_s / 2, self.transfer_s / 2, (law.times,))


def read_deployment(folder: str | Path) -> RecordedDeployment:
    """The deployment in a run's folder, also one that goes on or was cut off: its rounds so far.

    Args:
        folder: What `mobfl deploy` wrote with `--out`.
    """
    folder = Path(folder)
    run = _described(folder)
    events = read_events(folder)
    if not events:
        raise InputError(f"{folder} must have events in {EVENTS}, got none")
    rounds = _rounds(folder, events)
    log = _Log(rounds)
    for event in events:
        log.take(event)
    asked = _asked(run["plan"])
    if asked is None and log.fitted:
        raise InputError(f"{folder} must say in run.json what vehicles knew of their leaving, got a plan of one's own")
    attempts = log.attempts(asked, bool(run["deployment"].get("impose")))
    answers = sum(each.answered for each in attempts)
    if answers < _FEWEST_ANSWERS:
        raise InputError(
            f"{folder} must have {_FEWEST_ANSWERS} answers or more to tell how long local steps take, got {answers}"
        )
    scenario = Scenario.from_dict(run["scenario"])
    transfer_s, assumed = _transfer_s(run["deployment"], scenario, attempts, events)
    seen, visits = _seen(attempts, transfer_s), log.visits
    node, enter_s, leave_s = ([getattr(each, name) for each in visits] for name in ("node", "enter_s", "leave_s"))
    crossings = Crossings.sorted(node, enter_s, leave_s)
    notices = (*_damage(folder, log), *assumed, *_cut_off(seen), *_classes(scenario))
    return RecordedDeployment(
        _measured(scenario, seen.law, transfer_s), crossings, rounds, seen, transfer_s,
        _with_mean_stay(asked, crossings), notices,
    )  # fmt: skip


def _described(folder: Path) -> Mapping[str, Any]:
    run = read_run(folder)
    if not isinstance(run.get("deployment"), dict) or "plan" not in run or "scenario" not in run:
        raise InputError(f"{folder} must hold a deployment, got a run that was simulated")
    return run


def _rounds(folder: Path, events: Iterable[Event]) -> PastRounds:
    """Their table, on the clock of the events."""
    columns = read_history(folder).columns
    if not len(columns["round"]):
        raise InputError(f"{folder} must have a round that has ended, got none")
    start_s = _start_s(columns["end_s"], events)
    if start_s is None:
        raise InputError(f"{folder} must tell in {EVENTS} when its rounds ended, got no such line")
    counts = (columns[name].astype(np.int64) for name in ("local_steps", "present", "uploads"))
    return PastRounds(start_s + columns["start_s"], start_s + columns["end_s"], *counts)


def _start_s(end_s: Array, events: Iterable[Event]) -> float | None:
    """When training began on the traffic's clock: rows count from there."""
    ended = (each for each in events if each["kind"] == "ended" and 0 <= each["round"] < len(end_s))
    offsets_s = [each["at_s"] - end_s[each["round"]] for each in ended]
    return float(np.median(offsets_s)) if offsets_s else None


# ---- who was there, and what came of it --------------------------------------------------------------


@dataclass
class _Visit:
    node: str
    enter_s: float
    last_round: int
    leave_s: float = math.inf


@dataclass
class _Attempt:
    visit: int
    round: int
    begin_s: float
    until_s: float  # for so long its answer would have counted
    stayed: bool = True
    answer_s: float = math.nan
    steps: int = 0
    compute_s: float = math.nan
    sat_out: bool = False

    @property
    def answered(self) -> bool:
        return math.isfinite(self.answer_s)

    @property
    def lasted_s(self) -> float:
        """To its answer, or for as long as it could be watched."""
        return (self.answer_s if self.answered else self.until_s) - self.begin_s

    @property
    def told_transfer_s(self) -> float:
        """What its steps left of its delay, if it said how long they took."""
        return self.lasted_s - self.compute_s if 0 < self.compute_s <= self.lasted_s else math.nan

    def step_s(self, transfer_s: float) -> float:
        """A step's time, or what it is at least: as it was told, or else all that is not the usual transfers.

        Who claims to have needed far more than the usual for them is not believed: nobody is quick by saying so.
        """
        believed = self.told_transfer_s <= _MOST_CLAIMED * transfer_s
        return (self.compute_s if believed else self.lasted_s - transfer_s) / self.steps


@dataclass
class _Log:
    """Takes in events in their order. What makes no sense is left out and counted."""

    rounds: PastRounds
    left_out: int = 0
    _visits: list[_Visit] = field(default_factory=list)
    _open: dict[str, int] = field(default_factory=dict)
    _attempts: dict[tuple[int, str], _Attempt] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        node, kind = event.get("node"), event["kind"]
        if not 0 <= event["round"] < len(self.rounds) or kind not in _OF_VEHICLES:
            return
        if not isinstance(node, str) or not node or type(event.get("attempt")) is not int:
            self.left_out += 1
        elif kind == "began":
            self._begin(event, node)
        elif kind == "left":
            self._leave(event, node)
        elif (event["round"], node) in self._attempts:
            self._end(event, self._attempts[event["round"], node])

    def _begin(self, event: Event, node: str) -> None:
        number = event["round"]
        begin_s, end_s = max(event["at_s"], float(self.rounds.start_s[number])), float(self.rounds.end_s[number])
        if begin_s >= end_s:
            self.left_out += 1
            return
        if node in self._open and event["attempt"] == 0:  # it came again, and its leaving was not told
            self._close(node)
        if node not in self._open:
            self._open[node] = len(self._visits)
            self._visits.append(_Visit(node, begin_s, number))
        self._visits[self._open[node]].last_round = number
        self._attempts[number, node] = _Attempt(self._open[node], number, begin_s, end_s)

    def _leave(self, event: Event, node: str) -> None:
        if node in self._open:
            self._close(node, event["at_s"])
        attempt = self._attempts.get((event["round"], node))
        if attempt is not None:
            attempt.until_s, attempt.stayed = min(attempt.until_s, event["at_s"]), False

    def _end(self, event: Event, attempt: _Attempt) -> None:
        """Who came late is not known to be late by so much: others who are as late give up, and say nothing."""
        if event["kind"] == "sat_out":
            attempt.sat_out = True
        elif event["kind"] in _CUT:
            attempt.until_s = min(attempt.until_s, event["at_s"])
        elif not attempt.begin_s < event["at_s"] <= self.rounds.end_s[attempt.round] * (1 + TIME_ROUNDING):
            self.left_out += 1
        elif event["kind"] in _ANSWERED:
            steps, compute_s = event.get("steps"), event.get("compute_s")
            attempt.answer_s, attempt.steps = event["at_s"], steps if type(steps) is int else 0
            attempt.compute_s = float(compute_s) if is_number(compute_s) else math.nan

    def _close(self, node: str, left_s: float | None = None) -> None:
        """Who is not said to have left was there to the end of the last round that it was in."""
        visit = self._visits[self._open.pop(node)]
        left_s = float(self.rounds.end_s[visit.last_round]) if left_s is None else left_s
        visit.leave_s = max(visit.enter_s, min(left_s, float(self.rounds.end_s[-1])))

    @property
    def visits(self) -> list[_Visit]:
        for node in list(self._open):
            self._close(node)
        return self._visits

    @property
    def fitted(self) -> bool:
        """Whether anybody took as many steps as fitted."""
        return any(each.sat_out or each.steps for each in self._attempts.values())

    def attempts(self, asked: AsManyAsFit | None, imposed: bool) -> list[_Attempt]:
        """Those that tell something of the time of a step, each with how many it was about."""
        if asked is None:
            return [self._with_steps(each) for each in self._attempts.values()]
        # A vehicle of its own sits out by what it expects of messages, and at the end that it was told.
        exact = imposed and asked.knows != "mean" and not asked.error
        stayed = (each for each in self._attempts.values() if each.stayed)
        return [self._with_steps(each) for each in stayed if (each.answered and each.steps) or (each.sat_out and exact)]

    def _with_steps(self, attempt: _Attempt) -> _Attempt:
        if not attempt.steps:
            attempt.steps = 1 if attempt.sat_out else max(int(self.rounds.local_steps[attempt.round]), 1)
        return attempt


_OF_VEHICLES = ("began", "left", "sat_out", *_ANSWERED, *_CUT)


def _asked(plan: Mapping[str, Any]) -> AsManyAsFit | None:
    """What vehicles were asked for, by what run.json says of the plan."""
    if plan.get("knows") is None:
        return None
    error = plan.get("error", 0.0)
    return AsManyAsFit(plan["knows"], 1.0 if plan["knows"] == "mean" else math.inf, error if is_number(error) else 0.0)


def _with_mean_stay(asked: AsManyAsFit | None, crossings: Crossings) -> AsManyAsFit | None:
    if asked is None or asked.knows != "mean":
        return asked
    return AsManyAsFit("mean", float(crossings.dwell_s.mean()))


# ---- how long it took --------------------------------------------------------------------------------


def _transfer_s(
    deployment: Mapping[str, Any], scenario: Scenario, attempts: Sequence[_Attempt], events: Iterable[Event]
) -> tuple[float, list[str]]:
    """Of both ways, and in a sentence what that is from if vehicles did not say how long their steps took."""
    answers = [each for each in attempts if each.answered]
    told_s = [each.told_transfer_s for each in answers if math.isfinite(each.told_transfer_s)]
    most_s = _MOST_TRANSFER * min(each.lasted_s for each in answers)
    if told_s:
        found_s, sentences = float(np.median(told_s)), list[str]()
    else:
        found_s, source = _assumed_transfer_s(deployment, scenario, events)
        counted = f"of every delay {found_s:.3g} s, {source}, count as transfers"
        sentences = [f"Its events do not say how long local steps took: {counted}"]
    if found_s > most_s:
        sentences.append(
            f"Messages took {found_s:.3g} s, but an answer came after {most_s / _MOST_TRANSFER:.3g} s: {most_s:.3g} s"
            " count as transfers, and the rest as steps"
        )
    return min(found_s, most_s), sentences


def _assumed_transfer_s(
    deployment: Mapping[str, Any], scenario: Scenario, events: Iterable[Event]
) -> tuple[float, str]:
    planned_s, scale = float(Delays.of(scenario).transfer_s), deployment.get("scale")
    if deployment.get("impose"):
        return planned_s, "which were imposed"
    measured = [each.get("round_trip_s") for each in events if each["kind"] == "measured"]
    if measured and is_number(measured[-1]) and measured[-1] >= 0 and is_number(scale) and scale > 0:
        return float(measured[-1]) / float(scale), "the median of messages before the first round"
    return planned_s, "for which it was planned"


def _seen(attempts: Sequence[_Attempt], transfer_s: float) -> SeenSteps:
    """Those that had time for more than the transfers."""
    step_s = np.array([each.step_s(transfer_s) for each in attempts])
    ended, visit = (np.array([getattr(each, name) for each in attempts]) for name in ("answered", "visit"))
    some = step_s > 0
    return SeenSteps(step_s[some], ended[some], visit[some])


def _measured(scenario: Scenario, law: StepLaw, transfer_s: float) -> Scenario:
    return scenario.with_values(
        {
            "traffic.participation": 1.0,
            "link.download_s": transfer_s / 2,
            "link.upload_s": transfer_s / 2,
            "compute.step_samples": law.samples_s.tolist(),
            "fleet": [],
        }
    )


# ---- what a person should know -----------------------------------------------------------------------


def _damage(folder: Path, log: _Log) -> list[str]:
    lost = damaged_lines(folder) + log.left_out
    return [f"{lost} lines of {EVENTS} cannot be understood and are left out"] if lost else []


def _cut_off(seen: SeenSteps) -> list[str]:
    law, cut = seen.law, int((~seen.ended).sum())
    if not cut:
        return []
    told = f"{cut} of {len(seen.ended)} attempts were cut off and count as longer than they had time (Kaplan–Meier)"
    if not law.unseen_share:
        return [told]
    return [
        f"{told}; too little was seen of steps longer than {law.seen_up_to_s:.3g} s, {law.unseen_share:.0%} of all:"
        " from there on the law is exponential"
    ]


def _classes(scenario: Scenario) -> list[str]:
    if not scenario.fleet:
        return []
    return [f"A base station does not see classes: the {len(scenario.fleet)} of the scenario have one law here"]
