"""How runs learn over virtual time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.experiments.analysis import best_until, more_is_better
from mobfl.figures.canvas import (
    BLUE,
    BROWN,
    L_MIN,
    ONE_COLUMN_IN,
    TWO_COLUMNS_IN,
    TWO_PANELS_IN,
    as_text,
    canvas,
    check_something_to_draw,
    is_narrow,
    panels,
)
from mobfl.learning.task import LOSS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mobfl.runs.history import History

Array = NDArray[np.float64]

# Told apart by dashes and markers where colours are lost.
_LINES: tuple[tuple[str, Any, str], ...] = (
    ("black", "solid", ""),
    (BLUE, (0, (5, 1.5)), "o"),
    (BROWN, (0, (1, 1)), "s"),
    ("#3d8f6e", (0, (5, 1, 1, 1)), "^"),
    ("#8c2d5e", (0, (8, 2)), "D"),
    ("0.55", "solid", "v"),
    ("#6a5acd", (0, (3, 1, 1, 1, 1, 1)), "P"),
    ("#a39200", (0, (2, 2)), "X"),
)
_MOST_CURVES = len(_LINES)
_LONG_LABEL = 40  # characters, beside which no curve has room
_INSTANTS = 501  # along a learning curve


def draw_history(history: "History", file: Path) -> None:
    """Draws the loss with L_min, and the KPI that leads if there is one, over virtual time."""
    kpi = history.leading
    times = np.append(0.0, history.columns["end_s"])
    with canvas(file, TWO_COLUMNS_IN if history.kpis else ONE_COLUMN_IN) as figure:
        both = panels(figure, 2 if history.kpis else 1)
        losses = np.append(history.initial["loss"], history.columns["loss"])
        both[0].step(times, losses, where="post", color="0.6", linewidth=0.8, label="loss")
        both[0].step(times, np.fmin.accumulate(losses), where="post", color="black", label=f"least so far, {L_MIN}")
        both[0].set(ylabel=LOSS.title)
        both[0].set_title("(a) loss" if history.kpis else "loss")
        both[0].legend()
        if history.kpis:
            values = np.append(history.initial[kpi.name], history.columns[kpi.name])
            both[1].step(times, values, where="post", color="black", linewidth=0.8)
            both[1].set(ylabel=as_text(kpi.title))
            both[1].set_title(f"(b) {as_text(kpi.label or kpi.name)}")
        for axes in both:
            axes.set(xlabel="virtual time (s)", xlim=(0, times[-1]))


def draw_curves(
    groups: "Mapping[str, Sequence[History]]", column: str, file: Path, target: float | None = None
) -> None:
    """Draws L_min, or the best value of a KPI so far, over virtual time: a line per label, the best one the thickest.

    A line is the mean over the label's runs for as long as all of them last; its band goes from the least to the most.
    Its colour, dashes and markers go with the label's place among the groups, so that they are the same for every KPI.
    """
    check_something_to_draw(groups)
    if len(groups) > _MOST_CURVES:
        raise InputError(f"learning curves must be at most {_MOST_CURVES} to be told apart, got {len(groups)}")
    curves = {label: _curves(runs, column) for label, runs in groups.items()}
    order = _best_first(curves, more_is_better(next(iter(groups.values()))[0], column))
    with canvas(file, (7.2, 3.4), (TWO_PANELS_IN[0], 2.5 + 0.17 * len(groups))) as figure:
        axes, places = figure.subplots(), list(groups)
        for label in order:
            _draw_curve(axes, label, *curves[label], places.index(label), is_best=label == order[0])
        if target is not None:
            axes.axhline(target, color="0.3", linewidth=0.9, linestyle="dotted", zorder=1, label=f"target {target:g}")
        kpi = next(iter(groups.values()))[0].kpi(column)
        what = f"least loss so far, {L_MIN}" if column == "loss" else f"best {as_text(kpi.title)} so far"
        axes.set(xlabel="virtual time (s)", ylabel=what)
        axes.set_xlim(0, max(times[-1] for times, _ in curves.values()) or 1.0)
        below = is_narrow(figure) or max(map(len, groups)) > _LONG_LABEL
        figure.legend(loc="outside lower center" if below else "outside right center", handlelength=3.6)


def _curves(runs: "Sequence[History]", column: str) -> tuple[Array, Array]:
    """Instants, and for each run what was the best until then."""
    end_s = min(float(run.columns["end_s"][-1]) if len(run) else 0.0 for run in runs)
    times = np.linspace(0.0, end_s, _INSTANTS)
    return times, np.stack([best_until(run, column, times) for run in runs])


def _best_first(curves: Mapping[str, tuple[Array, Array]], more_is_better: bool) -> list[str]:
    sign = -1 if more_is_better else 1
    return sorted(curves, key=lambda label: np.nan_to_num(sign * curves[label][1][:, -1].mean(), nan=np.inf))


def _draw_curve(axes: "Axes", label: str, times: Array, values: Array, place: int, is_best: bool) -> None:
    colour, dashes, marker = _LINES[place]
    every = (place * _INSTANTS // 60, _INSTANTS // 7)  # the markers of different lines do not fall together
    look: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 2.2 if is_best else 1.1}
    axes.plot(
        times, values.mean(axis=0), marker=marker, markevery=every, markersize=4, label=as_text(label), zorder=3, **look
    )
    if len(values) > 1:
        axes.fill_between(times, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)


def draw_times_to_target(rows: Mapping[str, Sequence[float | None]], target: str, file: Path) -> None:
    """Draws the virtual time that each policy needs to the target: a dot per run, a bar to their median.

    A run that never reached it (None) counts as later than all others, and is said in words.
    """
    check_something_to_draw(rows)
    medians = {name: float(np.median([np.inf if t is None else t for t in times])) for name, times in rows.items()}
    order = sorted(rows, key=medians.__getitem__)[::-1]  # the fastest is at the top
    longest = max((t for times in rows.values() for t in times if t is not None), default=0.0)
    with canvas(file, (5.4, 1.0 + 0.36 * len(rows))) as figure:
        axes = figure.subplots()
        for row, name in enumerate(order):
            _draw_times(axes, row, rows[name], medians[name])
        axes.set_yticks(range(len(order)), [as_text(name) for name in order])
        axes.set(xlim=(0, 1.4 * longest or 1.0), ylim=(-0.6, len(order) - 0.4))
        axes.set(xlabel="virtual time to the target (s)")
        axes.set_title(f"{target}; dots: runs, bars: medians")
        axes.tick_params(axis="y", length=0)
        if not longest:
            axes.set_xticks([])


def _draw_times(axes: "Axes", row: int, times: Sequence[float | None], median: float) -> None:
    reached = [t for t in times if t is not None]
    if np.isfinite(median):
        axes.barh(row, median, height=0.6, color="0.8", zorder=1)
    axes.plot(reached, [row] * len(reached), "o", color="black", markersize=4, markerfacecolor="white", zorder=3)
    if missed := len(times) - len(reached):
        words = f"{missed} of {len(times)} not reached" if reached else "not reached"
        beside = (max(reached, default=0.0), row)
        axes.annotate(words, beside, (6, 0), textcoords="offset points", va="center", fontsize=8)
