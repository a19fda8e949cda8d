"""Plans by name, as the command line and sweeps have them.

mobfl        the planner's H and T
adaptive     H and T that follow the traffic, from the planner's on; with settings adaptive:memory_s=600,worth=0.05
H,T          two numbers. For H also `best` or `epoch`, one pass over a vehicle's samples; for T also `best`, `T0`, the
             time on the section, or `T0/2`. What is `best` maximises g for the other number.
wait-for-all, fedasync, fedbuff
             other servers, with the planner's H or another: fedasync:24, fedasync:24,mixing=0.3, fedbuff:epoch
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from mobfl import theory
from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.planning.planner import best_round_s, plan, refuse_noise
from mobfl.planning.plans import Plan
from mobfl.planning.search import Tried, best_steps
from mobfl.planning.trace import Trace, best_round_on_trace
from mobfl.policies.adaptive.controller import Settings
from mobfl.scenario import MOST, MOST_STEPS, Scenario
from mobfl.servers.adaptive import AdaptiveRounds
from mobfl.servers.fedasync import FedAsync
from mobfl.servers.fedbuff import FedBuff
from mobfl.servers.steps import Baseline
from mobfl.servers.wait_for_all import WaitForAll
from mobfl.theory import Conditions, Delays

AnyPlan: TypeAlias = Plan | tuple[int, float] | Baseline

_BASELINES = {server.name: server for server in (WaitForAll, FedAsync, FedBuff)}
_SHARES_OF_STAY = {"T0": 1.0, "T0/2": 0.5}


def resolve_plan(text: str, scenario: Scenario, crossings: Crossings | None = None) -> AnyPlan:
    """What a `Job` takes: a `Plan` where the planner chose T, (H, T) where T was given, or another server.

    Where nothing is feasible it is a `Plan` that says why.
    """
    road = _Road(scenario, crossings)
    name, _, rest = text.strip().partition(":")
    if name == AdaptiveRounds.name:
        return _adaptive(rest, scenario)
    if name in _BASELINES:
        return _baseline(name, rest, road)
    words = [word.strip() for word in text.split(",")]
    if words == ["mobfl"]:
        return road.best_plan()
    if len(words) == 2:
        return _planned(words[0], words[1], road)
    raise InputError(f"--plan must be mobfl, adaptive, H,T, {', '.join(_BASELINES)}, got {text!r}")


def plan_name(told: Mapping[str, Any]) -> str:
    """The other way: the plan of a run.json as `--plan` has it, T to four digits."""
    policy, h = told["policy"], told["local_steps"]
    if policy == "rounds":
        return f"{h},{told['round_s']:.4g}"
    given = [f"{key}={told[key]:g}" for key in told if key not in ("policy", "local_steps", "round_s")]
    return f"{policy}:" + ",".join([str(h)] * (policy != AdaptiveRounds.name) + given)


def _planned(h_word: str, t_word: str, road: "_Road") -> Plan | tuple[int, float]:
    try:
        h, t = _local_steps(h_word, road), _round_s(t_word, road)
    except ValueError:
        raise InputError(
            "--plan must be H,T with a whole H >= 1, best or epoch, and T > 0 s, best, T0 or T0/2,"
            f" both <= {MOST:g}, got '{h_word},{t_word}'"
        ) from None
    if h is None:
        return road.best_plan() if t is None else road.best_steps(t)
    return road.best_round(h) if t is None else (h, t)


def _local_steps(word: str, road: "_Road") -> int | None:
    """H; None for the best."""
    if word in ("best", "epoch"):
        return None if word == "best" else road.steps_per_epoch
    number = float(word)
    if not (1 <= number <= MOST_STEPS and number.is_integer()):
        raise ValueError(word)
    return int(number)


def _round_s(word: str, road: "_Road") -> float | None:
    """T; None for the best."""
    if word == "best":
        return None
    seconds = _SHARES_OF_STAY[word] * road.dwell_s if word in _SHARES_OF_STAY else float(word)
    if not 0 < seconds <= MOST:
        raise ValueError(word)
    return seconds


def _baseline(name: str, settings: str, road: "_Road") -> Plan | Baseline:
    server = _BASELINES[name]
    known = [field.name for field in fields(server) if field.name != "local_steps"]
    words = [word.strip() for word in settings.split(",")] if settings else []
    steps = words.pop(0) if words and "=" not in words[0] else "best"
    try:
        h = _local_steps(steps, road)
        parameters = dict(_parameter(word, known) for word in words)
    except ValueError:
        raise InputError(
            f"--plan {name} must go on with :H,NAME=NUMBER,… where H is whole and >= 1, best or epoch"
            f" and NAME is {' or '.join(known) or 'none'}, got {settings!r}"
        ) from None
    if h is None:
        best = road.best_plan()
        if best.reason is not None:
            return best
        h = best.numbers[0]
    return server(h, **parameters)


def _adaptive(settings: str, scenario: Scenario) -> Plan | Baseline:
    """Begins with the plan for the scenario, whatever was recorded: it sees the traffic only as it comes."""
    known = [field.name for field in fields(Settings)]
    try:
        parameters = dict(_parameter(word, known) for word in settings.split(",") if settings)
    except ValueError:
        rule = f":NAME=NUMBER,… where NAME is {' or '.join(known)}"
        raise InputError(f"--plan adaptive must go on with {rule}, got {settings!r}") from None
    first = plan(scenario)
    return first if first.reason is not None else AdaptiveRounds(scenario, Settings(**parameters))


def _parameter(word: str, known: list[str]) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    if name.strip() not in known:
        raise ValueError(word)
    number = float(value)
    return name.strip(), int(number) if number.is_integer() else number


@dataclass(frozen=True)
class _Road:
    """What is best for H and T: by Theorem 1, or on the recorded crossings."""

    scenario: Scenario
    crossings: Crossings | None

    @property
    def steps_per_epoch(self) -> int:
        """One pass over the samples of a vehicle in the middle of the range."""
        classes = self.scenario.classes
        held = sum(each.share * (each.training.least_samples + each.training.most_samples) for each in classes)
        return max(1, round(held / 2 / self.scenario.training.batch_size))

    @property
    def dwell_s(self) -> float:
        return self.scenario.dwell_s if self.crossings is None else float(self.crossings.dwell_s.mean())

    def best_plan(self) -> Plan:
        return plan(self.scenario, self.crossings)

    def best_round(self, local_steps: int) -> Plan:
        """With the best T for this H."""
        if self.crossings is not None:
            found = best_round_on_trace(self._trace, Conditions.of(self.scenario), local_steps)
        elif theory.fits(self.scenario, local_steps):
            found = Plan.at(self.scenario, local_steps, float(best_round_s(self.scenario, local_steps)))
        else:
            found = Plan("infeasible")
        return found if found.objective else self._too_long(local_steps, self._longest_stay_s)

    def best_steps(self, round_s: float) -> Plan | tuple[int, float]:
        """With the best H for this T."""
        most = max(1, int(self._longest_stay_s / Delays.of(self.scenario).min_step_s))
        h, objective = best_count(lambda h: self._objective(h, round_s), most)
        return (h, round_s) if objective > 0 else self._too_long(1, min(round_s, self._longest_stay_s))

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

    def _too_long(self, local_steps: int, longest_s: float) -> Plan:
        needed_s = float(theory.min_delay_s(self.scenario, local_steps))
        return Plan(
            "infeasible",
            reason=f"H = {local_steps} with both transfers takes at least {needed_s:.3g} s and nobody has more than"
            f" {longest_s:.3g} s for it: take fewer steps, a longer round or a longer section",
        )


def best_count(objective: Callable[[int], float], most: int) -> tuple[int, float]:
    """The H from 1 to `most` that maximises g(H, T) for one T, and that g; the smaller of two equal ones.

    There g/H = (1 − P0)/T never rises with H.
    """
    best = best_steps(lambda h: Tried(g := objective(h), g), most)
    return best.local_steps or 1, best.found
