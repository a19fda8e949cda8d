"""What a vehicle draws: its class once, and the time of its local steps at every attempt.

Simulated rounds, other servers' schedules and deployed trainers draw here, so the same vehicle takes the same time in
all of them.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl.rng import classes_of, exponential, normal, stream, uniform, vehicle_keys
from mobfl.rounds.fitting import Fitting
from mobfl.rounds.orders import AsManyAsFit, Steps
from mobfl.theory.delays import EXPONENTIAL, LOGNORMAL, Delays, StepLaws

Keys = NDArray[np.uint64]
_NOBODY = np.empty(0, np.uint64)


class Owners:
    """Whose visit each is: a vehicle that returns, or passes several stations, is of one class and holds one set of
    samples, while the times of its local steps and its batches belong to the visit.
    """

    def __init__(self, visits: Keys = _NOBODY, vehicles: Keys = _NOBODY) -> None:
        differ = np.flatnonzero(visits != vehicles)
        order = differ[np.argsort(visits[differ])]
        self._visits, self._vehicles = visits[order], vehicles[order]

    def items(self) -> list[tuple[int, int]]:
        """The visits that are not a vehicle's first and only one, with their vehicles."""
        return list(zip(self._visits.tolist(), self._vehicles.tolist(), strict=True))

    def of(self, keys: Keys) -> Keys:
        """The keys of the vehicles whose visits have these; of a first visit, and of a vehicle, its own."""
        if not len(self._visits):
            return keys
        places = np.minimum(np.searchsorted(self._visits, keys), len(self._visits) - 1)
        return np.where(self._visits[places] == keys, self._vehicles[places], keys)


class Draws:
    """The draws of one seed on a road with these delays."""

    def __init__(self, delays: Delays, seed: int, owners: Owners | None = None) -> None:
        self.delays, self.seed, self.owners = delays, seed, owners or Owners()
        self._compute, self._class = stream(seed, "compute"), stream(seed, "class")
        self._leaving = stream(seed, "predicted leaving")
        self._shares = [each.share for each in delays.classes]
        self._laws = dict[int, StepLaws]()

    def keys(self, crossings: Keys) -> Keys:
        """What all draws of these vehicles on these visits are addressed by."""
        return vehicle_keys(self._compute, crossings)

    def classes(self, keys: Keys) -> NDArray[np.int8]:
        """The places among the fleet's classes of the vehicles whose visits have these keys."""
        return classes_of(self._class, self.owners.of(keys), self._shares)

    def laws(self, local_steps: int) -> StepLaws:
        if local_steps not in self._laws:
            self._laws[local_steps] = self.delays.laws(local_steps)
        return self._laws[local_steps]

    def delays_of(self, asked: Steps) -> tuple[float, StepLaws]:
        """Both transfers, and the time of H steps; of one where as many are taken as fit."""
        return float(self.delays.transfer_s), self.laws(1 if isinstance(asked, AsManyAsFit) else asked)

    def fitting(self, asked: Steps) -> Fitting | None:
        """What a vehicle knows that takes as many steps as fit; None if all take H."""
        return Fitting.of(asked, self._leaving) if isinstance(asked, AsManyAsFit) else None

    def delay_s(self, key: np.uint64, attempt: int, local_steps: int) -> float:
        """S: from the download's beginning to the upload's end."""
        return self.delays.transfer_s + self._compute_s(key, attempt, local_steps)

    def step_s(self, key: np.uint64, attempt: int) -> float:
        """One local step; in one attempt all take as long."""
        return self._compute_s(key, attempt, 1)

    def _compute_s(self, key: np.uint64, attempt: int, local_steps: int) -> float:
        place = self.classes(np.array([key]))[0] if len(self._shares) > 1 else 0
        return float(compute_s(self.laws(local_steps), place, key, attempt))


@njit(cache=True)
def compute_s(laws, place, key, attempt):
    """The seconds of H local steps on a vehicle of the class at `place`."""
    if laws.law[place] == EXPONENTIAL:
        return exponential_s(laws.least_s[place], laws.extra_s[place], key, attempt)
    return other_law_s(laws, place, key, attempt)


@njit(inline="always", cache=True)
def exponential_s(least_s, extra_s, key, attempt):
    """The paper's law, apart from the others: in the loop over all vehicles it must be quick."""
    return least_s + extra_s * exponential(key, attempt)


@njit(cache=True)
def other_law_s(laws, place, key, attempt):
    least_s = laws.least_s[place]
    if laws.law[place] == LOGNORMAL:
        return least_s + math.exp(laws.mu[place] + laws.sigma[place] * normal(key, attempt))
    first, stop = laws.first[place], laws.first[place + 1]
    return least_s + laws.samples_s[first + np.int64(math.ceil(uniform(key, attempt) * (stop - first))) - 1]
