"""Bad uploads in a city: what one station gets harms neither the others nor the cloud's average."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from test_adoption import FILES, BadOnce, NanAt, Watched, beams

from fake_task import CountingTask
from mobfl import Crossings, Job, Scenario, train
from mobfl.learning.uploads import Upload
from mobfl.learning.vehicles import Vehicles
from mobfl.runs.clouds import shares_of
from mobfl.runs.history import Row
from mobfl.runs.rows import Learnt
from stories import BUSY, STEADY, crossings, run

# Three vehicles at each of two stations, each of which uploads in every round of 5 s.
ROAD = STEADY.with_values({"training.duration_s": 40.0, "training.samples_per_vehicle": 40})
CITY = Scenario.from_dict(
    ROAD.to_dict() | {"stations": [{"name": "north"}, {"name": "south"}], "cloud": {"every_rounds": 2}}
)


def staying(names: str) -> Crossings:
    return Crossings.sorted(
        ["first", *names, "last"], [-1.0, *([0.0] * len(names)), 61.0], [0.0, *([60.0] * len(names)), 62.0]
    )


TRAFFIC = {"north": staying("abc"), "south": staying("xyz")}


def keys_of(job: Job, place: int) -> set[int]:
    """Who passes a station."""
    site = job.stations[place].site
    return {int(key) for block in site.traffic for key in site.draws.keys(block.vehicle_keys)}


@cache
def second_round_of_the_north() -> str:
    """In its second round, which the cloud's average follows."""
    Watched.seen.clear()
    run(Job(beams(), CITY, (3, 5.0), 7, TRAFFIC, local=Watched()))
    return Watched.seen[7]  # three of the north, three of the south, then the north's second round


@pytest.mark.parametrize("how", ["times 1000", "noise"])
@pytest.mark.parametrize("rule", [None, "mean", "median"])
def test_a_spoilt_upload_at_one_station_harms_neither_the_other_nor_the_average(rule: str | None, how: str) -> None:
    job = Job(beams(), CITY, (3, 5.0), 7, TRAFFIC, rule=rule, local=BadOnce(second_round_of_the_north(), how))
    learnt = run(job)
    rows = [each.row for each in learnt]
    assert all(math.isfinite(row["loss"]) for row in rows)
    assert [row["rejected"] for row in rows if row["station"] == 1] == [0] * 8
    assert [row["rejected"] for row in rows if row["station"] == -1] == [0] * 4
    assert [row["loss"] for row in rows if row["station"] == -1][-1] < rows[0]["loss"]
    clean = [each.row for each in run(Job(beams(), CITY, (3, 5.0), 7, TRAFFIC, rule=rule))]
    assert rows != clean  # it was sent, and rejected or clipped
    assert [each.row for each in run(job, workers=4)] == rows


def test_a_station_whose_vehicles_send_nothing_finite_has_no_say_in_the_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of the north's uploads are refused in every round: the average is the south's model."""
    trained = Vehicles.train

    def spoilt(self: Vehicles, *given: Any, vehicle: np.uint64, **more: Any) -> Upload:
        upload = trained(self, *given, vehicle=vehicle, **more)
        bad = {name: np.full_like(values, np.nan) for name, values in upload.weights.items()}
        return replace(upload, weights=bad) if int(vehicle) in north else upload

    monkeypatch.setattr(Vehicles, "train", spoilt)
    job = Job(CountingTask(), CITY, (3, 5.0), 7, TRAFFIC)
    north = keys_of(job, 0)
    rows = [each.row for each in run(job)]
    assert [row["rejected"] for row in rows if row["station"] == 0] == [3] * 8
    assert [row["uploads"] for row in rows if row["station"] == -1] == [1] * 4
    assert [row["count"] for row in rows if row["station"] == -1] == [6.0, 12.0, 18.0, 24.0]


# ---- what a vehicle claims ---------------------------------------------------------------------------


def test_no_station_counts_for_more_than_its_uploads_and_twice_what_is_usual() -> None:
    assert shares_of((100, 300), (2, 5), math.inf) == {0: 100.0, 1: 300.0}
    assert shares_of((100, 300), (2, 5), 2.0) == {0: 100.0, 1: 300.0}  # 50 and 60 an upload
    assert shares_of((10**9, 300), (1, 6), 2.0) == {0: 100.0, 1: 300.0}  # 50 is usual
    assert shares_of((40, 0, 10**9, 60), (1, 0, 2, 1), 2.0) == {0: 40.0, 2: 240.0, 3: 60.0}
    assert shares_of((0, 0), (0, 0), 2.0) == {}


def averages(monkeypatch: pytest.MonkeyPatch, rule: str | None) -> list[float]:
    """The north has one vehicle, which claims a billion samples; the south has one that tells the truth."""
    trained = Vehicles.train

    def lying(self: Vehicles, *given: Any, vehicle: np.uint64, **more: Any) -> Upload:
        upload = trained(self, *given, vehicle=vehicle, **more)
        return replace(upload, samples=10**9) if int(vehicle) in keys_of(job, 0) else upload

    traffic = {"north": crossings(("liar", 0.5, 9.0)), "south": crossings(("x", 6.0, 14.0))}
    monkeypatch.setattr(Vehicles, "train", lying)
    city = CITY.with_values({"training.duration_s": 10.0})
    job = Job(CountingTask(), city, (3, 5.0), 7, traffic, rule=rule)
    rows = [each.row for each in run(job)]
    return [row["count"] for row in rows if row["station"] == -1]


def test_a_vehicle_that_is_alone_at_its_station_cannot_claim_the_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has uploaded twice and stands at 6, the other once and at 3: 4 to 1 is the most that it gets."""
    assert averages(monkeypatch, None) == [pytest.approx((4 * 6.0 + 3.0) / 5)]


