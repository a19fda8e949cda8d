"""Plans by the hour, as a table."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mobfl.planning.over_day import DayPlans, SpanPlan

_DAY_S, _SINCE_1970_S = 86_400, 1e7
_HEADER = ("from", "to", "vehicles", "stay (s)", "H", "T (s)", "g (1/s)", "one plan", "gain")


def print_day(console: Console, day: DayPlans, title: str) -> None:
    one = day.one_plan
    console.print(f"[bold]{escape(title)}[/bold], a plan every {day.every_s:g} s")
    if one.reason is not None:
        console.print(f"\n[bold]No plan is possible[/bold]: {one.reason}.", soft_wrap=True)
        return
    table = Table(box=None)
    for name in _HEADER:
        table.add_column(name, justify="right", no_wrap=True)
    for span in day.spans:
        table.add_row(*_cells(span))
    console.print(table)
    for span in day.spans:
        if span.plan.reason is not None:
            console.print(f"{clock(span.start_s)}: no plan of its own, {span.plan.reason}.", soft_wrap=True)
    console.print(
        f"\nOne plan for all, (H, T) = ({one.local_steps:.4g}, {one.round_s:.4g} s), gives {one.objective:.4g} /s;"
        f" plans by span gain {_percent(day.gain)}, each chosen and judged on its own span.",
        soft_wrap=True,
    )


def _cells(span: SpanPlan) -> list[str]:
    plan = span.plan
    return [
        clock(span.start_s), clock(span.end_s), str(span.vehicles), _brief(span.mean_stay_s),
        _brief(plan.local_steps), _brief(plan.round_s), _brief(plan.objective), _brief(span.one_objective),
        _percent(span.gain),
    ]  # fmt: skip


def clock(time_s: float) -> str:
    """Hours and minutes, with seconds if there are some; of clocks that count from 1970 the time of the day, UTC."""
    seconds = round(time_s) % _DAY_S if time_s > _SINCE_1970_S else round(time_s)
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}" + (f":{rest % 60:02d}" if rest % 60 else "")


def _brief(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:+.1%}"
