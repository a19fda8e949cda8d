"""Maps: a network with sections on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mobfl.errors import InputError
from mobfl.figures.canvas import BLUE, BROWN, canvas
from mobfl.mobility.networks import Network
from mobfl.mobility.places import Place
from mobfl.mobility.section_traffic import SectionTraffic
from mobfl.planning.served import GoalName
from mobfl.planning.sites import SiteChoice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE_IN, _MAP_IN = (7.2, 4.0), (7.2, 5.4)
_WORTH: dict[GoalName, str] = {
    "steps": "valid local steps per second",
    "vehicles": "different vehicles heard",
    "districts": "seconds until the slowest\ndistrict is heard",
}
_LABEL = {"boxstyle": "circle,pad=0.18", "facecolor": "white", "edgecolor": "black", "linewidth": 0.7}


def draw_sites(choice: SiteChoice, places: Mapping[str, Place], network: Network | None, file: Path) -> None:
    """Draws the chosen places on the map, numbered, and what each further one adds.

    Args:
        choice: Of sites.
        places: All candidates by name.
        network: Drawn below them, if there is one.
        file: PNG, PDF or SVG.
    """
    chosen = [places[site.name] for site in choice.sites]
    with canvas(file, _SIZE_IN) as figure:
        plane, worth = figure.subplots(1, 2, width_ratios=(2.1, 1))
        draw_network(plane, network)
        others = [place for name, place in places.items() if name in choice.objectives and place not in chosen]
        _draw_candidates(plane, others)
        for rank, place in enumerate(chosen, start=1):
            _draw_chosen(plane, rank, place)
        _as_map(plane)
        plane.set_title(f"(a) the {len(chosen)} chosen of {len(choice.objectives)} candidates")
        _draw_worth(worth, choice)
        worth.set_title("(b) with each further site")


def draw_sections(
    ranked: Sequence[SectionTraffic], places: Mapping[str, Place], network: Network | None, numbered: int, file: Path
) -> None:
    """Draws sections with more traffic darker and wider, the first ones numbered as in the table.

    Args:
        ranked: Sections with their traffic, in the order of their numbers.
        places: Where they are, by name.
        network: Drawn below them, if there is one.
        numbered: How many have a number.
        file: PNG, PDF or SVG.
    """
    if not ranked or any(places[each.name].centre is None for each in ranked):
        raise InputError("a map must have sections whose places are known, got none: give the network")
    most = max(each.crossings_per_hour for each in ranked)
    with canvas(file, _MAP_IN) as figure:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        axes, colours = figure.subplots(), colormaps["viridis_r"]
        draw_network(axes, network)
        for rank, each in reversed(list(enumerate(ranked, start=1))):
            place, share = places[each.name], each.crossings_per_hour / most
            _draw_traffic(axes, place, colours(share), share)
            if rank <= numbered and place.centre is not None:
                axes.text(*place.centre, str(rank), ha="center", va="center", fontsize=6, zorder=5, bbox=_LABEL)
        _as_map(axes)
        figure.colorbar(ScalarMappable(Normalize(0, most), colours), ax=axes, label="vehicles per hour", shrink=0.8)


def _draw_traffic(axes: "Axes", place: Place, colour: Any, share: float) -> None:
    if place.is_area and place.centre is not None:
        axes.plot(*place.centre, "o", color=colour, markersize=3 + 9 * share**0.5, zorder=2 + share)
    for line in () if place.is_area else place.lines:
        axes.plot(*line.T, color=colour, linewidth=0.8 + 3 * share**0.5, zorder=2 + share)


def draw_network(axes: "Axes", network: Network | None) -> None:
    for edge in () if network is None else network.edges.values():
        axes.plot(*edge.line.T, color="0.82", linewidth=0.8, zorder=1)


def _draw_candidates(axes: "Axes", places: Sequence[Place]) -> None:
    """Areas by their centres, since their rims would hide the map."""
    if areas := [place.centre for place in places if place.is_area and place.centre]:
        axes.plot(*np.array(areas).T, ".", color="0.55", markersize=2.5, zorder=2, label="candidate")
    for place in places:
        for line in () if place.is_area else place.lines:
            axes.plot(*line.T, color="0.55", linewidth=0.9, zorder=2)


def _draw_chosen(axes: "Axes", rank: int, place: Place) -> None:
    for line in place.lines:
        if place.is_area:
            axes.fill(*line.T, color=BLUE, alpha=0.25, linewidth=0, zorder=3)
        axes.plot(*line.T, color=BLUE, linewidth=1.2 if place.is_area else 3.0, zorder=4)
    x, y = place.centre or (np.nan, np.nan)
    axes.text(x, y, str(rank), ha="center", va="center", fontsize=6.5, zorder=5, bbox=_LABEL)


def _as_map(axes: "Axes") -> None:
    axes.set_aspect("equal")
    axes.set(xlabel="x (m)", ylabel="y (m)")


def _draw_worth(axes: "Axes", choice: SiteChoice) -> None:
    from matplotlib.ticker import MaxNLocator

    count = np.arange(1, len(choice.sites) + 1)
    look = {"color": "0.75", "linewidth": 4.0}  # wide, since what was reached may lie on it
    if choice.goal == "districts":
        axes.axhline(choice.bounds[-1], label=f"no {choice.wanted} sites take less", **look)  # type: ignore[arg-type]
    else:
        bounds = choice.bounds[: max(len(count), 1)]
        axes.plot(np.arange(1, len(bounds) + 1), bounds, label="bound on the best", **look)  # type: ignore[arg-type]
        axes.bar(count, [site.gain for site in choice.sites], color=BROWN, width=0.6, label="gain of this one")
    axes.plot(count, [site.value for site in choice.sites], "o-", color=BLUE, markersize=3.5, label="all so far")
    axes.set(xlabel="sites", ylabel=_WORTH[choice.goal], ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")
