"""Runs in a real browser: by plan over seeds with bands, a part of the time, files, and a link that holds it all."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from browser import until
from mobfl.experiments.analysis import best_until
from mobfl.runs.folder import read_history
from page_visits import MARKUP, Open, runs_read, two_frames

PLANS = "document.querySelectorAll('#runs-table tbody tr').length === 3"
DRAWN = "mobfl.runs.series().length > 0 && mobfl.runs.series().every(({ points }) => points.length > 1)"


def opened(visit: Open, address: str = "#runs") -> Any:
    page = visit(address)
    runs_read(page)
    until(page, DRAWN)
    two_frames(page)
    return page


def saved(page: Any, selector: str, folder: Path) -> Path:
    with page.expect_download() as download:
        page.click(selector)
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def test_seeds_of_a_plan_are_their_mean_and_a_band_from_the_least_to_the_most(
    visit: Open, runs: Path, tmp_path: Path
) -> None:
    page = opened(visit)
    until(page, PLANS)
    legend = page.locator("#overlay-legend > *").all_inner_texts()
    assert "H = 10, T = 9 s, 2 seeds" in legend
    assert "H = 5, T = 6 s, seed 1" in legend
    rows = list(csv.DictReader(saved(page, "#runs-csv", tmp_path).read_text().splitlines()))
    shown = [row for row in rows if row["series"] == "H = 10, T = 9 s, 2 seeds"]
    times = np.array([float(row["time_s"]) for row in shown])
    histories = [read_history(runs / f"{MARKUP} 10,9 s{seed}") for seed in (1, 2)]
    best = np.array([best_until(history, "loss", times) for history in histories])
    for column, expected in (("loss", best.mean(0)), ("least", best.min(0)), ("most", best.max(0))):
        np.testing.assert_allclose([float(row[column]) for row in shown], expected)
    assert saved(page, "[data-save=overlay][data-as=svg]", tmp_path).read_text().startswith("<svg ")


def test_values_can_be_smoothed_and_are_not_while_they_are_the_best_so_far(visit: Open) -> None:
    page = opened(visit, "#runs?by=run&values=now")
    rough = page.evaluate("mobfl.runs.series()[0].points.map(([, value]) => value)")
    page.select_option("#runs-smooth", "5")
    smooth = page.evaluate("mobfl.runs.series()[0].points.map(([, value]) => value)")
    middle = len(rough) // 2
    assert smooth[middle] == np.mean(rough[max(0, middle - 2) : middle + 3])
    page.check("#runs-best")
    assert page.locator("#runs-smooth").is_disabled()


def test_a_part_of_the_time_is_seen_by_dragging_and_all_of_it_by_a_button(visit: Open) -> None:
    page = opened(visit)
    box = page.locator("#overlay").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 90, steps=4)
    page.mouse.up()
    low, high = page.evaluate("mobfl.runs.overlay.reach")
    assert 10 < low < 20 < 30 < high < 40
    until(page, "location.hash.includes('time=')")
    again = opened(visit, "#" + page.url.partition("#")[2])
    assert np.allclose(again.evaluate("mobfl.runs.overlay.reach"), [low, high], rtol=1e-4)
    page.click("#runs-all-time")
    assert page.evaluate("mobfl.runs.overlay.reach[0]") == 0
    page.locator("#overlay").press("+")
    assert page.evaluate("mobfl.runs.overlay.reach[0]") > 0
    page.locator("#overlay").press("Escape")
    assert page.evaluate("mobfl.runs.overlay.zoom") is None


def test_the_link_holds_what_is_chosen(visit: Open) -> None:
    page = opened(visit, "#runs?column=count")
    until(page, PLANS)
    page.locator("#runs-table tbody input").nth(1).uncheck()
    page.select_option("#runs-by", "run")
    until(page, "location.hash.includes('by=run') && location.hash.includes('show=')")
    chosen = page.evaluate("mobfl.runs.chosen")
    assert 0 < len(chosen) < 4
    again = opened(visit, "#" + page.url.partition("#")[2])
    assert again.evaluate("mobfl.runs.chosen") == chosen
    assert again.input_value("#runs-column") == "count"
    assert again.locator("#runs-table input:checked").count() == len(chosen)
    again.click("#runs-none")
    until(again, "location.hash.endsWith('show=') || location.hash.includes('show=&')")
    none = visit("#" + again.url.partition("#")[2])
    runs_read(none)
    assert none.locator("#runs-table input:checked").count() == 0


def test_a_click_changes_a_line_of_the_table_and_no_other(visit: Open) -> None:
    page = opened(visit, "#runs?by=run")
    page.evaluate(
        """() => {
          window.changed = 0;
          const count = (changes) => (window.changed += changes.length);
          const table = document.querySelector("#runs-table tbody");
          new MutationObserver(count).observe(table, { childList: true, subtree: true });
        }"""
    )
    box = page.locator("#runs-table tbody input").first
    before = box.is_checked()
    box.click()
    two_frames(page)
    assert box.is_checked() != before
    assert page.evaluate("window.changed") == 0
