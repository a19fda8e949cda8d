"""Who is heard and how often, class by class."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mobfl import theory
from mobfl.rounds.rows import Outcome, VehicleRows
from mobfl.theory import Conditions

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class ClassResult:
    """One class of vehicles in simulated rounds; a visit is one vehicle's passing by."""

    name: str
    visits: int
    heard: float  # the share of visits with at least one upload
    uploads_per_visit: float
    expected_heard: float | None = None  # by the theory, on Poisson traffic
    expected_uploads_per_visit: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class ClassCounts:
    """Visits, uploads and heard visits of every class, over blocks of rounds one after the other."""

    def __init__(self, classes: int) -> None:
        self._counts, self._steps = np.zeros((3, classes), np.int64), np.zeros(classes)
        self._heard = np.empty(0, np.uint64)  # of those who may still be there

    def add(self, rows: VehicleRows) -> None:
        if not len(rows):
            return
        uploaded = rows.outcome == Outcome.UPLOADED
        new, first = np.unique(rows.key[uploaded], return_index=True)
        newly = ~np.isin(new, self._heard)
        kinds = rows.vehicle_class[rows.attempt == 0], rows.vehicle_class[uploaded]
        heard = rows.vehicle_class[uploaded][first[newly]]
        self._counts += [np.bincount(each, minlength=self._counts.shape[1]) for each in (*kinds, heard)]
        self._steps += np.bincount(kinds[1], rows.steps[uploaded], self._counts.shape[1])
        there = rows.key[rows.round == rows.round[-1]]
        self._heard = np.intersect1d(np.append(self._heard, new), there)

    def results(self, names: list[str]) -> list[ClassResult]:
        rows = zip(names, *self._counts.tolist(), strict=True)
        return [
            ClassResult(name, visits, heard / max(visits, 1), uploads / max(visits, 1))
            for name, visits, uploads, heard in rows
        ]

    @property
    def steps_per_visit(self) -> NDArray[np.float64]:
        """The local steps that a visit's uploads bring, on average."""
        return self._steps / np.maximum(self._counts[0], 1)


def promised(road: Conditions, local_steps: int, round_s: float) -> list[tuple[float, float]]:
    """The share of a class's visits that are heard, and its uploads per visit: Λ over the λT who come in a round."""
    heard = theory.contributing_visits_by_class(road, local_steps, round_s)
    uploads = theory.uploads_by_class(road, local_steps, round_s)
    arrivals = [each.share * road.arrivals_per_s * round_s for each in road.delays.classes]
    return [(h, u / a) for h, u, a in zip(heard, uploads, arrivals, strict=True)]
