"""What the page got wrong once: typing, words, room, legends, exports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import until
from mobfl import Crossings, theory
from mobfl.mobility.recorded import write_crossings
from page_visits import MARKUP, Open, runs_read, settled, two_frames, wait_for_text


def test_what_is_typed_on_the_road_is_left_alone(visit: Open) -> None:
    page = visit("#road")
    until(page, "document.querySelector('#road-expected').innerText !== '–'")
    assert page.input_value("#road-h") == "24"
    page.locator("#road-h").press("Control+a")
    page.keyboard.press("Delete")
    wait_for_text(page, "#road-says", "H must be a whole number of at least 1, got nothing")
    assert page.input_value("#road-h") == ""
    assert page.inner_text("#road-expected") == "–"  # nothing of the old plan goes on
    page.keyboard.type("10")
    expected = theory.expected_uploads(_paper(), 10, float(page.input_value("#road-t")))
    wait_for_text(page, "#road-expected", f"{expected:.4g}")
    assert page.input_value("#road-h") == "10"
    page.fill("#road-t", "-3")
    wait_for_text(page, "#road-says", "T must be a number above 0, got -3")
    page.click("#road-step")
    two_frames(page)
    assert page.inner_text("#road-rounds") == "0"
    page.fill("#road-t", "12")
    page.fill("#road-seed", "")
    wait_for_text(page, "#road-says", "seed must be a whole number of at least 0, got nothing")
    page.click("#road-best")
    until(page, "document.querySelector('#road-h').value === '24'")


def _paper() -> Any:
    from mobfl import load_scenario

    return load_scenario("paper")


def test_a_point_that_is_half_typed_is_kept(visit: Open) -> None:
    page = visit("#plan?at=20,25.5")
    settled(page)
    page.locator("#ask-t").press("Control+a")
    page.keyboard.press("Delete")
    wait_for_text(page, "#asked-says", "T must be a number above 0, got nothing")
    assert page.input_value("#ask-h") == "20"
    page.keyboard.type("12")
    wait_for_text(page, "#asked-says", "g = ")
    assert (page.input_value("#ask-h"), page.input_value("#ask-t")) == ("20", "12")
    page.fill("#ask-h", "2.5")
    wait_for_text(page, "#asked-says", "H must be a whole number of at least 1, got 2.5")


def test_mistakes_are_told_in_the_words_of_the_page(visit: Open) -> None:
    page = visit()
    page.fill('[id="field-road.length_m"]', "-5")
    wait_for_text(page, "#plan-says", "length of the section (L) must be > 0, got -5")
    page.fill('[id="field-road.length_m"]', "400")
    page.fill('[id="field-compute.min_step_s"]', "0.00001")
    wait_for_text(page, "#plan-says", "least time of a local step (α) must be such that at most 200000 steps")
    wait_for_text(
        visit("#road?traffic.arrivals_per_s=100"), "#road-says", "lower arrivals (λ) or share that takes part"
    )
    page = visit("#plan?from=mixed-fleet")
    page.fill("#fleet-1-share", "0.4")
    wait_for_text(page, "#plan-says", "the shares of the classes must add up to 1, got 1.1")
    page.fill("#fleet-1-share", "-0.3")
    wait_for_text(page, "#plan-says", "share of class 2 must be > 0, got -0.3")


@pytest.mark.parametrize("width", [390, 1280])
def test_runs_and_their_losses_fit_the_window(visit: Open, width: int) -> None:
    page = visit("#runs", width=width)
    runs_read(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        page.evaluate("document.querySelector('.wide').scrollWidth <= document.querySelector('.wide').clientWidth + 1")
        or width == 390
    )
    if width == 1280:
        box = page.locator("#runs-table th", has_text="L_min").bounding_box()
        assert box["x"] + box["width"] <= width


def test_legends_name_plan_and_seed_and_the_best_come_first(visit: Open) -> None:
    page = visit("#runs?by=run")
    runs_read(page)
    until(page, "document.querySelectorAll('#overlay-legend > *').length === 4")
    legend = page.locator("#overlay-legend > *").all_inner_texts()
    assert any("H = 10, T = 9 s" in text and "seed 2" in text for text in legend)
    losses = page.evaluate("mobfl.runs.chosen.map((name) => mobfl.runs.rows.get(name).min_loss)")
    assert losses == sorted(losses)
    assert MARKUP not in "".join(legend)


def test_traces_have_whole_uploads_and_one_scale(visit: Open, tmp_path: Path) -> None:
    page = visit("#road")
    enter = np.concatenate([80.0 * k + np.arange(8.0) for k in range(60)])
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 20.0), tmp_path / "platoons.csv")
    page.set_input_files("#trace-file", tmp_path / "platoons.csv")
    page.click("#trace-go")
    page.wait_for_selector("#trace-result table")
    wide = "document.querySelector('#trace-result .wide')"
    assert page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth + 1")  # all of the table is in sight
    drawn = page.evaluate("mobfl.road.trace.figures.map((figure) => figure.toSvg())")
    texts = page.evaluate(
        """Promise.all(mobfl.road.trace.figures.map(async (figure) => {
          const svg = new DOMParser().parseFromString(await figure.toSvg().text(), "image/svg+xml");
          return [...svg.querySelectorAll("text")].map((each) => each.textContent);
        }))"""
    )
    assert len(drawn) == len(texts) == 2
    across = [each[: each.index("uploads in a round")] for each in texts]
    assert all(each == across[0] for each in across)  # one scale for both
    whole = [text for text in across[0] if text.isdigit()]
    assert whole[:3] == ["0", "1", "2"]
    assert not any(text.endswith(".5") for text in across[0])


def test_a_large_trace_says_how_far_it_is_and_how_large_it_may_be(visit: Open, tmp_path: Path) -> None:
    page = visit("#road")
    wait_for_text(page, "#trace-limit", "32 MB")
    big = tmp_path / "big.csv"
    big.write_bytes(b"x" * (33 << 20))
    page.set_input_files("#trace-file", big)
    page.click("#trace-go")
    wait_for_text(page, "#trace-says", "A trace must be at most 32 MB, got 34.6 MB")
    enter = np.arange(20_000.0)
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 2_000.0), tmp_path / "long.csv")
    page.set_input_files("#trace-file", tmp_path / "long.csv")
    page.click("#trace-go")
    wait_for_text(page, "#trace-stage", "step 2 of 5: planning")
    assert page.get_attribute("#trace-progress", "value") == "1"
    page.click("#trace-cancel")
    wait_for_text(page, "#trace-says", "Cancelled after")
    assert page.is_hidden("#trace-progress")


def test_contour_lines_are_labelled_and_exports_are_light(visit: Open, tmp_path: Path) -> None:
    page = visit(scheme="dark")
    settled(page)
    with page.expect_download() as download:
        page.click("[data-save=surface][data-as=svg]")
    download.value.save_as(tmp_path / "surface.svg")
    svg = (tmp_path / "surface.svg").read_text()
    assert svg.splitlines()[1].endswith('fill="#fff"/>')
    for share in ("50 %", "75 %", "90 %"):
        assert f">{share}</text>" in svg
    with page.expect_download() as download:
        page.click("[data-save=curves][data-as=png]")
    download.value.save_as(tmp_path / "curves.png")
    import matplotlib.image

    assert matplotlib.image.imread(tmp_path / "curves.png")[0, 0, :3].tolist() == [1.0, 1.0, 1.0]


def test_what_is_said_of_waiting_goes_when_the_wait_is_over(visit: Open) -> None:
    page = visit("#road")
    until(page, "document.querySelector('#road-expected').innerText !== '–'")
    page.route("**/api/road", lambda route: (page.wait_for_timeout(1500), route.continue_()))
    page.select_option("#road-speed", "1000")
    page.click("#road-play")
    wait_for_text(page, "#road-says", "Simulating …")
    page.click("#road-play")
    until(page, "document.querySelector('#road-says').hidden")
