"""What a person types by mistake, in every field: it stays as it is, is told in the page's words, and runs nothing."""

import json
import re
from typing import Any

import pytest

from browser import until
from mobfl import load_scenario, plan
from page_visits import Open, as_shown, settled, shown_plan, wait_for_text

FIELDS = "#controls input[type=number]"
# What is typed, and what the sentence says of it; a comma and letters are no numbers.
NONSENSE = {"": "nothing", "-": "something else", "1e": "something else", "-7": "-7"}
_KEY = re.compile(r"\b(?:fleet|[a-z]+)\.[a-z\d]+(?:_[a-z]+)*\b|\b[a-z]+_[a-z_]+\b(?<!D_m)(?<!T_A)(?<!τ_up)")
_MAY_BE_EMPTY = ("-most", "-min_step_s", "-extra_step_s")  # the second of a range, and what a class has from all


def _type(page: Any, selector: str, text: str) -> None:
    page.locator(selector).press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.type(text)


@pytest.mark.parametrize("start", ["mixed-fleet", "urban", "paper-radio"])
def test_every_field_of_a_scenario_refuses_nonsense(visit: Open, start: str) -> None:
    page = visit(f"#plan?from={start}")
    settled(page)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    before = shown_plan(page)
    fields = page.evaluate(f"[...document.querySelectorAll({json.dumps(FIELDS)})].map(({{ id }}) => id)")
    assert len(fields) > 15
    for field in fields:
        selector, usual = f'[id="{field}"]', page.input_value(f'[id="{field}"]')
        asked.clear()
        for text, said in NONSENSE.items():
            negative_is_fine = field in ("field-radio.vehicle_dbm", "field-radio.station_dbm") and text == "-7"
            if negative_is_fine or (text == "" and field.endswith(_MAY_BE_EMPTY)):
                continue
            _type(page, selector, text)
            wait_for_text(page, "#plan-says", f"got {said}" if not field.endswith("-most") else said)
            sentence = page.inner_text("#plan-says")
            assert _KEY.search(sentence) is None, (field, text, sentence)
            assert page.get_attribute(selector, "aria-invalid") == "true", (field, text)
            assert shown_plan(page) == ("–",) * 5, (field, text)
        assert not [url for url in asked if "/api/" in url], field
        page.fill(selector, usual)
    settled(page)
    assert shown_plan(page) == before


def test_what_is_no_number_stays_in_its_field(visit: Open) -> None:
    page = visit()
    settled(page)
    _type(page, '[id="field-road.length_m"]', "1e")
    page.locator("#copy-link").focus()
    wait_for_text(page, "#plan-says", "length of the section (L) must be a number, got something else")
    assert page.evaluate("document.getElementById('field-road.length_m').validity.badInput")
    _type(page, '[id="field-road.length_m"]', "300")
    settled(page)
    assert shown_plan(page) == as_shown(plan(load_scenario("paper").with_values({"road.length_m": 300.0})))


def test_what_only_the_server_refuses_is_marked_too(visit: Open) -> None:
    page = visit()
    page.fill('[id="field-road.length_m"]', "1e13")
    wait_for_text(page, "#plan-says", "length of the section (L) must be <= 1e+12")
    until(page, "document.getElementById('field-road.length_m').getAttribute('aria-invalid') === 'true'")
    page.fill('[id="field-road.length_m"]', "400")
    settled(page)
    assert page.get_attribute('[id="field-road.length_m"]', "aria-invalid") == "false"


