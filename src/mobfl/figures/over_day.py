"""Plans over a day: H, T and what they give by the hour, beside one plan for all hours."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mobfl.errors import InputError
from mobfl.figures.canvas import BLUE, BROWN, canvas
from mobfl.planning.over_day import DayPlans

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_IN = (7.2, 5.0)
_TELLING = 0.1  # of a span: the rate of a shorter rest says nothing
_LOOK_OF_ONE = {"color": BROWN, "linestyle": "dashed", "linewidth": 1.2}


def draw_day(day: DayPlans, file: Path) -> None:
    """Draws traffic, H, T and valid local steps per second over the spans.

    Args:
        day: Plans by the hour.
        file: PNG, PDF or SVG.
    """
    if day.one_plan.reason is not None:
        raise InputError(f"a figure must have a plan to show, got none: {day.one_plan.reason}")
    hours = np.append([span.start_s for span in day.spans], day.spans[-1].end_s) / 3600
    plans = [span.plan for span in day.spans]
    with canvas(file, _SIZE_IN) as figure:
        (rate, steps), (length, worth) = figure.subplots(2, 2, sharex=True)
        told = [3600 * span.arrivals_per_s if span.lasts_s > _TELLING * day.every_s else None for span in day.spans]
        _stairs(rate, hours, told, None)
        _stairs(steps, hours, [plan.local_steps for plan in plans], day.one_plan.local_steps)
        _stairs(length, hours, [plan.round_s for plan in plans], day.one_plan.round_s)
        _stairs(worth, hours, [plan.objective for plan in plans], None)
        given = np.array([np.nan if span.one_objective is None else span.one_objective for span in day.spans])
        worth.stairs(given, hours, baseline=None, label="one plan for all", **_LOOK_OF_ONE)
        rate.set(ylabel="vehicles per hour", title="(a) traffic")
        steps.set(ylabel="local steps H", title="(b) steps")
        length.set(ylabel="round length T (s)", xlabel="time (h)", title="(c) rounds")
        worth.set(ylabel="valid local steps per second", xlabel="time (h)", title="(d) what they give")
        for axes in (rate, steps, length, worth):
            axes.set_ylim(0, None)
        steps.legend(loc="best")


def _stairs(axes: "Axes", hours: "np.typing.NDArray[np.float64]", own: list[float | None], one: float | None) -> None:
    values = np.array([np.nan if value is None else value for value in own], float)
    axes.stairs(values, hours, baseline=None, color=BLUE, linewidth=1.6, label="a plan by span")
    if one is not None:
        axes.axhline(one, label="one plan for all", **_LOOK_OF_ONE)  # type: ignore[arg-type]
