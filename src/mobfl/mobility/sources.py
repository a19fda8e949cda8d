"""Traffic by name: sources that make crossings for a scenario, ours or somebody's own."""

from dataclasses import replace
from typing import Any, Protocol

from mobfl.errors import InputError
from mobfl.mobility.crossings import Crossings
from mobfl.parts import Kind
from mobfl.scenario import Scenario

TRAFFIC = Kind(
    "traffic",
    "traffic",
    ("crossings",),
    {
        "poisson": "mobfl.mobility.sources:PoissonTable",
        "day": "mobfl.mobility.sources:DayOfTraffic",
        "sumo": "mobfl.mobility.sources:SumoRoad",
    },
)


class TrafficSource(Protocol):
    """Any traffic becomes crossings; it knows nothing of learning."""

    def crossings(self, scenario: Scenario, seed: int) -> Crossings:
        """Who crosses the section when, for at least as long as the scenario's training lasts.

        Args:
            scenario: The road; a source takes of it what it needs.
            seed: Of its draws; the same seed gives the same crossings.
        """


def crossings_of(name: str, scenario: Scenario, seed: int) -> Crossings:
    """The crossings of the source of that name."""
    return crossings_from(TRAFFIC.build(name), name, scenario, seed)


def crossings_from(source: TrafficSource, name: str, scenario: Scenario, seed: int) -> Crossings:
    """The crossings that a source makes for this road."""
    # Traffic knows nothing of links, the theory of one whose sizes are open or of a radio as little.
    opaque = scenario.lacks_sizes or scenario.radio is not None
    road = scenario.with_values({"link": {}, "radio": None}) if opaque else scenario
    made: Any = source.crossings(road, seed)
    if not isinstance(made, Crossings):
        raise InputError(f"traffic {name!r} must make mobfl.Crossings, got {type(made).__name__}")
    return replace(made, drawn=True)


class PoissonTable:
    """Poisson arrivals at the scenario's rate and speeds, as a table that lasts as long as the training."""

    def crossings(self, scenario: Scenario, seed: int) -> Crossings:
        from mobfl.mobility.poisson import poisson_table

        return poisson_table(scenario, seed)


class DayOfTraffic:
    """A day with two rush hours, and a signal from noon on, on a section as long as the scenario's."""

    def crossings(self, scenario: Scenario, seed: int) -> Crossings:
        from mobfl.mobility.day import Day, day_crossings

        return day_crossings(Day(scenario.road.length_m), seed)


class SumoRoad:
    """A straight road with the scenario's length, arrivals and speeds, driven by SUMO; lanes, and a signal if given.

    `tracks=1` keeps where everybody was.
    """

    def __init__(self, lanes: int = 1, cycle_s: float = 0.0, green_s: float = 0.0, tracks: int = 0) -> None:
        self._lanes, self._cycle_s, self._green_s, self._keep_tracks = lanes, cycle_s, green_s, bool(tracks)

    def crossings(self, scenario: Scenario, seed: int) -> Crossings:
        from mobfl.mobility.sumo import Signal, straight_road_crossings

        signal = Signal(self._cycle_s, self._green_s) if self._cycle_s else None
        return straight_road_crossings(
            scenario, lanes=self._lanes, signal=signal, duration_s=scenario.training.duration_s, seed=seed,
            keep_tracks=self._keep_tracks,
        )  # fmt: skip
