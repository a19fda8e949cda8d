"""Quick plans of roads with a radio: they agree with the transfer times that they cause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobfl import Scenario, load_scenario, plan
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
    h, t, _ = plan_quickly(crowded).numbers
    assert mean_transfers(crowded, h, t).senders > 1.4
    assert mean_transfers(crowded, h, t).upload_s > 1.2 * mean_transfers(free, h, t).upload_s


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


def test_seconds_take_the_radios_place() -> None:
    made = in_seconds(load_scenario("paper-radio"), Transfers(0.25, 0.5, 2.0))
    assert made.radio is None
    assert (made.link.download_s, made.link.upload_s) == (0.25, 0.5)
