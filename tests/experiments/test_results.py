"""Results of many runs: the tables say what the runs' own files say, and nothing else can be reached through them."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, load_scenario, read_history, theory, train
from mobfl.cli import cli
from mobfl.experiments.any_folder import studies_below
from mobfl.experiments.results import Results, export, export_tensorboard
from mobfl.experiments.runs import find_runs
from mobfl.mobility.sources import crossings_of

ROAD = Scenario.from_dict({"training": {"samples_per_vehicle": [20, 40], "batch_size": 8, "duration_s": 300.0}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two plans of two seeds each, and one run on another road."""
    out = tmp_path_factory.mktemp("results")
    for h, t in ((10, 6.0), (5, 12.0)):
        for seed in (1, 2):
            train(Job(CountingTask(by_batches=True), ROAD, (h, t), seed), out / f"h{h}-s{seed}")
    other = ROAD.with_values({"traffic.arrivals_per_s": 0.3, "training.samples_per_vehicle": 30})
    train(Job(CountingTask(by_batches=True), other, (10, 6.0), 1), out / "deep" / "busy")
    return out


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    runs, broken = find_runs(folder)
    assert broken == []
    return Results(runs)


def test_a_row_per_run_says_what_its_history_says(results: Results, folder: Path) -> None:
    rows = results.select().to_pylist()
    assert [row["run"] for row in rows] == ["deep/busy", "h10-s1", "h10-s2", "h5-s1", "h5-s2"]
    for row in rows:
        history = read_history(folder / row["run"])
        assert row["min_loss"] == history.min_loss()
        assert row["best_count"] == history.best("count")
        assert row["last_count"] == history.final("count")
        assert row["rounds"] == len(history)
        assert row["uploads"] == history.columns["uploads"].sum()
        assert row["virtual_s"] == history.columns["end_s"][-1]
        assert (row["status"], row["policy"], row["task"]) == ("done", "rounds", "counting")
        assert row["wall_s"] > 0
    assert rows[1]["objective"] == theory.objective(ROAD, 10, 6.0)


def test_a_run_on_a_radio_is_a_row_without_a_formula_of_g(tmp_path: Path) -> None:
    small = {"training.duration_s": 60.0, "training.samples_per_vehicle": 32, "training.batch_size": 8}
    train(Job(CountingTask(), load_scenario("paper-radio").with_values(small), (10, 15.0), 1), tmp_path / "radio")
    (row,) = Results(tmp_path).select().to_pylist()
    assert (row["run"], row["plan"], row["objective"]) == ("radio", "10,15", None)


def test_settings_are_columns_of_their_tables(results: Results) -> None:
    assert results.select("traffic.arrivals_per_s > 0.2")["run"].to_pylist() == ["deep/busy"]
    columns = "training.least_samples AS least, training.most_samples AS most"
    samples = results.query(f"SELECT {columns} FROM runs ORDER BY run")
    assert samples.to_pylist()[:2] == [{"least": 30, "most": 30}, {"least": 20, "most": 40}]


def test_comparing_averages_over_the_seeds_of_a_plan_and_of_nothing_else(results: Results) -> None:
    rows = {
        (row["local_steps"], row["traffic"]["arrivals_per_s"]): row for row in results.compare("best_count").to_pylist()
    }
    assert {key: row["seeds"] for key, row in rows.items()} == {(10, 0.1): 2, (5, 0.1): 2, (10, 0.3): 1}
    values = [row["best_count"] for row in results.select("local_steps = 5").to_pylist()]
    assert rows[5, 0.1]["mean"] == pytest.approx(np.mean(values))
    assert (rows[5, 0.1]["least"], rows[5, 0.1]["most"]) == (min(values), max(values))


def test_comparing_puts_the_best_first(results: Results) -> None:
    for metric, sign in (
        ("best_count", -1),
        ("last_count", -1),
        (" Best_Count ", -1),
        ("objective", -1),
        ("min_loss", 1),
    ):
        means = [row["mean"] for row in results.compare(metric).to_pylist()]
        assert len(set(means)) > 1
        assert means == sorted(means, key=lambda mean: sign * mean)


def test_a_score_that_is_not_a_number_comes_last(folder: Path, tmp_path: Path) -> None:
    for name in ("h5-s1", "h10-s1"):
        shutil.copytree(folder / name, tmp_path / name)
    rounds = pq.read_table(tmp_path / "h5-s1" / "rounds.parquet")
    spoilt = rounds.set_column(rounds.column_names.index("count"), "count", pa.array([math.nan] * len(rounds)))
    pq.write_table(spoilt, tmp_path / "h5-s1" / "rounds.parquet")
    means = [row["mean"] for row in Results(tmp_path).compare("last_count").to_pylist()]
    assert [math.isnan(mean) for mean in means] == [False, True]


