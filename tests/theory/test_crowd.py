"""Mean transfer times and the crowd that they cause: closed forms, driving by small steps, and drawn crowds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobfl import InputError, Scenario, load_scenario, theory
from mobfl.theory.crowd import least_transfers, mean_transfers, transfers_alone
from roads_at_random import log_uniform

# So strong that the cap decides everywhere, with an antenna so high that places are alike.
STRONG = {"radio.vehicle_dbm": 100.0, "radio.station_dbm": 100.0, "radio.shadowing_db": 0.0}


def road(name: str = "urban-radio", **values: object) -> Scenario:
    return load_scenario(name).with_values({key.replace("__", "."): value for key, value in values.items()})


def strong(**values: object) -> Scenario:
    return road("paper-radio", **values).with_values(STRONG)


def test_alone_where_the_cap_decides_a_transfer_takes_size_over_rate() -> None:
    alone_s = 8 * 66_520 / (20e6 * 0.92 * 7.4)
    told = transfers_alone(strong())
    assert (told.download_s, told.upload_s, told.senders) == pytest.approx((alone_s, alone_s, 1.0), rel=1e-12)
    assert least_transfers(strong()).upload_s == pytest.approx(alone_s, rel=1e-12)


@pytest.mark.parametrize("sharing", ["equal", "fifo"])
def test_where_the_cap_decides_it_is_a_processor_that_is_shared(sharing: str) -> None:
    """Mean sojourn of M/G/1 with processor sharing: S/(1 − ρ)."""
    made = strong(radio__sharing=sharing, traffic__arrivals_per_s=1.0, link__upload_bytes=4_000_000)
    h, t = 10, 12.0
    told, alone_s = mean_transfers(made, h, t), transfers_alone(made).upload_s
    begun_per_s = theory.expected_uploads(
        made.with_values({"radio": None, "link": {"download_s": told.download_s, "upload_s": 0.0}}), h, t
    ) / t  # fmt: skip
    busy = begun_per_s * alone_s
    assert 0.1 < busy < 0.9
    assert told.upload_s == pytest.approx(alone_s / (1 - busy), rel=1e-9)
    assert told.senders == pytest.approx(1 / (1 - busy), rel=1e-9)


def test_no_more_send_than_are_there() -> None:
    made = strong(traffic__arrivals_per_s=1.0, link__upload_bytes=400_000_000)
    assert mean_transfers(made, 10, 12.0).senders == pytest.approx(1 + 20.0)


def test_a_long_transfer_takes_what_driving_takes() -> None:
    """From every place in steps of 2 ms, without shadowing."""
    made = road(radio__shadowing_db=0.0, traffic__speed_sd_mps=0.0)
    assert made.radio is not None
    starts, bits, dt = np.linspace(0.0, 250.0, 126), 8 * 14_835_468.0, 0.002
    way, left, seconds = starts.copy(), np.full(126, bits), np.zeros(126)
    while (left > 0).any():
        # beyond the end as at the end
        rate = theory.uplink_bps(made.radio, theory.distance_m(made.radio, np.minimum(way, 250.0), 250.0))
        seconds += np.where(left > 0, np.minimum(dt, np.maximum(left, 0) / rate), 0.0)
        left, way = left - rate * dt, way + 9.0 * dt
    mean_s = (seconds[1:] + seconds[:-1]).mean() / 2
    assert transfers_alone(made).upload_s == pytest.approx(mean_s, rel=2e-4)


def test_a_short_transfer_takes_the_mean_over_places_and_shadowing() -> None:
    """Against a million draws."""
    made, draws = road(link__model_bytes=1000), np.random.default_rng(1)
    assert made.radio is not None
    away = theory.distance_m(made.radio, draws.uniform(0, 250, 1_000_000), 250.0)
    seconds = 8000 / theory.uplink_bps(made.radio, away, 3.0, draws.normal(0, 4, len(away)))
    crowded = made.with_values({"radio.uplink_hz": 20e6 / 3, "radio.vehicle_dbm": 23.0})  # the share of three
    error = 5 * seconds.std() / 1000
    assert transfers_alone(crowded).upload_s == pytest.approx(seconds.mean(), abs=error)


@pytest.mark.parametrize(("shadowing_db", "share"), [(3.0, 0.4), (0.0, 1.0), (0.2, 0.7), (8.0, 1.0)])
def test_means_count_those_behind_another_vehicle(shadowing_db: float, share: float) -> None:
    """Against a million draws of place, shadow, and of who is hidden by how much."""
    values = {"link__model_bytes": 1000, "radio__shadowing_db": shadowing_db, "radio__hidden_share": share}
    made, draws = road("paper-radio", **values, radio__vehicle_dbm=0.0), np.random.default_rng(3)
    assert made.radio is not None
    away = theory.distance_m(made.radio, draws.uniform(0, 400, 1_000_000), 400.0)
    hidden = draws.uniform(size=len(away)) <= share
    lost_db = draws.normal(0, shadowing_db, len(away))
    lost_db += np.where(hidden, theory.vehicle_between_db(draws.normal(size=len(away))), 0.0)
    seconds = 8000 / theory.uplink_bps(made.radio, away, 1.0, lost_db)
    assert transfers_alone(made).upload_s == pytest.approx(seconds.mean(), abs=5 * seconds.std() / 1000)


def test_a_broadcast_waits_for_the_farthest_who_is_there() -> None:
    """Poisson numbers of others at random places, 200,000 times; arrivals get their own at the entrance."""
    made, draws = (
        road(radio__shadowing_db=0.0, link__model_bytes=1000, traffic__speed_sd_mps=0.0),
        np.random.default_rng(2),
    )
    assert made.radio is not None
    number, needed = draws.poisson(0.045 * 250 / 9, 200_000), np.zeros(200_000)
    for count in range(number.max() + 1):  # the one itself, and the others as long as there are more
        away = theory.distance_m(made.radio, draws.uniform(0, 250, len(needed)), 250.0)
        later = np.maximum(needed, 8000 / theory.downlink_bps(made.radio, away))
        needed = np.where(number >= count, later, needed)
    entrance_s = 8000 / float(theory.downlink_bps(made.radio, theory.distance_m(made.radio, 0.0, 250.0)))
    stay_s, round_s = 250 / 9, 10.0
    expected = (stay_s * needed.mean() + round_s * entrance_s) / (stay_s + round_s)
    assert mean_transfers(made, 5, round_s).download_s == pytest.approx(expected, rel=3e-3)


def test_unicasts_at_the_beginning_of_a_round_share_the_band() -> None:
    """Two others are there on average, and as many begin late as at the beginning: one in ten seconds, as in M/G/1-PS.

    Only uploads may queue: downloads share whatever `sharing` says.
    """
    shared, queued = (
        mean_transfers(strong(radio__download="unicast", radio__sharing=sharing), 10, 20.0).download_s
        for sharing in ("equal", "fifo")
    )
    alone_s = transfers_alone(strong()).download_s
    late_s = alone_s / (1 - 0.1 * alone_s)
    assert shared == pytest.approx((3 * alone_s + late_s) / 2, rel=1e-9)
    assert queued == shared


@given(log_uniform(0.01, 3.0), log_uniform(1e3, 1e8), st.sampled_from(["equal", "fifo"]), st.integers(1, 60))
def test_more_traffic_makes_larger_crowds_and_longer_uploads(rate: float, size: float, sharing: str, h: int) -> None:
    made = road(
        link__model_bytes=int(size), traffic__arrivals_per_s=rate, radio__sharing=sharing, radio__download="broadcast"
    )
    some, more = (
        mean_transfers(made.with_values({"traffic.arrivals_per_s": each}), h, 15.0) for each in (rate, 2 * rate)
    )
    alone = transfers_alone(made)
    assert some.senders >= 1
    assert alone.upload_s <= some.upload_s * (1 + 1e-9)
    if h < 5:  # with many steps a longer broadcast leaves fewer who begin to upload
        assert some.senders <= more.senders * (1 + 1e-6) + 1e-3


def test_what_is_missing_is_named(paper: Scenario) -> None:
    with pytest.raises(InputError, match=r"must have a radio and link\.model_bytes, got no radio"):
        transfers_alone(paper)
    with pytest.raises(InputError, match=r"got no link\.model_bytes"):
        transfers_alone(paper.with_values({"radio.fading": "none"}))
