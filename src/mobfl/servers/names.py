"""Plans by name, as the command line and sweeps have them.

mobfl        the planner's H and T; mobfl:least=5,prob=0.9 for rounds with at least five uploads in nine of ten
adaptive     H and T that follow the traffic, from the planner's on; with settings adaptive:memory_s=600,worth=0.05;
             adaptive:knows=nothing for anytime rounds whose T follows it
H,T          two numbers. For H also `best` or `epoch`, one pass over a vehicle's samples; for T also `best`, `T0`, the
             time on the section, or `T0/2`. What is `best` maximises g for the other number.
anytime      rounds in which every vehicle takes as many steps as fit, with the best T or another: anytime:8,
             anytime:8,knows=leaving
wait-for-all, async, mads
             other schedules, with the planner's H or another: async:24, async:24,uploads=10, wait-for-all:epoch
stay-aware   asynchronous, with as many steps as fit in every n-th of the stay: stay-aware:2, stay-aware:1,knows=mean
early        H,T rounds in which who is short of time uploads after fewer steps: early:24,11.8,knows=leaving
selected     H,T rounds for those whom a selection chooses: selected:24,11.8,by=fedcs, selected:fit,8,by=bandit,slots=2;
             `fit` for H lets them take as many steps as fit
fedasync, fedbuff
             shorthand for the schedule async with that rule: fedasync:24,mixing=0.3, fedbuff:24,buffer=10
MODULE:OBJECT, or a name that an installed package brings
             a schedule or a policy of one's own
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, fields
from typing import Any, TypeAlias

from mobfl.errors import InfeasibleError, InputError, MobflError, PartError, shown
from mobfl.learning.rules import GUARDED_MEAN, RULES, Chain, Rule, chain_of
from mobfl.mobility.crossings import Crossings
from mobfl.parts import Kind, Wish, said
from mobfl.planning.at_least import LeastUploads
from mobfl.planning.planner import plan
from mobfl.planning.plans import AnytimePlan, Plan
from mobfl.planning.radio import as_constants
from mobfl.policies.adaptive.choices import OneH, OnlyT
from mobfl.policies.adaptive.controller import Settings
from mobfl.policies.adaptive.policy import AdaptivePolicy
from mobfl.rounds.orders import AsManyAsFit, Order, Policy
from mobfl.scenario import MOST, Scenario
from mobfl.servers.anytime import anytime, best_anytime_round_s
from mobfl.servers.asynchronous import Asynchronous
from mobfl.servers.choice import PlanRequest, local_steps_of, round_s_of, rounds_of
from mobfl.servers.rounds import BY_STEPS, PlannedRounds
from mobfl.servers.selected import NamedSelection
from mobfl.servers.selections import SELECTIONS
from mobfl.servers.server import SHORTHANDS, Server
from mobfl.servers.steps import Schedule
from mobfl.theory import Conditions, Delays, Knows

# What a run can be given as its plan; all of them become a schedule.
AnyPlan: TypeAlias = "Schedule | Policy | Plan | AnytimePlan | tuple[int, float] | str"

SCHEDULES = Kind(
    "plan",
    "schedules",
    ("steps", "next_order"),
    {
        "mobfl": "mobfl.servers.names:best_rounds",
        "adaptive": "mobfl.servers.names:adaptive_rounds",
        "anytime": "mobfl.servers.anytime:anytime",
        "wait-for-all": "mobfl.servers.wait_for_all:WaitForAll",
        "async": "mobfl.servers.asynchronous:Asynchronous",
        "stay-aware": "mobfl.servers.stay_aware:stay_aware",
        "mads": "mobfl.servers.mads:mads",
        "early": "mobfl.servers.early_upload:early",
        "selected": "mobfl.servers.selected:selected",
        "fedasync": "mobfl.servers.names:fedasync",
        "fedbuff": "mobfl.servers.names:fedbuff",
    },
    also="H,T, ",
)
_WITH_STEPS = ("wait-for-all", "async", "mads", *SHORTHANDS)  # their first word is H
_WITH_ROUNDS = ("early", "selected")  # their words are H and T
_FIRST_WORDS = {"anytime": ("round_s", "T, T > 0 s"), "stay-aware": ("parts", "n, the number of parts")}


def server_of(given: AnyPlan, rule: "str | Rule | None", scenario: Scenario, crossings: Crossings | None) -> Server:
    """The server that is asked for; raises `InfeasibleError` where no plan is possible."""
    request = PlanRequest(scenario, crossings)
    if not isinstance(given, str):
        schedule = _given(given, request)
        return Server(schedule, _rule(rule, schedule))
    wish, own_rule = _split_shorthand(given)
    schedule = _named(wish, request)
    if own_rule is not None and rule is not None:
        _refuse_both(given, own_rule, rule)
    elif own_rule is not None:
        rule = f"clip+{own_rule}"
    return Server(schedule, _rule(rule, schedule))


def _rule(rule: "str | Rule | None", schedule: Schedule) -> Chain:
    return chain_of(schedule.rule if rule is None else rule)


def _refuse_both(given: str, own: Wish, rule: "str | Rule") -> None:
    """`fedasync:mixing=0.5` brings a parameter of its rule; another rule beside it would leave it without effect."""
    if own.values:
        raise InputError(f"the rule must be given once, got {own} in the plan {given!r} and the rule {str(rule)!r}")


def _split_shorthand(text: str) -> tuple[Wish, Wish | None]:
    """The schedule that is wished for and, of a shorthand, its rule."""
    wish = Wish(text) if "," in text.partition(":")[0] else SCHEDULES.parse(text)
    if wish.name not in SHORTHANDS:
        return wish, None
    rule_keys = [field.name for field in fields(RULES.find(wish.name))]
    of_rule = {key: value for key, value in wish.values.items() if key in rule_keys}
    rest = {key: value for key, value in wish.values.items() if key not in rule_keys}
    if wish.name == "fedbuff":
        rest = {"uploads" if key == "buffer" else key: value for key, value in {"buffer": BUFFER, **rest}.items()}
    known = [*(["buffer"] if wish.name == "fedbuff" else []), *rule_keys]
    if unknown := [key for key in rest if key != "uploads" or wish.name == "fedasync"]:
        raise InputError(f"plan {wish.name} has no parameter {unknown[0]}: its parameters are {', '.join(known)}")
    return Wish("async", wish.words, rest), Wish(wish.name, (), of_rule)


FIT = "fit"  # for H: as many steps as fit
BUFFER = 10  # the K of FedBuff's paper


def fedasync(local_steps: int, mixing: float = 0.6, staleness_power: float = 0.5) -> Schedule:  # noqa: ARG001
    """Shorthand: the schedule async with the rule fedasync."""
    return Asynchronous(local_steps)


def fedbuff(local_steps: int, buffer: int = BUFFER, server_rate: float = 1.0) -> Schedule:  # noqa: ARG001
    """Shorthand: the schedule async, so many uploads to a step, with the rule fedbuff."""
    return Asynchronous(local_steps, buffer)


def _given(given: Any, request: PlanRequest) -> Schedule:
    if isinstance(given, AnytimePlan):
        if given.round_s is None:
            raise InfeasibleError(given.reason or "")
        return anytime(request, given.round_s, given.knows)
    if isinstance(given, Plan | tuple):
        return rounds_of(given, request)
    if not any(hasattr(given, method) for method in SCHEDULES.methods):
        raise InputError(
            f"plan must be what --plan takes, a Plan, a pair (H, T), a Policy or a Schedule, got {shown(given)}"
        )
    return _as_schedule(deepcopy(given), type(given).__name__)


def _named(wish: Wish, request: PlanRequest) -> Schedule:
    if wish.name in _WITH_STEPS:
        return _with_steps(wish, request)
    if "," in wish.name:
        return _planned(wish.name, request)
    if wish.name in _WITH_ROUNDS:
        wish = _with_rounds(wish, request)
    elif wish.name in _FIRST_WORDS:
        wish = _with_first_word(wish)
    return _as_schedule(SCHEDULES.build(wish, request), str(wish))


def _with_first_word(wish: Wish) -> Wish:
    """Its first word is a number that has a name; it may be left out."""
    key, meaning = _FIRST_WORDS[wish.name]
    words, rest = _words_first(wish, [key])
    if not words:
        return wish
    try:
        (number,) = map(float, words)
    except ValueError:
        letter, _, must = meaning.partition(",")
        raise InputError(
            f"plan {wish.name} must go on with :{letter},NAME=VALUE,{must}, got {','.join(words)!r}"
        ) from None
    return Wish(wish.name, (), {key: number, **rest})


def _words_first(wish: Wish, keys: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """What stands in these places, be it there or by its name, and what else is given."""
    named = {key: str(wish.values[key]) for key in keys if key in wish.values}
    for key in keys[: len(wish.words)]:
        if key in named:
            raise InputError(f"plan {wish.name} must give {key} once, got it twice")
    words = [*wish.words, *(named.get(key, "best") for key in keys[len(wish.words) :])] if named else [*wish.words]
    return words, {key: value for key, value in wish.values.items() if key not in keys}


def _with_rounds(wish: Wish, request: PlanRequest) -> Wish:
    """Its words are H and T as for rounds, the planner's without them; `selected` may have `fit` for H."""
    words, values = _words_first(wish, ["local_steps", "round_s"])
    if wish.name == "selected":
        of_selection = {key: values.pop(key) for key in [*values] if key not in ("by", "knows", "error")}
        by = SELECTIONS.parse(str(values.get("by", "fedcs")))
        values["by"] = NamedSelection.of(Wish(by.name, by.words, {**by.values, **of_selection}))
    h, t = _steps_and_round(Wish(wish.name, tuple(words), values), request)
    return Wish(wish.name, (), {"local_steps": h, "round_s": t, **values})


