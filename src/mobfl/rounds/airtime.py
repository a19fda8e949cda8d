"""What rounds on a shared radio made of it: how long transfers took, and what was lost to whom."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mobfl.rounds.rows import Outcome, VehicleRows
from mobfl.theory import Transfers


@dataclass(frozen=True)
class AirResult:
    """The radio in simulated rounds.

    Args:
        download_s: How long a download took that was complete, on average.
        upload_s: How long an upload took that was complete, on average.
        upload_bps: Its mean rate.
        sending: How many were sending, averaged over all time.
        lost_by_radio: The share of turns whose steps alone would have been in time.
        lost_by_clock: The share of those that would have been late without any transfer, too.
        expected: Mean times and the crowd by the fixed point of the theory; None where it does not know.
    """

    download_s: float
    upload_s: float
    upload_bps: float
    sending: float
    lost_by_radio: float
    lost_by_clock: float
    expected: Transfers | None = None

    def to_dict(self) -> dict[str, Any]:
        told = {key: value for key, value in asdict(self).items() if key != "expected"}
        promised = {} if self.expected is None else asdict(self.expected)
        numbers = told | {f"expected_{key}": value for key, value in promised.items()}
        return {key: value if math.isfinite(value) else None for key, value in numbers.items()}


class AirCounts:
    """Sums over blocks of rounds one after the other."""

    def __init__(self) -> None:
        self._sums = np.zeros(8)

    def add(self, rows: VehicleRows) -> None:
        if rows.transfers is None:
            raise ValueError("these rounds had no radio")
        air, done = rows.transfers, rows.outcome == Outcome.UPLOADED
        loaded = np.isfinite(air.train_s)
        clock = np.isin(rows.outcome, (Outcome.LEFT_EARLY, Outcome.ROUND_OVER))
        self._sums += [
            loaded.sum(), (air.train_s - rows.begin_s)[loaded].sum(), done.sum(),
            (rows.end_s - air.send_s)[done].sum(), np.nansum(rows.end_s - air.send_s),
            rows.taking_part.sum(), (rows.outcome == Outcome.RADIO).sum(), clock.sum(),
        ]  # fmt: skip

    def result(self, upload_bits: float, lasted_s: float, expected: Transfers | None) -> AirResult:
        loaded, loading_s, done, uploading_s, sending_s, turns, radio, clock = self._sums.tolist()
        by_radio, by_clock = (each / turns if turns else math.nan for each in (radio, clock))
        upload_s = uploading_s / done if done else math.nan
        bps = upload_bits * done / uploading_s if uploading_s else math.nan
        download_s = loading_s / loaded if loaded else math.nan
        return AirResult(download_s, upload_s, bps, sending_s / lasted_s, by_radio, by_clock, expected)
