"""The radio as rounds see it: where a vehicle is, and how many bits a second it gets there in which company.

All formulas are theory's: here are only their coefficients, for compiled code that asks millions of times. Rates hold
for a cell of time, as they are in its middle.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mobfl import theory
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.tracks import STEADILY
from mobfl.rng import normal, stream, uniform, vehicle_key
from mobfl.scenario import Radio, Scenario
from mobfl.theory import Delays
from mobfl.theory.delays import sizes_missing

CELL_S = 0.1  # halving it changes the outcome of fewer than one pair of vehicle and round in a thousand
# Shadows are drawn at places so far apart, as a share of the distance at which they have faded to 1/e.
_SHADOW_STEP = 0.2
_LN_2, _PER_DB = math.log(2.0), math.log(10.0) / 10
# Between these spectral efficiency is looked up where fading makes it a mean; below it is proportional to the SNR.
_LEAST_LOG, _MOST_LOG, _LOG_STEP = -60.0 * _PER_DB, 140.0 * _PER_DB, 0.0025


class Air(NamedTuple):
    """A radio and what travels over it, as compiled code wants them."""

    up_hz: float
    down_hz: float
    up_snr: float  # at one metre, of one who has the whole band
    down_snr: float
    fall: float  # the power of the squared distance with which that falls
    efficiency: float
    most: float  # bit/s/Hz
    curve: NDArray[np.float64]  # mean spectral efficiency by the logarithm of the SNR where there is fading, else empty
    shadow: float  # a standard deviation, as a logarithm of power
    shadow_step_m: float
    shadow_rho: float  # correlation from one step to the next
    shadows: np.uint64  # the stream that they are drawn from
    hidden_share: float
    hidden: np.uint64  # the stream that says who is
    between_mean: float  # of what a vehicle in between takes, as a logarithm of power
    between_sd: float
    up_bits: float
    down_bits: float
    fifo: bool  # one sends at a time, whoever was ready first
    broadcast: bool
    partial: bool  # whether what has arrived of an upload is worth something
    along_m: float  # where the station stands, from where vehicles enter; NaN in the middle of everybody's way
    aside_m2: float  # the square of its distance from the lane
    length_m: float  # of the way of a vehicle without a track
    cell_s: float


@dataclass(frozen=True)
class Channel:
    """A radio with the bytes that travel over it.

    Args:
        radio: Its table in the scenario.
        download_bytes: What travels down.
        upload_bytes: What travels up.
        length_m: The way of a vehicle that has no track.
        partial: Whether a part of an upload is worth something.
        cell_s: For how long a rate is taken to hold.
    """

    radio: Radio
    download_bytes: int
    upload_bytes: int
    length_m: float
    partial: bool = False
    cell_s: float = CELL_S

    @classmethod
    def of(cls, scenario: Scenario) -> "Channel | None":
        """The scenario's; None where transfers take its seconds."""
        if scenario.radio is None:
            return None
        link = scenario.link
        if link.model_bytes is None:
            raise sizes_missing("radio")
        down, up = link.download_bytes or link.model_bytes, link.upload_bytes or link.model_bytes
        return cls(scenario.radio, down, up, scenario.road.length_m)

    def air(self, seed: int) -> Air:
        """With the shadows of this seed."""
        radio = self.radio
        step_m = _SHADOW_STEP * radio.shadow_distance_m
        return Air(
            up_hz=radio.uplink_hz,
            down_hz=radio.downlink_hz,
            up_snr=10.0 ** (float(theory.uplink_snr_db(radio, 1.0)) / 10),
            down_snr=10.0 ** (float(theory.downlink_snr_db(radio, 1.0)) / 10),
            fall=theory.path_loss_line(radio.path_loss, radio.carrier_ghz)[1] / 20,
            efficiency=radio.efficiency,
            most=radio.most_bps_per_hz,
            curve=_curve(radio),
            shadow=radio.shadow_sd_db * _PER_DB,
            shadow_step_m=step_m,
            shadow_rho=float(theory.shadow_correlation(radio, step_m)),
            shadows=stream(seed, "shadowing"),
            hidden_share=radio.hidden_share,
            hidden=stream(seed, "hidden"),
            between_mean=theory.radio.BETWEEN_MEAN_DB * _PER_DB,
            between_sd=theory.radio.BETWEEN_SD_DB * _PER_DB,
            up_bits=8.0 * self.upload_bytes,
            down_bits=8.0 * self.download_bytes,
            fifo=radio.sharing == "fifo",
            broadcast=radio.download == "broadcast",
            partial=self.partial,
            along_m=math.nan if radio.station_along_m is None else radio.station_along_m,
            aside_m2=radio.station_beside_m**2 + radio.station_above_m**2,
            length_m=self.length_m,
            cell_s=self.cell_s,
        )


def delays_and_channel(scenario: Scenario) -> tuple[Delays, Channel | None]:
    """How long things take on this road: all of it, or local steps alone where transfers share a radio."""
    if (channel := Channel.of(scenario)) is None:
        return Delays.of(scenario), None
    return Delays.of_steps(scenario), channel