def test_times_to_a_target_are_those_of_the_histories(results: Results, folder: Path) -> None:
    for column, target in (("count", 20.0), ("loss", 15.0), ("loss", -1.0), ("loss", 1000.0)):
        times = results.times_to(column, target)
        assert times == {name: read_history(folder / name).time_to(column, target) for name in times}
        assert len(times) == 5


def test_runs_of_other_settings_are_not_taken_for_seeds(folder: Path, tmp_path: Path) -> None:
    """Another server's parameter, another set of data: neither is in the scenario."""
    for place, mixing in (("a", 0.1), ("b", 0.9)):
        train(Job(CountingTask(by_batches=True), ROAD, f"fedasync:5,mixing={mixing}", 1), tmp_path / place)
    train(Job(CountingTask(), ROAD, "fedasync:5,mixing=0.1", 2), tmp_path / "c")
    runs, _ = find_runs(tmp_path)
    assert [row["seeds"] for row in Results(runs).compare("min_loss").to_pylist()] == [1, 1, 1]


def test_seeds_of_a_source_that_draws_are_one_setting(tmp_path: Path) -> None:
    """Every seed has its own crossings; a table that was given is another setting when it differs."""
    for seed in (1, 2):
        drawn = crossings_of("poisson", ROAD, seed)
        train(Job(CountingTask(), ROAD, (10, 6.0), seed, crossings=drawn, trace="poisson"), tmp_path / f"drawn-{seed}")
        table = replace(drawn, drawn=False)
        train(Job(CountingTask(), ROAD, (10, 6.0), seed, crossings=table, trace="t.csv"), tmp_path / f"table-{seed}")
    rows = Results(tmp_path).compare("min_loss").to_pylist()
    assert sorted((row["trace"], row["seeds"]) for row in rows) == [("poisson", 2), ("t.csv", 1), ("t.csv", 1)]
    studies, _ = studies_below(tmp_path)
    assert sorted(len(study.runs) for study in studies) == [1, 1, 2]


def test_folders_are_names_and_not_patterns(folder: Path, tmp_path: Path) -> None:
    for place in ("loss=7/x*", "loss=7/xy", "runs/same", "same"):
        shutil.copytree(folder / "h5-s1", tmp_path / place)
    runs, broken = find_runs(tmp_path)
    assert broken == []
    rows = Results(runs).select().to_pylist()
    assert {row["run"] for row in rows} == {"loss=7/x*", "loss=7/xy", "same", "runs/same"}
    assert {(row["rounds"], row["min_loss"]) for row in rows} == {(25, read_history(folder / "h5-s1").min_loss())}


def test_a_query_reaches_no_files(results: Results, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for query in (f"SELECT * FROM read_csv('{secret}')", f"COPY runs TO '{tmp_path / 'x.csv'}'", "SET threads = 3"):
        with pytest.raises(InputError, match="must be SQL over runs and rounds"):
            results.query(query)
    assert not (tmp_path / "x.csv").exists()
    with pytest.raises(InputError, match="the target must name one of loss, count, got 'counts'"):
        results.times_to("counts", 1.0)


def test_a_run_that_is_broken_or_has_no_rounds_yet_does_not_hide_the_others(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "h5-s1", tmp_path / "good")
    shutil.copytree(folder / "h5-s1", tmp_path / "new")
    (tmp_path / "new" / "rounds.parquet").unlink()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    shutil.copytree(folder / "h5-s1", tmp_path / "empty")
    (tmp_path / "empty" / "rounds.parquet").write_bytes(b"")
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "run.json").write_text('{"status": "failed", "reason": "no memory"}')
    runs, broken = find_runs(tmp_path)
    assert [run.name for run in runs] == ["good", "new"]
    assert [sentence in line for sentence, line in zip(("bad", "table of rounds", "no memory"), broken, strict=True)]
    rows = Results(runs).select().to_pylist()
    assert [row["rounds"] for row in rows] == [25, 0]
    with pytest.raises(InputError, match="at least one run"):
        Results([])
    with pytest.raises(InputError, match="must be in a folder"):
        find_runs(tmp_path / "nowhere")


def test_exports_hold_every_row(results: Results, tmp_path: Path) -> None:
    table = results.select()
    export(table, tmp_path / "runs.parquet")
    assert pq.read_table(tmp_path / "runs.parquet").to_pylist() == table.to_pylist()
    export(table, tmp_path / "runs.csv")
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert '"training.loss_scale"' in lines[0]
    assert len(lines) == 6
    with pytest.raises(InputError, match=r"export must end in one of \.csv, \.parquet"):
        export(table, tmp_path / "runs.xlsx")


