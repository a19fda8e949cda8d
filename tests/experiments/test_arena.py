"""The arena: a sweep cut to measure, whose algorithms meet the same vehicles, and pieces that add up."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fake_task import CountingTask
from mobfl import InputError, Job, run_sweep, train
from mobfl.cli import cli
from mobfl.experiments.arena import Wanted
from mobfl.experiments.folder import RUNS, read_sweep
from mobfl.experiments.studies import read_studies
from mobfl.experiments.sweep_file import Sweep, load_sweep, packaged_sweeps, sweep_from_dict
from mobfl.learning.codecs import codec_named
from mobfl.learning.local import local_named
from mobfl.learning.vehicles import Vehicles
from mobfl.runs import sources
from mobfl.runs.job import training_site
from mobfl.scenario import Scenario
from mobfl.servers.names import server_of
from small_sweep import as_toml

BASE = "MOB-FL's plan"
ENTRIES = [
    {"label": BASE, "plan": "10,6"},
    {"label": "anytime", "plan": "anytime:8"},
    {"label": "median", "plan": "10,6", "rule": "clip+median"},
]
SETTINGS = {"training.duration_s": 120, "training.samples_per_vehicle": 32, "training.batch_size": 4}


def asked(**values: Any) -> dict[str, Any]:
    block = {"tasks": ["fake_task:CountingTask"], "entries": ENTRIES, "seeds": [1, 2], "set": SETTINGS}
    return {"order": "seeds", "baseline": BASE, "targets": ["50%"], "runs": [block | values]}


def labels(sweep: Sweep) -> list[tuple[int, str, str]]:
    return [(each.seed, each.study, each.label) for each in sweep.requests]


def test_entries_are_single_cases_and_seeds_come_first_across_blocks() -> None:
    both = asked(study="λ = {traffic.arrivals_per_s}", vary={"traffic.arrivals_per_s": [0.1, 0.5]})
    both["runs"].append({**both["runs"][0], "entries": [], "plans": ["5,4"], "vary": {"road.length_m": [300, 400]}})
    sweep = sweep_from_dict(both)
    first = [
        *((1, f"λ = {rate}", label) for rate in (0.1, 0.5) for label in (BASE, "anytime", "median")),
        *((1, "λ = {traffic.arrivals_per_s}", f"5,4, road.length_m={length}") for length in (300, 400)),
    ]
    assert labels(sweep) == [*first, *((2, study, label) for _, study, label in first)]
    assert [each.rule for each in sweep.requests[:3]] == [None, None, "clip+median"]
    assert sweep.comparison.baseline == BASE


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({**asked(), "baseline": "nobody"}, "baseline must be one of MOB-FL's plan, anytime, median, got 'nobody'"),
        ({**asked(), "targets": ["120%"]}, "a share > 0% and < 100%, got '120%'"),
        ({**asked(), "targets": ["loss=low"]}, "NAME=NUMBER, got 'loss=low'"),
        ({**asked(), "order": "odd"}, "sweep: order"),
        (asked(entries=[{"label": "no plan"}]), "sweep: runs.0.entries.0.plan"),
    ],
)
def test_a_wrong_arena_is_told_what_is_wrong(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        sweep_from_dict(content)
    assert sentence in str(caught.value)


def test_what_is_wanted_is_cut_out_beside_the_baseline() -> None:
    sweep = sweep_from_dict(asked(vary={"traffic.arrivals_per_s": [0.1, 0.5]}, study="{traffic.arrivals_per_s}"))
    one = Wanted(seeds=[7], only={"traffic.arrivals_per_s": 0.5}, plans=["anytime:8", "my:plan"]).of(sweep)
    assert labels(one) == [(7, "0.5", BASE), (7, "0.5", "my:plan"), (7, "0.5", "anytime")]
    parts = Wanted(seeds=[7], only={"traffic.arrivals_per_s": 0.5}, plans=["5,4"], rules=["mean", "median"]).of(sweep)
    assert [(each.label, each.plan, each.rule) for each in parts.requests] == [
        (BASE, "10,6", None),
        ("5,4, mean", "5,4", "mean"),
        ("5,4, median", "5,4", "median"),
    ]
    other = Wanted(task="my:task", settings={"training.duration_s": 60}).of(sweep)
    assert {(each.task, each.scenario.training.duration_s) for each in other.requests} == {("my:task", 60.0)}
    assert len(other.requests) == len(sweep.requests)
    with pytest.raises(InputError, match="at least one run"):
        Wanted(only={"traffic.arrivals_per_s": 0.2}).of(sweep)
    with pytest.raises(InputError, match=r"only must name a key of the scenario, got 'traffic\.odd'"):
        Wanted(only={"traffic.odd": 1}).of(sweep)


def test_a_study_is_chosen_by_a_part_of_its_title() -> None:
    sweep = sweep_from_dict(asked(vary={"traffic.arrivals_per_s": [0.1, 0.5]}, study="λ = {traffic.arrivals_per_s}/s"))
    one = Wanted(studies=["= 0.5"], seeds=[1], plans=["anytime"]).of(sweep)
    assert labels(one) == [(1, "λ = 0.5/s", BASE), (1, "λ = 0.5/s", "anytime")]
    assert labels(Wanted(studies=["0.5", "0.1"]).of(sweep)) == labels(sweep)
    with pytest.raises(InputError) as caught:
        Wanted(studies=["λ = 0.5", "λ = 2"]).of(sweep)
    assert str(caught.value) == "study must be a part of the title of λ = 0.1/s or λ = 0.5/s, got 'λ = 2'"


def test_the_packaged_arena_is_what_was_asked_for() -> None:
    assert {"arena", "arena-quick"} <= set(packaged_sweeps())
    sweep = load_sweep("arena", generated=True)
    first = sweep.requests[0]
    assert (first.seed, first.label) == (1, BASE)
    assert (first.scenario.traffic.arrivals_per_s, first.scenario.training.split) == (0.1, "random")
    four = {(each.scenario.traffic.arrivals_per_s, each.scenario.training.split, each.seed)
            for each in sweep.requests
            if each.task == "beams" and each.plan == "fedbuff" and each.scenario.training.loss_scale == "sample"
            and not each.scenario.fleet}  # fmt: skip
    assert four == {(rate, split, seed) for rate in (0.03, 0.1, 0.5) for split in ("random", "dirichlet")
                    for seed in range(1, 6)}  # fmt: skip
    assert {each.scenario.training.duration_s for each in sweep.requests} == {2500.0}
    assert {each.scenario.training.dirichlet_alpha for each in sweep.requests} <= {0.3, 1.0}


def test_all_that_the_packaged_arena_names_is_there() -> None:
    for each in Wanted(seeds=[1]).of(load_sweep("arena", generated=True)).requests:
        sized = {"link.model_bytes": 66_520} if each.scenario.link.by_rates else {}
        server_of(each.plan, each.rule, each.scenario.with_values(sized), None)
        local_named(each.local, each.scenario.training)
        codec_named(each.codec)


def test_all_meet_the_same_vehicles_delays_samples_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever trains the n-th time on a visit draws the same batches, whatever the algorithm and its steps."""
    trained = dict[str, dict[tuple[int, int], tuple[float, list[list[int]]]]]()
    original = Vehicles.train
    road = Scenario.from_dict({"training": {"duration_s": 300.0, "samples_per_vehicle": 32, "batch_size": 4}})
    delay = training_site(road, 3, None).draws.delay_s
    for plan in ("24,11.776", "anytime:8", "fedasync", "fedbuff:10,buffer=3", "wait-for-all"):
        task, seen = CountingTask(), trained.setdefault(plan, {})

        def spied(
            self: Vehicles, key: np.uint64, attempt: int, *rest: Any, task: Any = task, seen: Any = seen, **who: Any
        ) -> Any:
            upload = original(self, key, attempt, *rest, **who)
            seen[int(key), attempt] = delay(key, attempt, 5), task.trained[-1].tolist()
            return upload

        monkeypatch.setattr(Vehicles, "train", spied)
        train(Job(task, road, plan, 3), tmp_path / plan.replace(":", "-"))
    for shared, one, other in _shared(trained):
        assert one[0] == other[0], shared
        steps = min(len(one[1]), len(other[1]))
        assert one[1][:steps] == other[1][:steps], shared
    assert len(list(_shared(trained))) > 50


