"""What computing and sending cost a vehicle in energy."""

from typing import Self

from pydantic import Field, model_validator

from mobfl.scenario.values import Number, Positive, Table


class Energy(Table):
    """What vehicles draw while they send and while they train."""

    # 23 dBm: what a radio of power class 3 sends with at most (3GPP TS 38.101-1, table 6.2.1-1).
    transmit_w: Number = Field(0.2, ge=0)
    # An embedded computer at work: NVIDIA's Jetson modules have modes of 7 and 15 W (Orin Nano) and of 15, 30 and 50 W
    # (AGX Orin), by their data sheets; 15 W is in both.
    compute_w: Number = Field(15.0, ge=0)
    # Or as CMOS does: capacitance·f² per cycle at f cycles a second (T. D. Burd, R. W. Brodersen, J. VLSI Signal
    # Processing 1996), as papers of the field have it, with 1e-28 and 1e9 for a processor core.
    capacitance: Number | None = Field(None, gt=0)
    clock_hz: Positive | None = None

    @property
    def computing_w(self) -> float:
        """While local steps last: as given, or capacitance·f²·(f cycles a second)."""
        if self.capacitance is None or self.clock_hz is None:
            return self.compute_w
        return self.capacitance * self.clock_hz**3

    @model_validator(mode="after")
    def _computing_given_one_way(self) -> Self:
        given = [key for key in ("capacitance", "clock_hz") if getattr(self, key) is not None]
        if len(given) == 1:
            missing = "clock_hz" if given == ["capacitance"] else "capacitance"
            raise ValueError(f"energy.{given[0]} must come with {missing}, got it alone")
        if given and "compute_w" in self.model_fields_set:
            raise ValueError("energy must give either compute_w or capacitance and clock_hz, got both")
        return self
