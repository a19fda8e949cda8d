"""Figures for print: legible in greyscale, units on every axis. Needs the extra `figures`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl import theory
from mobfl.errors import InputError, MissingExtraError
from mobfl.plans import Plan
from mobfl.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mobfl.history import History
    from mobfl.simulation import Simulation
    from mobfl.tasks.trajectories.task import Forecast

_FORMATS = (".png", ".pdf", ".svg")
_SIZE_IN = (7.2, 3.2)  # two columns of a paper
# In greyscale the curves differ by their dashes.
_DASHES: tuple[Any, ...] = ("dotted", (0, (3, 1, 1, 1, 1, 1)), "dashed", "dashdot")
_SHARES = (0.25, 0.5, 0.75, 0.9, 0.97)  # of the best g, for the contour lines


def draw_plan(scenario: Scenario, plan: Plan, file: Path) -> None:
    """Draws g(H, ·) for several H beside g over (H, T), the optimum marked, into a PNG, PDF or SVG file."""
    with _figure(file, _SIZE_IN) as figure:
        curves, surface = figure.subplots(1, 2)
        _draw_curves(curves, scenario, plan)
        _draw_surface(surface, scenario, plan)


def draw_simulation(result: "Simulation", file: Path) -> None:
    """Draws the histogram of uploads per round with the Poisson law of the promised mean over it."""
    from scipy.stats import poisson

    with _figure(file, (3.6, 2.8)) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        counts = np.arange(len(result.histogram))
        axes.bar(counts, result.histogram / result.rounds, color="0.75", label=f"{result.rounds} rounds")
        law = poisson.pmf(counts, result.expected_uploads)
        axes.plot(counts, law, "o-", color="black", markersize=4, label=f"Poisson, mean {result.expected_uploads:.2f}")
        axes.set(xlabel="uploads per round", ylabel="share of the rounds")
        axes.set_title(f"H = {result.local_steps}, T = {result.round_s:.2f} s")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper right")


def draw_history(history: "History", file: Path) -> None:
    """Draws the loss with L_min, and a KPI, over virtual time."""
    kpi = list(history.kpis)[-1 if all(history.kpis.values()) else 0]
    times = np.append(0.0, history.columns["end_s"])
    with _figure(file, _SIZE_IN) as figure:
        left, right = figure.subplots(1, 2)
        losses = np.append(history.initial["loss"], history.columns["loss"])
        left.step(times, losses, where="post", color="0.6", linewidth=0.8, label="loss")
        left.step(times, np.fmin.accumulate(losses), where="post", color="black", label="least so far, L_min")
        left.set(ylabel="validation loss")
        left.set_title("(a) loss")
        left.legend()
        values = np.append(history.initial[kpi], history.columns[kpi])
        right.step(times, values, where="post", color="black", linewidth=0.8)
        right.set(ylabel=kpi + (" (m)" if kpi.startswith(("min_ade", "min_fde")) else ""))
        right.set_title(f"(b) {kpi}")
        for axes in (left, right):
            axes.set(xlabel="virtual time (s)", xlim=(0, times[-1]))


def draw_forecasts(forecasts: "Sequence[Forecast]", file: Path, each: int = 3) -> None:
    """Draws the scenes that were predicted best and worst: lanes, history, six futures and the truth."""
    order = sorted(forecasts, key=lambda forecast: forecast.min_ade_m)
    each = min(each, max(len(order) // 2, 1))
    with _figure(file, (7.2, 5.4)) as figure:
        grid = figure.subplots(2, each, squeeze=False)
        for row, (name, chosen) in enumerate((("best", order[:each]), ("worst", order[-each:][::-1]))):
            for column, forecast in enumerate(chosen):
                _draw_forecast(grid[row][column], forecast)
                title = f"{name} {column + 1}: min_ade_6 {forecast.min_ade_m:.2f} m"
                grid[row][column].set_title(title, fontsize=8)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)


def _draw_forecast(axes: "Axes", forecast: "Forecast") -> None:
    scene, ends = forecast.scene, forecast.scene.directions / 2
    lanes = np.stack([scene.nodes - ends, scene.nodes + ends, np.full_like(ends, np.nan)], axis=1).reshape(-1, 2)
    axes.plot(*lanes.T, color="0.82", linewidth=1.0, label="lanes", zorder=1)
    axes.plot(*scene.actors[1:].T, "s", color="0.55", markersize=3, label="others", zorder=2)
    steps = scene.steps[0, :, :2].astype(float)
    history = np.cumsum(steps, axis=0) - steps.sum(axis=0)
    axes.plot(*history[scene.steps[0, :, 2] > 0].T, color="black", linewidth=2.2, label="history", zorder=4)
    for k in np.argsort(forecast.scores):
        label = "predictions" if k == np.argmax(forecast.scores) else None
        way = np.concatenate([np.zeros((1, 2)), forecast.futures[k]])
        axes.plot(*way.T, color="#b5651d", linewidth=1.0, linestyle="dashed", label=label, zorder=3)
        axes.plot(*forecast.futures[k, -1], "x", color="#b5651d", markersize=4, zorder=3)
    truth = scene.future[0][scene.seen[0]]
    axes.plot(*truth.T, color="#0b4f8a", linewidth=1.8, label="truth", zorder=5)
    axes.plot(*truth[-1], "o", color="#0b4f8a", markersize=4, zorder=5)
    _frame_forecast(axes, np.concatenate([history, truth, forecast.futures.reshape(-1, 2)]))


def _frame_forecast(axes: "Axes", points: Any) -> None:
    """A square around what matters, its sides in m."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, max(0.6 * float((high - low).max()), 12.0)
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal")
    axes.set(xlabel="m ahead of the agent", ylabel="m to its left")
    axes.tick_params(labelsize=7)
    axes.xaxis.label.set_fontsize(7)
    axes.yaxis.label.set_fontsize(7)