def assumed_places(channel: Channel | None, crossings: Crossings | None) -> str | None:
    """What had to be assumed of where vehicles are; None if nothing."""
    return None if channel is None or crossings is None or crossings.tracks is not None else STEADILY


def _curve(radio: Radio) -> NDArray[np.float64]:
    if radio.fading == "none":
        return np.empty(0)
    return theory.spectral_efficiency(radio, np.arange(_LEAST_LOG, _MOST_LOG + _LOG_STEP, _LOG_STEP) / _PER_DB)


class Shadows(NamedTuple):
    """How far each vehicle's shadows have been drawn: the place, and what they are there and at the next one."""

    place: NDArray[np.int64]
    here: NDArray[np.float64]
    ahead: NDArray[np.float64]

    @classmethod
    def none(cls, vehicles: int) -> "Shadows":
        return cls(np.full(vehicles, -1), np.empty(vehicles), np.empty(vehicles))


@njit(inline="always", cache=True)
def gain(air, at_s, i, key, origin_s, leave_s, ways, track, shadows):
    """How many times as loud as at one metre a vehicle is heard at this instant."""
    way_m, whole_m = _way(air, at_s, origin_s, leave_s, ways, track)
    along_m = 0.5 * whole_m if math.isnan(air.along_m) else air.along_m
    logarithm = -air.fall * math.log((way_m - along_m) ** 2 + air.aside_m2)
    if air.shadow > 0.0:
        logarithm -= air.shadow * _shadow(air, way_m, i, key, shadows)
    if air.hidden_share > 0.0:
        logarithm -= _between(air, key)
    return math.exp(logarithm)


@njit(inline="always", cache=True)
def _way(air, at_s, origin_s, leave_s, ways, track):
    """How far it has come, and how far it will; steadily if it has no track."""
    if track < 0:
        stay_s = leave_s - origin_s
        share = (at_s - origin_s) / stay_s if stay_s > 0.0 else 0.0
        return min(max(share, 0.0), 1.0) * air.length_m, air.length_m
    first, time_s, way_m = ways
    start, last = first[track], first[track + 1] - 1
    if at_s <= time_s[start]:
        return way_m[start], way_m[last]
    if at_s >= time_s[last]:
        return way_m[last], way_m[last]
    after = start + np.searchsorted(time_s[start : last + 1], at_s, side="left")
    share = (at_s - time_s[after - 1]) / (time_s[after] - time_s[after - 1])
    return way_m[after - 1] + share * (way_m[after] - way_m[after - 1]), way_m[last]


@njit(inline="always", cache=True)
def _shadow(air, way_m, i, key, shadows):
    """A draw of the vehicle and the place alone: normal, and correlated along the way as e^(−Δ/d).

    It is drawn from place to place, exactly; in between it is their mean, stretched to a variance of one.
    """
    steps = way_m / air.shadow_step_m
    place = np.int64(steps)
    own, rho = vehicle_key(air.shadows, key), air.shadow_rho
    fresh = math.sqrt(1.0 - rho * rho)
    if shadows.place[i] < 0 or shadows.place[i] > place:
        shadows.place[i], shadows.here[i] = 0, normal(own, 0)
        shadows.ahead[i] = rho * shadows.here[i] + fresh * normal(own, 1)
    while shadows.place[i] < place:
        shadows.place[i] += 1
        shadows.here[i] = shadows.ahead[i]
        shadows.ahead[i] = rho * shadows.here[i] + fresh * normal(own, shadows.place[i] + 1)
    past = steps - place
    spread = math.sqrt(past * past + (1.0 - past) * (1.0 - past) + 2.0 * past * (1.0 - past) * rho)
    return ((1.0 - past) * shadows.here[i] + past * shadows.ahead[i]) / spread


@njit(inline="always", cache=True)
def _between(air, key):
    """What a vehicle in between takes, which drives along: a draw of the vehicle alone."""
    own = vehicle_key(air.hidden, key)
    if uniform(own, 0) > air.hidden_share:
        return 0.0
    return max(0.0, air.between_mean + air.between_sd * normal(own, 1))


@njit(inline="always", cache=True)
def uplink_bps(air, gain, senders):
    """Of one of so many who send at once: the whole power goes into the share of the band."""
    return air.up_hz / senders * _bps_per_hz(air, air.up_snr * gain * senders)


@njit(inline="always", cache=True)
def downlink_bps(air, gain, streams):
    """Of one of so many that the station sends at once: its power is split with the band."""
    return air.down_hz / streams * _bps_per_hz(air, air.down_snr * gain)


@njit(inline="always", cache=True)
def _bps_per_hz(air, snr):
    if len(air.curve) == 0:
        return air.efficiency * min(math.log1p(snr) / _LN_2, air.most)
    return _faded(air.curve, snr)


@njit(cache=True)
def _faded(curve, snr):
    logarithm = math.log(snr)
    if logarithm <= _LEAST_LOG:
        return curve[0] * math.exp(logarithm - _LEAST_LOG)
    steps = min((logarithm - _LEAST_LOG) / _LOG_STEP, len(curve) - 1.000001)
    place = np.int64(steps)
    return curve[place] + (steps - place) * (curve[place + 1] - curve[place])