def _shared(trained: dict[str, dict[tuple[int, int], Any]]) -> Iterator[tuple[Any, Any, Any]]:
    first, *others = trained.values()
    return ((key, first[key], other[key]) for other in others for key in first if key in other)


def test_pieces_add_up_in_one_folder_and_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    sweep = sweep_from_dict(asked())
    run_sweep(Wanted(seeds=[1], plans=["anytime"]).of(sweep), tmp_path, add=True)
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("rounds.parquet")}
    renamed = replace(sweep, requests=tuple(replace(each, label=each.label.upper()) for each in sweep.requests[2:3]))
    run_sweep(Wanted(seeds=[1]).of(sweep), tmp_path, add=True)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    (study,) = read_studies(tmp_path)
    assert sorted(study.by_name) == sorted([BASE, "anytime", "median"])
    run_sweep(renamed, tmp_path, add=True)
    assert [each.label for each in read_sweep(tmp_path).entries] == [BASE, "anytime", "MEDIAN"]
    run_sweep(renamed, tmp_path)
    assert [each.label for each in read_sweep(tmp_path).entries] == ["MEDIAN"]


def test_one_run_may_have_several_names_in_a_study(tmp_path: Path) -> None:
    sweep = sweep_from_dict(asked(entries=[*ENTRIES[:2], {"label": "the same", "plan": "anytime:8"}], seeds=[1]))
    for _ in range(2):
        run_sweep(sweep, tmp_path, add=True)
        assert [each.label for each in read_sweep(tmp_path).entries] == [BASE, "anytime", "the same"]


