"""What vehicles remember survives kills and workers to the same bytes, and goes when it can no longer be used."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from test_resuming import Stop, assert_same_bytes, stop_at

from fake_task import QuadraticTask
from mobfl import Job, read_history, train
from mobfl.runs.memories import Memories
from mobfl.servers.steps import server_steps
from stories import BUSY, run

SLOW = BUSY.with_values({"link.downlink_bps": 8.0 * 3000, "link.uplink_bps": 8.0 * 300})
JOBS = {
    "scaffold": Job(QuadraticTask(), BUSY, (10, 6.0), 3, rule="clip+scaffold:vehicles=4"),
    "scaffold, stale": Job(QuadraticTask(), BUSY, "fedbuff:5,buffer=4", 3, rule="scaffold+fedbuff"),
    "left out": Job(QuadraticTask(), BUSY, "async:5", 3, codec="topk:share=0.2,memory=1"),
    "both": Job(QuadraticTask(), BUSY, "fedbuff:5,buffer=4", 3, rule="scaffold+fedbuff", codec="topk:memory=0.9"),
    # Some leave before a whole upload is sent: what is cut short is known later than what was begun.
    "cut short": Job(QuadraticTask(numbers=300), SLOW, "mads:5", 3, codec="topk:share=0.5,memory=1"),
    "drawn": Job(QuadraticTask(), BUSY, (10, 6.0), 3, codec="quantised:bits=3"),
}
each_job = pytest.mark.parametrize("name", JOBS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for name, job in JOBS.items():
        train(job, folder / name)
    return folder


@each_job
def test_more_workers_write_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    for workers in (2, 4):
        train(JOBS[name], tmp_path / f"{workers}", workers=workers)
        assert_same_bytes(whole / name, tmp_path / f"{workers}")


@each_job
def test_cut_off_twice_it_resumes_to_the_same_bytes(whole: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    for at, resume in ((4, False), (9, True)):
        with pytest.raises(Stop):
            train(JOBS[name], out, resume=resume, progress=stop_at(at))
        kept = {tensor.partition("/")[0] for tensor in load_file(out / "last.safetensors")}
        assert ("memory" in kept) == (name != "drawn")
        assert ("along" in kept) == (name in ("scaffold, stale", "both"))
    train(JOBS[name], out, resume=True, workers=2)
    assert_same_bytes(whole / name, out)
    assert list(load_file(out / "last.safetensors")) == ["w"]


def test_uploads_that_are_cut_short_cost_what_they_have(whole: Path) -> None:
    """All that was begun, less what there was no time to send; nobody knows in which step, but in all it is right."""
    job, history = JOBS["cut short"], read_history(whole / "cut short")
    steps = list(server_steps(job.server.schedule, job.site))
    begun = [sum(getattr(step.effort, kind) for step in steps) for kind in ("downloads", "uploads")]
    budgets = [each.budget for step in steps for each in step.uploads if each.budget is not None]
    model, codec = job.task.initial_weights(3), job.upload_codec[0]
    sent = sum(codec.size(model, budget) for budget in budgets)  # type: ignore[call-arg]
    assert len(budgets) > 20
    expected = begun[0] * job.sizes.download + (begun[1] - len(budgets)) * job.sizes.upload + sent
    assert 0 <= history.total("bytes") - expected <= job.sizes.upload  # the last ones may still be on their way
    assert history.columns["bytes"].min() >= 0


@pytest.mark.parametrize("name", ["scaffold", "left out"])
def test_only_those_are_remembered_who_will_upload_again(name: str) -> None:
    job = JOBS[name]
    steps = list(server_steps(job.server.schedule, job.site))
    for number, learnt in enumerate(run(job)):
        before = {int(each.key) for step in steps[: number + 1] for each in step.uploads}
        after = {int(each.key) for step in steps[number + 1 :] for each in step.uploads}
        assert learnt.checkpoint.memories.keys() == before & after


def test_a_run_in_which_nobody_remembers_looks_at_no_schedule() -> None:
    class Unasked:
        @property
        def server(self) -> None:
            raise AssertionError("nobody needs to know")

    memories = Memories(Unasked(), {}, needed=False)  # type: ignore[arg-type]
    assert memories.of(np.uint64(5)) == {}


def test_a_vehicles_uploads_of_one_step_are_trained_one_after_the_other() -> None:
    """With ten uploads to a step a vehicle has several in it; the second goes on from what the first remembered."""
    job = Job(QuadraticTask(), BUSY, "async:2,uploads=10", 3, rule="scaffold+fedbuff", codec="topk:memory=1")
    steps = list(server_steps(job.server.schedule, job.site))
    assert any(len({each.key for each in step.uploads}) < 10 for step in steps)
    alone, together = run(job), run(job, workers=3)
    assert [each.checkpoint.model["w"].tobytes() for each in alone] == [
        each.checkpoint.model["w"].tobytes() for each in together
    ]
