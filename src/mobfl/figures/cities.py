"""Stations side by side: where they are, their plans, and how their models and the cloud's have learnt."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl.errors import InputError
from mobfl.figures.canvas import BLUE, as_text, canvas, check_something_to_draw
from mobfl.mobility.sections import Box, Circle, parse_section
from mobfl.scenario import CLOUD, stretch_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mobfl.runs.history import History

Told = Mapping[str, Any]
"""A station: name, section, local_steps, round_s and objective, as run.json and `mobfl plan --json` tell them."""
_HEIGHT_IN, _ROW_IN = 2.6, 0.24


def draw_stations(stations: Sequence[Told], file: Path, history: "History | None" = None) -> None:
    """Draws the stations' sections, H, T and g, and of a run the loss of every model on all data over virtual time."""
    check_something_to_draw(stations)
    shapes = [_shape(each["section"]) for each in stations]
    panels = ["places"] * all(shape is not None for shape in shapes) + ["plans"] + ["curves"] * (history is not None)
    with canvas(file, (2.7 * len(panels), max(_HEIGHT_IN, 1.0 + _ROW_IN * len(stations)))) as figure:
        for letter, panel, axes in zip("abc", panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=False):
            if panel == "places":
                _draw_places(axes, shapes)
            elif panel == "plans":
                _draw_plans(axes, stations)
            elif history is not None:
                _draw_curves(axes, history)
            axes.set_title(f"({letter}) {_TITLES[panel]}")


_TITLES = {"places": "stations", "plans": "plans", "curves": "loss"}


def _shape(section: str) -> Any:
    """What can be drawn of it without its network; None if nothing can."""
    if (stretch := stretch_of(section)) is not None:
        return stretch
    try:
        found = parse_section(section)
    except InputError:
        return None
    return found if isinstance(found, Circle | Box) else None


def _draw_places(axes: "Axes", shapes: Sequence[Any]) -> None:
    from matplotlib import patches

    if any(not isinstance(shape, Circle | Box) for shape in shapes):
        _draw_line(axes, shapes)
        return
    for number, shape in enumerate(shapes, start=1):
        if isinstance(shape, Circle):
            centre = shape.x, shape.y
            patch: patches.Patch = patches.Circle(centre, shape.radius, facecolor="0.85", ec=BLUE)
        else:
            size = shape.x1 - shape.x0, shape.y1 - shape.y0
            centre = (shape.x0 + shape.x1) / 2, (shape.y0 + shape.y1) / 2
            patch = patches.Rectangle((shape.x0, shape.y0), *size, facecolor="0.85", ec=BLUE)
        axes.add_patch(patch)
        axes.annotate(str(number), centre, ha="center", va="center", fontsize=8)
    axes.autoscale_view()
    axes.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")
    axes.margins(0.08)


def _draw_line(axes: "Axes", shapes: Sequence[Any]) -> None:
    """A corridor, driven from left to right."""
    end_m = max(shape.to_m for shape in shapes)
    axes.annotate("", (1.04 * end_m, 0), (-0.04 * end_m, 0), arrowprops={"arrowstyle": "->", "color": "0.5"})
    for number, shape in enumerate(shapes, start=1):
        axes.plot([shape.from_m, shape.to_m], [0, 0], color=BLUE, linewidth=6, solid_capstyle="butt")
        middle = (shape.from_m + shape.to_m) / 2, 0
        axes.annotate(str(number), middle, (0, 8), textcoords="offset points", ha="center", fontsize=8)
    axes.set(xlabel="along the road (m)", xlim=(-0.05 * end_m, 1.06 * end_m), ylim=(-1, 1), yticks=[])
    axes.spines["left"].set_visible(False)


def _draw_plans(axes: "Axes", stations: Sequence[Told]) -> None:
    """A bar of g for each, with its H and T; one without such a plan has no bar."""
    rows = np.arange(len(stations))[::-1]
    goals = [each.get("objective") or 0.0 for each in stations]
    axes.barh(rows, goals, height=0.6, color="0.8")
    for row, each, goal in zip(rows, stations, goals, strict=True):
        axes.annotate(_words(each), (goal, row), (3, 0), textcoords="offset points", va="center", fontsize=7)
    names = [f"{number}  {as_text(each['name'])}" for number, each in enumerate(stations, start=1)]
    axes.set_yticks(rows, names, fontsize=7)
    axes.set(xlabel="g (valid local steps per s)", xlim=(0, 2.1 * max(goals) or 1.0))
    axes.tick_params(axis="y", length=0)


def _words(told: Told) -> str:
    h, t = told.get("local_steps"), told.get("round_s")
    if h is None and t is None:
        return as_text(str(told.get("policy") or "no plan"))
    return ", ".join([*([f"H {h}"] if h is not None else []), *([f"T {t:.3g} s"] if t is not None else [])])


def _draw_curves(axes: "Axes", history: "History") -> None:
    """Every station's model thin and grey, the cloud's thick."""
    end_s = float(history.columns["end_s"][-1]) if len(history) else 1.0
    for place, name in enumerate((*history.stations, CLOUD)):
        rows = history.of_station(name)
        if not len(rows):
            continue
        # What is there after the last row is there until the end.
        times = np.concatenate([[0.0], rows.columns["end_s"], [end_s]])
        losses = np.concatenate([[history.initial["loss"]], rows.columns["loss"], rows.columns["loss"][-1:]])
        colour, width = ("black", 1.8) if name == CLOUD else ("0.6", 0.7)
        label = "the cloud's" if name == CLOUD else "stations'" if place == 0 else None
        axes.step(times, losses, where="post", label=label, color=colour, linewidth=width)
    axes.set(xlabel="virtual time (s)", ylabel="validation loss on all data", xlim=(0, end_s))
    axes.legend()