def _steps_and_round(wish: Wish, request: PlanRequest) -> tuple[int | None, float]:
    words = [*wish.words, *["best"] * (2 - len(wish.words))]
    try:
        h_word, t_word = words
        fits = h_word == FIT and wish.name == "selected"
        h, t = None if fits else local_steps_of(h_word, request), round_s_of(t_word, request)
    except ValueError:
        raise InputError(
            f"plan {wish.name} must go on with :H,T,NAME=VALUE, with a whole H >= 1, best or epoch, and T > 0 s, best,"
            f" T0 or T0/2, got {','.join(wish.words)!r}"
        ) from None
    if fits:
        return None, best_anytime_round_s(request, wish.values.get("knows", "mean")) if t is None else t
    if h is None:
        return request.best_plan().numbers[:2] if t is None else request.best_steps(t)
    return (h, t) if t is not None else (h, request.best_round(h).numbers[1])


def _with_steps(wish: Wish, request: PlanRequest) -> Schedule:
    """A schedule whose first word is H; the planner's without it."""
    words, values = _words_first(wish, ["local_steps"])
    if len(words) > 1:
        raise InputError(f"plan {wish.name} must go on with :H,NAME=VALUE, got {','.join(words)!r}")
    try:
        h = local_steps_of(words[0] if words else "best", request)
    except ValueError:
        raise InputError(
            f"plan {wish.name} must have a whole H >= 1, best or epoch after its colon, got {words[0]!r}"
        ) from None
    if h is None:
        h = request.best_plan().numbers[0]
    return SCHEDULES.build(Wish(wish.name, (), {"local_steps": h, **values}), request)


