"""Runs of every kind in one folder: on a radio, in a city, with classes of vehicles, in anytime rounds, broken."""

from pathlib import Path
from typing import Any

import pytest

from browser import until
from fake_task import CountingTask
from mobfl import Job, Scenario, load_scenario, train
from page_visits import Open, two_frames, wait_for_text

_SMALL = {"training.duration_s": 60.0, "training.samples_per_vehicle": 32, "training.batch_size": 8}


def _small(name: str) -> Scenario:
    return load_scenario(name).with_values(_SMALL)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    fleet = [{"share": 0.5}, {"share": 0.5, "min_step_s": 0.05}]
    classes = _small("paper").with_values({"fleet": fleet})
    for name, road, plan in (
        ("radio", _small("paper-radio"), (10, 15.0)), ("city", _small("corridor"), "mobfl"),
        ("fleet", classes, (10, 9.0)), ("anytime", _small("paper"), "anytime:9"),
        ("async", _small("paper"), "fedasync:5"),
    ):  # fmt: skip
        train(Job(CountingTask(), road, plan, 1), folder / name)
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    return folder


def _names(page: Any) -> dict[str, list[str]]:
    lines = page.locator("#runs-table tbody tr")
    texts = [line.locator("td.text").all_inner_texts() for line in lines.all()]
    return {name: rest for name, *rest in texts}


def test_every_kind_of_run_is_read_and_drawn(visit: Open) -> None:
    page = visit("#runs?by=run&show=radio&show=city&show=fleet&show=anytime&show=async")
    wait_for_text(page, "#runs-count", "6 of 6 runs, 5 done")
    told = _names(page)
    assert {name: status for name, (status, *_) in told.items() if name != "broken"} == {
        "radio": "done", "city": "done", "fleet": "done", "anytime": "done", "async": "done",
    }  # fmt: skip
    assert told["broken"][0].startswith("unreadable: ")
    until(page, "mobfl.runs.series().length === 5 && mobfl.runs.series().every(({ points }) => points.length > 1)")
    two_frames(page)
    wait_for_text(page, "#overlay-legend", "H = 10, T = 15 s")


def test_fig_3_has_runs_on_a_radio_without_a_formula_and_those_of_classes_with_theirs(visit: Open) -> None:
    page = visit("#runs?by=run")
    wait_for_text(page, "#runs-count", "6 of 6 runs, 5 done")
    settings = page.evaluate("Object.fromEntries([...mobfl.runs.rows.values()].map((row) => [row.run, row.setting]))")
    page.select_option("#fig3-setting", settings["radio"])
    page.locator("#fig3").press("ArrowRight")
    wait_for_text(page, "#fig3-says", "radio: H = 10, T = 15 s, seed 1, validation loss")
    page.select_option("#fig3-setting", settings["fleet"])
    row = page.evaluate("mobfl.runs.rows.get('fleet')")
    promised = page.evaluate(
        """async ({ tables }) => {
          const { conditions, promise } = await import("/theory.js");
          return promise(conditions(tables), 10, 9).objective;
        }""",
        row,
    )
    assert promised == pytest.approx(row["objective"], rel=1e-9)
