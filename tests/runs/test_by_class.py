"""Classes of vehicles in a training: who holds how much, who is heard, how often."""

from pathlib import Path

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Job, Scenario, train
from mobfl.learning.local.sgd import Sgd
from mobfl.learning.vehicles import Vehicles
from mobfl.rng import generator, stream
from mobfl.rounds.draws import Draws
from mobfl.runs.by_class import shares_by_class
from mobfl.runs.job import check_job
from mobfl.servers.names import server_of
from mobfl.theory import Delays

ROAD = Scenario.from_dict(
    {
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 600.0},
        "fleet": [
            {"name": "ordinary", "share": 0.7},
            {"name": "quick", "share": 0.3, "min_step_s": 0.05, "extra_step_s": 0.05, "samples_per_vehicle": 45},
        ],
    }
)


@pytest.mark.parametrize("name", ["20,10", "fedasync:10", "fedbuff:10,buffer=2", "wait-for-all:10"])
def test_uploads_by_class_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    job = Job(CountingTask(), ROAD, name, seed=3)
    history = train(job, tmp_path / "run")
    ordinary, quick = shares_by_class(job, len(history))  # what counts beyond all bounds ends early
    assert ordinary.uploads + quick.uploads == int(history.columns["uploads"].sum())
    steps = (history.columns["uploads"] * history.columns["local_steps"]).sum()
    assert ordinary.local_steps + quick.local_steps == int(steps)
    assert quick.heard >= ordinary.heard > 0
    assert quick.uploads_per_visit > ordinary.uploads_per_visit
    assert 40 < sum(each.visits for each in shares_by_class(job)) < 90


def test_a_vehicle_holds_what_its_class_does() -> None:
    vehicles, draws = Vehicles.of(CountingTask(), ROAD.classes, Sgd(), 5), Draws(Delays.of(ROAD), 5)
    keys = draws.keys(np.arange(200, dtype=np.uint64))
    for key, kind in zip(keys, draws.classes(keys), strict=True):
        samples = vehicles.train(key, 0, {"w": np.zeros(1, np.float32)}, 1, 0.1).samples
        assert samples == 45 if kind else 20 <= samples <= 40


def test_one_class_holds_what_it_always_held() -> None:
    """The class is another draw: who holds which samples does not shift."""
    one, key = ROAD.with_values({"fleet": []}), np.uint64(12)
    several = one.with_values({"fleet": [{"share": 0.5}, {"share": 0.5}]})
    held = [
        Vehicles.of(CountingTask(), road.classes, Sgd(), 5).training_of(key).samples_per_vehicle
        for road in (one, several)
    ]
    assert held[0] == held[1] == (20, 40)
    first = generator(stream(5, "samples"), key).integers(20, 41)
    assert Vehicles.of(CountingTask(), several.classes, Sgd(), 5).train(
        key, 0, {"w": np.zeros(1, np.float32)}, 1, 0.1
    ).samples == int(first)


def test_no_class_may_hold_more_than_there_is() -> None:
    rich = ROAD.with_values({"fleet": [{"share": 0.5}, {"share": 0.5, "samples_per_vehicle": 51}]})
    with pytest.raises(ValueError, match=r"training.samples_per_vehicle must be <= the 50 training samples, got 51"):
        check_job(Job(CountingTask(), rich, (5, 6.0)))


def test_an_epoch_is_one_pass_over_the_mean_vehicles_samples() -> None:
    planned = server_of("epoch,9", None, ROAD, None).describe()
    assert (planned["local_steps"], planned["round_s"]) == (round((0.7 * 30 + 0.3 * 45) / 8), 9.0)
