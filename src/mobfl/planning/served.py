"""One recording as the goals of several stations see it: who is where, who is from where, what excludes what."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mobfl.mobility.crossings import Crossings
from mobfl.planning.goals import DistrictsHeard, MostSteps, MostVehicles
from mobfl.planning.greedy import Excluded
from mobfl.planning.heard import log_unheard_over_time, shared_seconds, unheard_chances
from mobfl.planning.plans import Plan
from mobfl.planning.trace import Trace
from mobfl.scenario import Scenario
from mobfl.theory import Conditions

Array = NDArray[np.float64]
GoalName = Literal["steps", "vehicles", "districts"]
GOALS: tuple[GoalName, ...] = ("steps", "vehicles", "districts")

SHARED = 0.01  # of the smaller section's time; samples of positions do not tell less
FEWEST_OF_DISTRICT = 10  # vehicles; who begins elsewhere counts nowhere
HORIZON_S = 600.0
_STARTS, _TIMES = 24, 100
_HORIZONS = 3  # of which the recording must have room for


@dataclass(frozen=True)
class Served:
    """Crossings of candidate sections and, for the goal "districts", of areas that cover the map."""

    scenario: Scenario
    crossings: Mapping[str, Crossings]
    areas: Mapping[str, Crossings]
    given_horizon_s: float | None = None
    window_s: tuple[float, float] | None = None  # if not while all was observed

    def trace(self, name: str) -> Trace:
        """A section's crossings, judged over the whole recording: one that is busy for a minute is worth a minute."""
        return Trace(self.crossings[name], self.scenario.traffic.participation, self.observed_s)

    def goal(self, name: GoalName, plans: Mapping[str, Plan]) -> MostSteps | MostVehicles | DistrictsHeard:
        """What stations with these plans are worth, in the order of the plans."""
        if name == "steps":
            return MostSteps(np.array([each.numbers[2] for each in plans.values()]))
        return self._most_vehicles(plans) if name == "vehicles" else self._districts_heard(plans)

    def only(self, names: Iterable[str]) -> "Served":
        """With some of the sections, over the same time."""
        return replace(self, crossings={name: self.crossings[name] for name in names}, window_s=self.observed_s)

    def excluded(self) -> Excluded:
        """Which sections vehicles are in at once."""
        sizes = [len(each) for each in self.crossings.values()]
        vehicle, enter, leave = _together(self.crossings.values())
        section, order = np.repeat(np.arange(len(sizes)), sizes), np.lexsort((enter, vehicle))
        shared = shared_seconds(vehicle[order], section[order], enter[order], leave[order], len(sizes))
        total = np.array([each.dwell_s.sum() for each in self.crossings.values()])
        return np.asarray(shared > SHARED * np.minimum.outer(total, total))

    @property
    def horizon_s(self) -> float:
        start, end = self.observed_s
        return min(HORIZON_S, (end - start) / _HORIZONS) if self.given_horizon_s is None else self.given_horizon_s

    def _most_vehicles(self, plans: Mapping[str, Plan]) -> MostVehicles:
        from scipy.sparse import csr_array

        road, share, rows = Conditions.of(self.scenario), self.scenario.traffic.participation, []
        for name, each in plans.items():
            there, (h, t, _) = self.crossings[name], each.numbers
            who, row = np.unique(np.searchsorted(self._vehicles, there.vehicle_keys), return_inverse=True)
            rows.append((who, 1.0 - unheard_chances(there, row, len(who), road, share, (h, t))))
        first = np.append(0, np.cumsum([len(who) for who, _ in rows]))
        columns, data = (np.concatenate(column) for column in zip(*rows, strict=True))
        return MostVehicles(csr_array((data, columns, first), shape=(len(rows), len(self._vehicles))))

    def _districts_heard(self, plans: Mapping[str, Plan]) -> DistrictsHeard:
        road, share = Conditions.of(self.scenario), self.scenario.traffic.participation
        districts = len(self.origins.vehicles)
        start, end = self.observed_s
        starts, step_s = np.linspace(start, end - self.horizon_s, _STARTS), self.horizon_s / _TIMES
        logs = np.empty((len(plans), districts, _STARTS, _TIMES), np.float32)
        for i, (name, each) in enumerate(plans.items()):
            there, (h, t, _) = self.crossings[name], each.numbers
            district = self.origins.district_of(there)
            logs[i] = log_unheard_over_time(there, district, districts, road, share, (h, t), starts, step_s, _TIMES)
        return DistrictsHeard(logs, step_s)

    @cached_property
    def _vehicles(self) -> NDArray[np.uint64]:
        return np.unique(np.concatenate([each.vehicle_keys for each in self.crossings.values()]))

    @cached_property
    def observed_s(self) -> tuple[float, float]:
        """From when the first vehicle has left a section to when the last one enters one."""
        if self.window_s is not None:
            return self.window_s
        seen = [each.observed_s for each in self.crossings.values() if len(each)]
        return min(start for start, _ in seen), max(end for _, end in seen)

    @cached_property
    def origins(self) -> "Origins":
        return Origins.of(self.areas)


@dataclass(frozen=True)
class Origins:
    """Which district each vehicle is from: where it is seen first.

    Args:
        vehicles: How many begin in each district, by its name; areas in which few begin are none.
        known: The vehicles, in order.
        district: Of each the number of its district, −1 for none.
    """

    vehicles: dict[str, int]
    known: NDArray[np.uint64]
    district: NDArray[np.int64]

    @classmethod
    def of(cls, areas: Mapping[str, Crossings]) -> "Origins":
        vehicle, enter, _ = _together(areas.values())
        area = np.repeat(np.arange(len(areas)), [len(each) for each in areas.values()])
        order = np.lexsort((enter, vehicle))
        known, first = np.unique(vehicle[order], return_index=True)
        area = area[order][first]
        counts = np.bincount(area, minlength=len(areas))
        enough = counts >= FEWEST_OF_DISTRICT
        number = np.where(enough, np.cumsum(enough) - 1, -1)
        named = {name: int(n) for name, n, kept in zip(areas, counts, enough, strict=True) if kept}
        return cls(named, known, number[area])

    def district_of(self, there: Crossings) -> NDArray[np.int64]:
        """Of each row."""
        at = np.minimum(np.searchsorted(self.known, there.vehicle_keys), len(self.known) - 1)
        return np.where(self.known[at] == there.vehicle_keys, self.district[at], -1)


def _together(tables: Iterable[Crossings]) -> tuple[NDArray[np.uint64], Array, Array]:
    """The rows of all tables: vehicle, entering, leaving."""
    rows = [(each.vehicle_keys, each.enter_s, each.leave_s) for each in tables]
    vehicle, enter, leave = (np.concatenate(column) for column in zip(*rows, strict=True))
    return vehicle, enter, leave
