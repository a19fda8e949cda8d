"""Damaged runs: each is a sentence, hides no other, and resumes to the same bytes or not at all."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from damage import FILES, Damage, all_damages
from fake_task import CountingTask
from mobfl import InputError, Job, Results, Scenario, find_runs, read_history, train
from mobfl.app.runs import RunsFolder
from mobfl.errors import DamagedRunError
from mobfl.experiments.folder import Entry, StoredSweep, write_sweep
from mobfl.experiments.studies import read_studies
from mobfl.runs.history import Row
from stories import BUSY

SAME = FILES[:-1]


def of_one_model() -> Job:
    """With all that a checkpoint can hold: several versions, a rule that remembers, an average that is served."""
    road = BUSY.with_values({"training.average_s": 30.0})
    return Job(CountingTask(by_batches=True), road, "fedbuff:10,buffer=3", 3, rule="clip:times=1+fedbuff+momentum")


def of_a_city() -> Job:
    """With models of two stations, those that are on their way to the cloud and back, and what vehicles carry."""
    cloud = {"every_rounds": 2, "backhaul_s": 4.0, "carried": "mix"}
    road = Scenario.from_dict(BUSY.to_dict() | {"corridor": {"stations": 2, "every_m": 700.0}, "cloud": cloud})
    return Job(CountingTask(by_batches=True), road, (10, 6.0), 3, rule="clip:times=1+mean+momentum")


class Moments(NamedTuple):
    """The same run after a few rounds, after some more and at its end."""

    job: Callable[[], Job]
    early: Path
    later: Path
    done: Path


@pytest.fixture(scope="module", params=[of_one_model, of_a_city])
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Moments:
    job, folder = request.param, tmp_path_factory.mktemp("moments")
    for name, rounds in (("early", 4), ("later", 9), ("done", 10**9)):
        rows = list[Row]()

        def over(rows: list[Row] = rows, rounds: int = rounds) -> bool:
            return len(rows) >= rounds

        try:
            train(job(), folder / name, progress=rows.append, stop=over)
        except KeyboardInterrupt:
            assert len(rows) == rounds
    return Moments(job, *(folder / name for name in ("early", "later", "done")))


def assert_same_bytes(one: Path, other: Path) -> None:
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@contextmanager
def limited(seconds: int = 60) -> Iterator[None]:
    """A FIFO or a device that is waited for ends the test."""

    def over(*_: object) -> None:
        raise TimeoutError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- resuming ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("older", ["early", "later"])
def test_every_mixture_of_two_checkpoints_resumes_to_the_same_bytes_or_says_that_it_cannot(
    moments: Moments, tmp_path: Path, older: str
) -> None:
    newer, resumed = "later" if older == "early" else "done", 0
    for number, chosen in enumerate(product((older, newer), repeat=len(FILES))):
        mixed = tmp_path / str(number)
        mixed.mkdir()
        for name, moment in zip(FILES, chosen, strict=True):
            shutil.copyfile(getattr(moments, moment) / name, mixed / name)
        try:
            train(moments.job(), mixed, resume=True)
        except DamagedRunError as error:
            assert "is damaged and cannot be resumed" in str(error)  # noqa: PT017
            continue
        resumed += 1
        assert_same_bytes(moments.done, mixed)
    assert resumed == 32 if newer == "later" else resumed >= 20


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("moment", ["early", "done"])
def test_what_is_gone_or_cut_is_written_again_from_the_last_checkpoint(
    moments: Moments, tmp_path: Path, name: str, moment: str
) -> None:
    for damage in ("gone", "empty", "cut"):
        out = tmp_path / damage
        shutil.copytree(getattr(moments, moment), out)
        if damage == "gone":
            (out / name).unlink()
        else:
            (out / name).write_bytes((out / name).read_bytes()[: 0 if damage == "empty" else 100])
        if name == "last.safetensors" or (moment == "done" and name != "timing.json"):
            with pytest.raises(DamagedRunError, match=name.replace(".", r"\.")):
                train(moments.job(), out, resume=True)
        else:
            train(moments.job(), out, resume=True)
            assert_same_bytes(moments.done, out)


def test_a_flipped_bit_in_the_last_checkpoint_is_noticed(moments: Moments, tmp_path: Path) -> None:
    whole = (moments.early / "last.safetensors").read_bytes()
    shutil.copytree(moments.early, tmp_path / "run")
    for at in range(8, len(whole), 37):
        (tmp_path / "run" / "last.safetensors").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError):
            train(moments.job(), tmp_path / "run", resume=True)


def test_a_run_without_run_json_is_not_taken_for_another(moments: Moments, tmp_path: Path) -> None:
    shutil.copytree(moments.early, tmp_path / "run")
    other = Job(CountingTask(by_batches=True), BUSY, (10, 6.0), 4)
    with pytest.raises(InputError, match="must be as in the run to be resumed"):
        train(other, tmp_path / "run", resume=True)
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(InputError, match="must be of the run to be resumed, got another run's"):
        train(other, tmp_path / "run", resume=True)


# ---- looking ----------------------------------------------------------------------------------------


def assert_harmless(damage: Damage, folder: Path, moment: Path, job: Callable[[], Job]) -> None:
    """To a good run beside it, in tables, on the page and in a report; and whoever resumes it gets a sentence."""
    name, apply = damage
    run = folder / "runs" / "bad"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(moment, run)
    apply(run)
    with limited():
        runs, broken = find_runs(folder)
        assert "good" in [each.name for each in runs], name
        assert len(broken) <= 1, name
        assert all(len(line) < 1000 for line in broken), (name, broken)
        assert "good" in Results(runs).select()["run"].to_pylist(), name
        told = Results(runs).query("SELECT DISTINCT run FROM rounds UNION ALL SELECT DISTINCT run FROM stations")
        assert told["run"].to_pylist().count("good") == (2 if job is of_a_city else 1), name
        page = RunsFolder(folder)
        rows = {key: seen.row for key, seen in page.look().items()}
        assert rows["good"]["status"] == "done", name
        json.dumps(rows, allow_nan=False)
        for ask in (lambda: page.curve("bad", "loss"), lambda: page.again(["bad"]), lambda: page.deployment("bad")):
            with suppress(InputError):
                json.dumps(ask(), allow_nan=False)
        assert any(each.run.name == "good" for study in read_studies(folder) for each in study.runs), name
        try:
            train(job(), run, resume=True)
        except InputError as error:
            assert str(error), name  # noqa: PT017


def assert_all_harmless(moments: Moments, folder: Path, every: int) -> int:
    shutil.copytree(moments.done, folder / "runs" / "good")
    write_sweep(folder, StoredSweep("", 0, tuple(Entry(run, "counting", "", run) for run in ("bad", "good"))))
    count = 0
    for moment in ("early", "done"):
        for number, damage in enumerate(all_damages(getattr(moments, moment))):
            if number % every == 0:
                assert_harmless(damage, folder, getattr(moments, moment), moments.job)
                count += 1
    return count


def test_some_damages_are_sentences_and_hide_nobody(moments: Moments, tmp_path: Path) -> None:
    every = 23 if moments.job is of_one_model else 67
    assert assert_all_harmless(moments, tmp_path, every) > 30


@pytest.mark.slow
def test_all_damages_are_sentences_and_hide_nobody(moments: Moments, tmp_path: Path) -> None:
    assert assert_all_harmless(moments, tmp_path, every=1) > 1229


def test_arrow_is_given_no_file_of_pythons(moments: Moments, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its threads would let go of it while the program ends, which aborted one in eight on busy cores."""
    opened, parquet_file = [], pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda source: opened.append(source) or parquet_file(source))
    read_history(moments.done)
    assert opened == [moments.done / "rounds.parquet"]


@pytest.mark.parametrize("moments", [of_a_city], indirect=True)
def test_rounds_of_a_city_must_say_whose_they_are(moments: Moments, tmp_path: Path) -> None:
    shutil.copytree(moments.done, tmp_path / "run")
    dict(all_damages(tmp_path / "run"))["rounds.parquet without station"](tmp_path / "run")
    with pytest.raises(InputError, match="must have the columns of a run, got none named station"):
        read_history(tmp_path / "run")
    with pytest.raises(DamagedRunError, match="got none named station"):
        train(moments.job(), tmp_path / "run", resume=True)
