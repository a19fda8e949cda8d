"""A scenario with a radio through the page's server: plans, rounds with rates, and sentences for nonsense."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mobfl
from mobfl import Scenario, load_scenario, theory
from mobfl.app.road import passing_rounds
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.air import Channel, delays_and_channel
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.present_rates import present_bps
from mobfl.rounds.rows import Outcome, Rounds
from mobfl.rounds.rules import simulate_rounds
from page_server import PageServer, page_server

URBAN = load_scenario("urban-radio")
CROWDED = URBAN.with_values({"traffic.arrivals_per_s": 0.5, "traffic.participation": 1.0})


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with page_server() as server:
        yield server


def with_radio(**values: Any) -> dict[str, Any]:
    tables = URBAN.to_dict()
    return {**tables, "radio": {**tables["radio"], **values}}


def errors(answer: tuple[int, Any]) -> tuple[int, list[str]]:
    return answer[0], answer[1]["errors"]


# ---- plans ------------------------------------------------------------------------------------------


def test_a_plan_on_a_radio_is_the_quick_one_with_the_times_it_is_for(page: PageServer) -> None:
    status, told = page.post("/api/plan", URBAN.to_dict())
    quick = mobfl.plan_quickly(URBAN)
    assert (status, told["plan"], told["toml"]) == (200, quick.to_dict(), URBAN.to_toml())
    assert told["plan"]["planner"] == "fixed-point"
    times = theory.mean_transfers(URBAN, *quick.numbers[:2])
    assert told["transfers"] == {key: pytest.approx(value) for key, value in vars(times).items()}
    assert 0 < told["contributing_visit_prob"] < 1


def test_a_plan_in_seconds_has_no_times_of_a_radio(page: PageServer) -> None:
    assert "transfers" not in page.post("/api/plan", {})[1]


def test_a_band_too_narrow_is_infeasible_in_a_sentence(page: PageServer) -> None:
    status, told = page.post("/api/plan", with_radio(uplink_hz=1e4))
    assert (status, told["plan"]["status"], told["contributing_visit_prob"]) == (200, "infeasible", None)
    assert "widen radio.uplink_hz" in told["plan"]["reason"]


@pytest.mark.parametrize("path", ["/api/plan", "/api/road", "/api/delivered"])
@pytest.mark.parametrize(
    ("radio", "line"),
    [
        ({"uplink_hz": -1}, "radio.uplink_hz must be > 0, got -1"),
        ({"uplink_hz": None}, "radio.uplink_hz must be a number, got None"),
        ({"path_loss": "lunar"}, "radio.path_loss must be one of"),
        ({"path_loss": "cell"}, "radio.carrier_ghz must be 2 with path_loss = 'cell'"),
        ({"vehicle_dbm": 1e9}, "radio.vehicle_dbm must be <= 200"),
        ({"sharing": ["equal"]}, "radio.sharing must be one of"),
        ({"antennas": 4}, "radio.antennas"),
    ],
)
def test_nonsense_in_the_radio_gets_a_sentence(page: PageServer, path: str, radio: dict[str, Any], line: str) -> None:
    tables = with_radio(**radio)
    asked = {"tables": tables, "local_steps": 5, "round_s": 20.0, "seed": 0, "first": 0, "count": 1}
    status, lines = errors(page.post(path, tables if path == "/api/plan" else asked))
    assert status == 400
    assert any(each.startswith(line) for each in lines), lines


def test_what_has_no_plan_on_a_radio_says_so(page: PageServer) -> None:
    status, (line,) = errors(page.post("/api/anytime", URBAN.to_dict()))
    assert status == 400
    assert line.startswith("the scenario has a radio")


def test_a_radio_without_sizes_says_what_is_missing(page: PageServer) -> None:
    tables = {key: value for key, value in URBAN.to_dict().items() if key != "link"}
    status, (line,) = errors(page.post("/api/plan", tables))
    assert status == 400
    assert "model_bytes" in line


# ---- rounds -----------------------------------------------------------------------------------------


def test_rounds_on_a_radio_tell_rates_and_whose_fault_a_loss_was(page: PageServer) -> None:
    asked = {"tables": CROWDED.to_dict(), "local_steps": 15, "round_s": 20.0, "seed": 3, "first": 2, "count": 6}
    status, told = page.post("/api/road", asked)
    assert status == 200
    assert [each["round"] for each in told["rounds"]] == [2, 3, 4, 5, 6, 7]
    outcomes = [row["outcome"] for row in told["vehicles"]]
    assert {"uploaded", "radio"} <= set(outcomes) <= {"uploaded", "radio", "left_early", "round_over"}
    senders = [row for row in told["vehicles"] if row["upload_s"] is not None]
    assert all(bps > 0 for row in senders for bps in row["upload_bps"])
    assert all(row["ready_s"] <= row["upload_s"] + 1e-6 for row in senders)
    uploads = [sum(row["outcome"] == "uploaded" for row in told["vehicles"] if row["round"] == k) for k in range(2, 8)]
    assert uploads == [each["uploads"] for each in told["rounds"]]


def test_what_is_promised_of_rounds_on_a_radio_has_no_band() -> None:
    told = passing_rounds(URBAN, 22, 25.0, seed=0, first=0, count=1)
    times = theory.mean_transfers(URBAN, 22, 25.0)
    seconds = URBAN.with_values({"radio": None, "link": {"download_s": times.download_s, "upload_s": times.upload_s}})
    assert told["expected_uploads"] == pytest.approx(float(theory.expected_uploads(seconds, 22, 25.0)))
    assert told["reach"] is None


def test_delivered_is_what_a_simulation_delivers(page: PageServer) -> None:
    status, told = page.post("/api/delivered", {"tables": URBAN.to_dict(), "local_steps": 22, "round_s": 25.0})
    assert (status, told["rounds"]) == (200, 400)
    simulated = mobfl.simulate(URBAN, 22, 25.0, 400)
    assert told["uploads"] == simulated.mean_uploads.value > 0
    assert told["objective"] == pytest.approx(22 / 25.0 * (1 - simulated.empty_prob.value))
    assert told["objective_interval"][0] < told["objective"] < told["objective_interval"][1]


# ---- rates at an instant ----------------------------------------------------------------------------


def rows_of(scenario: Scenario, h: int, t: float, seed: int) -> tuple[Rounds, Channel, Any, Any]:
    """The rounds that begin while the first block of traffic lasts, with when every row's vehicle enters and leaves."""
    traffic = next(iter(poisson_crossings(scenario, seed)))
    delays, channel = delays_and_channel(scenario)
    assert channel is not None
    block = next(iter(simulate_rounds([traffic], FixedPlan(h, t), delays, seed, channel=channel)))
    assert block.vehicles is not None
    at = np.searchsorted(traffic.vehicle, block.vehicles.vehicle)
    return block, channel, traffic.enter_s[at], traffic.leave_s[at]


@pytest.mark.parametrize("sharing", ["equal", "fifo"])
def test_rates_add_up_to_what_was_sent(sharing: str) -> None:
    """What every upload carried is the area under the rates found again for it."""
    scenario = CROWDED.with_values({"radio.sharing": sharing})
    block, channel, enter_s, leave_s = rows_of(scenario, 15, 20.0, seed=5)
    assert block.vehicles is not None
    rows = block.vehicles.of_rounds(0, 30)
    assert rows.transfers is not None
    found = present_bps(rows, channel, 5, enter_s[: len(rows)], leave_s[: len(rows)], 20.0, 400)
    lasted_s = rows.end_s - rows.transfers.send_s
    sent = rows.transfers.sent * 8 * channel.upload_bytes
    sending = lasted_s > 0
    assert sending.sum() > 50
    assert np.isnan(found[~sending]).all()
    carried = found[sending].mean(axis=1) * lasted_s[sending]
    assert carried == pytest.approx(sent[sending], rel=0.01, abs=2e5)
    assert (rows.outcome == Outcome.RADIO).any()
