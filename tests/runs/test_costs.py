"""Bytes and energy by hand, and sizes that make times: a codec gives another upload time and so another plan."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fake_task import CountingTask, QuadraticTask
from mobfl import Contribution, InputError, Job, Scenario, ServerStep, Site, plan, read_history, train
from mobfl.learning.codecs.topk import TopK
from mobfl.runs.costs import Costs
from mobfl.servers.steps import Effort
from stories import BUSY, STEADY, STORY, columns, crossings, run, story

MODEL = 64 + 6 * 4  # bytes of six numbers as safetensors: a header, and four each


class Told:
    """Two steps with one upload each of three local steps, 0.6 s of training; what they took is told or not."""

    local_steps = 3

    def __init__(self, effort: Effort | None = None, budget: int | None = None) -> None:
        self._effort, self._budget = effort, budget

    def steps(self, site: Site) -> Iterator[ServerStep]:
        vehicle = next(site.vehicles())
        for number in range(2):
            upload = Contribution(vehicle.key, number, number, 5.0 * number, 3, self._budget)
            yield ServerStep(number, 5.0 * number, 5.0 * number + 5, 3, 1, (upload,), effort=self._effort)


def costs(job: Job) -> list[tuple[float, ...]]:
    return columns(run(job), "bytes", "energy_j")


def job(schedule: Any, scenario: Scenario = STEADY, **parts: Any) -> Job:
    return Job(QuadraticTask(), scenario, schedule, 7, STORY, **parts)


def test_the_model_has_as_many_bytes_as_its_file() -> None:
    assert job((3, 5.0)).sizes.model == job((3, 5.0)).sizes.upload == MODEL


def test_what_a_schedule_tells_is_what_counts() -> None:
    """Five downloads, three uploads of a second at 0.2 W, seven seconds of training at 15 W."""
    assert costs(job(Told(Effort(5, 3, 7.0)))) == [(8 * MODEL, 0.6 + 105.0)] * 2
    powers = STEADY.with_values({"energy.transmit_w": 1.0, "energy.compute_w": 2.0})
    assert costs(job(Told(Effort(5, 3, 7.0)), powers)) == [(8 * MODEL, 3.0 + 14.0)] * 2
    few = 15  # bytes of a top entry of six, three times: a place and a float
    assert costs(job(Told(Effort(5, 3, 7.0)), codec="topk:share=0.5")) == [(5 * MODEL + 3 * few, 0.6 + 105.0)] * 2


def test_of_a_schedule_that_does_not_tell_its_uploads_count() -> None:
    assert costs(job(Told())) == [(2 * MODEL, pytest.approx(0.2 + 15 * 0.6))] * 2


def test_a_step_in_which_nothing_was_begun_costs_nothing() -> None:
    """a and b upload as they leave, at 2.6 and 2.7: all was begun before the first of these steps."""
    two = Job(QuadraticTask(), STEADY, "stay-aware:1", 7, crossings(("a", 0.0, 2.6), ("b", 0.1, 2.7)))
    assert costs(two) == [(4 * MODEL, pytest.approx(0.4 + 15 * 1.2)), (0.0, 0.0)]


def test_a_budget_bounds_the_bytes_and_the_time_to_send_them() -> None:
    """Of an upload of fifteen bytes there is time for two entries, ten bytes; the others of the step were lost."""
    given = costs(job(Told(Effort(2, 2, 0.0), budget=14), codec="topk:share=0.5"))
    assert given == [(2 * MODEL + 10 + 15, pytest.approx(0.2 * (10 / 15 + 1)))] * 2
    # Begun in one step, cut short to ten bytes as it arrives in the next, which has nothing to take the five from.
    assert _booked_ahead() == [(2 * MODEL + 15, 0.2), (0, 0.0), (MODEL + 10, pytest.approx(0.2 * 10 / 15))]
    counted = run(job(Told(budget=10), codec="topk:share=0.5"))[0].checkpoint.model["w"]
    assert (counted != 0).sum() == 2
    assert costs(job(Told(budget=14)))[0][0] == 2 * MODEL  # who takes no budget sends what it has to


def _booked_ahead() -> list[tuple[float, ...]]:
    """Two downloads and an upload; its arrival, of ten bytes instead of fifteen; a download and an upload."""
    costs = Costs.of(job(Told(), codec="topk:share=0.5"))
    key = next(costs.site.vehicles()).key
    cut = (Contribution(key, 0, 0, 0.0, 3, budget=14),)
    told = [((), Effort(2, 1)), (cut, Effort()), ((), Effort(1, 1))]
    steps = [ServerStep(n, 0.0, 1.0, 3, 1, uploads, effort=effort) for n, (uploads, effort) in enumerate(told)]
    return [tuple(costs.row(step).values()) for step in steps]


@pytest.mark.parametrize("schedule", ["3,5", "mobfl", "anytime:5", "wait-for-all:3", "async:3", "fedbuff:3,buffer=2"])
def test_every_schedule_has_the_columns(schedule: str) -> None:
    """What an upload takes is counted as it begins, so it may stand in an earlier row than the upload."""
    learnt = run(Job(QuadraticTask(), BUSY.with_values({"training.duration_s": 60.0}), schedule, 2))
    sums = dict.fromkeys(("uploads", "steps", "bytes", "energy_j"), 0.0)
    for row in (each.row for each in learnt):
        assert isinstance(row["bytes"], int)
        sums = {name: total + row[name] for name, total in sums.items()}
        assert sums["bytes"] >= 2 * MODEL * sums["uploads"]
        assert sums["energy_j"] >= 0.2 * sums["uploads"] + 15 * 0.2 * sums["steps"] - 1e-9
    assert sums["uploads"] > 0


def test_they_are_in_the_run_and_its_totals(tmp_path: Path) -> None:
    history = train(Job(CountingTask(), BUSY, (10, 6.0), 3), tmp_path / "run")
    rows = pq.read_table(tmp_path / "run" / "rounds.parquet")
    assert rows.column_names[-4:] == ["count", "steps", "bytes", "energy_j"]
    results = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    assert results["bytes"] == history.total("bytes") == sum(rows["bytes"].to_pylist()) > 0
    assert results["energy_j"] == history.total("energy_j") > 0
    pq.write_table(rows.drop(["bytes", "energy_j"]), tmp_path / "run" / "rounds.parquet")  # as runs were before
    assert read_history(tmp_path / "run").total("bytes") is None


def test_powers_are_no_part_of_a_run_that_does_not_give_them() -> None:
    assert "energy" not in job((3, 5.0)).describe()["scenario"]
    given = Scenario.from_dict({"energy": {"compute_w": 30.0}})
    assert given.to_dict()["energy"] == {"compute_w": 30.0}  # what was not given follows the radio, if there is one
    assert Scenario.from_dict(given.to_dict()) == given
    for table, line in (
        ({"compute_w": -1}, "energy.compute_w must be >= 0, got -1"),
        ({"watt": 1}, "energy.watt is not"),
    ):
        with pytest.raises(InputError, match=line):
            Scenario.from_dict({"energy": table})


def test_a_rule_is_told_how_long_training_and_upload_took() -> None:
    """0.6 s of training and 1 s of upload, where half a second is usual."""
    first = story("async:3", rule="afl")[0]
    assert first.row["count"] == pytest.approx(3 * 0.5 * 0.9 ** (0.6 - 0.5) * 0.9 ** (1.0 - 0.5))


# ---- sizes make times ------------------------------------------------------------------------------

RATES = {"link.downlink_bps": 8.0 * MODEL, "link.uplink_bps": 4.0 * MODEL}  # the model takes 1 s down, 2 s up


def test_rates_alone_leave_the_sizes_to_task_and_codec() -> None:
    road = Scenario().with_values(RATES)
    plain, sparse = (Job(QuadraticTask(), road, codec=codec) for codec in (None, "topk:share=0.5"))
    assert (plain.road.link.download_s, plain.road.link.upload_s) == (1.0, 2.0)
    assert (sparse.road.link.download_s, sparse.road.link.upload_s) == (1.0, 2.0 * 15 / MODEL)
    assert sparse.describe()["scenario"]["link"] == {
        "model_bytes": MODEL, "upload_bytes": 15, "downlink_bps": 8.0 * MODEL, "uplink_bps": 4.0 * MODEL
    }  # fmt: skip
    assert "upload_bytes" not in plain.describe()["scenario"]["link"]
    with_variates = Job(QuadraticTask(), road, rule="scaffold", codec="topk:share=0.5").road.link
    assert (with_variates.download_s, with_variates.upload_s) == (2.0, 2.0 + 2.0 * 15 / MODEL)


def test_the_plan_of_a_run_is_for_its_own_times() -> None:
    road = Scenario().with_values(RATES)
    seconds = Scenario().with_values({"link.download_s": 1.0, "link.upload_s": 2.0 * 15 / MODEL})
    found = Job(QuadraticTask(), road, codec="topk:share=0.5").describe()["plan"]
    assert (found["local_steps"], found["round_s"]) == plan(seconds).numbers[:2]
    slower = Job(QuadraticTask(), road).describe()["plan"]
    assert slower["objective"] < found["objective"]


def test_a_size_that_is_given_shrinks_with_the_codec() -> None:
    road = Scenario().with_values({**RATES, "link.model_bytes": 1_000_000})
    sparse = Job(QuadraticTask(), road, (3, 5.0), codec="topk:share=0.5")
    assert sparse.road.link.upload_bytes == -(-1_000_000 * 15 // MODEL)
    assert Job(QuadraticTask(), road).road is road
    assert Job(QuadraticTask(), road.with_values({"link.upload_bytes": 7}), codec="topk").road.link.upload_bytes == 7
    assert Costs.of(sparse).download_bytes == 1_000_000
    assert Costs.of(sparse).budget(-(-1_000_000 * 10 // MODEL)) == 10  # a codec fills as many bytes as it really makes


def test_a_link_in_seconds_knows_no_sizes() -> None:
    assert job((3, 5.0), codec="topk").road is STEADY
    assert Costs.of(job((3, 5.0), codec="topk")).upload_bytes == TopK().size(QuadraticTask().initial_weights(0))


def test_nobody_plans_for_a_link_without_sizes() -> None:
    road = Scenario().with_values(RATES)
    with pytest.raises(InputError, match=r"link\.model_bytes must be given with the rates where no task is trained"):
        plan(road)
    assert road.to_dict()["link"] == {key.removeprefix("link."): value for key, value in RATES.items()}
    assert Scenario.from_dict(road.to_dict()) == road
    for given, line in (
        ({"upload_bytes": 5}, "link.upload_bytes must come with model_bytes and downlink_bps and uplink_bps, got 5"),
        ({"upload_bytes": 5, "downlink_bps": 1e6, "uplink_bps": 1e6}, "link.upload_bytes must come with model_bytes"),
        ({"uplink_bps": 1e6}, "link.uplink_bps must come with model_bytes and downlink_bps"),
        ({"upload_s": 1.0, "downlink_bps": 1e6, "uplink_bps": 1e6}, "link must give either seconds or model_bytes"),
    ):
        with pytest.raises(InputError, match=line):
            Scenario.from_dict({"link": given})


def test_traffic_can_be_made_before_sizes_are_known() -> None:
    from mobfl.mobility.sources import crossings_of

    road = Scenario().with_values({**RATES, "training.duration_s": 100.0})
    assert len(crossings_of("poisson", road, 1)) == len(
        crossings_of("poisson", Scenario().with_values({"training.duration_s": 100.0}), 1)
    )


# ---- a radio ----------------------------------------------------------------------------------------


def test_energy_follows_the_radio_and_may_follow_the_clock() -> None:
    loud = Scenario.from_dict({"radio": {"vehicle_dbm": 30.0}, "link": {"model_bytes": 1000}})
    assert loud.transmit_w == pytest.approx(1.0)
    assert loud.with_values({"energy.transmit_w": 0.3}).transmit_w == 0.3
    by_clock = Scenario.from_dict({"energy": {"capacitance": 1e-28, "clock_hz": 2e9}})
    assert by_clock.energy.computing_w == pytest.approx(0.8)
    for given in (loud, loud.with_values({"energy.transmit_w": 0.3}), by_clock):
        again = Scenario.from_dict(given.to_dict())
        assert (again.transmit_w, again.energy.computing_w) == (given.transmit_w, given.energy.computing_w)
    with pytest.raises(InputError, match=r"energy\.clock_hz must come with capacitance, got it alone"):
        Scenario.from_dict({"energy": {"clock_hz": 2e9}})
    with pytest.raises(InputError, match="energy must give either compute_w or capacitance and clock_hz, got both"):
        Scenario.from_dict({"energy": {"clock_hz": 2e9, "capacitance": 1e-28, "compute_w": 3.0}})


def test_what_arrived_of_an_upload_is_merged_and_counted_apart(tmp_path: Path) -> None:
    """At 32 bit/s, 15 of 30 bytes have come when the only vehicle leaves: three numbers of six."""
    narrow = {"uplink_hz": 4.0, "vehicle_dbm": 100.0, "efficiency": 1.0, "most_bps_per_hz": 8.0, "shadowing_db": 0.0}
    road = STEADY.with_values({"radio": narrow, "link": {}})
    told = {}
    for codec in ("topk:share=1", "plain"):
        train(Job(QuadraticTask(), road, (3, 5.0), 7, crossings(("a", 0.0, 4.4)), codec=codec), tmp_path / codec)
        told[codec] = pq.read_table(tmp_path / codec / "rounds.parquet").to_pydict()
    initial = read_history(tmp_path / "plain").initial["loss"]
    assert told["plain"]["loss"] == [initial] * 3
    assert "partial" not in told["plain"]
    parts = told["topk:share=1"]
    assert (parts["uploads"], parts["partial"], parts["steps"]) == ([0, 0, 0], [1, 0, 0], [0, 0, 0])
    assert parts["loss"][0] < initial
    assert parts["bytes"][0] == MODEL + 15
