"""How a plan follows the traffic: what was known when, H and T, and how near that comes to the best."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mobfl.figures.canvas import BLUE, BROWN, canvas, check_something_to_draw
from mobfl.rounds.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mobfl.policies.adaptive.following import Note

Array = NDArray[np.float64]

_SIZE_IN = (7.2, 5.6)


def draw_following(
    notes: "Sequence[Note]",
    file: Path,
    length_m: float,
    truth: Callable[[Array], tuple[Array, Array]] | None = None,
    shares: tuple[Array, Array] | None = None,
) -> None:
    """Draws λ, speed, H and T over time.

    Where they are known, the true λ and speed too, and the share of an oracle's valid steps at the hours of `shares`.
    """
    check_something_to_draw(notes)
    at_s = np.array([note.at_s for note in notes])
    speeds = [_speed(note.known.stay_s, length_m) for note in notes]
    with canvas(file, _SIZE_IN) as figure:
        rows = figure.subplots(4 if shares else 3, 1, sharex=True)
        _draw_estimate(rows[0], at_s, [note.known.arrivals_per_s for note in notes])
        _draw_estimate(rows[1], at_s, speeds)
        if truth is not None:
            for axes, true in zip(rows, truth(at_s), strict=False):
                axes.plot(at_s / 3600, true, color="black", linestyle="dashed", linewidth=1.0, label="true")
        rows[0].set(yscale="log", ylabel="λ (1/s)")
        rows[1].set(ylabel="speed (m/s)", ylim=(0, None))
        rows[1].legend(loc="lower left")  # where quiet traffic leaves room
        _draw_plan(rows[2], at_s, notes)
        if shares:
            _draw_shares(rows[3], *shares)
        rows[-1].set(xlabel="time (h)", xlim=(at_s[0] / 3600, max(at_s[-1] / 3600, at_s[0] / 3600 + 0.01)))


def _speed(stay: Estimate, length_m: float) -> Estimate:
    return Estimate(length_m / stay.value, length_m / stay.high, length_m / max(stay.low, 1e-9))


def _draw_estimate(axes: "Axes", at_s: Array, estimates: Sequence[Estimate]) -> None:
    value, low, high = np.array([(each.value, each.low, each.high) for each in estimates]).T
    axes.fill_between(at_s / 3600, low, high, color=BLUE, alpha=0.25, linewidth=0, label="95 % interval")
    axes.plot(at_s / 3600, value, color=BLUE, linewidth=1.2, label="estimate")


def _draw_plan(axes: "Axes", at_s: Array, notes: "Sequence[Note]") -> None:
    hours = at_s / 3600
    h = [note.local_steps for note in notes if note.local_steps is not None]
    if h:  # else as many as fit
        axes.step(hours, h, where="post", color=BLUE, label="H (steps)")
    seconds = [note.round_s for note in notes]
    axes.step(hours, seconds, where="post", color=BROWN, linestyle="dashed", label="T (s)")
    axes.set(ylabel="H, T (s)" if h else "T (s)", ylim=(0, None))
    axes.legend(loc="upper center", ncols=2)


def _draw_shares(axes: "Axes", hour: Array, share: Array) -> None:
    axes.bar(hour, share, width=0.9, align="edge", color="0.75")
    axes.axhline(1.0, color="0.3", linestyle="dashed", linewidth=0.9)
    axes.set(ylabel="share of\nthe oracle", ylim=(0, None))
