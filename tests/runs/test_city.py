"""A city: several stations and a cloud, in the same loop as one section."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask, QuadraticTask
from mobfl import Crossings, InputError, Job, Scenario, read_history, train
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.runs.checkpoint import Checkpoint, read_last, write_checkpoint
from mobfl.runs.folder import read_run
from mobfl.runs.job import check_job
from mobfl.runs.rows import Learnt
from stories import BUSY, STEADY, crossings
from stories import run as run_job


def city(names: str = "AB", cloud: Mapping[str, Any] | None = None, road: Scenario = STEADY) -> Scenario:
    tables = road.to_dict() | {"stations": [{"name": name} for name in names]}
    return Scenario.from_dict(tables | ({} if cloud is None else {"cloud": dict(cloud)}))


def corridor(stations: int, cloud: Mapping[str, Any] | None = None, **more: Any) -> Scenario:
    tables = BUSY.to_dict() | {"corridor": {"stations": stations, "every_m": 700.0, **more}}
    return Scenario.from_dict(tables | ({} if cloud is None else {"cloud": dict(cloud)}))


COLUMNS = ("station", "round", "start_s", "end_s", "present", "uploads", "count")


def rows(learnt: list[Learnt]) -> list[tuple[float, ...]]:
    return [tuple(each.row[name] for name in COLUMNS) for each in learnt]


# A vehicle at each of two stations: 2.6 s for three local steps, which add 3, in rounds of 5 s.
TRAFFIC = {"A": crossings(("a", 0.5, 9.0)), "B": crossings(("b", 6.0, 14.0))}
PLAN = (3, 5.0)


def story(cloud: Mapping[str, Any] | None, traffic: Mapping[str, Crossings] = TRAFFIC) -> list[tuple[float, ...]]:
    return rows(run_job(Job(CountingTask(), city("AB", cloud), PLAN, 7, traffic)))


def test_stations_without_a_cloud_never_meet() -> None:
    assert story(None) == [
        (0, 0, 0.0, 5.0, 1, 1, 3.0),
        (1, 0, 0.0, 5.0, 0, 0, 0.0),
        (0, 1, 5.0, 10.0, 1, 1, 6.0),
        (1, 1, 5.0, 10.0, 1, 1, 3.0),
        (0, 2, 10.0, 15.0, 0, 0, 6.0),
        (1, 2, 10.0, 15.0, 1, 1, 6.0),
    ]


def test_the_cloud_averages_after_every_round_and_leaves_out_who_had_no_uploads() -> None:
    assert story({"every_rounds": 1}) == [
        (0, 0, 0.0, 5.0, 1, 1, 3.0),
        (1, 0, 0.0, 5.0, 0, 0, 0.0),
        (-1, 0, 0.0, 5.0, 2, 1, 3.0),  # B has nothing to say, and goes on with A's model
        (0, 1, 5.0, 10.0, 1, 1, 6.0),
        (1, 1, 5.0, 10.0, 1, 1, 6.0),
        (-1, 1, 5.0, 10.0, 2, 2, 6.0),
        (0, 2, 10.0, 15.0, 0, 0, 6.0),
        (1, 2, 10.0, 15.0, 1, 1, 9.0),
        (-1, 2, 10.0, 15.0, 2, 1, 9.0),
    ]


def test_what_is_averaged_is_weighted_by_the_samples_since_the_last_average() -> None:
    """Every two rounds: A has two uploads and is at 6, B has one upload and is at 3."""
    learnt = run_job(Job(CountingTask(), city("AB", {"every_rounds": 2}), PLAN, 7, TRAFFIC))
    assert rows(learnt)[4][:6] == (-1, 0, 0.0, 10.0, 2, 2)
    held = {}
    for place, name in enumerate("ab"):
        alone = run_job(Job(CountingTask(), city("AB", None), PLAN, 7, TRAFFIC))
        held[name] = samples_of(alone, place)
    expected = (2 * held["a"] * 6.0 + held["b"] * 3.0) / (2 * held["a"] + held["b"])
    assert learnt[4].row["count"] == pytest.approx(expected, rel=1e-6)
    equal = run_job(Job(CountingTask(), city("AB", {"every_rounds": 2, "weights": "equal"}), PLAN, 7, TRAFFIC))
    assert equal[4].row["count"] == 4.5


def samples_of(learnt: list[Learnt], place: int) -> int:
    """D of the only vehicle at a station, as the cloud counts it."""
    scenario = city("AB", {"every_s": 1000.0})
    found = run_job(Job(CountingTask(), scenario, PLAN, 7, TRAFFIC))
    state = found[-1].checkpoint.cloud
    assert state is not None
    return state.samples[place] // sum(each.row["uploads"] for each in learnt if each.row["station"] == place)


def test_what_comes_over_the_backhaul_is_taken_up_when_a_round_ends() -> None:
    """Handed in at 5 s and averaged at 7 s; at 9 s it comes to the stations, which are in rounds that end at 10 s."""
    assert story({"every_rounds": 1, "backhaul_s": 2.0}) == [
        (0, 0, 0.0, 5.0, 1, 1, 3.0),
        (1, 0, 0.0, 5.0, 0, 0, 0.0),
        (-1, 0, 0.0, 7.0, 2, 1, 3.0),
        (0, 1, 5.0, 10.0, 1, 1, 6.0),  # the average is 3, and 3 were learnt since it was handed in
        (1, 1, 5.0, 10.0, 1, 1, 6.0),  # it began at 0, learnt 3, and 3 came from A
        (-1, 1, 7.0, 12.0, 2, 2, 6.0),
        (0, 2, 10.0, 15.0, 0, 0, 6.0),
        (1, 2, 10.0, 15.0, 1, 1, 9.0),
    ]


def test_the_cloud_may_have_a_clock_of_its_own() -> None:
    assert [each for each in story({"every_s": 7.0}) if each[0] == -1] == [
        (-1, 0, 0.0, 7.0, 2, 1, 3.0),
        (-1, 1, 7.0, 14.0, 2, 2, 6.0),
    ]


def test_one_model_for_all_stations() -> None:
    """Each of two stations moves it by half of what its uploads say, on top of what the other has done meanwhile."""
    assert [each[-1] for each in story({"every_rounds": 0})] == [1.5, 1.5, 3.0, 4.5, 4.5, 6.0]


def test_a_vehicle_is_the_same_at_every_station() -> None:
    """One vehicle passes A, then B: the cloud counts as many samples behind its upload at either."""
    both = {"A": crossings(("car", 0.5, 4.9)), "B": crossings(("car", 6.0, 9.9))}
    learnt = run_job(Job(CountingTask(), city("AB", {"every_s": 1000.0}), PLAN, 7, both))
    state = learnt[-1].checkpoint.cloud
    assert state is not None
    assert state.samples[0] == state.samples[1] > 0
    others = {"A": both["A"], "B": crossings(("bus", 6.0, 9.9))}
    learnt = run_job(Job(CountingTask(), city("AB", {"every_s": 1000.0}), PLAN, 7, others))
    assert learnt[-1].checkpoint.cloud is not None
    assert learnt[-1].checkpoint.cloud.samples[1] != state.samples[1]


def test_a_vehicle_that_returns_keeps_its_samples_and_draws_new_batches() -> None:
    task = CountingTask()
    run_job(Job(task, STEADY, PLAN, 7, crossings(("car", 0.5, 4.9), ("car", 6.0, 9.9))))
    first, second = (set(batches.flat) for batches in task.trained)
    alone = CountingTask()
    run_job(Job(alone, STEADY, PLAN, 7, crossings(("car", 0.5, 4.9), ("bus", 6.0, 9.9))))
    other = set(alone.trained[1].flat)
    assert not np.array_equal(task.trained[0], task.trained[1])
    assert len(first | second) < len(first | other)  # of at most 40 samples, against two vehicles' own


def test_a_single_station_under_a_cloud_is_plain_rounds_bit_for_bit() -> None:
    plain = run_job(Job(QuadraticTask(), BUSY, "mobfl", 3))
    learnt = run_job(Job(QuadraticTask(), corridor(1, {"every_rounds": 1}), "mobfl", 3))
    own = [each for each in learnt if each.row["station"] == 0]
    above = [each for each in learnt if each.row["station"] == -1]
    assert len(plain) == len(own) == len(above) > 10
    for one, edge, cloud in zip(plain, own, above, strict=True):
        assert {**one.row, "station": 0} == edge.row
        assert one.row["loss"] == cloud.row["loss"]
        assert one.checkpoint.model["w"].tobytes() == edge.checkpoint.model["w"].tobytes()
        assert one.checkpoint.model["w"].tobytes() == cloud.checkpoint.model["w"].tobytes()


@pytest.mark.parametrize("cloud", [None, {"every_rounds": 0}])
def test_a_single_station_is_plain_rounds_at_both_ends_of_the_scale(cloud: Mapping[str, Any] | None) -> None:
    plain = run_job(Job(QuadraticTask(), BUSY, "mobfl", 3))
    learnt = run_job(Job(QuadraticTask(), corridor(1, cloud), "mobfl", 3))
    assert [{**each.row, "station": 0} for each in plain] == [each.row for each in learnt]


def through_a_file(checkpoint: Checkpoint, folder: Path) -> Checkpoint:
    write_checkpoint(folder / "last.safetensors", checkpoint)
    return read_last(folder / "last.safetensors", checkpoint.model)[0]


# One vehicle passes A, where it uploads, then B: at B it begins with a mixture of B's model and its own.
PASSING = {"A": crossings(("car", 0.5, 4.9)), "B": crossings(("car", 6.0, 9.9))}


def test_a_carried_model_is_mixed_with_the_stations() -> None:
    for share, expected in ((0.0, 3.0), (0.5, 4.5), (1.0, 6.0)):
        learnt = story({"carried": "mix", "carried_share": share}, PASSING)
        assert [each[-1] for each in learnt if each[0] == 0] == [3.0, 3.0, 3.0]
        assert [each[-1] for each in learnt if each[0] == 1] == [0.0, expected, expected]


def test_an_interrupted_training_goes_on_and_is_sent_at_the_next_station() -> None:
    """It needs 1.6 s to download and train, and has 2.2 s at A: it leaves with a trained model that it cannot send.

    It is at B from 6 to 7.5 s: too briefly for another training, but for an upload it has time until 7 s.
    """
    brief = {"A": crossings(("car", 0.5, 2.7)), "B": crossings(("car", 6.0, 7.5))}
    assert [each[-1] for each in story(None, brief)] == [0.0] * 6
    assert story({"carried": "continue"}, brief) == [
        (0, 0, 0.0, 5.0, 1, 0, 0.0),
        (1, 0, 0.0, 5.0, 0, 0, 0.0),
        (0, 1, 5.0, 10.0, 0, 0, 0.0),
        (1, 1, 5.0, 10.0, 1, 1, 3.0),
        (0, 2, 10.0, 15.0, 0, 0, 0.0),
        (1, 2, 10.0, 15.0, 0, 0, 3.0),
    ]
    shorter = {"A": brief["A"], "B": crossings(("car", 6.0, 6.9))}
    assert [each[-1] for each in story({"carried": "continue"}, shorter)] == [0.0] * 6
    unloaded = {"A": crossings(("car", 0.5, 1.4)), "B": brief["B"]}  # it never had A's model
    assert [each[-1] for each in story({"carried": "continue"}, unloaded)] == [0.0] * 6


def test_who_goes_on_with_a_training_takes_part_in_nothing_else_till_then() -> None:
    """At B it has time for a whole training too, but is busy in the round in which it sends what it has brought."""
    learnt = story({"carried": "continue"}, {"A": crossings(("car", 0.5, 2.7)), "B": crossings(("car", 6.0, 14.9))})
    assert [each[-2:] for each in learnt if each[0] == 1] == [(0, 0.0), (1, 3.0), (1, 6.0)]


CLOUDS: list[Mapping[str, Any] | None] = [
    None,
    {"every_rounds": 0},
    {"every_rounds": 2},
    {"every_s": 17.0, "backhaul_s": 3.0},
    {"every_rounds": 3, "carried": "mix", "carried_share": 0.3},
    {"every_rounds": 4, "carried": "continue"},
]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_any_number_of_workers_and_any_interruption_lead_to_the_same(
    cloud: Mapping[str, Any] | None, tmp_path: Path
) -> None:
    """After every row: what goes on from its checkpoint, through the file, is what was there without a stop."""
    job = Job(QuadraticTask(), corridor(3, cloud, turns_off=0.2), "5,8", 3, codec="topk:share=0.5")
    whole = run_job(job)
    assert [each.row for each in run_job(job, workers=3)] == [each.row for each in whole]
    for stop in range(3, len(whole), 17):
        begun = through_a_file(whole[stop].checkpoint, tmp_path)
        scores = {name: whole[stop].row[name] for name in ("loss", "count") if name in whole[stop].row}
        rest = run_job(job, begun=begun, scores=scores)
        assert [each.row for each in rest] == [each.row for each in whole[stop + 1 :]]
        for one, other in zip(rest[-1].checkpoint.stations, whole[-1].checkpoint.stations, strict=True):
            assert one.model["w"].tobytes() == other.model["w"].tobytes()


def test_a_run_in_a_folder_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    cloud = {"every_rounds": 2, "backhaul_s": 1.5, "carried": "mix"}
    job = Job(QuadraticTask(), corridor(3, cloud, turns_off=0.2), "5,8", 3)
    train(job, tmp_path / "whole")
    for rows in (1, 20, 41):
        out, left = tmp_path / f"after {rows}", iter(range(rows))
        with pytest.raises(KeyboardInterrupt):
            train(job, out, stop=lambda left=left: next(left, None) is None)
        train(job, out, resume=True, workers=2)
        for name in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_folder_tells_every_station(tmp_path: Path) -> None:
    job = Job(QuadraticTask(), corridor(3, {"every_rounds": 2}), "5,8", 3)
    history = train(job, tmp_path)
    read = read_history(tmp_path)
    assert read.stations == ("station 1", "station 2", "station 3")
    assert [*read.columns] == [*COLUMNS_OF_RUNS, "loss", "count", "station", "steps", "bytes", "energy_j"]
    parts = [len(read.of_station(name)) for name in (*read.stations, "cloud")]
    assert parts == [25, 25, 25, 12]
    assert sum(parts) == len(history) == len(read)
    last = read_last(tmp_path / "last.safetensors", job.task.initial_weights(3))[0]
    assert len(last.stations) == 3
    assert last.cloud is not None
    assert last.cloud.average["w"].shape == (6,)
    told = read_run(tmp_path)
    assert [each["name"] for each in told["results"]["stations"]] == [*read.stations, "cloud"]
    uploads = sum(each["uploads"] for each in told["results"]["stations"][:3])
    assert uploads == int(read.of_vehicles.columns["uploads"].sum()) > 20
    with pytest.raises(InputError, match="the station must be one of station 1, station 2, station 3, cloud, got 'x'"):
        read.of_station("x")


COLUMNS_OF_RUNS = ("round", "start_s", "end_s", "local_steps", "present", "uploads", "rejected")


class PlacedTask(QuadraticTask):
    """Whose samples lie along a road, and which can be asked about some of them."""

    def __init__(self) -> None:
        super().__init__(samples=200)
        self.validation_pool = self.pool

    def evaluate_on(self, model: Weights, samples: Integers) -> dict[str, float]:
        return {"loss": float(np.abs(self.gradient(model, samples)["w"]).sum()), "count": float(len(samples))}


def by_district(alike: float, split: str = "station", turns_off: float = 0.2) -> Scenario:
    values = {"training.split": split, "training.alike": alike, "training.duration_s": 100.0}
    return corridor(4, {"every_rounds": 2}, turns_off=turns_off).with_values(values)


def test_models_are_scored_on_each_stations_own_samples() -> None:
    learnt = run_job(Job(PlacedTask(), by_district(0.0), "5,8", 3))
    assert {each.row["own_count"] for each in learnt} == {50.0}  # a fourth of the samples
    alike = run_job(Job(PlacedTask(), by_district(1.0), "5,8", 3))
    far, near = (np.mean([abs(e.row["own_loss"] - e.row["loss"]) for e in each]) for each in (learnt, alike))
    assert far > 3 * near


def test_a_vehicle_holds_samples_of_the_district_where_it_came_or_of_all_on_its_way() -> None:
    """Everybody comes in the first of four districts, but who was on the road before the training began.

    Places fall with the samples' numbers, so the first district has the last of them.
    """
    for split, held in (("station", {0}), ("route", {0, 1, 2, 3})):
        task = PlacedTask()
        run_job(Job(task, by_district(0.0, split, turns_off=0.0).with_values({"training.duration_s": 250.0}), "5,8", 3))
        place = {int(n): d for d, part in enumerate(np.array_split(np.arange(200)[::-1], 4)) for n in part}
        assert {place[int(n)] for batches in task.trained[-20:] for n in batches.flat} == held


def test_what_a_city_cannot_do_is_said() -> None:
    for scenario, parts, sentence in (
        (BUSY.with_values({"training.split": "station"}), {}, "must come with stations, got a scenario of one"),
        (corridor(2), {"rule": "private:uploads=5"}, "accounts for the uploads to one station, got several stations"),
        (corridor(2, {"carried": "continue"}), {"plan": "async:3"}, "needs rounds of one H without a radio"),
        (city("AB"), {"crossings": crossings(("a", 1.0, 2.0))}, "crossings must be by station where there are several"),
        (city("AB"), {"crossings": {"A": crossings(("a", 1.0, 2.0))}}, "crossings must be of the stations A, B, got A"),
    ):
        with pytest.raises(InputError, match=sentence):
            check_job(Job(QuadraticTask(), scenario, **{"plan": "5,8", **parts}))


def test_a_station_has_a_plan_of_its_own() -> None:
    scenario = corridor(2).with_values({"stations": [{"name": "a"}, {"name": "b", "plan": "2,4"}]})
    learnt = run_job(Job(QuadraticTask(), scenario, "5,8", 3))
    lengths = {
        (each.row["station"], each.row["end_s"] - each.row["start_s"], each.row["local_steps"]) for each in learnt
    }
    assert lengths == {(0, 8.0, 5), (1, 4.0, 2)}


def test_any_schedule_has_a_place_in_a_city() -> None:
    for plan in ("anytime:8", "async:5", "wait-for-all:5", "adaptive"):
        learnt = run_job(Job(QuadraticTask(), corridor(2, {"every_s": 50.0}), plan, 3))
        assert {each.row["station"] for each in learnt} == {0, 1, -1}
        assert sum(each.row["uploads"] for each in learnt) > 10
    shared = run_job(Job(QuadraticTask(), corridor(2, {"every_rounds": 0}), "async:5", 3))
    assert len(shared) > 10


def test_a_cloud_that_would_average_for_ever_is_refused() -> None:
    job = Job(CountingTask(), city("AB", {"every_s": 1e-9}), PLAN, 7, TRAFFIC)
    with pytest.raises(InputError, match=r"cloud\.every_s must leave at most 1e\+07 averages in 15 s, got 1e-09"):
        check_job(job)
