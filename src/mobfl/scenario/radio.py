"""The radio between vehicles and station: an optional table, from which a transfer's rate follows at every place.

Without it a transfer takes the scenario's seconds. What is not given takes a usual value, whose source stands beside
it; docs/guides/radio.md has them in a table. `theory.radio` holds the formulas.
"""

from typing import Annotated, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from mobfl.scenario.values import Number, Positive, Table

PathLoss: TypeAlias = Literal["urban-los", "urban-nlos", "highway-los", "cell"]
Fading: TypeAlias = Literal["none", "rayleigh"]
Sharing: TypeAlias = Literal["equal", "fifo"]
Download: TypeAlias = Literal["broadcast", "unicast"]

CELL_GHZ = 2.0  # the only carrier that the macro cell's path loss is for
# Beyond these a unit was mistaken: no transmitter, antenna or receiver comes near.
Decibel = Annotated[Number, Field(ge=-200, le=200)]
LossDecibel = Annotated[Number, Field(ge=0, le=50)]


class Shadowing(NamedTuple):
    """How far the received power strays around the path loss, and over which way it forgets that."""

    sd_db: float
    distance_m: float


# dB: TR 37.885, table 6.2.1-1; so ns-3's ThreeGppV2vPropagationLossModel and Simu5G's Tr37885ChannelModel.
# Metres: 10 and 13, on highways as in towns, are ns-3's (TR 38.901, table 7.5-6, street canyon). TR 37.885, 6.2.2,
# refers to TR 36.885, A.1.4, which has 10 m in towns, with line of sight or without, and 25 m on freeways.
# Macro cell: TR 36.885, table A.1.4-2, base station to vehicle; so public simulators that follow it.
_SHADOWING: dict[PathLoss, Shadowing] = {
    "urban-los": Shadowing(3.0, 10.0),
    "urban-nlos": Shadowing(4.0, 13.0),
    "highway-los": Shadowing(3.0, 10.0),
    "cell": Shadowing(8.0, 50.0),
}
_IN_SIGHT: tuple[PathLoss, ...] = ("urban-los", "highway-los")


class Radio(Table):
    """Carrier, bands, powers, antennas, and how the band is shared."""

    # Every default has a source and a second one; where they differ, both are told.
    # The band for intelligent transport, 5.855 to 5.925 GHz: n47 of 3GPP TS 38.101-1, table 5.2-1; FCC 20-164.
    carrier_ghz: Positive = 5.9
    # What FCC 20-164 leaves to vehicles, 5.905 to 5.925 GHz, which SAE J3161/1 uses as one channel.
    uplink_hz: Positive = 20e6
    downlink_hz: Positive = 20e6
    # Of a terminal, on wheels or as a roadside unit: TR 37.885, table 6.1.1-1; power class 3 of TS 38.101-1, 6.2.1.
    vehicle_dbm: Decibel = 23.0
    station_dbm: Decibel = 23.0
    # 3 dBi on a vehicle: TR 36.885, A.1.1, and simulators that follow it. There a roadside unit has 3 dBi too and a
    # macro base station 8; here it gains nothing, which is cautious.
    vehicle_gain_dbi: Decibel = 3.0
    station_gain_dbi: Decibel = 0.0
    # 9 dB of a terminal below 6 GHz: TR 36.885, A.1.1, and simulators that follow it. A base station has 5 dB there.
    noise_figure_db: LossDecibel = 9.0
    path_loss: PathLoss = "urban-los"
    shadowing_db: LossDecibel | None = None
    shadowing_m: Positive | None = None
    # How many are behind another vehicle: ours, nobody. What that costs is `theory.vehicle_between_db`.
    hidden_share: Number = Field(0.0, ge=0, le=1)
    fading: Fading = "none"
    # Less an overhead of 0.08: TS 38.306, 4.1.2, uplink below 6 GHz. The downlink's is 0.14; one share serves both.
    efficiency: Positive = Field(0.92, le=1)
    # 256-QAM at the code rate 948/1024 carries 7.40625 bit/s/Hz: TS 38.306, 4.1.2; TS 38.214, table 5.1.3.1-2.
    most_bps_per_hz: Positive = Field(7.4, ge=0.01, le=64)
    station_along_m: Number | None = Field(None, ge=0)
    # Ours: a mast beside the lanes. Vehicles' antennas are at 1.5 m in TR 36.885, at 1.6 m on cars in TR 37.885.
    station_beside_m: Number = Field(10.0, ge=0)
    station_above_m: Number = Field(5.0, ge=0)
    sharing: Sharing = "equal"
    download: Download = "broadcast"

    @property
    def shadow_sd_db(self) -> float:
        return _SHADOWING[self.path_loss].sd_db if self.shadowing_db is None else self.shadowing_db

    @property
    def shadow_distance_m(self) -> float:
        """Over so many metres the shadowing's correlation falls to 1/e."""
        return _SHADOWING[self.path_loss].distance_m if self.shadowing_m is None else self.shadowing_m

    @property
    def gain_dbi(self) -> float:
        """Of both antennas, in either direction."""
        return self.vehicle_gain_dbi + self.station_gain_dbi

    def along_m(self, length_m: float) -> float:
        """Where the station stands along a section of so many metres."""
        return length_m / 2 if self.station_along_m is None else self.station_along_m

    @model_validator(mode="after")
    def _a_place_and_a_carrier(self) -> Self:
        if self.path_loss == "cell" and self.carrier_ghz != CELL_GHZ:
            raise ValueError(
                f"radio.carrier_ghz must be {CELL_GHZ:g} with path_loss = 'cell', which is measured there,"
                f" got {self.carrier_ghz:g}"
            )
        if self.hidden_share and self.path_loss not in _IN_SIGHT:
            raise ValueError(
                f"radio.hidden_share must be 0 with path_loss = '{self.path_loss}', which has no line of sight that a"
                f" vehicle could cut, got {self.hidden_share:g}"
            )
        if self.station_beside_m == 0 and self.station_above_m == 0:
            raise ValueError(
                "radio.station_beside_m and radio.station_above_m must not both be 0, got a station in the lane: move"
                " it aside or up"
            )
        return self
