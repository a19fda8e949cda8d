"""The paper's Figs. 2 and 3 from finished runs, and how well g predicts what they reached."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl import theory
from mobfl.experiments.analysis import (
    PlanResult,
    Point,
    chosen_by_mobfl,
    fitted_surface,
    mean_over_seeds,
    more_is_better,
    proxy_spearman,
    regret,
    spans_plane,
)
from mobfl.figures.canvas import (
    BLUE,
    BROWN,
    L_MIN,
    TWO_PANELS_IN,
    as_text,
    canvas,
    check_something_to_draw,
    is_narrow,
    panels,
)
from mobfl.learning.task import LOSS, Kpi
from mobfl.planning.planner import plan
from mobfl.rounds.estimates import Estimate
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Axes3D: TypeAlias = Any  # its package has no types

_MOST_PANELS = 6
_SURFACE: dict[str, Any] = {"cmap": "cividis", "linewidth": 0, "antialiased": False, "rasterized": True}
_MARK: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "white", "markeredgecolor": "black", "zorder": 4}
_BEST: dict[str, Any] = {**_MARK, "marker": "*", "markersize": 10}
_MOBFL: dict[str, Any] = {**_MARK, "marker": "D", "markersize": 6}
_RUN: dict[str, Any] = {"color": BLUE, "markersize": 4, "markerfacecolor": "none", "markeredgewidth": 0.8}
_MEAN: dict[str, Any] = {"color": "black", "markersize": 8, "markeredgewidth": 1.6}
_BANDS = ((BLUE, "solid"), (BROWN, "dashed"), ("0.2", "dotted"), ("0.5", "dashdot"))


# ---- Fig. 2 -----------------------------------------------------------------------------------------


def draw_fig2(points: Sequence[Point], scenario: Scenario, file: Path) -> None:
    """Draws the paper's Fig. 2: −L_min(T_A) of the runs with a surface fitted to them, and g, both over (H, T).

    Runs that do not span a part of the (H, T) plane are drawn without a surface.
    """
    check_something_to_draw(points)
    h, t = _covered([point.local_steps for point in points]), _covered([point.round_s for point in points])
    with canvas(file, (7.2, 3.9), (3.7, 6.6)) as figure:
        view = {"projection": "3d", "computed_zorder": False}  # what is marked stays in front of the surface
        down, across = (2, 1) if is_narrow(figure) else (1, 2)
        reached, promised = figure.subplots(down, across, subplot_kw=view)
        _draw_reached(reached, points)
        _draw_promised(promised, scenario, h, t)
        for axes in (reached, promised):
            _frame(axes, h, t)
        figure.legend(
            *reached.get_legend_handles_labels(), loc="outside lower center", ncols=1 if is_narrow(figure) else 3
        )


def _covered(values: Sequence[float]) -> tuple[float, float]:
    """From the least to the most; some room around a single value."""
    low, high = min(values), max(values)
    return (low, high) if low < high else (0.8 * low, 1.25 * high)


def _draw_reached(axes: Axes3D, points: Sequence[Point]) -> None:
    h, t, z = np.array([(point.local_steps, point.round_s, -point.reached()) for point in points]).T
    known = ~np.isnan(z)
    if spans_plane(h[known], t[known]):
        _draw_fit(axes, h[known], t[known], z[known])
    axes.scatter(h, t, z, color=BROWN, edgecolor="white", linewidth=0.4, s=14, depthshade=False, label="run", zorder=3)
    found = regret(points)
    for what, result, look in (("best", found.best, _BEST), ("MOB-FL's choice", found.chosen, _MOBFL)):
        label = f"{what}: {_named(result.local_steps, result.round_s)}"
        axes.plot([result.local_steps], [result.round_s], [-result.mean], label=label, **look)
    axes.text2D(0.0, 0.95, f"(a) {_label(LOSS)}", transform=axes.transAxes)


def _draw_fit(axes: Axes3D, h: Array, t: Array, z: Array) -> None:
    """The fitted surface, over triangles that end where the runs end."""
    from matplotlib.tri import Triangulation, UniformTriRefiner

    sites = np.unique(np.log([h, t]), axis=1)
    fine = UniformTriRefiner(Triangulation(*sites)).refine_triangulation(subdiv=3)
    at_h, at_t = np.exp(fine.x), np.exp(fine.y)
    axes.plot_trisurf(at_h, at_t, fitted_surface(h, t, z)(at_h, at_t), triangles=fine.triangles, **_SURFACE)


def _draw_promised(axes: Axes3D, scenario: Scenario, h: tuple[float, float], t: tuple[float, float]) -> None:
    steps, rounds = np.meshgrid(np.linspace(*h, 80), np.linspace(*t, 200), indexing="ij")
    axes.plot_surface(steps, rounds, theory.objective(scenario, steps, rounds), rcount=80, ccount=200, **_SURFACE)
    title, best = "(b) g(H, T) (1/s)", plan(scenario)
    if best.reason is None and h[0] <= best.numbers[0] <= h[1] and t[0] <= best.numbers[1] <= t[1]:
        axes.plot(*([number] for number in best.numbers), **_MOBFL)
        title += f", most at {_named(*best.numbers[:2])}"
    axes.text2D(0.0, 0.95, title, transform=axes.transAxes)


def _frame(axes: Axes3D, h: tuple[float, float], t: tuple[float, float]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.view_init(elev=28, azim=-125)
    axes.set_box_aspect((1, 1, 0.8), zoom=0.95)
    axes.set(xlim=h, ylim=t, xlabel="local steps H", ylabel="round length T (s)")
    for axis, pad in ((axes.xaxis, 0), (axes.yaxis, 0), (axes.zaxis, 6)):
        axis.set_major_locator(MaxNLocator(5, integer=axis is axes.xaxis))
        axis.set_tick_params(labelsize=7, pad=pad)
        axis.pane.set_alpha(0.0)


# ---- Fig. 3 -----------------------------------------------------------------------------------------


def draw_fig3(points: Sequence[Point], scenario: Scenario, kpi: str, file: Path) -> None:
    """Draws the paper's Fig. 3: what the runs reached over T, a panel per H, with g(H, ·) behind and MOB-FL's level.

    MOB-FL's plan is the one of the greatest g. With the column `loss` −L_min is shown; of more than six H an even
    choice, MOB-FL's among them. The axis of a KPI of which less is better counts downwards.
    """
    check_something_to_draw(points)
    results = mean_over_seeds(points, kpi)
    steps = _shown_steps(results)
    (across, down), (_, narrow_down) = _grid_of(len(steps), False), _grid_of(len(steps), True)
    t = np.linspace(0.0, 1.08 * max(point.round_s for point in points), 401)[1:]
    with canvas(file, (1.2 + 2.0 * across, 0.8 + 1.9 * down), (TWO_PANELS_IN[0], 1.2 + 1.6 * narrow_down)) as figure:
        across, down = _grid_of(len(steps), is_narrow(figure))
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        behind = [_draw_behind(axes, t, theory.objective(scenario, h, t)) for axes, h in zip(grid, steps, strict=False)]
        for axes, h in zip(grid, steps, strict=False):
            _draw_results(axes, h, results, kpi)
        _up_is_better(grid[0], points[0], kpi)
        _label_grid(grid, behind, across, _label(points[0].history.kpi(kpi)))
        handles = [line for axes in (grid[0], behind[0]) for line in axes.get_legend_handles_labels()[0]]
        figure.legend(handles=handles, loc="outside lower center", ncols=1 if is_narrow(figure) else 4)


def _grid_of(panels: int, narrow: bool) -> tuple[int, int]:
    """How many panels stand side by side, and how many one above the other: four are a square."""
    across = 2 if panels == 4 or (narrow and panels > 3) else min(panels, 1 if narrow else 3)
    return across, -(-panels // across)


def _shown_steps(results: Sequence[PlanResult]) -> list[int]:
    every = sorted({result.local_steps for result in results})
    if len(every) <= _MOST_PANELS:
        return every
    mobfl = every.index(chosen_by_mobfl(results).local_steps)
    even = np.linspace(0, len(every) - 1, _MOST_PANELS).round()
    even[np.abs(even - mobfl).argmin()] = mobfl
    return [every[int(place)] for place in even]


def _draw_behind(axes: "Axes", t: Array, g: Array) -> "Axes":
    """g(H, ·) on an axis of its own, under the runs."""
    behind = axes.twinx()
    behind.plot(t, g, color="0.6", linewidth=1.6, label="g(H, T), right axis")
    behind.spines["right"].set_visible(True)
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    return behind


def _draw_results(axes: "Axes", h: int, results: Sequence[PlanResult], kpi: str) -> None:
    mobfl = chosen_by_mobfl(results)
    level = f"MOB-FL: {_named(mobfl.local_steps, mobfl.round_s)}"
    axes.axhline(_shown(mobfl.mean, kpi), color=BROWN, linestyle="dashed", linewidth=1.0, label=level)
    _draw_runs(axes, [(result.round_s, result) for result in results if result.local_steps == h], kpi)
    axes.set_title(f"H = {h}")


def _label_grid(grid: Any, behind: "Sequence[Axes]", across: int, label: str) -> None:
    """Numbers and words only at the rim: time below, the KPI on the left, g on the right."""
    most = max(axes.get_ylim()[1] for axes in behind)
    for place, axes in enumerate(behind):
        at_the_right = place % across == across - 1
        axes.set(ylim=(0, most), ylabel="g (1/s)" if at_the_right else "")
        axes.tick_params(labelright=at_the_right)
    for place, axes in enumerate(grid[: len(behind)]):
        axes.set(ylabel=label if place % across == 0 else "", xlim=(0, None))
        if place + across >= len(behind):
            axes.set_xlabel("round length T (s)")
            axes.tick_params(labelbottom=True)
    for axes in grid[len(behind) :]:
        axes.set_axis_off()


# ---- g as a proxy -----------------------------------------------------------------------------------


def draw_proxy(points: Sequence[Point], kpi: str, file: Path) -> None:
    """Draws what the runs reached against the g of their plans, −L_min and a KPI, with Spearman's rho over plans."""
    check_something_to_draw(points)
    with canvas(file) as figure:
        columns = ("loss",) if kpi == "loss" else ("loss", kpi)
        for axes, letter, column in zip(panels(figure, len(columns)), "ab", columns, strict=False):
            results = mean_over_seeds(points, column)
            _draw_runs(axes, [(result.objective, result) for result in results], column)
            mobfl = chosen_by_mobfl(results)
            axes.plot(mobfl.objective, _shown(mobfl.mean, column), "*", color=BROWN, markersize=9, label="MOB-FL")
            _up_is_better(axes, points[0], column)
            axes.set_title(f"({letter}) {_said(proxy_spearman(points, column))}")
            axes.set(xlabel="g (valid local steps per second)", ylabel=_label(points[0].history.kpi(column)))
        axes.legend(loc="lower right")


