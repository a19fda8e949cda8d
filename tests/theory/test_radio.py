"""From place to rate, against the documents' formulas at 30 digits, quadrature, and what any radio must fulfil."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import exp as exact_exp
from mpmath import inf, log, mp, mpf, quad
from scipy.stats import norm

from mobfl import InputError, Scenario, load_scenario, theory
from mobfl.scenario import PathLoss, Radio
from mobfl.theory.section import coverage
from roads_at_random import log_uniform

LIDAR2D_BYTES, LANEGCN_BYTES = 66_520, 14.8e6
LAWS: tuple[PathLoss, ...] = ("urban-los", "urban-nlos", "highway-los", "cell")


def radio(path_loss: PathLoss = "urban-los", **values: object) -> Radio:
    carrier = {"carrier_ghz": 2.0} if path_loss == "cell" else {}
    return Radio.model_validate({"path_loss": path_loss} | carrier | values)


radios = st.builds(
    radio,
    st.sampled_from(LAWS),
    fading=st.sampled_from(["none", "rayleigh"]),
    uplink_hz=log_uniform(1e4, 1e9),
    vehicle_dbm=st.floats(-30.0, 50.0),
    most_bps_per_hz=log_uniform(0.01, 64.0),
)
distances = log_uniform(0.1, 1e5)
crowds = log_uniform(1.0, 1e3)


# ---- the documents' formulas ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "distance_m", "carrier_ghz", "loss_db"),
    [  # typed from the formulas of TR 37.885, table 6.2.1-1, and TR 36.814, with mpmath at 30 digits
        ("urban-los", 10.0, 5.9, 69.4995066118870243),
        ("urban-los", 200.0, 5.9, 91.2267075394755102),
        ("urban-los", 500.0, 28.0, 110.181075242839904),
        ("urban-nlos", 10.0, 5.9, 81.4191030200365252),
        ("urban-nlos", 200.0, 5.9, 120.450002889955961),
        ("urban-nlos", 500.0, 28.0, 145.170386922448507),
        ("highway-los", 10.0, 5.9, 67.8170402328428838),
        ("highway-los", 200.0, 5.9, 93.8376401461225077),
        ("highway-los", 500.0, 28.0, 115.322560713564761),
        ("cell", 35.0, 2.0, 73.3569584675703639),
        ("cell", 250.0, 2.0, 105.462544326068614),
        ("cell", 1000.0, 2.0, 128.1),
    ],
)
def test_path_loss(law: PathLoss, distance_m: float, carrier_ghz: float, loss_db: float) -> None:
    assert theory.path_loss_db(law, distance_m, carrier_ghz) == pytest.approx(loss_db, rel=1e-14)


def test_line_of_sight_on_a_highway_is_free_space() -> None:
    """Friis: 20·log₁₀(4πdf/c), of which 32.4 is the rounded constant."""
    friis_db = 20 * np.log10(4 * np.pi * 321.0 * 5.9e9 / 299_792_458.0)
    assert theory.path_loss_db("highway-los", 321.0, 5.9) == pytest.approx(friis_db, abs=0.06)


def test_noise() -> None:
    assert theory.noise_dbm(20e6, 9.0) == pytest.approx(-91.989700043360188, rel=1e-15)
    assert theory.noise_dbm(10e6, 5.0) == -99.0
    boltzmann_dbm = 10 * np.log10(1.380649e-23 * 290 * 1e3)
    assert theory.noise_dbm(1.0, 0.0) == pytest.approx(boltzmann_dbm, abs=0.03)


def test_a_link_without_line_of_sight_at_200_m() -> None:
    """5.9 GHz, 20 MHz, 23 dBm, 3 dBi, 9 dB: what one sender reaches, and what fifteen leave to each."""
    town = radio("urban-nlos")
    assert theory.uplink_snr_db(town, 200.0) == pytest.approx(-2.460302846595773, rel=1e-13)
    assert theory.uplink_bps(town, 200.0) == pytest.approx(11931849.3378795202, rel=1e-13)
    assert theory.uplink_bps(town, 200.0, 15) == pytest.approx(3986465.48351849987, rel=1e-13)
    alone_s, among_15_s = 8 / theory.uplink_bps(town, 200.0), 8 / theory.uplink_bps(town, 200.0, 15)
    assert alone_s * LIDAR2D_BYTES == pytest.approx(0.045, abs=5e-4)
    assert alone_s * LANEGCN_BYTES == pytest.approx(9.9, abs=0.05)
    assert among_15_s * LANEGCN_BYTES == pytest.approx(29.7, abs=0.05)


def test_distance_goes_along_beside_and_above() -> None:
    middle = radio(station_beside_m=4.0, station_above_m=3.0)
    assert theory.distance_m(middle, [0.0, 188.0, 200.0, 400.0], 400.0) == pytest.approx(
        [np.hypot(200, 5), 13, 5, np.hypot(200, 5)]
    )
    at_the_end = radio(station_beside_m=4.0, station_above_m=3.0, station_along_m=400.0)
    assert theory.distance_m(at_the_end, 388.0, 400.0) == pytest.approx(13.0)


def test_shadowing_is_lost_power_and_forgotten_on_the_way() -> None:
    town = radio("urban-nlos")
    assert theory.uplink_snr_db(town, 200.0, 1, 4.0) == theory.uplink_snr_db(town, 200.0) - 4.0
    assert theory.downlink_snr_db(town, 200.0, -4.0) == theory.downlink_snr_db(town, 200.0) + 4.0
    assert theory.shadow_correlation(town, [0.0, 13.0, -26.0]) == pytest.approx([1.0, np.exp(-1), np.exp(-2)])


def test_a_vehicle_in_between_takes_five_decibels_or_so() -> None:
    """max(0, N(5, 4)): its mean is 5·Φ(5/4) + 4·φ(5/4)."""
    assert theory.vehicle_between_db([-2.0, -1.25, 0.0, 1.0]).tolist() == [0.0, 0.0, 5.0, 9.0]
    z = np.linspace(-9, 9, 200_001)
    mean_db = np.trapezoid(theory.vehicle_between_db(z) * norm.pdf(z), z)
    assert mean_db == pytest.approx(5 * norm.cdf(1.25) + 4 * norm.pdf(1.25), abs=1e-8)


def test_the_station_splits_its_power_with_its_band() -> None:
    town = radio("urban-nlos", station_dbm=30.0, downlink_hz=10e6)
    one, ten = theory.downlink_bps(town, 200.0), theory.downlink_bps(town, 200.0, 10)
    assert one == pytest.approx(10 * ten)
    assert theory.downlink_snr_db(town, 200.0) == pytest.approx(
        theory.uplink_snr_db(town, 200.0) + 7.0 + 10 * np.log10(2)
    )


# ---- rates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0.01, 1.0, 7.4, 30.0])
@pytest.mark.parametrize("snr_db", [-120.0, -20.0, -17.0, -16.9, 0.0, 13.0, 45.0, 200.0])
def test_the_ergodic_rate_is_the_mean_over_the_fading(snr_db: float, most: float) -> None:
    """∫ e^(−x)·min(log₂(1 + x·SNR), C) dx by mpmath's quadrature, cut where the cap begins."""
    with mp.workdps(40):
        snr = mpf(10) ** (mpf(snr_db) / 10)
        cap = (mpf(2) ** mpf(most) - 1) / snr
        edges = sorted({mpf(0), min(cap, 400) / 1000, min(cap, 400) / 30, min(cap, 400)})
        below = quad(lambda x: exact_exp(-x) * log(1 + x * snr) / log(2), edges)
        mean = below + (mpf(most) * exact_exp(-cap) if cap <= 400 else quad(lambda x: exact_exp(-x), [400, inf]))
    faded = radio(fading="rayleigh", most_bps_per_hz=most, efficiency=0.92)
    assert theory.spectral_efficiency(faded, snr_db) == pytest.approx(0.92 * float(mean), rel=1e-12)


