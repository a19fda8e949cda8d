"""Traffic as a function may be given it: crossings, a file of them, or a source of traffic by its name."""

import os
from pathlib import Path
from typing import TypeAlias

from mobfl.errors import InputError, shown
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sources import TRAFFIC, TrafficSource, crossings_from, crossings_of
from mobfl.scenario import Scenario

AnyCrossings: TypeAlias = Crossings | TrafficSource | str | os.PathLike[str]
"""Crossings, what `--trace` or `--traffic` takes, or a source of traffic."""


def crossings_given(
    given: AnyCrossings | None, scenario: Scenario, seed: int = 0, keep_tracks: bool = False
) -> Crossings | None:
    """The crossings that a function was given; None where there are none."""
    if given is None or isinstance(given, Crossings):
        return given
    try:
        if isinstance(given, str) and _is_source(given):
            return crossings_of(given, scenario, seed)
        if isinstance(given, str | os.PathLike):
            return read_crossings(given, keep_tracks=keep_tracks)
    except InputError as error:
        raise InputError(_in_our_words(line) for line in error.lines) from None
    if hasattr(given, "crossings"):
        return crossings_from(given, type(given).__name__, scenario, seed)
    raise InputError(
        f"crossings must be Crossings, a file, a name that `mobfl parts traffic` lists, or a source, got {shown(given)}"
    )


def trace_name(given: AnyCrossings | None) -> str | None:
    """What run.json calls the traffic, where it was given by a name."""
    if not isinstance(given, str | os.PathLike):
        return None
    return given if isinstance(given, str) and _is_source(given) else Path(given).name


def _is_source(text: str) -> bool:
    """A name of ours comes before a file; `module:object` is no file that is there."""
    name = TRAFFIC.parse(text).name
    return name in TRAFFIC.ours or name in TRAFFIC.installed() or (":" in text and not Path(text).exists())


def _in_our_words(line: str) -> str:
    for word in ("trace ", "traffic "):
        if line.startswith(word):
            return f"crossings {line.removeprefix(word)}"
    return line