def test_a_rule_that_is_named_is_taken_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    assert averages(monkeypatch, "mean") == [pytest.approx(6.0)]


# ---- what the full evaluation finds ------------------------------------------------------------------

SHORT = BUSY.with_values({"training.duration_s": 40.0})
CLOUDS: dict[str, Mapping[str, Any]] = {
    "none": {},
    "every round": {"every_rounds": 1},
    "over a backhaul": {"every_rounds": 2, "backhaul_s": 1.0},
    "one model": {"every_rounds": 0},
    "mixed": {"every_s": 7.0, "carried": "mix"},
}


def job_of(cloud: str, *spoilt: int) -> tuple[Job, list[Row]]:
    """A city in which models of these rows of an undisturbed run are not sound, and that run's rows."""
    tables = SHORT.to_dict() | {"corridor": {"stations": 2, "every_m": 700.0}, "cloud": CLOUDS[cloud]}
    clean = Job(NanAt(), Scenario.from_dict(tables), (10, 6.0), 3)
    rows = [each.row for each in run(clean)]
    return replace(clean, task=NanAt(*(rows[number]["count"] for number in spoilt))), rows


def first_of(rows: list[Row], station: int, number: int) -> int:
    return next(i for i, row in enumerate(rows) if (row["station"], row["round"]) == (station, number))


def models_in(learnt: Learnt) -> list[float]:
    """All that a checkpoint has, but what a station goes back from."""
    cloud = learnt.checkpoint.cloud
    above = [] if cloud is None else [*cloud.models]
    return [float(model["w"][0]) for model in above]


@pytest.mark.parametrize("cloud", ["every round", "over a backhaul", "mixed"])
def test_a_model_that_is_not_finite_never_reaches_the_cloud(cloud: str) -> None:
    _, rows = job_of(cloud)
    job, _ = job_of(cloud, first_of(rows, 0, 1))
    learnt = run(job)
    (bad,) = job.task.counts  # type: ignore[attr-defined]
    assert any(math.isnan(each.row["loss"]) for each in learnt)
    assert np.float32(bad) not in [model for each in learnt for model in models_in(each)]
    assert all(math.isfinite(each.row["loss"]) for each in learnt if each.row["station"] < 0)
    assert learnt[-1].row["count"] != learnt[0].row["count"]


@pytest.mark.parametrize("cloud", ["every round", "over a backhaul", "mixed"])
def test_an_average_that_is_not_finite_never_comes_to_the_stations(cloud: str) -> None:
    _, rows = job_of(cloud)
    job, _ = job_of(cloud, first_of(rows, -1, 1))
    learnt = run(job)
    assert all(math.isfinite(each.row["loss"]) for each in learnt)
    (refused,) = [each.row for each in learnt if each.row["station"] < 0 and each.row["rejected"]]
    assert (refused["round"], refused["rejected"]) == (1, refused["uploads"])
    assert learnt[-1].row["count"] > refused["count"]


@pytest.mark.parametrize("place", ["station", "average"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_was_taken_back_is_the_same_for_any_workers_and_after_any_interruption(
    tmp_path: Path, cloud: str, place: str
) -> None:
    _, rows = job_of(cloud)
    averages = any(row["station"] < 0 for row in rows)
    if place == "average" and not averages:
        return  # there is none
    led_on = next(i for i, row in enumerate(rows) if i > 2 and row["station"] >= 0 and row["uploads"])
    job, _ = job_of(cloud, first_of(rows, -1, 1) if place == "average" else led_on, len(rows) - 1)
    train(job, tmp_path / "whole")
    results = json.loads((tmp_path / "whole" / "run.json").read_text())["results"]
    assert ("taken_back" in results) == (place == "station")
    train(job, tmp_path / "4", workers=4)
    assert_same_bytes(tmp_path / "whole", tmp_path / "4")
    for at in range(1, len(rows) - 1):
        out = tmp_path / f"cut at {at}"
        interrupted(job, out, at)
        train(job, out, resume=True, workers=1 + at % 2)
        assert_same_bytes(tmp_path / "whole", out)


def interrupted(job: Job, out: Path, at: int) -> None:
    seen = list[Row]()

    def stop(row: Row) -> None:
        seen.append(row)
        if len(seen) == at + 1:
            raise InterruptedError(at)

    with pytest.raises(InterruptedError):
        train(job, out, progress=stop, checkpoint_s=0.0)


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), (other.name, name)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_city_ends_on_sound_models(tmp_path: Path, cloud: str) -> None:
    """The last row's model is not finite, whether it is a station's or an average."""
    _, rows = job_of(cloud)
    job, _ = job_of(cloud, len(rows) - 1)
    train(job, tmp_path / "run")
    (bad,) = job.task.counts  # type: ignore[attr-defined]
    left = {name: float(values[0]) for name, values in load_file(tmp_path / "run" / "last.safetensors").items()}
    assert len(left) >= 2
    assert np.float32(bad) not in left.values(), left
