"""Uploads per round, simulated or of runs, against the theory."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import counted
from mobfl.figures.canvas import ONE_COLUMN_IN, canvas, check_something_to_draw, panels
from mobfl.rounds.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mobfl.rounds.anytime import AnytimeSimulation
    from mobfl.rounds.simulation import Simulation

Array = NDArray[np.float64]


def draw_simulation(result: "Simulation", file: Path) -> None:
    """Draws the histogram of uploads per round with the Poisson law of the promised mean over it."""
    from scipy.stats import poisson

    with canvas(file, ONE_COLUMN_IN) as figure:
        from matplotlib.ticker import MaxNLocator

        axes = figure.subplots()
        counts = np.arange(len(result.histogram))
        axes.bar(counts, result.histogram / result.rounds, color="0.75", label=counted(result.rounds, "round"))
        mean = result.expected_uploads if result.poisson is None else result.poisson.uploads
        axes.plot(
            counts, poisson.pmf(counts, mean), "o-", color="black", markersize=4, label=f"Poisson, mean {mean:.2f}"
        )
        axes.set(xlabel="uploads per round", ylabel="share of the rounds")
        axes.set_title(f"H = {result.local_steps}, T = {result.round_s:.2f} s")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper right")


def draw_anytime_simulation(result: "AnytimeSimulation", file: Path) -> None:
    """Draws the share of the rounds whose longest upload has at least n steps, with the promised one over it.

    What lies under the curve is the mean of the longest.
    """
    with canvas(file, ONE_COLUMN_IN) as figure:
        axes, (steps, share) = figure.subplots(), result.reached
        from_none = np.insert(steps, 0, 0), np.insert(share, 0, share[:1].sum())
        axes.fill_between(*from_none, step="pre", color="0.75", label=counted(result.rounds, "round"))
        if result.expected_reached is not None:
            axes.plot(steps, result.expected_reached, color="black", label="1 − exp(−Λ(n, T))")
        axes.set(
            xlabel="n (local steps)", ylabel="longest upload ≥ n (share of the rounds)", xlim=(0, None), ylim=(0, 1)
        )
        axes.set_title(f"anytime, knows={result.asked.knows}, T = {result.round_s:.2f} s")
        axes.legend(loc="upper right")


def draw_uploads(rows: Sequence[tuple[float, Estimate]], file: Path) -> None:
    """Draws the mean uploads per round of runs against Theorem 1's Λ, and how far they are from it.

    A row is Λ with the measured mean. An interval that is not known (infinite) is not drawn.
    """
    check_something_to_draw(rows)
    expected = np.array([row[0] for row in rows])
    measured, low, high = np.array([(row[1].value, row[1].low, row[1].high) for row in rows]).T
    with canvas(file) as figure:
        absolute, difference = panels(figure, 2)
        _draw_intervals(absolute, expected, measured, measured - low, high - measured)
        top = 1.05 * max(expected.max(), np.nanmax(measured))
        absolute.plot([0, top], [0, top], color="0.4", linestyle="dashed", linewidth=0.9, label="equal", zorder=1)
        absolute.set(ylabel="measured uploads per round", ylim=(0, None))
        absolute.set_title("(a) measured mean and 95 % interval")
        absolute.legend(loc="upper left")
        _draw_intervals(difference, expected, measured - expected, measured - low, high - measured)
        difference.axhline(0, color="0.4", linestyle="dashed", linewidth=0.9, zorder=1)
        difference.set(ylabel="measured − Λ")
        difference.set_title("(b) difference and 95 % interval")
        for axes in (absolute, difference):
            axes.set(xlabel="Theorem 1's Λ (uploads per round)", xlim=(0, top))


def _draw_intervals(axes: "Axes", x: Array, y: Array, below: Array, above: Array) -> None:
    reach = np.where(np.isfinite(above + below), [below, above], np.nan)
    axes.errorbar(x, y, yerr=reach, fmt="o", color="black", markersize=3, elinewidth=0.9, capsize=2)
