"""What a radio gives at every place of a section, with a crowd of so many who send."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.errors import InputError
from mobfl.scenario import AnyScenario, scenario_of
from mobfl.theory.radio import distance_m, downlink_bps, downlink_snr_db, uplink_bps, uplink_snr_db

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coverage:
    """Over places, without shadowing and nobody in between; what depends on the crowd has a row per number of senders.

    Seconds are of a vehicle that stands there, None where the link has no sizes.
    """

    senders: tuple[int, ...]
    way_m: Array  # (places,)
    distance_m: Array
    uplink_snr_db: Array  # (senders, places)
    uplink_bps: Array
    upload_s: Array | None
    downlink_snr_db: Array  # (places,)
    downlink_bps: Array
    download_s: Array | None

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row for every place."""
        columns = {name: value for name, value in vars(self).items() if name != "senders"}
        return [
            {name: None if value is None else value[..., place].tolist() for name, value in columns.items()}
            for place in range(len(self.way_m))
        ]


def coverage(scenario: AnyScenario, way_m: ArrayLike, senders: Sequence[int] = (1,)) -> Coverage:
    """SNR, rates and seconds of transfers at these places of a section.

    In a queue (`sharing = "fifo"`) whoever sends has the band alone, and the seconds are those of the last.

    Args:
        scenario: With a radio.
        way_m: How far into the section.
        senders: Numbers of vehicles that want to send at once.
    """
    scenario = scenario_of(scenario)
    radio, link, way = scenario.radio, scenario.link, np.asarray(way_m, float)
    if radio is None:
        raise InputError(
            "the scenario must have a radio, got none: add a table [radio], or --set radio.path_loss=urban-los"
        )
    crowd = np.array(senders, float)[:, np.newaxis]
    at_once = crowd if radio.sharing == "equal" else np.ones_like(crowd)
    away = distance_m(radio, way, scenario.road.length_m)
    up, down = uplink_bps(radio, away, at_once), downlink_bps(radio, away)
    upload_s = download_s = None
    if link.model_bytes is not None:
        upload_s = 8.0 * (link.upload_bytes or link.model_bytes) / up * (crowd / at_once)
        download_s = 8.0 * (link.download_bytes or link.model_bytes) / down
    snr = uplink_snr_db(radio, away, at_once), downlink_snr_db(radio, away)
    return Coverage(tuple(senders), way, away, snr[0], up, upload_s, snr[1], down, download_s)
