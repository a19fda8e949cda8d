"""From a place on the road to a rate: one elementwise function per equation, its source in the docstring.

Distances in m, the carrier in GHz, bands in Hz, powers in dBm, gains and losses in dB, rates in bit/s. Everything but
the radio itself may be an array. docs/background/theory.md says what the model leaves out.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mobfl.scenario import PathLoss, Radio

Array: TypeAlias = NDArray[np.float64]

THERMAL_DBM_PER_HZ = -174.0  # kT at 290 K: 10·log₁₀(1.380649e-23 · 290 · 1000) = −173.98
BETWEEN_MEAN_DB, BETWEEN_SD_DB = 5.0, 4.0
_LN2 = float(np.log(2.0))
# dB at 1 m and 1 GHz, and per decade of distance and of carrier. The first three: 3GPP TR 37.885, table 6.2.1-1 (the
# same in ns-3's ThreeGppV2vPropagationLossModel and in Simu5G's Tr37885ChannelModel). The last: TR 36.814, A.2.1, and
# TR 36.885, table A.1.4-2, 128.1 + 37.6·log₁₀ of the distance in km at 2 GHz, with no term for other carriers.
_LINES: dict[PathLoss, tuple[float, float, float]] = {
    "urban-los": (38.77, 16.7, 18.2),
    "urban-nlos": (36.85, 30.0, 18.9),
    "highway-los": (32.4, 20.0, 20.0),
    "cell": (128.1 - 3 * 37.6, 37.6, 0.0),
}
# Beyond ±1000 dB the rate is the greatest or nothing, and powers of ten still fit into doubles.
_MOST_DB = 1000.0
# From here on the asymptotic series of eᶻ·E₁(z) has all digits after so many terms: 20!/50²⁰ < 3e-16.
_FAR, _FAR_TERMS = 50.0, 20


def distance_m(radio: Radio, way_m: ArrayLike, length_m: float) -> Array:
    """From the antenna to a vehicle that is so far into a section of `length_m`: along, beside and above the road."""
    along = np.subtract(way_m, radio.along_m(length_m))
    return np.hypot(along, np.hypot(radio.station_beside_m, radio.station_above_m))


def path_loss_line(path_loss: PathLoss, carrier_ghz: float) -> tuple[float, float]:
    """The path loss at 1 m in dB, and what it rises by with every tenfold distance."""
    fixed, per_decade, per_carrier = _LINES[path_loss]
    return fixed + per_carrier * float(np.log10(carrier_ghz)), per_decade


def path_loss_db(path_loss: PathLoss, distance_m: ArrayLike, carrier_ghz: float) -> Array:
    """PL = a + b·log₁₀ d + c·log₁₀ f (TR 37.885, table 6.2.1-1; for a macro cell TR 36.814, A.2.1)."""
    fixed, per_decade = path_loss_line(path_loss, carrier_ghz)
    return fixed + per_decade * np.log10(distance_m)


def noise_dbm(bandwidth_hz: ArrayLike, noise_figure_db: float) -> Array:
    """−174 + NF + 10·log₁₀ B: thermal noise in a band, and what the receiver adds."""
    return THERMAL_DBM_PER_HZ + noise_figure_db + 10.0 * np.log10(bandwidth_hz)


def uplink_snr_db(radio: Radio, distance_m: ArrayLike, senders: ArrayLike = 1, shadowing_db: ArrayLike = 0.0) -> Array:
    """SNR = P + G − PL(d) − shadowing − noise(W/n): whoever sends puts its whole power into its share of the band.

    Args:
        radio: The radio.
        distance_m: From the antenna.
        senders: n, how many send at that moment.
        shadowing_db: By how much more than the path loss is lost.
    """
    noise = noise_dbm(np.divide(radio.uplink_hz, senders), radio.noise_figure_db)
    return _received_dbm(radio, radio.vehicle_dbm, distance_m, shadowing_db) - noise


def downlink_snr_db(radio: Radio, distance_m: ArrayLike, shadowing_db: ArrayLike = 0.0) -> Array:
    """SNR = P + G − PL(d) − shadowing − noise(W), however many receive: the station's power is split with its band.

    Args:
        radio: The radio.
        distance_m: From the antenna.
        shadowing_db: By how much more than the path loss is lost.
    """
    noise = noise_dbm(radio.downlink_hz, radio.noise_figure_db)
    return _received_dbm(radio, radio.station_dbm, distance_m, shadowing_db) - noise


def _received_dbm(radio: Radio, power_dbm: float, distance_m: ArrayLike, shadowing_db: ArrayLike) -> Any:
    loss = path_loss_db(radio.path_loss, distance_m, radio.carrier_ghz)
    return power_dbm + radio.gain_dbi - loss - np.asarray(shadowing_db)


def vehicle_between_db(normal: ArrayLike) -> Array:
    """max(0, N(5, 4)): what a vehicle in between takes that is higher than one antenna and lower than the other.

    TR 37.885, 6.2.1 (NLOSv), nearer than 541 m; ns-3's ThreeGppV2vPropagationLossModel draws from a lognormal law with
    the same mean and spread.

    Args:
        normal: Draws with mean 0 and standard deviation 1.
    """
    return np.maximum(0.0, BETWEEN_MEAN_DB + BETWEEN_SD_DB * np.asarray(normal, float))


def spectral_efficiency(radio: Radio, snr_db: ArrayLike) -> Array:
    """bit/s/Hz: η·min(log₂(1 + SNR), C), Shannon's with a cap and a share η that is not overhead.

    With Rayleigh fading the mean of that over a gain X ~ Exp(1), which a transfer of many coherence times sees:
    η·E[min(log₂(1 + X·SNR), C)] = η·(F(z) − e^(−z(q − 1))·F(z·q))/ln 2 with z = 1/SNR, q = 2^C and F(z) = eᶻ·E₁(z).
    """
    db = np.clip(np.asarray(snr_db, float), -_MOST_DB, _MOST_DB)
    if radio.fading == "none":
        bits = np.minimum(np.log1p(10.0 ** (db / 10)) / _LN2, radio.most_bps_per_hz)
    else:
        bits = _ergodic_bits(10.0 ** (-db / 10), radio.most_bps_per_hz)
    return radio.efficiency * bits


def _ergodic_bits(z: Array, most_bits: float) -> Array:
    beyond = np.expm1(most_bits * _LN2)  # q − 1
    capped = np.exp(-np.minimum(z * beyond, 745.0)) * _scaled_exp1(z * (1.0 + beyond))
    return np.minimum((_scaled_exp1(z) - capped) / _LN2, most_bits)


def _scaled_exp1(z: Array) -> Array:
    """eᶻ·E₁(z) of z > 0, which neither overflows nor vanishes."""
    from scipy.special import exp1

    near = np.minimum(z, _FAR)
    far = 1.0 / np.maximum(z, _FAR)
    series = np.ones_like(far)
    for k in range(_FAR_TERMS, 0, -1):  # 1/z − 1!/z² + 2!/z³ − …, by Horner's rule
        series = 1.0 - k * far * series
    return np.where(z < _FAR, np.exp(near) * exp1(near), far * series)


def uplink_bps(radio: Radio, distance_m: ArrayLike, senders: ArrayLike = 1, shadowing_db: ArrayLike = 0.0) -> Array:
    """The rate of one of n senders who share the band equally: (W/n)·(bit/s/Hz at the SNR of its share)."""
    snr_db = uplink_snr_db(radio, distance_m, senders, shadowing_db)
    return radio.uplink_hz / np.asarray(senders) * spectral_efficiency(radio, snr_db)


def downlink_bps(radio: Radio, distance_m: ArrayLike, receivers: ArrayLike = 1, shadowing_db: ArrayLike = 0.0) -> Array:
    """The rate to one of n receivers of unicasts, who share the band and the station's power equally."""
    snr_db = downlink_snr_db(radio, distance_m, shadowing_db)
    return radio.downlink_hz / np.asarray(receivers) * spectral_efficiency(radio, snr_db)


def shadow_correlation(radio: Radio, metres: ArrayLike) -> Array:
    """e^(−Δ/d): how alike the shadowing is at two places that are Δ apart (Gudmundson 1991; TR 38.901, 7.4.4)."""
    return np.exp(-np.abs(metres) / radio.shadow_distance_m)
