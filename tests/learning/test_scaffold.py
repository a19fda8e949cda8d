"""SCAFFOLD against its paper, written out again, and what it is worth to vehicles that stay or are seen once."""

from typing import Any

import numpy as np
import pytest

from fake_task import CountingTask, QuadraticTask
from mobfl import Crossings, InputError, Job, train
from mobfl.learning.rules import chain_of, rule_named
from mobfl.learning.uploads import Upload
from mobfl.runs.costs import Costs
from mobfl.runs.job import check_job
from stories import BUSY, STEADY, crossings, run

ROAD = STEADY.with_values({"training.samples_per_vehicle": 20, "training.learning_rate": 0.1})
STAYING = crossings(("a", 0.0, 15.0), ("b", 0.0, 15.0))  # both upload in each of three rounds


def by_the_paper(task: QuadraticTask, uploads: list[list[str]], clients: float) -> np.ndarray:
    """Algorithm 1 with option II and equal weights: `uploads` says whose the trainings were that the task saw."""
    x, c, own, seen = np.zeros(6), np.zeros(6), dict[str, np.ndarray](), iter(task.trained)
    for together in uploads:
        models, changes = [], []
        for client in together:
            c_i, y = own.get(client, np.zeros(6)), x.copy()
            batches = next(seen)
            for batch in batches:
                gradient = QuadraticTask.gradient(task, {"w": y}, batch)["w"]
                y = y - 0.1 * (gradient - c_i + c)
            new = c_i - c + (x - y) / (len(batches) * 0.1)
            changes.append(new - c_i)
            own[client] = new
            models.append(y)
        x, c = x + np.mean([y - x for y in models], axis=0), c + np.sum(changes, axis=0) / clients
    return x


def test_two_vehicles_that_stay_are_the_papers_clients() -> None:
    task = QuadraticTask(spread=True)
    learnt = run(Job(task, ROAD, (3, 5.0), 7, STAYING, rule="scaffold:vehicles=2"))
    assert [each.row["uploads"] for each in learnt] == [2, 2, 2]
    expected = by_the_paper(task, [["a", "b"]] * 3, 2)
    assert learnt[-1].checkpoint.model["w"] == pytest.approx(expected, rel=1e-4)
    plain = run(Job(QuadraticTask(spread=True), ROAD, (3, 5.0), 7, STAYING, rule="mean"))
    assert np.abs(plain[-1].checkpoint.model["w"] - expected).max() > 1e-3


def test_where_vehicles_stay_scaffold_finds_the_minimum_that_averaging_misses() -> None:
    """Two vehicles with unlike and unequally steep samples take many steps: FedAvg ends between their minima."""
    long = {"training.duration_s": 400.0, "training.split": "place", "training.batch_size": 20}
    road = ROAD.with_values(long | {"training.samples_per_vehicle": 20, "training.learning_rate": 0.3})
    stay = Crossings.sorted(["first", "a", "b", "last"], [-1.0, 0.0, 0.0, 400.0], [0.0, 401.0, 401.0, 402.0])

    def ends(rule: str) -> tuple[float, float]:
        task = QuadraticTask(samples=40, spread=True)
        learnt = run(Job(task, road, (10, 5.0), 6, stay, rule=rule))
        held = [np.unique(batches) for batches in task.trained[:2]]
        slope = np.mean([task.gradient(learnt[-1].checkpoint.model, own)["w"] for own in held], axis=0)
        return float(np.abs(slope).max()), float(np.abs(held[0].mean() - held[1].mean()))

    (missed, apart), (found, _) = ends("mean"), ends("scaffold:vehicles=2")
    assert apart > 3  # else there is nothing to correct
    assert found < 1e-4 < 1e-2 < missed