def draw_proxy_over_time(series: Mapping[str, tuple[ArrayLike, Sequence[Estimate]]], file: Path) -> None:
    """Draws Spearman's rho of g with −L_min(t) over virtual time with its 95 % band, a line per label."""
    check_something_to_draw(series)
    with canvas(file, (3.6, 3.0)) as figure:
        axes = figure.subplots()
        for (label, (times, rhos)), look in zip(series.items(), cycle(_BANDS), strict=False):
            _draw_band(axes, label, np.asarray(times, np.float64), rhos, *look)
        axes.axhline(0, color="0.4", linewidth=0.6)
        axes.set(xlabel="virtual time t (s)", ylabel=rf"Spearman's ρ of g with $-${L_MIN}$(t)$")
        axes.set(xlim=(0, None), ylim=(None, 1.03))
        figure.legend(loc="outside upper center", handlelength=3.0)


def _draw_band(axes: "Axes", label: str, times: Array, rhos: Sequence[Estimate], colour: str, dashes: str) -> None:
    value, low, high = np.array([(rho.value, rho.low, rho.high) for rho in rhos]).T
    axes.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(times, np.stack([low, high], axis=1), color=colour, linestyle=dashes, linewidth=0.5)
    axes.plot(times, value, color=colour, linestyle=dashes, linewidth=1.6, label=as_text(label))


