"""The report: one page with everything in it, which a real browser shows without asking anybody for anything."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from browser import chromium
from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, run_sweep, theory, train
from mobfl.cli import cli
from mobfl.experiments.any_folder import studies_below
from mobfl.experiments.runs import Run
from mobfl.experiments.studies import Labelled, read_studies, uploads_of
from mobfl.experiments.sweep_file import sweep_from_dict
from mobfl.reports.page import write_report
from mobfl.reports.words import explained, plan_in_words
from mobfl.runs.folder import read_run
from small_sweep import as_toml, small_block

TOML = as_toml(
    small_block(60, study="grid", plans=["mobfl"], local_steps=[4, 8], round_s=[4.5, 9.0], seeds=[0, 1]),
    small_block(60, study="servers & plans", plans=["mobfl", "wait-for-all", "fedasync"]),
    title="A <small> sweep",
)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "sweep.toml").write_text(TOML)
    out = folder / "out"
    came = CliRunner().invoke(
        cli, ["reproduce", "--sweep", str(folder / "sweep.toml"), "--workers", "1", "--out", str(out)],
        catch_exceptions=False,
    )  # fmt: skip
    assert came.exit_code == 0, came.output
    assert "report.html" in came.stdout
    return out


def test_studies_hold_the_runs_of_a_sweep(reproduced: Path) -> None:
    grid, servers = read_studies(reproduced)
    assert (grid.title, len(grid.runs), grid.waiting, grid.is_grid) == ("grid", 10, 0, True)
    assert (servers.title, len(servers.runs), servers.is_grid) == ("servers & plans", 3, False)
    assert list(servers.groups) == ["mobfl", "wait-for-all", "fedasync"]
    assert servers.times_to(servers.target())["mobfl"][0] <= 30.0  # type: ignore[operator]
    assert uploads_of(grid.runs + servers.runs) == []  # too few rounds for an interval
    assert grid.regrets()["loss"].plans == 5


def test_measured_uploads_stand_beside_the_theorem(tmp_path: Path) -> None:
    road = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 20_000.0}})
    runs = [_counted(road, 10, 6.0, 1, tmp_path / "a"), _counted(road, 10, 6.0, 2, tmp_path / "b")]
    again = _counted(road.with_values({"training.learning_rate": 0.2}), 10, 6.0, 1, tmp_path / "c")
    ((name, expected, measured),) = uploads_of([*runs, again])
    assert name == "H = 10, T = 6 s"
    assert expected == theory.expected_uploads(road, 10, 6.0)
    assert measured.low < expected < measured.high
    assert measured == uploads_of(runs)[0][2]  # the same traffic again is no further evidence


def _counted(road: Scenario, h: int, t: float, seed: int, folder: Path) -> Labelled:
    train(Job(CountingTask(), road, (h, t), seed), folder)
    return Labelled("counted", Run(folder, folder.name, read_run(folder)))


def test_the_page_holds_its_figures_and_tells_where_numbers_are_from(reproduced: Path) -> None:
    page = (reproduced / "report.html").read_text(encoding="utf-8")
    assert "A &lt;small&gt; sweep" in page
    assert "Servers &amp; plans" in page
    for text in ("H = 24", "Theorem 1", "Spearman", "Regret", "training.loss_scale", "fingerprint", "numba", "Made by"):
        assert text in page, text
    assert not re.search(r"(src|href)=[\"'](?!data:|#)", page)
    names = {file.name for file in (reproduced / "figures").iterdir()}
    stems = {name.rpartition(".")[0] for name in names}
    assert {"plan", "study-1-fig2", "study-1-fig3", "study-1-proxy", "study-2-times"} <= stems
    assert len(names) == 3 * len(stems)
    assert page.count("<figure>") == len(stems)


def test_a_sweep_that_is_not_finished_has_a_report_of_what_there_is(reproduced: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(reproduced, out)
    for folder in list((out / "runs").glob("*fedasync*")):
        shutil.rmtree(folder)
    came = CliRunner().invoke(cli, ["report", str(out)], catch_exceptions=False)
    assert came.exit_code == 0
    assert "1 more is not finished" in (out / "report.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="at least one finished run"):
        write_report([], out, "", "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty must hold at least one finished run, got none"):
        CliRunner().invoke(cli, ["report", str(tmp_path / "empty")], catch_exceptions=False)


def test_the_report_does_not_undermine_itself(reproduced: Path) -> None:
    page = (reproduced / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<style>.*?</style>|<[^>]*>", "\n", page, flags=re.S)
    # Of the 13 runs of both studies, MOB-FL's plan with seed 0 is the same one.
    assert "12 finished runs in 2 studies" in text
    assert "intervals hold" not in text
    assert "None" not in text
    assert "top_10" not in text
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", page)
    assert len([each for each in headings if each != "Runs"]) == len({each for each in headings if each != "Runs"})
    assert "a round ends when all have uploaded or left" in text  # what wait-for-all is
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page, flags=re.S)
    assert all(caption.count(". ") >= 1 or ": " in caption for caption in captions), captions


def test_a_sweep_may_hold_grids_and_contests(tmp_path: Path) -> None:
    entries = [{"label": "ours", "plan": "mobfl"}, {"label": "FedAsync", "plan": "fedasync"}]
    grid = small_block(40, study="grid", plans=["mobfl"], local_steps=[4, 8], round_s=[4.5, 9.0])
    sweep = {"baseline": "ours", "targets": ["50%"], "runs": [grid, small_block(40, study="contest", entries=entries)]}
    run_sweep(sweep_from_dict(sweep), tmp_path)
    CliRunner().invoke(cli, ["report", str(tmp_path)], catch_exceptions=False)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", page)
    chapters = ["Plan", "Grid", "What runs reached, and g", "Contest", "Against ours", "What predicts who is ahead"]
    places = [headings.index(each) for each in [*chapters, "Where g holds and where it misleads"]]
    assert places == sorted(places)
    assert headings.count("Against ours") == 1
    assert "Nothing is compared" not in page


def test_a_run_that_learnt_nothing_is_no_mere_row(tmp_path: Path) -> None:
    road = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}})
    train(Job(CountingTask(), road, (60, 16.0), 1), tmp_path / "none")
    train(Job(CountingTask(), road, (10, 6.0), 1), tmp_path / "some")
    assert CliRunner().invoke(cli, ["report", str(tmp_path)], catch_exceptions=False).exit_code == 0
    notes = re.findall(r'<p class="note">(.*?)</p>', (tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [note.partition(". ")[0] for note in notes] == [
        "60,16, seed 1: Nothing was learnt: no vehicle uploaded in time"
    ]


def test_on_a_telephone_every_figure_is_drawn_for_one(reproduced: Path) -> None:
    page = (reproduced / "report.html").read_text(encoding="utf-8")
    figures = page.count("<figure>")
    assert figures >= 10
    assert page.count('<source media="(max-width: 42rem)" srcset="data:image/png;base64,') == figures


def test_plans_are_explained_in_words() -> None:
    assert plan_in_words("best,T0/2") == "rounds of half a vehicle's stay, the best H for it"
    assert plan_in_words("1,best") == "one local step, the best T for it"
    assert plan_in_words("fedbuff:24,buffer=10").startswith("FedBuff")
    assert plan_in_words("24,11.8") == ""
    assert explained(["24,11.8", "mobfl", "6,8", "mobfl"])[-1] == ("H,T", "H local steps in rounds of T seconds")


def test_any_folder_of_runs_has_a_report(tmp_path: Path) -> None:
    road = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}})
    busy = road.with_values({"traffic.arrivals_per_s": 0.5})
    jobs = {
        "a/one": Job(CountingTask(), road, (10, 6.0), 1),
        "a/two": Job(CountingTask(), road, (10, 6.0), 2),
        "b": Job(CountingTask(), road, (10, 6.0), 1, rule="median"),
        "c": Job(CountingTask(), busy, "fedasync:10", 1),
    }
    for name, job in jobs.items():
        train(job, tmp_path / name)
    slow, quick = studies_below(tmp_path)[0]
    assert (slow.title, quick.title) == (
        "counting, traffic.arrivals_per_s = 0.1",
        "counting, traffic.arrivals_per_s = 0.5",
    )
    assert list(quick.groups) == ["fedasync:10"]
    assert [len(group) for group in slow.groups.values()] == [2, 1]  # two seeds of one rule, and another rule
    assert all(name.startswith("10,6, rule ") for name in slow.groups)
    came = CliRunner().invoke(cli, ["report", str(tmp_path), "--size", "7,5"], catch_exceptions=False)
    assert came.exit_code == 0, came.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"Runs in {tmp_path.name}" in page
    assert "4 finished runs in 2 studies" in page


def test_a_browser_shows_it_without_errors_and_without_asking_anybody(reproduced: Path) -> None:
    said, asked = list[str](), list[str]()
    with chromium() as browser:
        for width in (1280, 390):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto((reproduced / "report.html").as_uri())
            shown: Any = page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
            assert shown
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.close()
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {(reproduced / "report.html").as_uri()}