def _as_schedule(found: Any, name: str) -> Schedule:
    """A policy becomes a schedule of rounds."""
    if hasattr(found, "steps"):
        return found if hasattr(found, "describe") else OwnSchedule(found, name)
    first = _first_order(found, name)
    if not isinstance(first, Order):
        raise InputError(f"plan {name} must give a mobfl.Order, got {first!r:.60}")
    description = {"policy": name, "local_steps": first.fixed_steps, "round_s": None}
    return PlannedRounds(found, description, BY_STEPS if first.fixed_steps is None else GUARDED_MEAN)


def _first_order(policy: Any, name: str) -> Any:
    try:
        return policy.next_order(None)
    except MobflError:
        raise
    except Exception as error:  # its own code failed, and nobody else's
        raise PartError(f"plan {name} gives no first order: {type(error).__name__}: {error}") from error


class OwnSchedule:
    """A schedule of somebody's own that has only `steps`, with what else a schedule says of itself."""

    def __init__(self, schedule: Any, name: str) -> None:
        self._schedule, self.name = schedule, str(getattr(schedule, "name", name))
        self.rule = str(getattr(schedule, "rule", GUARDED_MEAN))
        self.makes_stale = bool(getattr(schedule, "makes_stale", False))
        self.least = str(getattr(schedule, "least", "its first step"))
        self.steps = schedule.steps

    def describe(self) -> dict[str, Any]:
        return {"policy": self.name, "local_steps": getattr(self._schedule, "local_steps", None), "round_s": None}