# ---- what they share --------------------------------------------------------------------------------


def _draw_runs(axes: "Axes", placed: Sequence[tuple[float, PlanResult]], column: str) -> None:
    """A ring for every run and a bar for every plan's mean, at these places."""
    runs = np.array([(x, value) for x, result in placed for value in result.values]).T
    means = np.array([(x, result.mean) for x, result in placed]).T
    axes.plot(runs[0], _shown(runs[1], column), "o", label="run", **_RUN)
    axes.plot(means[0], _shown(means[1], column), "_", label="mean over seeds", **_MEAN)


def _shown(values: Any, column: str) -> Any:
    """The loss carries the paper's minus sign."""
    return -values if column == "loss" else values


def _up_is_better(axes: "Axes", point: Point, column: str) -> None:
    """A KPI of which less is better counts downwards, so that its shape can be compared with that of g."""
    if column != "loss" and not more_is_better(point.history, column):
        axes.invert_yaxis()


def _label(kpi: Kpi) -> str:
    return rf"$-${L_MIN}$(T_A)$" if kpi == LOSS else f"best {as_text(kpi.title)}"


def _named(local_steps: float, round_s: float) -> str:
    return f"H = {local_steps:g}, T = {round_s:.1f} s"


def _said(rho: Estimate) -> str:
    if np.isnan(rho.value):
        return "too few or too equal plans for ρ"
    return f"ρ = {rho.value:.2f}, 95 % interval {rho.low:.2f} to {rho.high:.2f}"
