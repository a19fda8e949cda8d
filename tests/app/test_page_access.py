"""Everybody can use the page: axe finds nothing against it, and tabs go through it in the order in which it is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import until
from mobfl import Crossings
from mobfl.mobility.recorded import write_crossings
from page_visits import Open, two_frames

_ROAD = "mobfl.road && document.querySelector('#road-expected').innerText !== '–'"
_RUNS = "Boolean(mobfl.runs?.rows.size) && !mobfl.runs.loading"
# Every view in several states, and when it is there.
VIEWS = {
    "plan": ("plan?from=mixed-fleet&at=20,25", "document.querySelector('#results').dataset.anytime === 'true'"),
    "radio": (
        "plan?link.model_bytes=62632&radio.sharing=%22fifo%22", "Boolean(mobfl.plan.delivered)",
    ),
    "wrong": ("plan?road.length_m=-4&h=x", "document.querySelector('#plan-says').innerText.includes('-4')"),
    "no plan": ("plan?road.length_m=40", "document.querySelector('#plan-says').innerText.includes('44 m')"),
    "road": ("road?round=10,9", _ROAD),
    "radio's road": ("road?from=paper-radio&round=10,9", f"{_ROAD} && mobfl.road.local_steps === 10"),
    "wrong road": ("road?round=0,9", "document.querySelector('#road-says').innerText.includes('got 0')"),
    "nothing to compare": ("compare", "Boolean(mobfl.compare)"),
    "compare": (
        "compare?pin=from%3Durban&pin=at%3D10%2C12&pin=road.length_m%3D40&pin=from%3Dmixed-fleet",
        "mobfl.compare.found.size === 4 && [...mobfl.compare.found.values()].every(({ waiting }) => !waiting)",
    ),
    "runs": ("runs", _RUNS),
    "each run": ("runs?by=run&values=now", _RUNS),
}  # fmt: skip
AUDIT = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  const line = (id) => ({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`;
  return violations.flatMap(({ id, nodes }) => nodes.map(line(id)));
}"""


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def opened_wide(page: Any) -> None:
    """With all that can be folded away unfolded, and everything drawn."""
    two_frames(page)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    two_frames(page)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_axe_finds_no_violation(visit: Open, axe: str, scheme: str, width: int) -> None:
    found = dict[str, list[str]]()
    page = visit("", scheme=scheme, width=width)
    page.evaluate(f"{axe}; 0")
    for name, (address, ready) in VIEWS.items():
        page.evaluate(f"location.hash = '#{address}'")
        two_frames(page)  # which is when the page has heard of it
        until(page, ready)
        opened_wide(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        found[name] = page.evaluate(AUDIT)
    assert {name: lines for name, lines in found.items() if lines} == {}
    page.evaluate("document.querySelector('#runs-name').append(document.createElement('img'))")
    assert any(line.startswith("image-alt") for line in page.evaluate(AUDIT))  # it does look


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_beside_a_trace_and_a_map(visit: Open, axe: str, tmp_path: Path, scheme: str) -> None:
    page = visit("#road", width=390, scheme=scheme)
    page.evaluate(f"{axe}; 0")
    enter = np.concatenate([80.0 * k + np.arange(8.0) for k in range(60)])
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 20.0), tmp_path / "a.csv")
    page.set_input_files("#trace-file", tmp_path / "a.csv")
    page.click("#trace-go")
    page.wait_for_selector("#trace-result table")
    opened_wide(page)
    (tmp_path / "a.net.xml").write_text('<net><edge id="e"><lane shape="0,0 90,50"/></edge></net>')
    page.set_input_files("#map-file", tmp_path / "a.net.xml")
    page.click("#map-show")
    page.get_by_text("a.net.xml: 1 edge.").wait_for()
    page.locator("#map").press("Enter")
    page.get_by_text("section: circle:").wait_for()
    assert page.evaluate(AUDIT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


READ = """() => {
  const places = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")];
  const seen = places.filter((each) => each.checkVisibility() && !each.disabled);
  return seen.every((each) => each.tabIndex === 0);
}"""


READ_THROUGH = ["plan", "road", "compare", "runs"]


@pytest.mark.parametrize(("view", "ready"), [VIEWS[name] for name in READ_THROUGH], ids=READ_THROUGH)
def test_tabs_go_through_all_of_it_in_order(visit: Open, view: str, ready: str) -> None:
    page = visit(f"#{view}")
    until(page, ready)
    assert page.evaluate(READ)  # nobody jumps the queue
    places, last = list[int](), -1
    for _ in range(150):
        page.keyboard.press("Tab")
        place = page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
        if place <= 0 or place < last:
            break
        places.append(place)
        last = place
    assert places == sorted(places)
    assert len(places) > 5
    until(page, "document.activeElement !== null")
