"""The report: one page with everything in it, which a real browser shows without asking anybody for anything."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from browser import chromium
from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, theory, train
from mobfl.cli import cli
from mobfl.experiments.runs import Run
from mobfl.experiments.studies import Labelled, read_studies, uploads_of
from mobfl.reports.page import write_report
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
    assert "1 more are not finished" in (out / "report.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="at least one finished run"):
        write_report([], out, "", "")
    with pytest.raises(InputError, match=r"must be a sweep's folder with a sweep\.json"):
        CliRunner().invoke(cli, ["report", str(tmp_path)], catch_exceptions=False)


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
