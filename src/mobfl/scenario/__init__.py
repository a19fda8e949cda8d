"""What a person writes: a road as checked tables, with TOML in and out."""

from mobfl.scenario.compute import Compute, Law, VehicleClass
from mobfl.scenario.loading import load_scenario, packaged_scenarios, parse_setting
from mobfl.scenario.measured import with_samples_read
from mobfl.scenario.radio import Download, Fading, PathLoss, Radio, Sharing
from mobfl.scenario.tables import (
    FIELDS,
    LEAST_SPEED,
    LINK_BYTES,
    LINK_SIZES,
    MOST_STEPS,
    RADIO_FIELDS,
    Energy,
    FleetClass,
    Link,
    Scenario,
    Training,
    most_steps,
    transfer_s,
)
from mobfl.scenario.values import MOST, Count, Positive, Table

__all__ = [
    "FIELDS",
    "LEAST_SPEED",
    "LINK_BYTES",
    "LINK_SIZES",
    "MOST",
    "MOST_STEPS",
    "RADIO_FIELDS",
    "Compute",
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
    "Table",
    "Training",
    "VehicleClass",
    "load_scenario",
    "most_steps",
    "packaged_scenarios",
    "parse_setting",
    "transfer_s",
    "with_samples_read",
]
