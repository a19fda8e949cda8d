"""`mobfl sites` and `mobfl sections`."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mobfl.cli.options import (
    console,
    json_option,
    load,
    longest_stay_option,
    need,
    plot_option,
    seed_option,
    takes_scenario,
    working,
)
from mobfl.errors import InputError

if TYPE_CHECKING:
    from mobfl.mobility.networks import Bounds, Network
    from mobfl.mobility.places import Place, PlaceKind
    from mobfl.mobility.section_traffic import RankedBy
    from mobfl.planning.served import GoalName
    from mobfl.planning.sites import SiteChoice

_SITE_FILES = (".csv", ".geojson", ".toml")
_SECTION_FILES = (".csv", ".geojson")
_KINDS = click.Choice(["edges", "junctions", "streets", "grid"])


def _options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(decorators):
            command = each(command)
        return command

    return decorate


_file = click.Path(path_type=Path)
_takes_survey = _options(
    click.argument("source", type=_file, metavar="NETWORK|FILE"),
    click.option("--trace", type=_file, metavar="FILE", help="Positions on a network (.net.xml)."),
    click.option("--keep", type=_file, metavar="FILE.parquet", help="Keep the positions that SUMO drives."),
    click.option("--area", metavar="X0,Y0,X1,Y1", help="Where the grid and the districts are, in metres."),
    click.option("--radius", default=100.0, show_default=True, metavar="M", help="Of circles."),
    click.option("--spacing", type=float, metavar="M", help="Between circles of the grid; by default the radius."),
    click.option("--length", type=float, metavar="M", help="Cut longer edges into parts of at most this length."),
    click.option("--class", "classes", multiple=True, metavar="NAME", help="Only vehicles of this type, such as bus*."),
    longest_stay_option,
    seed_option,
    json_option,
    plot_option,
)


@click.command()
@_takes_survey
@takes_scenario
@click.option("--count", required=True, type=int, metavar="N", help="How many stations.")
@click.option("--candidates", type=_KINDS, help="By default edges, or without a network the grid.")
@click.option(
    "--goal",
    type=click.Choice(["steps", "vehicles", "districts"]),
    default="steps",
    show_default=True,
    help="Most valid local steps per second, most different vehicles heard, or all districts heard soonest.",
)
@click.option("--districts", metavar="AxB", help="Columns and rows of districts; by default 3x3.")
@click.option("--horizon", type=float, metavar="S", help="How long a district is waited for; by default 600 s.")
@click.option("--exact", is_flag=True, help="Plan every candidate fully, not only the chosen ones.")
@click.option(
    "--export", "exports", type=_file, multiple=True, metavar="FILE", help="Write a .csv, .geojson or .toml; repeats."
)
def sites(
    source: Path,
    trace: Path | None,
    keep: Path | None,
    area: str | None,
    radius: float,
    spacing: float | None,
    length: float | None,
    classes: tuple[str, ...],
    longest_stay_s: float | None,
    seed: int,
    as_json: bool,
    plot: Path | None,
    scenario: str,
    settings: tuple[str, ...],
    count: int,
    candidates: "PlaceKind | None",
    goal: "GoalName",
    districts: str | None,
    horizon: float | None,
    exact: bool,
    exports: tuple[Path, ...],
) -> None:
    """Find the places for N base stations.

    NETWORK is a configuration of SUMO (.sumocfg), which is driven once, or a network (.net.xml) with a --trace on it;
    FILE holds positions alone. Every candidate's traffic comes from one pass; SCENARIO has the delays. The chosen
    places share no vehicle's time, and the table tells how far from the best they can be at most.
    """
    need("choosing sites", "simulate", "numba")
    from mobfl.files.exports import check_export
    from mobfl.mobility.places import districts_of
    from mobfl.mobility.surveys import surveyed
    from mobfl.planning.sites import choose_sites

    loaded = load(scenario, settings)
    for file in exports:
        check_export(file, _SITE_FILES)
    if goal != "districts" and (districts is not None or horizon is not None):
        raise InputError("--districts and --horizon go with --goal districts")
    cells = _cells(districts or "3x3") if goal == "districts" else None
    with _part(f"looking at {source.name}"), surveyed(source, trace, keep, seed) as survey:
        bounds = _area(area) or survey.bounds
        kind: PlaceKind = candidates or ("grid" if survey.network is None else "edges")
        places = {each.name: each for each in survey.places(kind, bounds, radius, spacing, length)}
        texts = {f"place {name}": each.section for name, each in places.items()}
        areas = districts_of(bounds, *cells) if cells else {}
        with _part(f"reading the traffic of {len(places)} candidates"):
            found = survey.crossings(texts | {f"area {name}": each for name, each in areas.items()}, classes)
    crossings = {name: found[f"place {name}"] for name in places}
    if longest_stay_s is not None:
        crossings = {name: each.up_to(longest_stay_s, or_none=True) for name, each in crossings.items()}
    with _part(f"planning {len(places)} candidates", len(places)) as progress:
        choice = choose_sites(
            loaded, crossings, count, goal, {name: found[f"area {name}"] for name in areas} or None, horizon, exact,
            progress,
        )  # fmt: skip
    _show_choice(choice, places, survey.network, exports, as_json, plot)


@click.command()
@_takes_survey
@click.option("--kind", type=_KINDS, help="By default edges; without a network those that the file names.")
@click.option(
    "--by",
    type=click.Choice(["per-hour", "vehicles", "present", "stay", "length"]),
    default="per-hour",
    show_default=True,
    help="What they are ranked by.",
)
@click.option("--top", default=20, show_default=True, help="How many rows the table has; files have all.")
@click.option(
    "--export", "exports", type=_file, multiple=True, metavar="FILE", help="Write a .csv or .geojson; repeats."
)
def sections(
    source: Path,
    trace: Path | None,
    keep: Path | None,
    area: str | None,
    radius: float,
    spacing: float | None,
    length: float | None,
    classes: tuple[str, ...],
    longest_stay_s: float | None,
    seed: int,
    as_json: bool,
    plot: Path | None,
    kind: "PlaceKind | None",
    by: "RankedBy",
    top: int,
    exports: tuple[Path, ...],
) -> None:
    """List edges, junctions or streets with their traffic, length and stay.

    NETWORK is a configuration of SUMO (.sumocfg), which is driven once, or a network (.net.xml) with a --trace on it;
    FILE holds positions alone. What is listed can be given as a --section.
    """
    need("sections of a recording", "simulate", "numba")
    from mobfl.files.exports import check_export
    from mobfl.mobility.section_traffic import ranked
    from mobfl.mobility.surveys import surveyed

    if top < 1:
        raise InputError(f"--top must be >= 1, got {top}")
    for file in exports:
        check_export(file, _SECTION_FILES)
    with _part(f"looking at {source.name}"), surveyed(source, trace, keep, seed) as survey:
        places = {each.name: each for each in survey.places(kind, _area(area), radius, spacing, length)}
        with _part(f"reading the traffic of {len(places)} sections"):
            texts = {name: each.section for name, each in places.items()}
            found = survey.crossings(texts, classes, longest_stay_s)
    rows = ranked(places.values(), found, by)
    told = [each.to_dict() for each in rows]
    for file in exports:
        _export(file, [places[each.name] for each in rows], told, survey.network)
    if plot is not None:
        from mobfl.figures import draw_sections

        draw_sections(rows, places, survey.network, top, plot)
    if as_json:
        click.echo(json.dumps(told, indent=2))
    else:
        from mobfl.cli.tables.sites import print_sections

        print_sections(console(), rows, top, len(places))


def _show_choice(
    choice: "SiteChoice",
    places: "Mapping[str, Place]",
    network: "Network | None",
    exports: Sequence[Path],
    as_json: bool,
    plot: Path | None,
) -> None:
    chosen = [places[site.name] for site in choice.sites]
    told = [row | {"section": place.section} for row, place in zip(choice.rows(), chosen, strict=True)]
    for file in exports:
        _export(file, chosen, told, network)
    if plot is not None:
        from mobfl.figures import draw_sites

        draw_sites(choice, places, network, plot)
    if as_json:
        sites = [
            site | {"section": place.section} for site, place in zip(choice.to_dict()["sites"], chosen, strict=True)
        ]
        click.echo(json.dumps(choice.to_dict() | {"sites": sites}, indent=2))
    else:
        from mobfl.cli.tables.sites import print_choice

        print_choice(console(), choice, [place.section for place in chosen])


def _export(
    file: Path, places: "Sequence[Place]", rows: Sequence[Mapping[str, Any]], network: "Network | None"
) -> None:
    from mobfl.files.exports import write_geojson, write_rows, write_toml
    from mobfl.mobility.geojson import feature_collection

    match file.suffix.lower():
        case ".csv":
            write_rows(file, rows)
        case ".toml":
            write_toml(file, {"stations": [{key: row[key] for key in ("name", "section", "plan")} for row in rows]})
        case _:
            write_geojson(file, feature_collection(places, rows, None if network is None else network.degrees()))


def _area(text: str | None) -> "Bounds | None":
    if text is None:
        return None
    try:
        x0, y0, x1, y1 = map(float, text.split(","))
    except ValueError:
        x0, y0, x1, y1 = 0.0, 0.0, 0.0, 0.0
    if not (x0 < x1 and y0 < y1 and max(map(abs, (x0, y0, x1, y1))) <= 1e9):
        raise InputError(f"--area must be X0,Y0,X1,Y1 with X0 < X1 and Y0 < Y1, got {text!r}")
    return x0, y0, x1, y1


def _cells(text: str) -> tuple[int, int]:
    try:
        across, along = map(int, text.split("x"))
    except ValueError:
        raise InputError(f"--districts must be columns x rows such as 3x3, got {text!r}") from None
    return across, along


@contextmanager
def _part(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, elsewhere a line on stderr as it begins."""
    if not sys.stderr.isatty():
        click.echo(f"{what} …", err=True)
    with working(what, total) as progress:
        yield progress