def test_numbers_of_samples_and_classes_have_rules_of_their_own(visit: Open) -> None:
    page = visit("#plan?from=mixed-fleet")
    settled(page)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for field, text, sentence in (
        ("field-training.samples_per_vehicle-most", "10", "samples of a vehicle (D_m) must be such that the first is"),
        (
            "field-training.samples_per_vehicle-most",
            "2000.5",
            "must be a whole number > 0, or two of them, got 1024 to",
        ),
        ("field-training.batch_size", "2.5", "samples in a local step (B) must be a whole number, got 2.5"),
        ("fleet-1-share", "", "share of class 2 must be a number, got nothing"),
        ("fleet-1-share", "2", "share of class 2 must be <= 1, got 2"),
        ("fleet-0-min_step_s", "0", "least time of a local step (α) of class 1 must be > 0, got 0"),
        ("fleet-0-extra_step_s", "-1", "mean random time on top (β) of class 1 must be >= 0, got -1"),
    ):
        usual = page.input_value(f'[id="{field}"]')
        page.fill(f'[id="{field}"]', text)
        wait_for_text(page, "#plan-says", sentence)
        assert page.get_attribute(f'[id="{field}"]', "aria-invalid") == "true"
        page.fill(f'[id="{field}"]', usual)
    settled(page)
    assert shown_plan(page) == as_shown(plan(load_scenario("mixed-fleet")))


def test_what_is_pasted_is_read_and_typing_fast_ends_with_the_last(visit: Open) -> None:
    page = visit()
    settled(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText('  512  ')")
    page.locator('[id="field-road.length_m"]').press("Control+a")
    page.keyboard.press("Control+v")
    settled(page)
    assert shown_plan(page) == as_shown(plan(load_scenario("paper").with_values({"road.length_m": 512.0})))
    for text in ("1", "-", "90", "4e", "333", "", "350"):
        _type(page, '[id="field-road.length_m"]', text)
    settled(page)
    assert page.input_value('[id="field-road.length_m"]') == "350"
    assert shown_plan(page) == as_shown(plan(load_scenario("paper").with_values({"road.length_m": 350.0})))


def test_steps_to_compare_that_are_no_steps_are_told(visit: Open) -> None:
    page = visit()
    settled(page)
    for text, sentence in (
        ("5, x, 60", "H to compare must be whole numbers of at least 1, got x."),
        ("5 0", "H to compare must be whole numbers of at least 1, got 0."),
        ("-7", "got -7"),
        ("1.5", "got 1.5"),
        ("1 2 3 4 5 6 7 8 9", "H to compare must be at most 8 numbers, got 9."),
    ):  # fmt: skip
        page.fill("#compared", text)
        wait_for_text(page, "#compared-says", sentence)
        assert page.get_attribute("#compared", "aria-invalid") == "true"
        assert page.evaluate("mobfl.plan.compared") is None
    page.fill("#compared", "5; 60 ,60")
    until(page, "document.querySelector('#compared-says').textContent === ''")
    assert page.evaluate("mobfl.plan.compared") == [5, 60]


def test_on_a_road_with_a_wrong_value_nothing_runs(visit: Open) -> None:
    page = visit("#road?round=10,12&traffic.speed_mps=-3")
    wait_for_text(page, "#road-says", "mean speed (v) must be > 0, got -3: see Plan.")
    page.click("#road-step")
    page.click("#road-play")
    page.click("#road-again")
    wait_for_text(page, "#road-says", "mean speed (v) must be > 0, got -3: see Plan.")
    assert page.inner_text("#road-rounds") == "0"
    assert page.is_hidden("#road-commands")
    for field, text, sentence in (
        ("#road-h", "1e", "H must be a whole number of at least 1, got something else"),
        ("#road-t", "0", "T must be a number above 0, got 0"), ("#road-seed", "-1", "seed must be a whole number"),
        ("#road-seed", "99999999999", "seed must be a whole number from 0 to 2147483648"),
        ("#road-t", "1e12", "T must be a number from 0.001 to 1e+09"),
    ):  # fmt: skip
        good = visit("#road?round=10,12&seed=3")
        wait_for_text(good, "#road-clock", "round 1, 0.0 of 12 s")
        _type(good, field, text)
        wait_for_text(good, "#road-says", sentence)
        assert good.inner_text("#road-expected") == "–"
        good.click("#road-step")
        assert good.inner_text("#road-rounds") == "0"
