"""What a person can set, as the page needs it: the words, the rules, and how far a slider reaches."""

from typing import Any, Literal, NamedTuple, get_args, get_origin

from mobfl.learning.holdings import SPLITS
from mobfl.scenario import FIELDS, RADIO_FIELDS
from mobfl.scenario.symbols import SYMBOLS


class Slider(NamedTuple):
    """From where to where; by ratios if `log`, else in steps of a thousandth or so."""

    low: float
    high: float
    log: bool = False


SLIDERS = {
    "road.length_m": Slider(20, 5000, log=True),
    "traffic.speed_mps": Slider(0.5, 50),
    "traffic.speed_sd_mps": Slider(0, 15),
    "traffic.arrivals_per_s": Slider(0.001, 5, log=True),
    "traffic.participation": Slider(0.01, 1),
    "radio.carrier_ghz": Slider(0.5, 60, log=True),
    "radio.uplink_hz": Slider(1e5, 1e9, log=True),
    "radio.downlink_hz": Slider(1e5, 1e9, log=True),
    "radio.vehicle_dbm": Slider(-10, 50),
    "radio.station_dbm": Slider(-10, 50),
    "link.model_bytes": Slider(1e3, 1e9, log=True),
    "link.downlink_bps": Slider(1e5, 1e9, log=True),
    "link.uplink_bps": Slider(1e5, 1e9, log=True),
    "link.download_s": Slider(0, 20),
    "link.upload_s": Slider(0, 20),
    "compute.min_step_s": Slider(0.001, 5, log=True),
    "compute.extra_step_s": Slider(0, 2),
    "compute.extra_sd_s": Slider(0, 2),
    "training.learning_rate": Slider(1e-4, 1, log=True),
    "training.decay_to": Slider(0.01, 1),
    "training.momentum": Slider(0, 0.99),
    "training.batch_size": Slider(1, 1024, log=True),
    "training.samples_per_vehicle": Slider(1, 10_000, log=True),
    "training.duration_s": Slider(100, 100_000, log=True),
    "training.dirichlet_alpha": Slider(0.01, 100, log=True),
    "training.falling_to": Slider(0.01, 1),
    "training.average_s": Slider(0, 5000),
    "training.noise_uploads": Slider(0, 20),
}


# What nobody types into a page: it comes with a scenario.
_NOT_TYPED = {
    "compute.step_samples", "link.download_bytes", "link.upload_bytes", "energy.transmit_w", "energy.compute_w",
    "energy.capacitance", "energy.clock_hz", "training.alike",
}  # fmt: skip
# Of a radio the page has what decides most.
_RADIO = (
    "radio.path_loss", "radio.carrier_ghz", "radio.uplink_hz", "radio.downlink_hz", "radio.vehicle_dbm",
    "radio.station_dbm", "radio.sharing", "radio.download", "radio.fading",
)  # fmt: skip
_ALL = {key: RADIO_FIELDS[key] for key in _RADIO} | FIELDS
_BOUNDS = ("gt", "ge", "lt", "le")


def fields() -> list[dict[str, Any]]:
    """Every value of a scenario, the radio's first, in the order of its tables."""
    return [_field(key) for key in _ALL if key not in _NOT_TYPED]


def labels() -> dict[str, str]:
    """What the page calls every value, in its mistakes too: `length of the section (L)`."""
    return {
        key: f"{symbol.meaning} ({symbol.letter})" if symbol.letter else symbol.meaning
        for key, symbol in SYMBOLS.items()
    }


def units() -> dict[str, str]:
    """Of every value that has one, also of those that are not typed."""
    return {key: symbol.unit for key, symbol in SYMBOLS.items() if symbol.unit}


def _field(key: str) -> dict[str, Any]:
    symbol, slider = SYMBOLS[key], SLIDERS.get(key)
    return {
        "key": key,
        **symbol._asdict(),
        "kind": _kind(key),
        "choices": _choices(key) if slider is None else [],
        "slider": slider and slider._asdict(),
        "rules": _rules(key),
    }


def _choices(key: str) -> list[str]:
    """Of the splits those that any task may have; one that belongs to a task alone is written into the TOML."""
    if key == "training.split":
        return list(SPLITS)
    annotation = _ALL[key].annotation
    return list(get_args(annotation)) if get_origin(annotation) is Literal else []


def _kind(key: str) -> str:
    """How it is entered: a choice, a number, a whole number, or a whole number that may be a range."""
    annotation = _ALL[key].annotation
    if _choices(key):
        return "choice"
    kinds = set(get_args(annotation)) | {annotation}
    if key == "training.samples_per_vehicle":
        return "range"
    return "whole" if key == "link.model_bytes" or int in kinds else "number"


def _rules(key: str) -> dict[str, float]:
    """The bounds for a single number: what is beyond is not computed, and the server says why."""
    found = dict[str, float]()
    for part in [_ALL[key], *get_args(_ALL[key].annotation)]:
        for rule in getattr(part, "metadata", getattr(part, "__metadata__", ())):
            rules = [rule, *getattr(rule, "metadata", ())]
            found |= {name: getattr(each, name) for each in rules for name in _BOUNDS if hasattr(each, name)}
    return found