def test_a_vehicle_that_is_new_adds_the_servers_variate_to_its_gradient() -> None:
    """With c = 2 and a gradient of 1 all along, one step of 0.5 ends at −1.5; its variate is the gradient alone."""
    scaffold, down = rule_named("scaffold:vehicles=4").links[0].part, {"w": np.full(1, 2.0, np.float32)}
    trained = _trained(0.0, -1.5, steps=1, rate=0.5)
    assert scaffold.correction(down, {})["w"].tolist() == [2.0]
    sent, kept = scaffold.upload(down, {}, trained)
    assert (sent["w"].tolist(), kept["w"].tolist()) == ([1.0], [1.0])
    assert scaffold.correction(down, kept)["w"].tolist() == [1.0]
    careful = rule_named("scaffold:vehicles=4,newcomers=server").links[0].part
    assert careful.correction(down, {})["w"].tolist() == [0.0]
    sent, kept = careful.upload(down, {}, _trained(0.0, -0.5, steps=1, rate=0.5))
    assert (sent["w"].tolist(), kept["w"].tolist()) == ([-1.0], [1.0])


def _trained(x: float, y: float, steps: int, rate: float) -> Any:
    from mobfl.learning.rules.along import Trained

    return Trained({"w": np.full(1, x, np.float32)}, {"w": np.full(1, y, np.float32)}, steps, rate)


def test_the_servers_variate_moves_by_a_share_of_what_comes() -> None:
    chain, model = rule_named("scaffold:vehicles=4"), {"w": np.zeros(1, np.float32)}

    def upload(told: float) -> Upload:
        return Upload({"w": np.ones(1, np.float32)}, 5, model, along={"w": np.full(1, told, np.float32)})

    state = chain.init(model)
    assert chain.download(state)["w"].dtype == np.float32
    state, new = chain.apply(state, model, [upload(1.0), upload(3.0)])
    assert (chain.download(state)["w"].tolist(), new["w"].tolist()) == ([1.0], [1.0])
    state, _ = chain.apply(state, model, [upload(1.0)] * 8)  # more than there are: their mean
    assert chain.download(state)["w"].tolist() == [2.0]
    state, _ = chain.apply(state, model, [Upload({"w": np.ones(1, np.float32)}, 5, model)])  # who says nothing
    assert chain.download(state)["w"].tolist() == [2.0]


def test_its_bytes_count_both_ways() -> None:
    plain = Costs.of(Job(QuadraticTask(), ROAD, (3, 5.0), 7, STAYING))
    along = Costs.of(Job(QuadraticTask(), ROAD, (3, 5.0), 7, STAYING, rule="scaffold"))
    assert along.download_bytes == 2 * plain.download_bytes
    assert along.upload_bytes == 2 * plain.upload_bytes


@pytest.mark.parametrize("local", ["fedprox", "sgd:momentum=0.5"])
def test_local_steps_that_cannot_be_corrected_are_refused(local: str) -> None:
    job = Job(QuadraticTask(), ROAD, (3, 5.0), 7, rule="scaffold", local=local)
    with pytest.raises(InputError, match="corrects local steps, and needs local training that is sgd without momentum"):
        check_job(job)


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("scaffold:vehicles=0.5", "scaffold must have vehicles >= 1, got 0.5"),
        ("scaffold:newcomers=nobody", "scaffold must have newcomers one of zero, server, got 'nobody'"),
        ("scaffold+scaffold", "rule must have one link that sends arrays along, got scaffold and scaffold"),
        ("mean+scaffold", "a way to combine stands before a guard"),
    ],
)
def test_a_wish_that_makes_no_sense_gets_a_sentence(rule: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        rule_named(rule)


def test_a_rule_that_sends_half_of_it_along_gets_a_sentence() -> None:
    class Half:
        def guard(self, state: Any, model: Any, uploads: Any) -> Any:
            return state, uploads

        def download(self, state: Any) -> Any:
            return {}

    with pytest.raises(InputError, match="must have all of the methods download, correction, upload to send arrays"):
        chain_of(Half())  # type: ignore[arg-type]


def test_a_deployment_refuses_it_in_a_sentence() -> None:
    from mobfl.deploy.settings import refuse_along

    with pytest.raises(InputError, match="sends arrays along with the model, which is for simulation only"):
        refuse_along(rule_named("clip+scaffold"))
    refuse_along(rule_named("clip+mean"))


def test_a_task_that_ignores_corrections_still_runs(tmp_path: Any) -> None:
    assert len(train(Job(CountingTask(), BUSY, (10, 6.0), 3, rule="clip+cap+scaffold"), tmp_path / "run")) == 33
