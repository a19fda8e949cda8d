"""Plans as a line and as a small table."""

from typing import TYPE_CHECKING, Any

from mobfl.display import Sheet, shortened
from mobfl.errors import counted

if TYPE_CHECKING:
    from mobfl.planning.plans import AnytimePlan, Plan, Plans

Rows = list[tuple[str, str, str]]

_TITLES = {
    "exact": "Plan by Theorem 1",
    "trace": "Plan from recorded traffic",
    "simulation": "Plan by simulation",
    "fixed-point": "Quick plan for a radio",
}


def brief_plan(plan: "Plan | AnytimePlan") -> str:
    if plan.reason is not None:
        return f"infeasible: {plan.reason}"
    fixed = plan.local_steps if isinstance(plan.local_steps, int) else None
    steps, goal = ("anytime", "v") if fixed is None else (f"H = {fixed}", "g")
    return f"{steps}, T = {plan.round_s:.4f} s, {goal} = {plan.objective:.4f} /s"


def plan_sheet(plan: "Plan") -> Sheet:
    if plan.reason is not None:
        return _infeasible(plan.reason)
    rows = [
        ("H", f"{plan.local_steps}", "local steps of a vehicle"),
        ("T", f"{plan.round_s:.4f} s", "length of a round"),
        ("g", f"{plan.objective:.4f} /s{_interval(plan, 'objective_interval')}", "valid local steps per second"),
        *_round_rows(plan),
        *_promised_rows(plan),
    ]
    return Sheet(_TITLES[plan.planner], rows, notes=_notes(plan))


def anytime_sheet(plan: "AnytimePlan") -> Sheet:
    if plan.reason is not None:
        return _infeasible(plan.reason)
    rows = [
        ("T", f"{plan.round_s:.4f} s", "length of a round"),
        ("v", f"{plan.objective:.4f} /s{_interval(plan, 'objective_interval')}", "valid local steps per second"),
        ("T·v", f"{plan.local_steps:.4g}", "local steps of a round's longest training"),
        *_round_rows(plan),
        ("knows", plan.knows, "what vehicles know of their leaving"),
    ]
    return Sheet(f"{_TITLES[plan.planner]}, anytime rounds", rows, notes=_notes(plan))


def _infeasible(reason: str) -> Sheet:
    return Sheet("No plan is possible", [], notes=[f"{reason[:1].upper()}{reason[1:]}."])


def _round_rows(plan: "Plan | AnytimePlan") -> Rows:
    valid = f"{plan.valid_round_prob:.2%}{_interval(plan, 'valid_round_prob_interval', '.2%')}"
    return [
        ("Λ", f"{plan.expected_uploads:.4f}", "uploads per round"),
        ("P{M > 0}", valid, "rounds with an upload"),
    ]


def _interval(plan: Any, name: str, form: str = ".4f") -> str:
    ends = getattr(plan, name, None)
    return "" if ends is None else f" [{ends[0]:{form}}, {ends[1]:{form}}]"


def _promised_rows(plan: Any) -> Rows:
    """Of a plan for at least so many uploads."""
    if getattr(plan, "least_uploads_prob", None) is None:
        return []
    least = f"P{{M ≥ {plan.least_uploads}}}"
    return [
        (least, f"{plan.least_uploads_prob:.2%}", f"rounds with at least {plan.least_uploads}"),
        ("price", f"{plan.price:.1%}", f"of g, which is {plan.free_objective:.4f} /s without that"),
    ]


def _notes(plan: Any) -> list[str]:
    notes = [f"{each[:1].upper()}{each[1:]}." for each in getattr(plan, "notices", ())]
    if getattr(plan, "regret", None) is not None:
        notes.append(f"No other plan is better by more than {plan.regret:.2%}, except in one search of twenty.")
    if plan.objective_error is not None:
        notes.append(f"Another plan might be better by {plan.objective_error:.2g} of the objective.")
    other = getattr(plan, "poisson_plan", None)
    if other is not None:
        notes.append(
            f"Theorem 1 would choose H = {other.local_steps}, T = {other.round_s:.4g} s, which gives"
            f" {other.real_objective:.4g} /s on this traffic."
        )
    return notes


def plans_sheet(plans: "Plans") -> Sheet:
    def row(place: int) -> list[str]:
        numbers = (_or_dash(each[place], ".4f") for each in _numbers(plans))
        return [str(place), _or_dash(plans.local_steps[place], "d"), *numbers]

    header = ("road", "H", "T (s)", "g (1/s)", "uploads per round", "P{M > 0}")
    return Sheet(f"Plans for {counted(len(plans), 'road')}", shortened(len(plans), row), header)


def _numbers(plans: "Plans") -> list[Any]:
    return [plans.round_s, plans.objective, plans.expected_uploads, plans.valid_round_prob]


def _or_dash(value: Any, form: str) -> str:
    return f"{value:{form}}" if value > 0 else "–"
