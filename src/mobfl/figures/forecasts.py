"""What was predicted of single scenes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl.figures.canvas import BLUE, BROWN, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mobfl.tasks.trajectories.task import Forecast


def draw_forecasts(forecasts: "Sequence[Forecast]", file: Path, each: int = 3) -> None:
    """Draws the scenes that were predicted best and worst: lanes, history, six futures and the truth."""
    order = sorted(forecasts, key=lambda forecast: forecast.min_ade_m)
    each = min(each, max(len(order) // 2, 1))
    with canvas(file, (7.2, 5.4)) as figure:
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
        axes.plot(*way.T, color=BROWN, linewidth=1.0, linestyle="dashed", label=label, zorder=3)
        axes.plot(*forecast.futures[k, -1], "x", color=BROWN, markersize=4, zorder=3)
    truth = scene.future[0][scene.seen[0]]
    axes.plot(*truth.T, color=BLUE, linewidth=1.8, label="truth", zorder=5)
    axes.plot(*truth[-1], "o", color=BLUE, markersize=4, zorder=5)
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
