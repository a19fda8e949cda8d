"""What is best for H and T where a plan leaves one of them open: by Theorem 1, or on the recorded crossings."""

from dataclasses import dataclass

from mobfl import theory
from mobfl.errors import InfeasibleError, InputError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.at_least import LeastUploads
from mobfl.planning.planner import best_round_s, plan, refuse_noise
from mobfl.planning.plans import AnytimePlan, Plan
from mobfl.planning.search import best_count
from mobfl.planning.trace import Trace, best_round_on_trace
from mobfl.policies.falling import FallingSteps
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.planned import plan_by_simulation
from mobfl.scenario import MOST, MOST_STEPS, Scenario
from mobfl.servers.rounds import PlannedRounds
from mobfl.theory import Conditions, Delays, Knows

# A run does not depend on how sure its plan is.
_NOT_OF_THE_ROUNDS = {
    "status", "reason", "planner", "valid_round_prob_interval", "half_from_vehicles", "notices", "constant_plan"
}  # fmt: skip
_SHARES_OF_STAY = {"T0": 1.0, "T0/2": 0.5}


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is made for. A schedule or policy of your own is given it if it takes a `request`.

    Args:
        scenario: The road.
        crossings: Recorded traffic, if there is any.
    """

    scenario: Scenario
    crossings: Crossings | None = None

    @property
    def steps_per_epoch(self) -> int:
        """One pass over the samples of a vehicle in the middle of the range."""
        classes = self.scenario.classes
        held = sum(each.share * (each.training.least_samples + each.training.most_samples) for each in classes)
        return max(1, round(held / 2 / self.scenario.training.batch_size))

    @property
    def dwell_s(self) -> float:
        return self.scenario.dwell_s if self.crossings is None else float(self.crossings.stays_s.mean())

    def best_plan(self, least: LeastUploads | None = None) -> Plan:
        if self.scenario.radio is None:
            return _feasible(plan(self.scenario, self.crossings, least))
        if least is not None:
            raise InputError("plan mobfl:least counts on constant transfers, got a scenario with a radio")
        return _feasible(plan_by_simulation(self.scenario, crossings=self.crossings))

    def best_anytime(self, knows: Knows) -> AnytimePlan:
        """The best T of anytime rounds, feasible or not."""
        if self.scenario.radio is None:
            return plan_anytime(self.scenario, knows, self.crossings)
        return plan_by_simulation(self.scenario, crossings=self.crossings, anytime=knows)

    def best_round(self, local_steps: int) -> Plan:
        """With the best T for this H."""
        self._needs_constants()
        if self.crossings is not None:
            road = Conditions.of(self.scenario)
            if (reason := self._trace.too_short_for(road, local_steps)) is not None:
                raise InfeasibleError(reason)
            found = best_round_on_trace(self._trace, road, local_steps)
        elif theory.fits(self.scenario, local_steps):
            found = Plan.at(self.scenario, local_steps, float(best_round_s(self.scenario, local_steps)))
        else:
            found = Plan("infeasible")
        return found if found.objective else self._refuse(local_steps, self._longest_stay_s)

    def _needs_constants(self) -> None:
        if self.scenario.radio is not None:
            raise InputError(
                "plan must have both H and T, or be mobfl, where the scenario has a radio, got best for one of them"
            )

    def best_steps(self, round_s: float) -> tuple[int, float]:
        """With the best H for this T."""
        self._needs_constants()
        most = max(1, int(self._longest_stay_s / Delays.of(self.scenario).min_step_s))
        h, objective = best_count(lambda h: self._objective(h, round_s), most)
        if not objective > 0:
            self._refuse(1, min(round_s, self._longest_stay_s))
        return h, round_s

    def _objective(self, local_steps: int, round_s: float) -> float:
        if self.crossings is None:
            return float(theory.objective(self.scenario, local_steps, round_s))
        return self._trace.promise(Conditions.of(self.scenario), local_steps, round_s).numbers[2]

    @property
    def _trace(self) -> Trace:
        if self.crossings is None:
            raise ValueError("there are no crossings")
        refuse_noise(Conditions.of(self.scenario), "a plan from crossings")
        return Trace(self.crossings, self.scenario.traffic.participation)

    @property
    def _longest_stay_s(self) -> float:
        if self.crossings is None:
            return float(Conditions.of(self.scenario).dwell.longest)
        return float(self.crossings.dwell_s.max())

    def _refuse(self, local_steps: int, longest_s: float) -> Plan:
        needed_s = float(theory.min_delay_s(self.scenario, local_steps))
        raise InfeasibleError(
            f"H = {local_steps} with both transfers takes at least {needed_s:.3g} s and nobody has more than"
            f" {longest_s:.3g} s for it: take fewer steps, a longer round or a longer section"
        )


def _feasible(found: Plan) -> Plan:
    if found.reason is not None:
        raise InfeasibleError(found.reason)
    return found


def local_steps_of(word: str, request: PlanRequest) -> int | None:
    """H as it was written; None for the best."""
    if word in ("best", "epoch"):
        return None if word == "best" else request.steps_per_epoch
    number = float(word)
    if not (1 <= number <= MOST_STEPS and number.is_integer()):
        raise ValueError(word)
    return int(number)


def round_s_of(word: str, request: PlanRequest) -> float | None:
    """T as it was written; None for the best."""
    if word == "best":
        return None
    seconds = _SHARES_OF_STAY[word] * request.dwell_s if word in _SHARES_OF_STAY else float(word)
    if not 0 < seconds <= MOST:
        raise ValueError(word)
    return seconds


def rounds_of(found: Plan | tuple[int, float], request: PlanRequest) -> PlannedRounds:
    """Rounds of a plan that the planner chose, or of H and T that were given."""
    chosen = isinstance(found, Plan)
    if isinstance(found, Plan):
        h, t, _ = _feasible(found).numbers
        known = {key: value for key, value in found.to_dict().items() if key not in _NOT_OF_THE_ROUNDS}
        description = {"policy": "rounds", **known}
    else:
        h, t = found
        description = {"policy": "rounds", "local_steps": h, "round_s": t}
    FixedPlan(h, t)  # which checks them
    if request.scenario.training.falling_to == 1:
        return PlannedRounds(FixedPlan(h, t), description)
    return PlannedRounds(_falling(h, t, chosen and request.crossings is None, request), description)


def _falling(h: int, t: float, choose_t: bool, request: PlanRequest) -> FallingSteps:
    """A T that the planner chose is chosen again for every H; one that was given stays, as on recorded traffic."""
    training, crossings = request.scenario.training, request.crossings
    start_s, end_s = (0.0, float("inf")) if crossings is None else crossings.observed_s

    def round_s(local_steps: int) -> float:
        return float(best_round_s(request.scenario, local_steps)) if choose_t else t

    return FallingSteps(h, training.falling_to, start_s, min(training.duration_s, end_s - start_s), round_s)


def refuse_falling(scenario: Scenario, schedule: object) -> None:
    """H falls only in rounds of one H and T."""
    falling, name = scenario.training.falling_to, getattr(schedule, "name", "this plan")
    if falling < 1 and name != "rounds":
        raise InputError(f"training.falling_to must be 1 for {name}, got {falling:g}")
