"""The rounds that the page lets pass: rows of the same code that `mobfl simulate` runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mobfl import theory
from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.mobility.crossings import COLUMNS, Crossings
from mobfl.mobility.poisson import poisson_crossings
from mobfl.planning.radio import in_seconds
from mobfl.rounds.air import Channel, delays_and_channel
from mobfl.rounds.kept_promises import delivered_objective
from mobfl.rounds.orders import Order
from mobfl.rounds.present_rates import present_bps
from mobfl.rounds.rows import Rounds, VehicleRows
from mobfl.rounds.rules import simulate_rounds
from mobfl.rounds.simulation import simulate
from mobfl.scenario import Scenario
from mobfl.theory import Delays

MOST_ROUNDS = 20_000  # from the start of the simulation
MOST_AT_ONCE = 200
_MOST_PRESENT = 400  # vehicles in a round that can still be told apart
_MOST_VEHICLES = 2_000_000
_LEAST_SHARE = 1e-4  # who waits for one vehicle in a million draws a million
_ROUNDS_PER_ORDER = 256  # so that memory does not grow with how far the simulation is
_PILOT_ROUNDS = 4000
_RATES = 16  # of an upload, told one after the other
_DELIVERED_ROUNDS, _DELIVERED_VEHICLES = 400, 20_000  # a radio takes far longer than constants


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
    policy, (delays, channel) = _InPortions(local_steps, round_s), delays_and_channel(scenario)
    rounds, rows = list[dict[str, Any]](), list[dict[str, Any]]()
    for block in simulate_rounds(traffic, policy, delays, seed, channel=channel):
        chosen = slice(*np.searchsorted(block.round, [first, first + count]))
        rounds += _round_rows(block, chosen)
        if block.vehicles is not None and len(block.round[chosen]):
            seen = block.vehicles.of_rounds(first, first + count)
            rows += _vehicle_rows(seen, delays, traffic, _on_air(seen, channel, seed, round_s, traffic))
        if block.round[-1] + 1 >= first + count:
            break
    expected = _expectation(scenario, local_steps, round_s, seed) if first == 0 else {}
    return plain({"rounds": rounds, "vehicles": rows, **expected})


def delivered(scenario: Scenario, local_steps: int, round_s: float) -> Any:
    """Λ and g of simulated rounds on the scenario's radio, each with its 95 % interval."""
    arriving = scenario.traffic.arrivals_per_s * scenario.traffic.participation * round_s
    rounds = int(np.clip(_DELIVERED_VEHICLES / arriving, 1, _DELIVERED_ROUNDS))
    simulated = simulate(scenario, local_steps, round_s, rounds)
    uploads, objective = simulated.mean_uploads, delivered_objective(simulated)
    return plain(
        {
            "rounds": simulated.rounds,
            "uploads": uploads.value,
            "uploads_interval": [uploads.low, uploads.high],
            "objective": objective.value,
            "objective_interval": [objective.low, objective.high],
        }
    )


def _round_rows(block: Rounds, chosen: slice) -> list[dict[str, Any]]:
    columns = zip(block.round[chosen], block.start_s[chosen], block.present[chosen], block.uploads[chosen], strict=True)
    return [dict(zip(("round", "start_s", "present", "uploads"), row, strict=True)) for row in columns]


def _vehicle_rows(
    rows: VehicleRows, delays: Delays, traffic: _Noted, on_air: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    enter, leave = traffic.times_of(rows.vehicle)
    return [
        {**row, **air, "enter_s": enter_s, "leave_s": leave_s}
        for row, air, enter_s, leave_s in zip(rows.to_dicts(delays), on_air, enter, leave, strict=True)
    ]


def _on_air(
    rows: VehicleRows, channel: Channel | None, seed: int, round_s: float, traffic: _Noted
) -> list[dict[str, Any]]:
    """Of every row: when its steps are done, the mean rate of its download, and the rates of its upload in turn."""
    if channel is None or rows.transfers is None:
        return [{} for _ in range(len(rows))]
    train_s, send_s = rows.transfers.train_s, rows.transfers.send_s
    uploads = present_bps(rows, channel, seed, *traffic.times_of(rows.vehicle), round_s, _RATES)
    with np.errstate(divide="ignore", invalid="ignore"):
        down = 8.0 * channel.download_bytes / (train_s - rows.begin_s)
    return [
        {
            "ready_s": float(train + compute) if train + compute <= end else None,
            "download_bps": _three_digits(bps) if np.isfinite(bps) else None,
            "upload_bps": [_three_digits(each) for each in rates] if send < end else None,
        }
        for train, compute, end, bps, rates, send in zip(
            train_s, rows.compute_s, rows.end_s, down, uploads, send_s, strict=True
        )
    ]


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _expectation(scenario: Scenario, local_steps: int, round_s: float, seed: int) -> dict[str, Any]:
    """Λ, and how far the mean over n rounds may be from it: ± reach/√n in 95 of 100 simulations.

    Neighbouring rounds share vehicles, so the reach comes from simulated rounds of another seed. With a radio Λ is that
    of mean times, around which rounds need not be at all.
    """
    if scenario.radio is not None:
        times = theory.mean_transfers(scenario, local_steps, round_s)
        uploads, _, _ = theory.promise(in_seconds(scenario, times), local_steps, round_s)
        return {"expected_uploads": float(uploads), "reach": None}
    rate = scenario.traffic.arrivals_per_s
    rounds = int(np.clip(_MOST_VEHICLES / (rate * round_s), 1, _PILOT_ROUNDS))
    pilot = simulate(scenario, local_steps, round_s, rounds, seed + 1)
    reach = (pilot.mean_uploads.high - pilot.mean_uploads.low) / 2 * pilot.rounds**0.5
    return {"expected_uploads": pilot.expected_uploads, "reach": reach}


def _check_size(scenario: Scenario, round_s: float, rounds: int) -> None:
    """Raises where a browser could not draw, or we not wait for, what is asked."""
    longest_s, share = float(theory.stay(scenario).longest), scenario.traffic.participation
    if share < _LEAST_SHARE:
        raise InputError(f"traffic.participation must be >= {_LEAST_SHARE:g} to be drawn, got {share:g}")
    present = scenario.traffic.arrivals_per_s * share * (round_s + longest_s)
    if present > _MOST_PRESENT:
        raise InputError(
            f"a round must have at most {_MOST_PRESENT} vehicles to be drawn, got about {present:.0f}:"
            " lower traffic.arrivals_per_s or traffic.participation, or shorten road.length_m"
        )
    vehicles = scenario.traffic.arrivals_per_s * (longest_s + rounds * round_s)
    if vehicles > _MOST_VEHICLES:
        raise InputError(
            f"the simulation must have at most {_MOST_VEHICLES} vehicles to be drawn, got about {vehicles:.3g}:"
            " begin again"
        )