def test_rates_at_the_edges_of_numbers() -> None:
    for fading in ("none", "rayleigh"):
        edge = radio(fading=fading)
        with np.errstate(all="raise", under="ignore"):
            nothing, all_of_it = theory.spectral_efficiency(edge, [-1e9, 1e9])
        assert 0 < nothing < 1e-90
        assert all_of_it == pytest.approx(0.92 * 7.4, rel=1e-15)


def test_without_fading_it_is_shannons_up_to_the_cap() -> None:
    town = radio(efficiency=1.0)
    assert theory.spectral_efficiency(town, [0.0, 10 * np.log10(3), 100.0]) == pytest.approx([1.0, 2.0, 7.4])


@given(radios, distances, distances, crowds)
def test_rates_fall_with_distance(made: Radio, one: float, other: float, senders: float) -> None:
    near, far = sorted((one, other))
    assert theory.uplink_bps(made, far, senders) <= theory.uplink_bps(made, near, senders) * (1 + 1e-12)


@given(radios, distances, crowds, crowds)
def test_more_senders_leave_less_to_each_and_carry_no_less_together(
    made: Radio, distance_m: float, one: float, other: float
) -> None:
    fewer, more = sorted((one, other))
    each, each_of_more = (theory.uplink_bps(made, distance_m, n) for n in (fewer, more))
    assert each_of_more <= each * (1 + 1e-12)
    assert more * each_of_more >= fewer * each * (1 - 1e-12)


