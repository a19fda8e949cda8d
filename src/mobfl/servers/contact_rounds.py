"""Rounds of T seconds in which not everybody takes part, or not everybody takes H steps.

With a selection, those who are there as a round begins are chosen from; who comes later waits for the next one.
Without, everybody takes part and later ones start on arrival. A vehicle takes H steps, or as many as fit before the
round ends or it is expected to leave, or at most H of them. Where the uplink carries one upload at a time, whoever is
ready first sends first.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mobfl.errors import PartError
from mobfl.rng import stream, uniform, vehicle_key
from mobfl.servers.arrivals import Arrivals
from mobfl.servers.efforts import Efforts
from mobfl.servers.leaving import Leaving
from mobfl.servers.selections import Candidate, RoundAhead, Seen, Selection
from mobfl.servers.site import Site, Vehicle
from mobfl.servers.steps import Contribution, Effort, ServerStep


class _Training(NamedTuple):
    """One vehicle's in a round."""

    vehicle: Vehicle
    attempt: int
    begin_s: float
    local_steps: int
    compute_s: float
    stop_s: float  # when the round ends or the vehicle leaves
    ready_s: float  # to upload


@dataclass(frozen=True)
class ContactRounds:
    """Rounds of T seconds with a selection, or with trainings that end early."""

    makes_stale: ClassVar[bool] = False

    name: str
    local_steps: int | None  # H; None for as many as fit
    round_s: float
    leaving: Leaving
    ends_early: bool = False  # H steps at most, fewer if no more fit
    selection: Selection | None = None
    selection_words: tuple[tuple[str, Any], ...] = ()  # its name and parameters

    @property
    def rule(self) -> str:
        return "clip+cap+mean" if self.local_steps and not self.ends_early else "clip+cap+steps"

    @property
    def least(self) -> str:
        return f"one round of {self.round_s:g} s"

    def describe(self) -> dict[str, Any]:
        known = {**dict(self.selection_words), **self.leaving.describe()}
        return {"policy": self.name, "local_steps": self.local_steps, "round_s": self.round_s, **known}

    def steps(self, site: Site) -> Iterator[ServerStep]:
        arrivals, there, attempts = Arrivals(site.vehicles()), list[Vehicle](), Counter[int]()
        leaves_s = self.leaving.on(site)
        chooser = None if self.selection is None else _Chooser(self.selection, self, site, leaves_s)
        for number in count():
            start_s, end_s = number * self.round_s, (number + 1) * self.round_s
            there = [*(each for each in there if each.can_begin_at(start_s)), *arrivals.before(end_s)]
            taking_part = there if chooser is None else chooser.chosen(number, start_s, there)
            trainings = [
                training
                for each in taking_part
                if (training := self._training(site, each, attempts[each.order], start_s, end_s, leaves_s(each)))
            ]
            attempts.update(training.vehicle.order for training in trainings)
            uploads, effort = self._sent(site, number, trainings)
            if chooser is not None:
                chooser.note({each.key for each in uploads})
            longest = self.local_steps if not self._varies else max((u.local_steps for u in uploads), default=0)
            yield ServerStep(number, start_s, end_s, longest or 0, len(there), tuple(uploads), effort=effort)

    @property
    def _varies(self) -> bool:
        return self.local_steps is None or self.ends_early

    def _training(
        self, site: Site, vehicle: Vehicle, attempt: int, start_s: float, end_s: float, leaves_s: float
    ) -> _Training | None:
        """None if not a single step fits where a vehicle minds what fits."""
        begin_s = max(vehicle.enter_s, start_s)
        if self._varies:
            fitting, step_s = site.fitting_steps(vehicle, attempt, begin_s, min(end_s, leaves_s))
            steps = fitting if self.local_steps is None else min(fitting, self.local_steps)
            compute_s = steps * step_s
        else:
            steps = self.local_steps or 0
            compute_s = site.delay_s(vehicle, attempt, steps) - site.delays.transfer_s
        ready_s = begin_s + site.delays.download_s + compute_s
        stop_s = min(vehicle.leave_s, end_s)
        return _Training(vehicle, attempt, begin_s, steps, compute_s, stop_s, ready_s) if steps else None

    def _sent(self, site: Site, number: int, trainings: Sequence[_Training]) -> tuple[list[Contribution], Effort]:
        """The uploads that are complete in time, in the order of entering, and what all trainings took."""
        efforts, uploads = Efforts(site.delays.download_s), dict[int, Contribution]()
        for (vehicle, attempt, begin_s, steps, compute_s, stop_s, ready_s), send_s in self._turns(site, trainings):
            efforts.book(begin_s, compute_s, stop_s, vehicle.rounding_s, send_s - ready_s)
            done_s = send_s + site.delays.upload_s
            if done_s <= stop_s + vehicle.rounding_s:
                uploads[vehicle.order] = Contribution(
                    vehicle.key, attempt, number, begin_s, steps, compute_s=compute_s, upload_s=done_s - ready_s
                )
        return [upload for _, upload in sorted(uploads.items())], efforts.until(inf)

    def _turns(self, site: Site, trainings: Sequence[_Training]) -> Iterator[tuple[_Training, float]]:
        """When each begins to upload: as it is ready, or in turn, those who are ready at once in the order given."""
        one_at_a_time, free_s = bool(getattr(self.selection, "one_upload_at_a_time", False)), 0.0
        for each in sorted(trainings, key=lambda one: one.ready_s):
            send_s = max(each.ready_s, free_s) if one_at_a_time else each.ready_s
            if send_s <= each.stop_s:
                free_s = min(send_s + site.delays.upload_s, each.stop_s)
            yield each, send_s


class _Chooser:
    """Asks a selection who takes part, round after round of one run."""

    def __init__(
        self, selection: Selection, rounds: ContactRounds, site: Site, leaves_s: Callable[[Vehicle], float]
    ) -> None:
        self._selection, self._rounds, self._site, self._leaves_s = selection, rounds, site, leaves_s
        self._draws = stream(site.seed, "selection")
        self._asked = list[Candidate]()
        self._seen: Seen | None = None

    def chosen(self, number: int, start_s: float, there: Sequence[Vehicle]) -> list[Vehicle]:
        """Of those who are there as the round begins, in the order of the selection."""
        delays, rounds = self._site.delays, self._rounds
        ahead = RoundAhead(number, rounds.round_s, rounds.local_steps, delays.download_s, delays.upload_s)
        by_key = {int(each.key): each for each in there if each.enter_s <= start_s}
        candidates = [self._candidate(each, number, start_s) for each in by_key.values()]
        self._asked = list(self._selection.choose(candidates, ahead, self._seen))
        keys = [int(each.key) for each in self._asked]
        if len(set(keys)) < len(keys) or not set(keys) <= by_key.keys():
            name = type(self._selection).__name__
            raise PartError(f"selection {name} must choose each once of those who are there, got {keys}")
        return [by_key[key] for key in keys]

    def note(self, uploaded: set[np.uint64]) -> None:
        self._seen = [(each, each.key in uploaded) for each in self._asked]

    def _candidate(self, vehicle: Vehicle, number: int, start_s: float) -> Candidate:
        place = int(self._site.draws.classes(np.array([vehicle.key]))[0])
        steps = self._site.delays.classes[place]
        mean_s = (self._rounds.local_steps or 1) * float(steps.min_step_s + steps.extra_step_s)
        draw = float(uniform(np.uint64(vehicle_key(self._draws, vehicle.key)), number))
        left_s = self._leaves_s(vehicle) - start_s
        return Candidate(vehicle.key, start_s - vehicle.enter_s, left_s, mean_s, place, draw)
