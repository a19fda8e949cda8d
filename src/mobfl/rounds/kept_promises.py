"""What the quick plan promises of a road with a radio, beside what simulated rounds deliver, over how busy it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mobfl.errors import InputError
from mobfl.planning.plans import Plan
from mobfl.planning.radio import plan_quickly
from mobfl.rounds.estimates import Estimate
from mobfl.rounds.simulation import Simulation, simulate
from mobfl.scenario import Scenario


@dataclass(frozen=True)
class KeptPromise:
    """A plan for so many arrivals, and rounds with its H and T; no rounds where there is no plan."""

    arrivals_per_s: float
    plan: Plan
    rounds: Simulation | None

    @property
    def promised_empty_prob(self) -> float | None:
        return None if self.rounds is None else self.rounds.expected_empty_prob

    @property
    def promised_objective(self) -> float | None:
        return None if self.rounds is None else self.plan.objective

    @property
    def objective(self) -> Estimate | None:
        """g as it was delivered: H/T times the share of rounds that got an upload."""
        return None if self.rounds is None else delivered_objective(self.rounds)

    def to_dict(self) -> dict[str, Any]:
        told = {"arrivals_per_s": self.arrivals_per_s, "plan": self.plan.to_dict()}
        if self.rounds is None:
            return told
        empty, objective = self.rounds.empty_prob, delivered_objective(self.rounds)
        return told | {
            "promised_empty_prob": self.promised_empty_prob,
            "empty_prob": empty.value,
            "empty_prob_interval": [empty.low, empty.high],
            "promised_objective": self.promised_objective,
            "objective": objective.value,
            "objective_interval": [objective.low, objective.high],
            "rounds": self.rounds.rounds,
            "mean_uploads": self.rounds.mean_uploads.value,
        }


def delivered_objective(simulation: Simulation) -> Estimate:
    """Local steps per second in rounds that got an upload, with the interval of their share."""
    steps_per_s, empty = simulation.local_steps / simulation.round_s, simulation.empty_prob
    return Estimate(*(steps_per_s * (1 - each) for each in (empty.value, empty.high, empty.low)))


def kept_promises(
    scenario: Scenario,
    arrivals_per_s: Sequence[float],
    rounds: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> list[KeptPromise]:
    """The quick plan for every number of arrivals, and rounds with it.

    Args:
        scenario: With a radio and the link's sizes.
        arrivals_per_s: Each takes the place of the scenario's own.
        rounds: How many are simulated with each plan; at least two, or there is no interval.
        seed: The same seed draws the same vehicles.
        progress: Told how many plans are done.
    """
    if rounds < _FEWEST_ROUNDS:
        raise InputError(f"rounds must be >= {_FEWEST_ROUNDS}, got {rounds}")
    found = list[KeptPromise]()
    for rate in arrivals_per_s:
        found.append(_kept(scenario.with_values({"traffic.arrivals_per_s": rate}), rounds, seed))
        progress(len(found))
    return found


_FEWEST_ROUNDS = 20  # batches of rounds that share vehicles; fewer have no interval


def _kept(scenario: Scenario, rounds: int, seed: int) -> KeptPromise:
    plan = plan_quickly(scenario)
    simulated = None if plan.reason is not None else simulate(scenario, *plan.numbers[:2], rounds, seed)
    return KeptPromise(scenario.traffic.arrivals_per_s, plan, simulated)
