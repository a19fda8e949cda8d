"""What g looks like around a plan."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mobfl import theory
from mobfl.figures.canvas import DASHES, canvas, is_narrow, panels
from mobfl.planning.plans import Plan
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TWO_PANELS_IN = 3.0  # of height, where they stand one above the other
_SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of the best g, for the contour lines


def draw_plan(scenario: Scenario, plan: Plan, file: Path) -> None:
    """Draws g(H, ·) for several H beside g over (H, T), the optimum marked, into a PNG, PDF or SVG file.

    A narrow and flat figure has the curves alone.
    """
    with canvas(file) as figure:
        only_curves = is_narrow(figure) and figure.get_figheight() < _TWO_PANELS_IN
        curves, *surfaces = panels(figure, 1 if only_curves else 2)
        _draw_curves(curves, scenario, plan)
        for surface in surfaces:
            _draw_surface(surface, scenario, plan)
        if is_narrow(figure):  # there is no room in the panels
            curves.set(ylim=(0, 1.2 * plan.numbers[2]), ylabel=f"{_symbol(scenario)} (1/s)")
            figure.legend(loc="outside upper center", ncols=3, columnspacing=1.2, handlelength=2.4)
        else:
            curves.legend(loc="upper center", ncols=3, columnspacing=1.2, handlelength=2.4)


def _draw_curves(axes: "Axes", scenario: Scenario, plan: Plan) -> None:
    h_best, t_best, g_best = plan.numbers
    t = np.linspace(0.0, _longest_shown_s(plan), 1001)[1:]
    dashes = iter(DASHES)
    for h in _compared_steps(scenario, h_best):
        colour, width, line = ("black", 1.8, "solid") if h == h_best else ("0.3", 1.1, next(dashes))
        g = theory.objective(scenario, h, t)
        axes.plot(t, g, linestyle=line, color=colour, linewidth=width, label=f"H = {h}")
    axes.plot(t_best, g_best, "o", color="black", markersize=5)
    where = f"H = {h_best}, T = {t_best:.1f} s"
    axes.annotate(where, (t_best, g_best), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set(xlim=(0, t[-1]), ylim=(0, 1.42 * g_best))
    axes.set(xlabel="round length T (s)", ylabel=f"{_symbol(scenario)} (valid local steps per second)")
    axes.set_title(f"(a) {_symbol(scenario)}(H, ·) for several H")


def _draw_surface(axes: "Axes", scenario: Scenario, plan: Plan) -> None:
    from matplotlib.ticker import MaxNLocator

    h_best, t_best, g_best = plan.numbers
    most = min(int(theory.max_local_steps(scenario)), 4 * h_best + 4)
    t = np.linspace(0.0, _longest_shown_s(plan), 301)[1:]
    h = np.unique(np.linspace(1, max(most, 2), 200).round())[:, np.newaxis]
    g = theory.objective(scenario, h, t)
    shade = axes.pcolormesh(t, h[:, 0], g, cmap="cividis", vmin=0, vmax=g_best, shading="gouraud", rasterized=True)
    colours = ["white" if share < 0.5 else "black" for share in _SHARES]
    lines = axes.contour(t, h[:, 0], g / g_best, levels=_SHARES, colors=colours, linewidths=0.7)
    axes.clabel(lines, fmt=lambda share: f"{share:.0%}", fontsize=7)
    axes.plot(theory.min_delay_s(scenario, h[:, 0]), h[:, 0], color="white", linestyle="dashed", linewidth=1)
    axes.text(0.03, 0.97, "T too short\nfor H steps", color="white", fontsize=8, va="top", transform=axes.transAxes)
    axes.plot(t_best, h_best, "o", markerfacecolor="white", markeredgecolor="black", markersize=6)
    axes.set(xlim=(0, t[-1]), ylim=(1, h[-1, 0]), xlabel="round length T (s)", ylabel="local steps H")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"(b) {_symbol(scenario)}(H, T), lines in % of the best")
    assert axes.figure is not None
    axes.figure.colorbar(shade, ax=axes, label=f"{_symbol(scenario)} (1/s)", pad=0.02)


def _symbol(scenario: Scenario) -> str:
    """Of what `theory.objective` is."""
    noise = scenario.training.noise_uploads
    return f"$g_{{{noise:g}}}$" if noise > 0 else "g"


def _longest_shown_s(plan: Plan) -> float:
    return 2.6 * plan.numbers[1]


def _compared_steps(scenario: Scenario, best: int) -> list[int]:
    """Up to five numbers of local steps around the best, none beyond what fits."""
    most = int(theory.max_local_steps(scenario))
    return sorted({min(max(1, round(best * factor)), most) for factor in (0.25, 0.5, 1, 1.6, 2.4)})
