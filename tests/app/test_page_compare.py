"""Roads and plans side by side, and the way from a trace to Plan and Road."""

from pathlib import Path

import numpy as np
import pytest

from browser import until
from mobfl import Crossings, load_scenario, plan, theory
from mobfl.app.taken_over import taken_over
from mobfl.mobility.recorded import write_crossings
from page_visits import Open, settled, wait_for_text, wait_for_value


def test_what_is_pinned_stands_side_by_side_and_is_shared_by_link(visit: Open) -> None:
    page = visit("#plan?from=urban")
    settled(page)
    page.click("#pin-road")
    page.fill("#ask-h", "20")
    page.fill("#ask-t", "25.5")
    page.click("#pin-plan")
    page.select_option("#preset", "highway")
    settled(page)
    page.click("#pin-road")
    page.get_by_role("link", name="Compare (3)").click()
    urban, highway = load_scenario("urban"), load_scenario("highway")
    expected = [
        f"{g:.4g} /s" for g in (plan(urban).objective, theory.objective(urban, 20, 25.5), plan(highway).objective)
    ]
    row = page.locator("#compare-table tr", has_text="g, steps per second")
    for text in expected:
        row.get_by_text(text, exact=True).first.wait_for()
    assert row.locator("td").all_inner_texts() == expected
    speeds = page.locator("#compare-table tr", has_text="mean speed (v)").locator("td").all_inner_texts()
    assert speeds == [f"{road.traffic.speed_mps:g} m/s" for road in (urban, urban, highway)]
    until(page, "location.hash.includes('pin=')")
    again = visit("#" + page.url.partition("#")[2])
    wait_for_text(again, "#compare-table", expected[1])
    again.get_by_role("button", name="remove B").click()
    assert again.locator("#compare-table thead th").count() == 2
    until(again, "decodeURIComponent(location.hash).split('pin=').length === 3")
    again.get_by_role("link", name="A", exact=True).click()
    wait_for_value(again, "#preset", "urban")
    classes = visit("#compare?pin=from%3Dmixed-fleet&pin=from%3Dpaper-radio%26link.model_bytes%3D14804644")
    wait_for_text(classes, "#compare-table", "classes of vehicles")
    wait_for_text(classes, "#compare-table", "quick: 30.0 %, α = 0.12 s, β = 0.02 s")
    wait_for_text(classes, "#compare-table", "14,804,644 bytes")
    wait_for_text(classes, "#compare-table", "20,000,000 Hz")
    odd = visit("#compare?pin=%3Cimg%20src%3Dx%3E&pin=road.length_m%3D-4&pin=road.length_m%3D40")
    wait_for_text(odd, "#compare-says", "B: length of the section (L) must be > 0, got -4")
    wait_for_text(odd, "#compare-says", "C: No plan is possible")
    assert odd.locator("img").count() == 0


def test_a_trace_is_taken_over_into_plan_and_road_by_one_click(visit: Open, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    enter = np.sort(rng.uniform(0, 4000, 800))
    trace = Crossings(np.arange(len(enter)), enter, enter + 400 / np.clip(rng.normal(16, 2, len(enter)), 8, 30))
    write_crossings(trace, tmp_path / "some.csv")
    page = visit("#road")
    page.set_input_files("#trace-file", tmp_path / "some.csv")
    page.click("#trace-go")
    page.wait_for_selector("#trace-plan")
    best = page.locator("#trace-result tbody tr:first-child td").nth(1).inner_text()
    page.click("#trace-road")
    until(page, "mobfl.road.typed")
    wait_for_value(page, "#road-h", best)
    road = load_scenario("paper").with_values(taken_over(load_scenario("paper"), trace))
    h, t = int(page.input_value("#road-h")), float(page.input_value("#road-t"))
    wait_for_text(page, "#road-expected", f"{theory.expected_uploads(road, h, t):.4g}")
    page.click("#trace-plan")
    wait_for_value(page, "#ask-h", str(h))
    settled(page)
    assert page.inner_text("#best-g") == f"{plan(road).objective:.4g} /s"


@pytest.mark.parametrize("sd_mps", [0.0, 1.0, 4.0])
def test_a_road_that_is_taken_over_has_the_stays_of_the_trace(sd_mps: float) -> None:
    rng = np.random.default_rng(5)
    road = load_scenario("paper").with_values({"traffic.speed_mps": 14.0, "traffic.speed_sd_mps": sd_mps})
    enter = np.sort(rng.uniform(0, 1e5, 40_000))
    drawn = rng.normal(14.0, sd_mps, 2 * len(enter))
    speeds = drawn[drawn >= 1.4][: len(enter)]  # as a scenario draws them: never below a tenth of the mean
    trace = Crossings(np.arange(len(enter)), enter, enter + road.road.length_m / speeds)
    like = road.with_values(taken_over(road, trace))
    assert theory.mean_stay_s(like) == pytest.approx(float(trace.dwell_s.mean()), rel=1e-4)
    assert like.traffic.speed_mps == pytest.approx(14.0, rel=0.03)
    assert like.traffic.speed_sd_mps == pytest.approx(sd_mps, rel=0.05, abs=0.02)
    assert like.traffic.arrivals_per_s == pytest.approx(trace.arrivals_per_s, rel=1e-5)
