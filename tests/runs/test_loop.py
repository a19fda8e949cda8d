"""Rounds that learn: stories with three vehicles, and what must not change a result."""

import numpy as np
import pytest

from fake_task import CountingTask
from mobfl import Crossings, Job, Kpi, Scenario, SgdTerms
from mobfl.learning.task import Integers
from mobfl.learning.weights import Weights
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.history import History
from mobfl.runs.job import training_site
from mobfl.runs.loop import Learnt
from mobfl.servers.rounds import PlannedRounds
from mobfl.servers.steps import server_steps
from stories import STEADY, crossings
from stories import run as run_job

ROAD, PLAN = STEADY, (3, 5.0)


def run(
    task: CountingTask,
    traffic: Crossings,
    workers: int = 1,
    begun: Checkpoint | None = None,
    scores: dict[str, float] | None = None,
) -> list[Learnt]:
    return run_job(Job(task, ROAD, PLAN, 7, traffic), workers, begun, scores)


def test_three_vehicles_in_three_rounds() -> None:
    traffic = crossings(("early", 0.5, 9.0), ("brief", 1.0, 3.0), ("late", 8.0, 12.0))
    task = CountingTask()
    learnt = run(task, traffic)
    rows = [tuple(each.row[k] for k in ("round", "start_s", "end_s", "present", "uploads", "count")) for each in learnt]
    assert rows == [
        (0, 0.0, 5.0, 2, 1, 3.0),  # brief leaves too early
        (1, 5.0, 10.0, 2, 1, 6.0),  # early again; late came too late for this round
        (2, 10.0, 15.0, 1, 0, 6.0),  # late has only two seconds left
    ]
    assert [each.row["loss"] for each in learnt] == [37.0, 34.0, 34.0]
    assert len(task.trained) == 2  # the three trainings that would be lost are not computed
    assert task.evaluated == [0.0, 3.0, 6.0]  # nor is a model evaluated that did not change


def test_uploads_of_one_round_start_from_the_same_model_and_are_averaged() -> None:
    traffic = crossings(("a", 0.5, 9.0), ("b", 0.6, 4.0))
    task = CountingTask()
    assert [each.row["count"] for each in run(task, traffic)] == [3.0, 6.0, 6.0]
    assert len(task.trained) == 3


class SpoiltTask(CountingTask):
    """Whoever trains a second time sends a NaN."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        first = not self.trained
        new = super().local_steps(model, batches, terms)
        return new if first else {"w": np.full(1, np.nan, np.float32)}


def test_bad_uploads_are_counted_and_change_nothing() -> None:
    task = SpoiltTask()
    learnt = run(task, crossings(("a", 0.5, 14.0)))
    assert [(each.row["uploads"], each.row["rejected"], each.row["count"]) for each in learnt] == [
        (1, 0, 3.0),
        (1, 1, 3.0),
        (1, 1, 3.0),
    ]
    assert [dict(each.checkpoint.rejections) for each in learnt] == [{}, {"not finite": 1}, {"not finite": 2}]
    assert len(task.evaluated) == 2


def columns(learnt: list[Learnt]) -> dict[str, list[float]]:
    return {name: [each.row[name] for each in learnt] for name in learnt[0].row}


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_any_number_of_workers_gives_the_same_bytes(workers: int) -> None:
    rng = np.random.default_rng(1)
    enter = np.sort(rng.uniform(0, 15, 12))
    traffic = crossings(*((f"v{i}", at, at + 8.0) for i, at in enumerate(enter)))
    alone = run(CountingTask(by_batches=True), traffic)
    together = run(CountingTask(by_batches=True, step_s=0.01), traffic, workers)
    assert columns(alone) == columns(together)
    assert [a.checkpoint.model["w"].tobytes() for a in alone] == [b.checkpoint.model["w"].tobytes() for b in together]


def test_a_vehicle_more_changes_nobody_elses_batches() -> None:
    some = [("a", 0.5, 9.0), ("b", 2.0, 14.0)]
    fewer, more = CountingTask(), CountingTask()
    run(fewer, crossings(*some))
    run(more, crossings(("another", 0.2, 14.0), *some))
    mine = {batches.tobytes() for batches in fewer.trained}
    assert mine < {batches.tobytes() for batches in more.trained}


def test_a_vehicle_keeps_its_samples_and_draws_new_batches() -> None:
    task = CountingTask()
    run(task, crossings(("a", 0.0, 14.9)))
    first, second = task.trained[:2]
    assert first.tobytes() != second.tobytes()
    assert len(set(first.ravel()) | set(second.ravel())) <= 40


def test_it_goes_on_from_any_round_to_the_same_rows() -> None:
    traffic = crossings(*((f"v{i}", i * 1.3, i * 1.3 + 6.0) for i in range(10)))
    whole = run(CountingTask(by_batches=True), traffic)
    for done in range(1, 4):
        before = whole[done - 1]
        scores = {name: before.row[name] for name in ("loss", "count")}
        rest = run(CountingTask(by_batches=True), traffic, 2, before.checkpoint, scores)
        assert [each.row for each in rest] == [each.row for each in whole[done:]]


def test_rounds_go_on_when_nobody_comes() -> None:
    alone = Crossings.sorted(["a", "b"], [0.0, 40.0], [0.5, 41.0])
    quiet = ROAD.with_values({"training.duration_s": 30.0, "traffic.participation": 1e-9})
    task = CountingTask()
    learnt = run_job(Job(task, quiet, PLAN, 7, alone))
    assert [(each.row["round"], each.row["end_s"], each.row["present"]) for each in learnt] == [
        (k, 5.0 * (k + 1), 0) for k in range(6)
    ]


@pytest.mark.parametrize(("round_s", "rounds"), [(8.0, 1250), (11.776333410922522, 849), (10_001.0, 0)])
def test_training_lasts_whole_rounds(round_s: float, rounds: int) -> None:
    assert len(run(CountingTask(), crossings(("a", 0.0, 9.0)))) == 3
    site = training_site(Scenario(), 0, None)
    assert sum(1 for _ in server_steps(PlannedRounds.fixed(1, round_s), site)) == rounds


def test_a_history_knows_the_least_loss_and_when_a_target_was_met() -> None:
    rows = [
        {"round": k, "start_s": 5.0 * k, "end_s": 5.0 * (k + 1), "local_steps": 3, "present": 1, "uploads": 1,
         "rejected": 0, "loss": loss, "count": 100 - loss}
        for k, loss in enumerate([97.0, 99.0, 94.0])
    ]  # fmt: skip
    history = History.of_rows({"loss": 98.0, "count": 2.0}, rows, [Kpi("count")])
    assert [history.min_loss(t) for t in (0.0, 4.9, np.nextafter(5.0, 0.0), 14.0, 15.0)] == [
        98.0,
        98.0,
        97.0,
        97.0,
        94.0,
    ]
    assert history.time_to("loss", 98.0) == 0.0
    assert history.time_to("loss", 95.0) == 15.0
    assert history.time_to("count", 3.0) == 5.0
    assert history.time_to("count", 7.0) is None
    assert history.best("count") == 6.0
    with pytest.raises(ValueError, match=r"the column must be one of loss, count, got 'top_10'"):
        history.time_to("top_10", 0.5)
