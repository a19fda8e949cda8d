"""Algorithms against a baseline, and what predicts who is ahead."""

import math
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl.experiments.comparison import Row, TimeTo
from mobfl.experiments.predictors import MEASURES, Field, merit_name
from mobfl.figures.canvas import BLUE, BROWN, as_text, canvas, check_something_to_draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by their shapes where colours are lost.
_LOOKS = (("black", "o"), (BLUE, "s"), (BROWN, "^"), ("0.5", "D"), ("#3d8f6e", "v"), ("#8c2d5e", "P"))
_WIDEST = 50.0  # times: an interval that goes beyond ends there
_ROOM = 1.25


def draw_faster(rows: Sequence[Row], file: Path) -> None:
    """Draws how many times as fast as the baseline each algorithm was to every target, with 95 % intervals.

    An arrow says that the value is a bound, since a time was cut off at T_A.
    """
    check_something_to_draw(rows)
    targets = len(rows[0].times)
    with canvas(file, (7.2, 1.1 + 0.1 * max(len(rows), 3) * (1 + targets))) as figure:
        axes = figure.subplots()
        axes.axvline(1.0, color="0.4", linewidth=0.8)
        ends = [1.0]
        for place, row in enumerate(rows):
            for n, (time, look) in enumerate(zip(row.times, cycle(_LOOKS), strict=False)):
                at = -place + (0.5 * (targets - 1) - n) * 0.7 / max(targets, 1)
                label = f"to {time.target.column} {time.value:.4g}" if place == 0 else None
                ends += _draw_time(axes, at, time, *look, label)
        axes.set_xscale("log")
        axes.set_xlim(max(min(ends) / _ROOM, 1 / _WIDEST), min(max(ends) * _ROOM, _WIDEST))
        _plain_ticks(axes)
        axes.set_yticks([-place for place in range(len(rows))], [as_text(row.label) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.set(ylim=(0.6 - len(rows), 0.6), xlabel="times as fast as the baseline (95 % intervals over seeds)")
        if targets:
            figure.legend(loc="outside upper center", ncols=min(targets, 3))


def _draw_time(axes: "Axes", at: float, time: TimeTo, colour: str, marker: str, label: str | None) -> list[float]:
    value, low, high = time.faster.value, time.faster.low, time.faster.high
    look: dict[str, Any] = {"marker": marker, "color": colour, "markersize": 4, "markerfacecolor": "white"}
    axes.plot([], [], linestyle="none", label=label, **look)
    if math.isnan(value):
        return []
    low, high = max(low, 1 / _WIDEST), min(high, _WIDEST)
    axes.plot([low, high], [at, at], color=colour, linewidth=1.0, zorder=2)
    axes.plot([value], [at], zorder=3, **look)
    if time.bound:
        words = {"≥": "→", "≤": "←", "~": "↔"}[time.bound]
        axes.annotate(words, (high, at), (3, 0), textcoords="offset points", va="center", fontsize=7, color=colour)
    return [low, high]


def _plain_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 5 else tuple(range(1, 10))))
    axes.xaxis.set_minor_locator(LogLocator(subs=tuple(range(1, 10))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def draw_predictors(field: Field, at_s: float, file: Path) -> None:
    """Draws −L_min(t) of every algorithm against what was known of it before: a panel per measure, a mark per study."""
    check_something_to_draw(field.entrants)
    studies = list(dict.fromkeys(each.study for each in field.entrants))
    looks = dict(zip(studies, cycle(_LOOKS), strict=False))
    merits, rhos = field.results[merit_name(at_s)][1], field.correlations[merit_name(at_s)]
    with canvas(file, (7.2, 5.4)) as figure:
        panels = figure.subplots(2, 2, sharey=True).ravel()
        for axes, letter, measure in zip(panels, "abcd", MEASURES, strict=True):
            steps = field.measured[at_s][measure]
            for study in studies:
                chosen = np.array([each.study == study for each in field.entrants])
                colour, marker = looks[study]
                axes.plot(
                    steps[chosen], merits[chosen], marker, color=colour, markersize=5,
                    markerfacecolor="none", label=as_text(study) if letter == "a" else None,
                )  # fmt: skip
            rho, pairs = rhos[measure]
            axes.set_title(f"({letter}) {_said(rho.value, rho.low, rho.high, pairs)}", fontsize=9)
            axes.set(xlabel=f"{measure}, until {at_s:g} s")
        for axes in panels[::2]:
            axes.set_ylabel(rf"$-L_\mathrm{{min}}$({at_s:g} s)")
        figure.legend(loc="outside lower center", ncols=min(len(studies), 2))


def _said(value: float, low: float, high: float, pairs: int) -> str:
    if math.isnan(value):
        return f"too few for ρ ({pairs})"
    return f"ρ = {value:.2f} [{low:.2f}, {high:.2f}], {pairs} algorithms"
