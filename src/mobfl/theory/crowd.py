"""Crowd and transfer times make each other: who sends longer meets more senders, and with more senders it takes longer.

A quick answer for mean numbers, without simulating: uploads that begin at random instants and places meet, by Little's
law, as many others as begin per second times how long each takes. What it leaves out is in docs/background/theory.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mobfl.errors import InputError
from mobfl.scenario import AnyScenario, Radio, Scenario, scenario_of
from mobfl.theory.delays import Delays, StepTimes
from mobfl.theory.equations import mean_stay_s, stay, uploads_identity
from mobfl.theory.quadrature import panels
from mobfl.theory.radio import BETWEEN_MEAN_DB, BETWEEN_SD_DB, distance_m, downlink_bps, uplink_bps

Array = NDArray[np.float64]

_PLACES = 201
_FAR = 6.0  # standard deviations


@dataclass(frozen=True)
class Transfers:
    """Mean seconds of download and upload, and how many send at once while somebody does."""

    download_s: float
    upload_s: float
    senders: float


def mean_transfers(scenario: AnyScenario, local_steps: int, round_s: float) -> Transfers:
    """τ_down and τ_up of a scenario with a radio at this H and T, averaged over places, shadowing and who is hidden.

    n senders are the one and its n − 1 = (uploads begun per second)·τ_up(n) others, but at most those who are there.

    Args:
        scenario: With a radio and the link's sizes.
        local_steps: H.
        round_s: T in seconds.
    """
    scenario = scenario_of(scenario)
    section = _Section.of(scenario)
    download_s = section.download_s(round_s)
    begun_per_s = _uploads_begun(scenario, download_s, local_steps, round_s) / round_s
    senders = _at_once(begun_per_s, section.upload_s, section.others)
    return Transfers(download_s, section.upload_s(senders), senders)


def transfers_alone(scenario: AnyScenario) -> Transfers:
    """τ_down and τ_up where nobody else is on the road: the least that they may be on average."""
    section = _Section.of(scenario_of(scenario))
    return Transfers(section.unicast_s(), section.upload_s(1.0), 1.0)


def least_transfers(scenario: AnyScenario) -> Transfers:
    """How long download and upload take alone at the place nearest to the station."""
    scenario = scenario_of(scenario)
    section, length_m = _Section.of(scenario), scenario.road.length_m
    nearest = distance_m(section.radio, section.radio.along_m(length_m), length_m)
    rates = downlink_bps(section.radio, nearest), uplink_bps(section.radio, nearest)
    return Transfers(section.download_bits / float(rates[0]), section.upload_bits / float(rates[1]), 1.0)


def _at_once(begun_per_s: float, seconds: Callable[[float], float], most_others: float) -> float:
    """n where n − 1 others, which are at most so many, are those who begin within the time that a transfer takes."""
    from scipy.optimize import brentq

    def missing(n: float) -> float:
        return n - 1 - min(begun_per_s * seconds(n), most_others)

    if missing(1.0) >= 0:
        return 1.0
    return 1.0 + most_others if missing(1.0 + most_others) <= 0 else float(brentq(missing, 1.0, 1.0 + most_others))


def _uploads_begun(scenario: Scenario, download_s: float, local_steps: int, round_s: float) -> float:
    """How many vehicles begin to upload within a round: Theorem 1 without τ_up."""
    classes = tuple(StepTimes.of(each.compute, each.share, each.name) for each in scenario.classes)
    done = Delays(download_s, 0.0, classes).total(np.asarray(local_steps))
    rate = scenario.traffic.arrivals_per_s * scenario.traffic.participation
    return float(uploads_identity(rate, stay(scenario), done, round_s))


@dataclass(frozen=True)
class _Section:
    """The places of a road with the distances from its station, and what travels."""

    radio: Radio
    way_m: Array  # (places,)
    distance_m: Array
    speed_mps: float
    stay_s: float
    others: float  # on the road, on average
    download_bits: float
    upload_bits: float

    @classmethod
    def of(cls, scenario: Scenario) -> "_Section":
        radio, link, length_m = scenario.radio, scenario.link, scenario.road.length_m
        if radio is None or link.model_bytes is None:
            given = "no radio" if radio is None else "no link.model_bytes"
            raise InputError(f"the scenario must have a radio and link.model_bytes, got {given}")
        way = np.linspace(0.0, length_m, _PLACES)
        stay_s = mean_stay_s(scenario)
        others = scenario.traffic.arrivals_per_s * scenario.traffic.participation * stay_s
        bits = (8.0 * (size or link.model_bytes) for size in (link.download_bytes, link.upload_bytes))
        return cls(radio, way, distance_m(radio, way, length_m), scenario.traffic.speed_mps, stay_s, others, *bits)

    def upload_s(self, senders: float) -> float:
        """Over all places; those who wait in a queue have the band alone when it is their turn."""
        at_once = senders if self.radio.sharing == "equal" else 1.0
        shadows_db, weights = _losses(self.radio)
        rates = uplink_bps(self.radio, self.distance_m[:, np.newaxis], at_once, shadows_db)
        return self._mean(self._seconds(rates, self.upload_bits) @ weights) * senders / at_once

    def download_s(self, round_s: float) -> float:
        """Of those who are there when a round begins, and of those who come later, from the entrance on."""
        first_s = self._broadcast_s() if self.radio.download == "broadcast" else (1 + self.others) * self.unicast_s()
        return (self.stay_s * first_s + round_s * self._late_s(round_s)) / (self.stay_s + round_s)

    def unicast_s(self) -> float:
        return self._mean(self._unicasts_s())

    def _late_s(self, round_s: float) -> float:
        """They share the downlink, but with no more than come in half a round, or in half a stay.

        So long ago the round began on average, and so long have those been there who are still loading if nobody gets
        done. On `urban-radio` simulated downloads are within a third of that (tests/planning/test_radio_plans.py); with
        large models out of sight it is up to half too long.
        """
        streams = _at_once(
            self.others / self.stay_s,
            lambda n: float(self._unicasts_s(n)[0]),
            self.others / self.stay_s * min(round_s, self.stay_s) / 2,
        )
        return float(self._unicasts_s(streams)[0])

    def _unicasts_s(self, streams: float = 1.0) -> Array:
        """By place, of one of so many at once, over all shadowing."""
        shadows_db, weights = _losses(self.radio)
        rates = downlink_bps(self.radio, self.distance_m[:, np.newaxis], streams, shadows_db)
        return self._seconds(rates, self.download_bits) @ weights

    def _broadcast_s(self) -> float:
        """What the farthest of those who are there needs; with F the share of places that need less, the chance that
        nobody needs more is F·e^(−μ(1 − F)) for one who is there among a Poisson number of others."""
        needed_s = np.sort(self._unicasts_s())
        share = np.arange(len(needed_s) + 1) / len(needed_s)
        return float(np.diff(share * np.exp(-self.others * (1 - share))) @ needed_s)

    def _seconds(self, rates_bps: Array, bits: float) -> Array:
        """How long so many bits take from every place on, driving at the mean speed: (places, shadows).

        The shadowing stays what it was at the beginning. Beyond the end the rate is that of the end.
        """
        way, speed = self.way_m, self.speed_mps
        steps = (rates_bps[1:] + rates_bps[:-1]) / 2 * np.diff(way)[:, np.newaxis] / speed
        sent = np.concatenate([np.zeros((1, rates_bps.shape[1])), np.cumsum(steps, axis=0)])
        columns = zip((sent + bits).T, sent.T, strict=True)
        until = np.stack([np.interp(wanted, known, way) for wanted, known in columns], axis=1)
        beyond = np.maximum(sent + bits - sent[-1], 0.0) / rates_bps[-1]
        return (until - way[:, np.newaxis]) / speed + beyond

    def _mean(self, by_place: Array) -> float:
        return float((by_place[1:] + by_place[:-1]).mean() / 2)


def _losses(radio: Radio) -> tuple[Array, Array]:
    """Values in dB and weights for means over the shadowing, and over the vehicles in between."""
    z, weights = panels(np.linspace(-_FAR, _FAR, 3))
    mass = weights * np.exp(-z * z / 2)
    values, chances = radio.shadow_sd_db * z, mass / mass.sum()
    if radio.hidden_share == 0:
        return values, chances
    from scipy.special import ndtr

    more_db, more = _losses_behind(radio.shadow_sd_db)
    lossy = radio.hidden_share * float(ndtr(BETWEEN_MEAN_DB / BETWEEN_SD_DB))
    return np.concatenate([values, more_db]), np.concatenate([(1 - lossy) * chances, lossy * more])


def _losses_behind(sd_db: float) -> tuple[Array, Array]:
    """The same for vehicles that lose something to one in between.

    The loss X = N(0, σ²) + Y, where Y = N(m, s²) counts if it is above 0, has the density of N(m, σ² + s²) times
    the chance that Y > 0 given X.
    """
    from scipy.special import ndtr

    whole_sd = float(np.hypot(sd_db, BETWEEN_SD_DB))
    far_db = _FAR * sd_db
    x, weights = panels(np.unique([-far_db, 0.0, far_db, BETWEEN_MEAN_DB, BETWEEN_MEAN_DB + _FAR * whole_sd]))
    mass = weights * np.exp(-(((x - BETWEEN_MEAN_DB) / whole_sd) ** 2) / 2)
    if sd_db > 0:
        mean = BETWEEN_MEAN_DB + (BETWEEN_SD_DB / whole_sd) ** 2 * (x - BETWEEN_MEAN_DB)
        mass = mass * ndtr(mean * whole_sd / (BETWEEN_SD_DB * sd_db))
    return x, mass / mass.sum()
