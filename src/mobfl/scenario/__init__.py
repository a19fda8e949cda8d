"""What a person writes: a road as checked tables, with TOML in and out."""

from mobfl.scenario.city import CLOUD, Carried, Cloud, Corridor, Station, Stretch, at_station, listed, stretch_of
from mobfl.scenario.compute import Compute, Law, VehicleClass
from mobfl.scenario.energy import Energy
from mobfl.scenario.loading import AnyScenario, load_scenario, packaged_scenarios, parse_setting, scenario_of
from mobfl.scenario.measured import with_samples_read
from mobfl.scenario.radio import Download, Fading, PathLoss, Radio, Sharing
from mobfl.scenario.tables import (
    FIELDS,
    LEAST_SPEED,
    LINK_BYTES,
    LINK_SIZES,
    MOST_STEPS,
    RADIO_FIELDS,
    FleetClass,
    Link,
    Scenario,
    Training,
    most_steps,
    transfer_s,
)
from mobfl.scenario.values import MOST, Count, Positive, Table

__all__ = [
    "CLOUD",
    "FIELDS",
    "LEAST_SPEED",
    "LINK_BYTES",
    "LINK_SIZES",
    "MOST",
    "MOST_STEPS",
    "RADIO_FIELDS",
    "AnyScenario",
    "Carried",
    "Cloud",
    "Compute",
    "Corridor",
    "Count",
    "Download",
    "Energy",
    "Fading",
    "FleetClass",
    "Law",
    "Link",
    "PathLoss",
    "Positive",
    "Radio",
    "Scenario",
    "Sharing",
    "Station",
    "Stretch",
    "Table",
    "Training",
    "VehicleClass",
    "at_station",
    "listed",
    "load_scenario",
    "most_steps",
    "packaged_scenarios",
    "parse_setting",
    "scenario_of",
    "stretch_of",
    "transfer_s",
    "with_samples_read",
]
