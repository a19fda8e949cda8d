"""Simulation of a plan by its name; `rounds.simulation` runs the rounds once H and T are known."""

from typing import overload

from mobfl.errors import InputError, shown
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.given import AnyCrossings, crossings_given
from mobfl.progress import Progress, following
from mobfl.rounds.anytime import AnytimeSimulation
from mobfl.rounds.orders import AsManyAsFit, FixedPlan, Steps
from mobfl.rounds.simulation import Simulation
from mobfl.rounds.simulation import simulate as simulate_rounds_of
from mobfl.scenario import AnyScenario, Scenario, scenario_of
from mobfl.servers.anytime import needs_tracks
from mobfl.servers.names import AnyPlan, server_of

_ROUNDS = 10_000


@overload
def simulate(
    scenario: AnyScenario, local_steps: int, round_s: float, rounds: int = ...,
    seed: int = 0, crossings: AnyCrossings | None = None, progress: Progress[int] = False,
) -> Simulation: ...  # fmt: skip


@overload
def simulate(
    scenario: AnyScenario, local_steps: AsManyAsFit, round_s: float, rounds: int = ...,
    seed: int = 0, crossings: AnyCrossings | None = None, progress: Progress[int] = False,
) -> AnytimeSimulation: ...  # fmt: skip


@overload
def simulate(
    scenario: AnyScenario = ..., local_steps: None = None, round_s: None = None, rounds: int = ...,
    seed: int = 0, crossings: AnyCrossings | None = None, progress: Progress[int] = False, *, plan: AnyPlan = ...,
) -> Simulation | AnytimeSimulation: ...  # fmt: skip


def simulate(
    scenario: AnyScenario = "paper",
    local_steps: Steps | None = None,
    round_s: float | None = None,
    rounds: int = _ROUNDS,
    seed: int = 0,
    crossings: AnyCrossings | None = None,
    progress: Progress[int] = False,
    *,
    plan: AnyPlan = "mobfl",
) -> Simulation | AnytimeSimulation:
    """So many rounds of one plan, on Poisson traffic or on recorded crossings for as long as they last.

    The plan is H and T, or `plan` where neither is given.

    Args:
        scenario: The road, its traffic and its delays: a `Scenario`, a packaged one's name, a file or tables.
        local_steps: H, the local steps that a vehicle takes in a round, or `AsManyAsFit()` for anytime rounds.
        round_s: T, the length of a round in seconds.
        rounds: How many rounds; a shorter trace is used as a whole.
        seed: The same seed draws the same vehicles and delays.
        crossings: Recorded traffic, its file, or what `--traffic` takes; without it, Poisson arrivals as the scenario
            says.
        progress: True shows how far it is; a function is told how many rounds are done.
        plan: What `--plan` takes, or a `Plan`: rounds of one T.
    """
    road = scenario_of(scenario)
    seen = crossings_given(crossings, road, seed, isinstance(plan, str) and needs_tracks(plan, road))
    if local_steps is None and round_s is None:
        local_steps, round_s = _steps_and_round(plan, road, seen)
    if local_steps is None or round_s is None:
        missing = "local_steps" if local_steps is None else "round_s"
        raise InputError(f"{missing} must be given with the other of H and T, or neither of them, got none")
    with following(progress, "simulating", rounds, lambda done: (done, "")) as tell:
        return simulate_rounds_of(road, local_steps, round_s, rounds, seed, seen, tell)


def _steps_and_round(plan: AnyPlan, scenario: Scenario, crossings: Crossings | None) -> tuple[Steps, float]:
    policy = getattr(server_of(plan, None, scenario, crossings).schedule, "policy", None)
    if not isinstance(policy, FixedPlan):
        raise InputError(f"plan must be H,T, mobfl or anytime to be simulated, got {shown(plan)}")
    return policy.local_steps, policy.round_s
