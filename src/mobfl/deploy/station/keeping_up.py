"""Whether the machines kept up with the road: rounds that ended late, and uploads that were due and did not come.

Where delays are imposed it is known who should have uploaded when: the vehicles on the road draw the same delays in
simulation. What is missing then is lost to machines that were too slow, not to the road.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import numpy as np

from mobfl.deploy.events import Event
from mobfl.deploy.local.fleet import Visit, visits_of
from mobfl.deploy.settings import Deployment
from mobfl.deploy.station.settling import policy_of
from mobfl.rounds import alone
from mobfl.rounds.draws import Draws
from mobfl.rounds.orders import AsManyAsFit, Steps
from mobfl.runs.history import Row
from mobfl.runs.job import Job

_MISSED_S = 0.25  # a delay that was missed by less is jitter
_LATE_S = 0.5  # so is the end of a round
_LOST_SHARE = 0.1  # of the uploads that were due: near a deadline jitter decides about some
_LEAST_LOST = 2


class DueUploads:
    """Those that simulation has, round by round in their order."""

    def __init__(self, visits: Iterable[Visit], draws: Draws) -> None:
        self._visits, self._draws, self._attempts = list(visits), draws, Counter[int]()

    def in_round(self, start_s: float, end_s: float, asked: Steps) -> int:
        """How many, on the traffic's clock."""
        there = [visit for visit in self._visits if visit.enter_s < end_s and visit.leave_s > start_s]
        self._visits = [visit for visit in self._visits if visit.leave_s > start_s]
        return sum(self._is_due(visit, start_s, end_s, asked) for visit in there)

    def _is_due(self, visit: Visit, start_s: float, end_s: float, asked: Steps) -> bool:
        key, attempt = self._draws.keys(np.array([visit.key], np.uint64))[0], self._attempts[visit.key]
        self._attempts[visit.key] += 1
        begin_s = max(visit.enter_s, start_s)
        if not isinstance(asked, AsManyAsFit):
            return begin_s + self._draws.delay_s(key, attempt, asked) <= min(visit.leave_s, end_s)
        stay = alone.Visit(visit.since_s, visit.leave_s)
        window_s = alone.window_s(self._draws, asked, key, begin_s, end_s, stay)
        taken = alone.steps_that_fit(self._draws, key, attempt, begin_s, window_s)
        return taken.steps > 0 and begin_s + taken.delay_s <= visit.leave_s


class KeepingUp:
    """Counts as rounds end; told of rounds that were run before it knows them too."""

    def __init__(self, due: DueUploads | None, start_s: float, scale: float, asked: AsManyAsFit | None = None) -> None:
        self._due, self._start_s, self._scale, self._asked = due, start_s, scale, asked
        self._rounds = self._due_uploads = self._uploads = 0
        self._behind_s, self._overshoot_s = list[float](), list[float]()

    @classmethod
    def of(cls, deployment: Deployment, job: Job, scale: float) -> "KeepingUp":
        """Who is on the road is known where vehicles are simulated."""
        known = deployment.impose and deployment.vehicles is not None
        due = DueUploads(visits_of(job.site, deployment.vehicles or 1)[0], job.site.draws) if known else None
        asked = policy_of(job).next_order(None).local_steps
        return cls(due, job.site.start_s, scale, asked if isinstance(asked, AsManyAsFit) else None)

    def add(self, row: Row, behind_s: Iterable[float], overshoot_s: float) -> None:
        """What came of a round, answers that came too late included."""
        self._rounds += 1
        self._uploads += int(row["uploads"])
        if self._due is not None:
            span = self._start_s + row["start_s"], self._start_s + row["end_s"]
            self._due_uploads += self._due.in_round(*span, self._asked or int(row["local_steps"]))
        self._behind_s += [each for each in behind_s if each > _MISSED_S]
        self._overshoot_s += [overshoot_s] if overshoot_s > _LATE_S else []

    def remember(self, rows: Iterable[Row], events: Iterable[Event]) -> None:
        told = list(events)
        for number, row in enumerate(rows):
            of_round = [event for event in told if event["round"] == number]
            behind_s = [float(event["behind_s"]) for event in of_round if "behind_s" in event]
            self.add(row, behind_s, max((event.get("overshoot_s", 0.0) for event in of_round), default=0.0))

    def describe(self) -> Mapping[str, Any]:
        """For the results in run.json; wall-clock seconds."""
        return {
            "uploads_due": None if self._due is None else self._due_uploads,
            "uploads": self._uploads,
            "delays_missed": len(self._behind_s),
            "behind_s": {"median": median(self._behind_s), "most": max(self._behind_s)} if self._behind_s else None,
            "rounds_late": len(self._overshoot_s),
            "late_s": max(self._overshoot_s, default=0.0),
        }

    def notices(self) -> list[str]:
        """What a person should read before comparing the run with simulation."""
        return [sentence for sentence in (self._lost(), self._late()) if sentence is not None]

    def _lost(self) -> str | None:
        lost = self._due_uploads - self._uploads
        if self._due is None or lost < max(_LEAST_LOST, _LOST_SHARE * self._due_uploads):
            return None
        behind = f" (answers came up to {max(self._behind_s):.1f} s after their delay)" if self._behind_s else ""
        return (
            f"The machine did not keep up: {self._uploads} of {self._due_uploads} uploads that were due came in"
            f" time{behind}. Give every second of the road more time (--scale, now {self._scale:g}), or let fewer"
            " vehicles take part (--vehicles)."
        )

    def _late(self) -> str | None:
        if not self._overshoot_s:
            return None
        return (
            f"{len(self._overshoot_s)} of {self._rounds} rounds ended late, by up to {max(self._overshoot_s):.1f} s:"
            " the base station was too busy. Let fewer vehicles take part, or choose longer rounds."
        )
