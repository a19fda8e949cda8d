"""Scenarios from TOML: files, the packaged ones by name, and single values as a person types them."""

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

from mobfl.errors import InputError, shown
from mobfl.files.toml import read_toml
from mobfl.scenario.measured import with_samples_read
from mobfl.scenario.tables import Scenario


def packaged_scenarios() -> dict[str, Traversable]:
    """The scenarios that come with mobfl, by name."""
    files = (resources.files("mobfl.scenario") / "packaged").iterdir()
    named = {file.name.removesuffix(".toml"): file for file in files}
    return dict(sorted(named.items()))


def load_scenario(source: str | os.PathLike[str] = "paper") -> Scenario:
    """The scenario in a TOML file, or the packaged one of that name.

    Args:
        source: A file, or a name that `mobfl scenarios` lists.
    """
    packaged = packaged_scenarios()
    file = packaged.get(str(source)) or Path(source)
    try:
        tables = read_toml(file, f"scenario {shown(str(source))}")
    except FileNotFoundError:
        names = ", ".join(packaged)
        raise InputError(f"scenario {shown(str(source))} must be a file or one of {names}: no such file") from None
    return Scenario.from_dict(with_samples_read(tables, Path(source).parent))


AnyScenario: TypeAlias = Scenario | str | os.PathLike[str] | Mapping[str, Any]
"""A scenario, a packaged one's name, a TOML file, or tables as TOML has them."""


def scenario_of(given: AnyScenario) -> Scenario:
    """The scenario that a function was given."""
    if isinstance(given, Scenario):
        return given
    if isinstance(given, str | os.PathLike):
        return load_scenario(given)
    if isinstance(given, Mapping):
        return Scenario.from_dict(with_samples_read(given, Path()))
    raise InputError(f"scenario must be a Scenario, a packaged one's name, a file or tables, got {shown(given)}")


def parse_setting(text: str, option: str = "set", form: str = "TABLE.KEY=VALUE") -> tuple[str, Any]:
    """`road.length_m=500` as key and value; a value that is not TOML is taken as text."""
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise InputError(f"{option} must be {form}, got {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()
