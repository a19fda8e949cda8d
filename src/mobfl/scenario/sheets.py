"""A scenario as a line and as a small table."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mobfl.display import Displayed, Sheet
from mobfl.scenario.symbols import SYMBOLS, Symbol

if TYPE_CHECKING:
    from mobfl.scenario.tables import Scenario


class DisplayedScenario(Displayed):
    """What a scenario shows of itself."""

    def _brief(self: Any) -> str:
        return _brief(self)

    def _sheet(self: Any) -> Sheet:
        return _sheet(self)


def _brief(scenario: "Scenario") -> str:
    road, traffic, compute = scenario.road, scenario.traffic, scenario.compute
    told = [
        f"{road.length_m:g} m",
        f"{traffic.speed_mps:g} m/s",
        f"{traffic.arrivals_per_s:g} vehicles/s",
        f"local steps of {compute.min_step_s:g} + {compute.extra_step_s:g} s",
        *(["a radio"] if scenario.radio is not None else []),
        *([f"{len(scenario.fleet)} classes of vehicles"] if scenario.fleet else []),
    ]
    return ", ".join(told)


def _sheet(scenario: "Scenario") -> Sheet:
    """Values with unit and meaning, and whether they were given; of the training only what was given."""
    given = {f"{table}.{key}" for table, keys in scenario.given().items() if isinstance(keys, dict) for key in keys}
    rows = list[tuple[str, ...]]()
    for key, value in _flat(scenario.to_dict()):
        symbol = SYMBOLS.get(key, Symbol("", "", ""))
        origin = "" if key in given or key.startswith("fleet.") else "default"
        if not (origin and key.startswith("training.")):
            rows.append((key, f"{_said(value)} {symbol.unit}".rstrip(), symbol.meaning, origin))
    return Sheet("Scenario", rows)


def _flat(tables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for table, keys in tables.items():
        if isinstance(keys, dict):
            yield from ((f"{table}.{key}", value) for key, value in keys.items())
        else:  # the fleet
            yield from ((f"{table}.{place}", each) for place, each in enumerate(keys))


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    if isinstance(value, list | tuple) and len(value) > 2:
        return f"{len(value)} values"
    if isinstance(value, list | tuple):
        return " to ".join(map(_said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