def test_pieces_of_another_state_of_the_code_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, notices = sweep_from_dict(asked()), list[str]()
    with monkeypatch.context() as before:
        before.setattr(sources, "code", lambda: "0123456789ab")
        run_sweep(Wanted(seeds=[1], plans=["anytime"]).of(sweep), tmp_path, add=True)
    run_sweep(Wanted(seeds=[2], plans=["median"]).of(sweep), tmp_path, add=True, notice=notices.append)
    (study,) = read_studies(tmp_path)
    assert {name: sorted(runs) for name, runs in study.by_name.items()} == {BASE: [2], "median": [2]}
    assert notices == [
        f"2 runs in {tmp_path / RUNS} were made by another state of mobfl's code, stay as they are and are left out:"
        f" all that this sweep asks for is computed by today's, {sources.code()}"
    ]


def test_one_command_trains_compares_and_takes_in_what_is_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    block = asked()["runs"][0] | {"entries": ENTRIES[:2], "study": "counting"}
    own = as_toml(block).replace('title = ""', f'title = "Ours"\nbaseline = "{BASE}"\ntargets = ["50%"]')
    (tmp_path / "mine.toml").write_text(own)
    (tmp_path / "mine.py").write_text("from mobfl import Order\nclass Short:\n    def next_order(self, seen):\n"
                                      "        return Order(5, 4.0)\n")  # fmt: skip
    same = ["arena", "--sweep", "mine.toml", "--seeds", "1-2", "--workers", "1", "--out", "out"]
    command = [*same, "--plans", "anytime", "--plans", "mine:Short", "--table", "table.csv"]
    came = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert came.exit_code == 0, came.output
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    for text in ("Against MOB-FL&#39;s plan", "mine:Short", "times as fast", "effective steps per s", "Spearman"):
        assert text in page, text
    table = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + 3  # a row per algorithm and target
    listed = CliRunner().invoke(cli, [*same, "--list"], catch_exceptions=False)
    assert "4 done" in listed.stdout


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--seeds", "one"], "--seeds must be whole numbers or ranges such as 1-5, got 'one'"),
        (["--seeds", "5-1"], "--seeds must have ranges of 1 to 10000 that go up, got '5-1'"),
        (["--seeds", "1-99999"], "--seeds must have ranges of 1 to 10000 that go up, got '1-99999'"),
        (["--study", "λ = 7"], "--study must be a part of the title of λ = 0.1/s, random split or"),
        (["--only", "nonsense"], "--only must be TABLE.KEY=VALUE"),
        (["--only", "road.length_m=400", "--only", "road.length_m=500"], "--only must give road.length_m once"),
        (["--quick", "--targets", "banana=80%"], "--targets must be of loss, top_1"),
        (["--targets", "0%"], "--targets must have a share > 0%"),
        (["--quick", "--sweep", "beams"], "--quick must come without --sweep"),
        (["--sweep", "beams"], "--sweep must have a baseline"),
        (["--sweep", ""], "--sweep '' cannot be read: Is a directory"),
        (["--table", "t.txt"], "--table must end in one of .csv, .parquet"),
        (["--table", "nowhere/t.csv"], "--table must be in a folder that is there, got 'nowhere/t.csv'"),
        (["--quick", "bemas"], "bemas, plan mobfl, seed 1 and 11 more: task must be one of beams"),
    ],
)
def test_wrong_wishes_are_said_in_the_words_of_the_command(flags: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(cli, ["arena", *flags], catch_exceptions=False)
    assert sentence in str(caught.value)
