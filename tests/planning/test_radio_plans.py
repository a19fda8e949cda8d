"""Quick plans of roads with a radio: they agree with the transfer times that they cause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobfl import Scenario, load_scenario, plan, simulate
from mobfl.planning.radio import in_seconds, plan_quickly, too_narrow
from mobfl.theory.crowd import Transfers, mean_transfers, transfers_alone
from roads_at_random import log_uniform


@pytest.mark.parametrize("name", ["paper-radio", "highway-radio", "urban-radio"])
def test_a_quick_plan_is_the_best_for_the_times_that_it_causes(name: str) -> None:
    road = load_scenario(name)
    quick = plan_quickly(road)
    h, t, g = quick.numbers
    assert (quick.status, quick.planner, quick.reason) == ("ok", "fixed-point", None)
    best = plan(in_seconds(road, mean_transfers(road, h, t)))
    assert best.local_steps == h
    assert best.round_s == pytest.approx(t, rel=1e-3)
    assert best.numbers[2] == pytest.approx(g, rel=1e-6)
    assert list(quick.to_dict()) == list(best.to_dict())


def test_where_transfers_take_no_time_it_is_the_exact_plan(paper: Scenario) -> None:
    """A megahertz for every byte: as on the paper's road with τ = 0, but for what is left of them."""
    fast = load_scenario("paper-radio").with_values({"link.model_bytes": 1})
    instant = plan(paper.with_values({"link.download_s": 6e-8, "link.upload_s": 6e-8}))
    assert plan_quickly(fast).local_steps == instant.local_steps
    assert plan_quickly(fast).numbers[2] == pytest.approx(instant.numbers[2], rel=1e-5)


def test_a_crowded_band_costs() -> None:
    free = load_scenario("urban-radio")
    crowded = free.with_values({"traffic.arrivals_per_s": 3.0})
    one, many = (mean_transfers(road, 22, 25.5) for road in (free, crowded))
    assert many.senders > 1.4
    assert many.upload_s > 1.2 * one.upload_s
    assert many.download_s > 2 * one.download_s
    assert plan_quickly(crowded).numbers[1] > 1.5 * plan_quickly(free).numbers[1]


def test_a_band_that_is_too_narrow_is_infeasible_with_a_remedy() -> None:
    narrow = load_scenario("urban-radio").with_values({"radio.uplink_hz": 1e4})
    told = plan_quickly(narrow)
    assert (told.status, told.local_steps, told.to_dict()["planner"]) == ("infeasible", None, None)
    assert told.reason == too_narrow(narrow)
    assert "an upload alone takes 1.74e+03 s where the radio is best but vehicles leave after 278 s" in str(told.reason)
    assert "widen radio.uplink_hz" in str(told.reason)
    assert too_narrow(load_scenario("urban-radio")) is None
    deaf = too_narrow(load_scenario("urban-radio").with_values({"radio.downlink_hz": 1e4}))
    assert "a download alone takes 1.74e+03 s" in str(deaf)
    assert "widen radio.downlink_hz, raise radio.station_dbm, or send fewer bytes (link.download_bytes)" in str(deaf)


@settings(max_examples=40)
@given(
    st.sampled_from(["paper-radio", "highway-radio", "urban-radio"]),
    log_uniform(1e-3, 10.0),
    log_uniform(10.0, 1e10),
    log_uniform(1e3, 1e9),
    st.sampled_from(["equal", "fifo"]),
    st.sampled_from(["broadcast", "unicast"]),
)
def test_any_road_gets_a_plan_or_a_reason(
    name: str, rate: float, size: float, band_hz: float, sharing: str, download: str
) -> None:
    road = load_scenario(name).with_values(
        {
            "traffic.arrivals_per_s": rate,
            "traffic.speed_sd_mps": 0.0,
            "link.model_bytes": int(size),
            "radio.uplink_hz": band_hz,
            "radio.sharing": sharing,
            "radio.download": download,
        }
    )
    quick = plan_quickly(road)
    if quick.reason is None:
        assert quick.numbers[2] >= 0
        assert quick.numbers[2] <= plan(in_seconds(road, transfers_alone(road))).numbers[2] * (1 + 1e-9)
    else:
        assert quick.local_steps is None


def test_a_step_that_does_not_fit_is_infeasible_too() -> None:
    told = plan_quickly(load_scenario("paper-radio").with_values({"compute.min_step_s": 30.0}))
    assert (told.status, told.planner) == ("infeasible", "fixed-point")
    assert "one step with both transfers takes 30 s" in str(told.reason)


def test_a_plan_that_promises_nothing_is_none() -> None:
    """With LaneGCN's size and no line of sight, every mean transfer takes longer than half a stay."""
    crowd = {"traffic.arrivals_per_s": 0.5, "link.model_bytes": 14_835_468, "radio.path_loss": "urban-nlos"}
    told = plan_quickly(load_scenario("paper").with_values(crowd))
    assert (told.status, told.local_steps, told.objective, told.planner) == ("infeasible", None, None, "fixed-point")
    assert "on average where so many share the band, and no vehicle that takes as long is in time" in str(told.reason)
    assert "plan by simulation" in str(told.reason)


LOUD = load_scenario("paper-radio").with_values(
    {"radio.station_dbm": 150.0, "radio.vehicle_dbm": 150.0, "link.model_bytes": 14_835_468}
)  # everybody gets as much as modulation allows, wherever he is
ALONE_S = 8 * 14_835_468 / (LOUD.radio.downlink_hz * LOUD.radio.efficiency * LOUD.radio.most_bps_per_hz)  # type: ignore[union-attr]


@pytest.mark.parametrize("load", [0.01, 0.3, 0.8])
def test_latecomers_share_the_downlink_as_processors_are_shared(load: float) -> None:
    """In a round without end nearly all come later: a queue M/G/1-PS, whose mean is s/(1 − ρ)."""
    road = LOUD.with_values({"traffic.arrivals_per_s": load / ALONE_S})
    assert mean_transfers(road, 1, 1e7).download_s == pytest.approx(ALONE_S / (1 - load), rel=1e-4)


def test_no_more_of_them_share_it_than_have_come() -> None:
    """With an arrival in a third of a download, in rounds of ten seconds: those of five seconds share it."""
    rate = 3 / ALONE_S
    road = LOUD.with_values({"traffic.arrivals_per_s": rate, "radio.download": "broadcast"})
    late_s, stay_s = (1 + 5 * rate) * ALONE_S, 20.0
    assert mean_transfers(road, 1, 10.0).download_s == pytest.approx((stay_s * ALONE_S + 10 * late_s) / 30, rel=1e-4)


def test_a_crowds_downloads_are_nearly_as_long_as_simulated_ones() -> None:
    """Alone they would take 4.0 s on average."""
    crowd = {"traffic.participation": 1, "traffic.arrivals_per_s": 0.5}
    road = load_scenario("urban-radio").with_values(crowd)
    air = simulate(road, 22, 25.5, 60).air
    assert air is not None
    assert air.expected is not None
    assert 0.7 < air.expected.download_s / air.download_s < 1.3


def test_seconds_take_the_radios_place() -> None:
    made = in_seconds(load_scenario("paper-radio"), Transfers(0.25, 0.5, 2.0))
    assert made.radio is None
    assert (made.link.download_s, made.link.upload_s) == (0.25, 0.5)