def check_plot_file(file: Path, option: str = "--plot") -> None:
    if file.suffix.lower() not in _FORMATS:
        raise InputError(f"{option} must end in one of {', '.join(_FORMATS)}, got {str(file)!r}")


@contextmanager
def _figure(file: Path, size_in: tuple[float, float]) -> "Iterator[Figure]":
    """An empty figure in our style, saved to the file once it is drawn."""
    check_plot_file(file)
    try:
        import matplotlib
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("drawing a figure", "figures") from None
    with matplotlib.rc_context(), resources.as_file(resources.files("mobfl") / "mobfl.mplstyle") as look:
        style.use(look)
        figure = Figure(figsize=size_in, layout="constrained")
        yield figure
        _save(figure, file)


def _draw_curves(axes: "Axes", scenario: Scenario, plan: Plan) -> None:
    h_best, t_best, g_best = plan.numbers
    t = np.linspace(0.0, _longest_shown_s(plan), 1001)[1:]
    dashes = iter(_DASHES)
    for h in _compared_steps(scenario, h_best):
        colour, width, line = ("black", 1.8, "solid") if h == h_best else ("0.3", 1.1, next(dashes))
        g = theory.objective(scenario, h, t)
        axes.plot(t, g, linestyle=line, color=colour, linewidth=width, label=f"H = {h}")
    axes.plot(t_best, g_best, "o", color="black", markersize=5)
    where = f"H = {h_best}, T = {t_best:.1f} s"
    axes.annotate(where, (t_best, g_best), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set(xlim=(0, t[-1]), ylim=(0, 1.42 * g_best))
    axes.set(xlabel="round length T (s)", ylabel="g (valid local steps per second)")
    axes.set_title("(a) g(H, ·) for several H")
    axes.legend(loc="upper center", ncols=3, columnspacing=1.2, handlelength=2.4)


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
    axes.set_title("(b) g(H, T), lines in % of the best")
    assert axes.figure is not None
    axes.figure.colorbar(shade, ax=axes, label="g (1/s)", pad=0.02)


def _longest_shown_s(plan: Plan) -> float:
    return 2.6 * plan.numbers[1]


def _compared_steps(scenario: Scenario, best: int) -> list[int]:
    """Up to five numbers of local steps around the best, none beyond what fits."""
    most = int(theory.max_local_steps(scenario))
    return sorted({min(max(1, round(best * factor)), most) for factor in (0.25, 0.5, 1, 1.6, 2.4)})


def _save(figure: "Figure", file: Path) -> None:
    """Writes beside the file and renames, so that an interruption leaves the old file or the new one."""
    part = file.with_name(f".{file.stem}.{os.getpid()}{file.suffix}")
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(file.suffix.lower(), {})
    try:
        figure.savefig(part, metadata=undated)
        part.replace(file)
    except OSError as error:
        raise InputError(f"--plot {str(file)!r} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            part.unlink()
