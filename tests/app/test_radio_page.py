"""A road with a radio in a real browser: its plan, and who sends at which rate."""

from collections.abc import Iterator
from typing import Any

import pytest

import mobfl
from browser import PATIENCE_S, chromium, until
from mobfl import load_scenario
from page_server import PageServer, page_server


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with page_server() as started:
        yield started


@pytest.fixture(scope="module")
def page(server: PageServer) -> Iterator[Any]:
    """One page for all of it; afterwards it may not have complained."""
    said = list[str]()
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 390, "height": 900})
        context.set_default_timeout(1000 * PATIENCE_S)
        opened = context.new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.goto(f"{server.entrance}#plan?from=urban-radio")
        until(opened, "window.mobfl !== undefined")
        yield opened
        context.close()
    assert [text for text in said if "status of 400" not in text] == []


def test_the_plan_is_the_quick_one_and_says_so(page: Any) -> None:
    until(page, "document.getElementById('best-h').textContent !== '–'")
    quick = mobfl.plan_quickly(load_scenario("urban-radio"))
    assert page.inner_text("#best-h") == str(quick.local_steps)
    assert page.inner_text("#constant-g") == page.inner_text("#best-g") == f"{quick.objective:.4g} /s"
    assert page.inner_text("#radio-says").startswith("Planner: fixed-point.")
    until(page, "document.getElementById('radio-g').textContent.includes('±')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_senders_have_rates_and_losses_a_culprit(page: Any) -> None:
    page.evaluate("location.hash = '#road?from=urban-radio&traffic.arrivals_per_s=0.5&traffic.participation=1'")
    until(page, "Number(document.getElementById('road-expected').textContent) > 1")
    legend = page.inner_text("#stages")
    for words in ("was too late by the clock", "was too late by the radio", "waits to send", "Mbit/s"):
        assert words in legend
    for _ in range(4):
        page.click("#road-step")
    until(page, "document.getElementById('road-rounds').textContent === '4'")
    assert int(page.inner_text("#road-lost-radio")) > 0
    assert page.is_visible("#road-lost-clock")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_nonsense_in_the_radio_is_told_and_a_road_in_seconds_has_none_of_it(page: Any) -> None:
    page.evaluate("location.hash = '#plan?from=urban-radio&radio.path_loss=\"cell\"'")
    page.locator("#plan-says", has_text="carrier (f) must be 2").first.wait_for()
    page.evaluate("location.hash = '#plan?from=urban-radio&radio.uplink_hz=-1'")
    page.locator("#plan-says", has_text="band for uploads (W) must be > 0, got -1").first.wait_for()
    page.get_by_label("in seconds").check()
    until(page, "document.getElementById('best-g').textContent.endsWith('/s')")
    assert page.is_hidden("#on-radio")
    assert page.locator("[data-key^='radio.']").count() == 0
    page.get_by_label("size and a radio").check()
    until(page, "document.getElementById('radio-says').textContent.startsWith('Planner: fixed-point')")
    assert page.input_value('[id="field-radio.path_loss"]') == "urban-los"


def test_a_plan_that_promises_nothing_says_so(page: Any) -> None:
    crowd = 'radio.path_loss="urban-nlos"&link.model_bytes=14835468&traffic.arrivals_per_s=0.5'
    page.evaluate(f"location.hash = '#plan?from=paper-radio&{crowd}'")
    page.locator("#plan-says", has_text="no vehicle that takes as long is in time").first.wait_for()
    assert page.inner_text("#best-g") == "–"
    assert page.is_hidden("#pictures")