@given(radios, distances)
def test_fading_costs_and_never_helps(made: Radio, distance_m: float) -> None:
    """Jensen: min(log₂(1 + x), C) is concave."""
    steady, faded = (made.model_copy(update={"fading": each}) for each in ("none", "rayleigh"))
    assert theory.uplink_bps(faded, distance_m) <= theory.uplink_bps(steady, distance_m) * (1 + 1e-12)


@given(radios, st.lists(distances, min_size=1, max_size=4), crowds)
def test_an_array_is_its_elements(made: Radio, places: list[float], senders: float) -> None:
    one_by_one = [float(theory.uplink_bps(made, place, senders)) for place in places]
    assert theory.uplink_bps(made, places, senders) == pytest.approx(one_by_one, rel=1e-12)


@pytest.mark.parametrize("fading", ["none", "rayleigh"])
@pytest.mark.parametrize("hz", [1e-12, 1e12])
@pytest.mark.parametrize("dbm", [-200.0, 200.0])
@pytest.mark.parametrize("most", [0.01, 64.0])
def test_whatever_the_table_takes_has_a_rate(fading: str, hz: float, dbm: float, most: float) -> None:
    made = radio("urban-nlos", fading=fading, uplink_hz=hz, vehicle_dbm=dbm, most_bps_per_hz=most)
    with np.errstate(all="raise", under="ignore"):
        rates = theory.uplink_bps(made, [1e-9, 200.0, 1e12], 1e4, [[-300.0], [300.0]])
    assert np.isfinite(rates).all()
    assert (rates > 0).all()


# ---- along a section --------------------------------------------------------------------------------


def test_a_section_is_told_place_by_place() -> None:
    road = load_scenario("urban-radio")
    assert road.radio is not None
    told = coverage(road, [0.0, 125.0], (1, 15))
    away = theory.distance_m(road.radio, 0.0, 250.0)
    assert told.uplink_bps[1, 0] == theory.uplink_bps(road.radio, away, 15)
    assert told.upload_s is not None
    assert told.upload_s[1, 0] == 8 * 14_835_468 / told.uplink_bps[1, 0]
    assert told.to_dicts()[0]["upload_s"] == told.upload_s[:, 0].tolist()


def test_in_a_queue_each_has_the_band_alone_and_the_last_waits_for_all() -> None:
    road = load_scenario("urban-radio").with_values({"radio.sharing": "fifo", "link.upload_bytes": 1000})
    told = coverage(road, [0.0], (1, 15))
    assert told.uplink_bps[1, 0] == told.uplink_bps[0, 0]
    assert told.upload_s is not None
    assert told.upload_s[:, 0] == pytest.approx([8000 / told.uplink_bps[0, 0], 15 * 8000 / told.uplink_bps[0, 0]])


def test_without_a_radio_there_is_no_coverage(paper: Scenario) -> None:
    with pytest.raises(InputError, match="the scenario must have a radio, got none"):
        coverage(paper, [0.0])
    unsized = coverage(paper.with_values({"radio.fading": "rayleigh"}), [0.0])
    assert (unsized.upload_s, unsized.download_s) == (None, None)