def test_tensorboard_gets_every_curve(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.event_file_writer import EventFileWriter  # noqa: F401
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter  # noqa: F401

    run = results.runs[1]
    export_tensorboard([run], tmp_path)
    (file,) = (tmp_path / run.name).iterdir()
    values = dict[str, list[tuple[int, float]]]()
    data, at = file.read_bytes(), 0
    while at < len(data):  # TFRecord: length, its checksum, the record, its checksum
        size = int.from_bytes(data[at : at + 8], "little")
        event = Event.FromString(data[at + 12 : at + 12 + size])
        for value in event.summary.value:
            if value.HasField("simple_value"):
                values.setdefault(value.tag, []).append((event.step, value.simple_value))
        at += 16 + size
    history = run.history
    assert values.keys() == {"loss", "count", "uploads"}
    assert [step for step, _ in values["loss"]] == history.columns["end_s"].round().astype(int).tolist()
    assert [value for _, value in values["loss"]] == pytest.approx(history.columns["loss"].tolist(), rel=1e-6)


def test_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        came = CliRunner().invoke(cli, ["results", str(folder), *arguments], catch_exceptions=False)
        assert came.exit_code == 0, came.output
        return came.stdout

    assert "h10-s1" in call()
    assert "traffic.arrivals_per_s" in call()  # it differs between the runs
    assert "road.length_m" not in call()
    listed = json.loads(call("--where", "seed = 2", "--sort", "round_s desc", "--json"))
    assert [row["run"] for row in listed] == ["h5-s2", "h10-s2"]
    assert "mean" in call("--compare", "min_loss", "--where", "seed = 1 -- the first")
    assert json.loads(call("--sql", "SELECT sum(uploads) AS n FROM runs", "--json"))[0]["n"] > 10
    timed = json.loads(call("--target", "count=20", "--json"))
    assert all(row["time_s"] is None or row["time_s"] > 0 for row in timed)
    assert call("--columns", "run,training.loss_scale").splitlines()[0].split() == ["run", "training.loss_scale"]
    assert "5" in call("--sql", "SELECT count(*) AS n FROM runs")
    call("--export", str(tmp_path / "all.csv"))
    assert (tmp_path / "all.csv").exists()


def test_wrong_queries_on_the_command_line_are_told(folder: Path) -> None:
    for arguments, sentence in (
        (("--where", "nothing = 1"), "must be SQL over runs and rounds"),
        (("--columns", "run,nothing"), "--columns must name columns, got 'nothing'"),
        (("--target", "loss"), "--target must be NAME=NUMBER"),
        (("--compare", "min_loss", "--sql", "SELECT 1"), "only one of --compare, --target and --sql"),
        (("--export", "x.xlsx"), "--export must end in"),
        (("--sql", ""), "the query must be a SELECT"),
        (("--sql", "SELECT 1", "--where", "seed = 1"), "--where must be in the query itself"),
        (("--compare", "min_loss", "--sort", "seed"), "--sort goes with a list of runs"),
        (("--sql", "SELECT list(seed) AS x FROM runs", "--export", "x.csv"), "format that can hold"),
    ):
        with pytest.raises(InputError, match=sentence):
            CliRunner().invoke(cli, ["results", str(folder), *arguments], catch_exceptions=False)


def test_infinite_losses_do_not_count_as_best(tmp_path: Path) -> None:
    class Sometimes(CountingTask):
        def evaluate(self, model):  # type: ignore[no-untyped-def]
            scores = super().evaluate(model)
            return scores | {"loss": math.nan, "count": math.nan} if len(self.evaluated) % 2 == 0 else scores

    train(Job(Sometimes(by_batches=True), ROAD, (10, 6.0), 1), tmp_path / "run")
    runs, _ = find_runs(tmp_path)
    (row,) = Results(runs).select().to_pylist()
    history = read_history(tmp_path / "run")
    assert row["min_loss"] == history.min_loss()
    assert row["best_count"] == history.best("count")


def test_a_run_on_a_radio_is_listed_without_a_g(tmp_path: Path) -> None:
    """No formula knows what its transfers take."""
    short = {"training.duration_s": 30, "training.samples_per_vehicle": 16, "training.batch_size": 4}
    train(Job(CountingTask(), load_scenario("paper-radio").with_values(short), (5, 8.0)), tmp_path / "run")
    (found,), broken = find_runs(tmp_path)
    assert broken == []
    assert found.objective is None
    assert Results(tmp_path).select()["objective"].to_pylist() == [None]
