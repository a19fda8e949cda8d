"""The rounds that the page lets pass: rows of the same code that `mobfl simulate` runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.mobility.crossings import COLUMNS, Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.orders import Order
from mobfl.rounds.rows import Rounds, VehicleRows
from mobfl.rounds.rules import simulate_rounds
from mobfl.rounds.simulation import simulate
from mobfl.scenario import Scenario
from mobfl.theory import Conditions, Delays

MOST_ROUNDS = 20_000  # from the start of the simulation
MOST_AT_ONCE = 200
_MOST_PRESENT = 400  # vehicles in a round that can still be told apart
_MOST_VEHICLES = 2_000_000
_LEAST_SHARE = 1e-4  # who waits for one vehicle in a million draws a million
_ROUNDS_PER_ORDER = 256  # so that memory does not grow with how far the simulation is
_PILOT_ROUNDS = 4000


@dataclass(frozen=True)
class _InPortions:
    """The same H and T for ever, so many rounds at a time."""

    local_steps: int
    round_s: float

    def next_order(self, seen: Rounds | None) -> Order:  # noqa: ARG002
        return Order(self.local_steps, self.round_s, _ROUNDS_PER_ORDER)


@dataclass
class _Noted:
    """Traffic that passes on, with the vehicles noted that are there after `since_s`."""

    traffic: Iterable[Crossings]
    since_s: float
    blocks: list[Crossings] = field(default_factory=list)

    def __iter__(self) -> Iterator[Crossings]:
        for block in self.traffic:
            self.blocks.append(block.take(block.leave_s > self.since_s))
            yield block

    def times_of(self, vehicles: Any) -> tuple[Any, Any]:
        """When these vehicles enter and leave; their numbers rise along the traffic."""
        number, enter, leave = (np.concatenate([getattr(block, name) for block in self.blocks]) for name in COLUMNS)
        at = np.searchsorted(number, vehicles)
        return enter[at], leave[at]


def passing_rounds(scenario: Scenario, local_steps: int, round_s: float, seed: int, first: int, count: int) -> Any:
    """Rounds `first` to `first + count` of a simulation: vehicles by stage, uploads per round; with the first Λ."""
    _check_size(scenario, round_s, first + count)
    traffic = _Noted(poisson_crossings(scenario, seed), first * round_s)
    policy = _InPortions(local_steps, round_s)
    rounds, rows = list[dict[str, Any]](), list[dict[str, Any]]()
    for block in simulate_rounds(traffic, policy, Delays.of(scenario), seed):
        chosen = slice(*np.searchsorted(block.round, [first, first + count]))
        rounds += _round_rows(block, chosen)
        if block.vehicles is not None and len(block.round[chosen]):
            rows += _vehicle_rows(block.vehicles.of_rounds(first, first + count), scenario, traffic)
        if block.round[-1] + 1 >= first + count:
            break
    expected = _expectation(scenario, local_steps, round_s, seed) if first == 0 else {}
    return plain({"rounds": rounds, "vehicles": rows, **expected})


def _round_rows(block: Rounds, chosen: slice) -> list[dict[str, Any]]:
    columns = zip(block.round[chosen], block.start_s[chosen], block.present[chosen], block.uploads[chosen], strict=True)
    return [dict(zip(("round", "start_s", "present", "uploads"), row, strict=True)) for row in columns]


def _vehicle_rows(rows: VehicleRows, scenario: Scenario, traffic: _Noted) -> list[dict[str, Any]]:
    enter, leave = traffic.times_of(rows.vehicle)
    return [
        {**row, "enter_s": enter_s, "leave_s": leave_s}
        for row, enter_s, leave_s in zip(rows.to_dicts(Delays.of(scenario)), enter, leave, strict=True)
    ]


def _expectation(scenario: Scenario, local_steps: int, round_s: float, seed: int) -> dict[str, Any]:
    """Λ, and how far the mean over n rounds may be from it: ± reach/√n in 95 of 100 simulations.

    Neighbouring rounds share vehicles, so the reach comes from simulated rounds of another seed.
    """
    rate = scenario.traffic.arrivals_per_s
    rounds = int(np.clip(_MOST_VEHICLES / (rate * round_s), 1, _PILOT_ROUNDS))
    pilot = simulate(scenario, local_steps, round_s, rounds, seed + 1)
    reach = (pilot.mean_uploads.high - pilot.mean_uploads.low) / 2 * pilot.rounds**0.5
    return {"expected_uploads": pilot.expected_uploads, "reach": reach}


def _check_size(scenario: Scenario, round_s: float, rounds: int) -> None:
    """Raises where a browser could not draw, or we not wait for, what is asked."""
    road, share = Conditions.of(scenario), scenario.traffic.participation
    if share < _LEAST_SHARE:
        raise InputError(f"traffic.participation must be >= {_LEAST_SHARE:g} to be drawn, got {share:g}")
    present = float(road.arrivals_per_s * (round_s + road.dwell.longest))
    if present > _MOST_PRESENT:
        raise InputError(
            f"a round must have at most {_MOST_PRESENT} vehicles to be drawn, got about {present:.0f}:"
            " lower traffic.arrivals_per_s or traffic.participation, or shorten road.length_m"
        )
    vehicles = scenario.traffic.arrivals_per_s * (float(road.dwell.longest) + rounds * round_s)
    if vehicles > _MOST_VEHICLES:
        raise InputError(
            f"the simulation must have at most {_MOST_VEHICLES} vehicles to be drawn, got about {vehicles:.3g}:"
            " begin again"
        )