def _planned(text: str, request: PlanRequest) -> Schedule:
    words = [word.strip() for word in text.split(",")]
    try:
        h_word, t_word = words
        h, t = local_steps_of(h_word, request), round_s_of(t_word, request)
    except ValueError:
        raise InputError(
            "plan must be H,T with a whole H >= 1, best or epoch, and T > 0 s, best, T0 or T0/2,"
            f" both <= {MOST:g}, got {text!r}"
        ) from None
    if h is None:
        return rounds_of(request.best_plan() if t is None else request.best_steps(t), request)
    return rounds_of(request.best_round(h) if t is None else (h, t), request)


def best_rounds(request: PlanRequest, least: int = 0, prob: float = LeastUploads.prob) -> Schedule:
    """The planner's H and T, from Theorem 1 or from the recorded crossings; with so many uploads at least."""
    if not least:
        return rounds_of(request.best_plan(), request)
    if request.scenario.training.falling_to < 1:
        raise InputError("training.falling_to must be 1 with a plan for at least so many uploads, got less")
    try:
        wanted = LeastUploads(least, prob)
    except InputError as error:
        raise InputError(f"plan mobfl:least={least:g},prob={prob:g} makes no sense: {error}") from None
    return rounds_of(request.best_plan(wanted), request)


def adaptive_rounds(
    request: PlanRequest,
    memory_s: float = Settings.memory_s,
    worth: float = Settings.worth,
    evidence: float = Settings.evidence,
    factor: float = Settings.factor,
    every_s: float = Settings.every_s,
    prior: float = Settings.prior,
    knows: Knows | None = None,
    error: float = 0.0,
) -> Schedule:
    """H and T that follow the traffic, from the planner's on; with `knows`, T of anytime rounds.

    It begins with the plan for the scenario, whatever was recorded: it sees the traffic only as it comes. Of a radio
    it knows how long replies take, and before the first one what the quick plan thinks.
    """
    settings = Settings(memory_s, worth, evidence, factor, every_s, prior)
    road = as_constants(request.scenario)
    if (reason := plan(road).reason) is not None:
        raise InfeasibleError(reason)
    if error and knows is None:
        raise InputError(f"plan adaptive must have an error with knows=leaving, got {error:g} without it")
    asked = None if knows is None else AsManyAsFit(knows, float(Conditions.of(road).mean_dwell_s), error)
    policy = AdaptivePolicy(road, Delays.of(road), settings, OnlyT(asked) if asked else OneH())
    h = policy.next_order(None).fixed_steps
    told = {**asdict(settings), **(asked.describe() if asked else {})}
    description = {"policy": "adaptive", "local_steps": h, "round_s": None, **told}
    return PlannedRounds(policy, description, BY_STEPS if asked else GUARDED_MEAN)


def plan_name(description: Mapping[str, Any]) -> str:
    """The other way: the plan of a run.json as `--plan` has it, T to four digits."""
    policy, h = description["policy"], description["local_steps"]
    if policy == "rounds":
        return f"{h},{description['round_s']:.4g}"
    given = [
        f"{key}={said(description[key])}"
        for key in description
        if key not in ("policy", "local_steps", "round_s", _FIRST_WORDS.get(policy, ("", ""))[0])
    ]
    return policy + (f":{','.join([*words, *given])}" if (words := _first_words(description)) or given else "")


def _first_words(description: Mapping[str, Any]) -> list[str]:
    """What stands after a plan's colon without a name."""
    policy, h, t = (description[key] for key in ("policy", "local_steps", "round_s"))
    if policy in _WITH_STEPS:
        return [str(h)]
    if policy in _WITH_ROUNDS:
        return [FIT if h is None else str(h), f"{t:.4g}"]
    key, _ = _FIRST_WORDS.get(policy, ("", ""))
    return [f"{description[key]:.4g}"] if key else []
