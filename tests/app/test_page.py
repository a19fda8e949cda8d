"""The page in a real browser: what a person does there, and what they read."""

import json
import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import until
from fake_task import CountingTask
from mobfl import Crossings, Job, Scenario, load_scenario, plan, theory, train
from mobfl.mobility.recorded import write_crossings
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.plans import AnytimePlan
from page_server import PageServer
from page_visits import (
    MARKUP,
    SMALL,
    Open,
    anytime_settled,
    as_shown,
    as_shown_anytime,
    road_ready,
    runs_read,
    settled,
    shown_anytime_plan,
    shown_plan,
    two_frames,
    wait_for_text,
    wait_for_value,
)

# ---- numbers ----------------------------------------------------------------------------------------


def roads_at_random(count: int) -> list[Scenario]:
    """From the sleepy to the absurd: with and without jitter, spread of speeds and noise; λ over twelve decades."""
    rng = np.random.default_rng(8)

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    def sometimes(*values: float) -> float:
        return values[int(rng.integers(len(values)))]

    def road() -> Scenario:
        dwell_s, speed_mps = between(0.5, 500), between(0.5, 50)
        transfer_s = 0.6 * rng.random() * dwell_s
        step_s = (dwell_s - transfer_s) / between(1.2, 150)
        return Scenario.from_dict({
            "road": {"length_m": dwell_s * speed_mps},
            "traffic": {
                "speed_mps": speed_mps, "speed_sd_mps": sometimes(0, 0, between(1e-3, 1)) * speed_mps,
                "arrivals_per_s": between(1e-9, 1e3), "participation": sometimes(1, 0.3),
            },
            "link": {"download_s": 0.3 * transfer_s, "upload_s": 0.7 * transfer_s},
            "compute": {
                "min_step_s": step_s, "extra_step_s": sometimes(0, between(1e-13, 1e-3), between(1e-3, 30)) * step_s
            },
            "training": {"noise_uploads": sometimes(0, 0, between(1e-3, 1e3))},
        })  # fmt: skip

    return [road() for _ in range(count)]


def fleets_at_random(roads: list[Scenario]) -> list[Scenario]:
    """The same roads with two or three classes, up to eight times quicker or slower, each with a jitter of its own."""
    rng = np.random.default_rng(10)

    def fleet(road: Scenario) -> list[dict[str, float]]:
        shares = rng.dirichlet(np.ones(int(rng.integers(2, 4))))
        steps_s = road.compute.min_step_s * 8 ** rng.uniform(-1, 1, len(shares))
        jitter = rng.choice([0.0, 1.0], len(shares)) * 30 ** rng.uniform(-2, 1, len(shares))
        return [
            {"share": float(share), "min_step_s": float(step_s), "extra_step_s": float(step_s * more)}
            for share, step_s, more in zip(shares, steps_s, jitter, strict=True)
        ]

    return [road.with_values({"fleet": fleet(road)}) for road in roads]


def edges() -> list[Scenario]:
    changes = (
        {"compute.extra_step_s": 0}, {"compute.extra_step_s": 1e-14}, {"traffic.speed_sd_mps": 20},
        {"traffic.speed_sd_mps": 1e-9}, {"traffic.arrivals_per_s": 1e-12}, {"traffic.arrivals_per_s": 1e3},
        {"training.noise_uploads": 4.05}, {"link.download_s": 0, "link.upload_s": 0}, {"road.length_m": 44},
        {"compute.extra_step_s": 0, "traffic.speed_sd_mps": 4, "training.noise_uploads": 2}, {"road.length_m": 40},
    )  # fmt: skip
    packaged = [load_scenario(name) for name in ("paper", "thesis", "urban", "highway", "carpark", "mixed-fleet")]
    return packaged + [packaged[0].with_values(values) for values in changes]


def points_of(road: Scenario, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Here and there, at the least round, at the dwell, and with more steps than fit."""
    most = int(theory.max_local_steps(road))
    steps = [1, max(most, 1), most + 1, *rng.integers(1, max(most, 1) + 1, 3).tolist()]
    least = theory.min_delay_s(road, np.array(steps))
    rounds = least * np.array([1.0, 1.0, 2.0, 0.9, 1.3, 6.0])
    return [*zip(steps, rounds.tolist(), strict=True), (1, road.dwell_s), (max(most // 2, 1), 2 * road.dwell_s)]


BEST = ("local_steps", "round_s", "objective", "uploads", "valid")
IN_THE_BROWSER = """async ([roads, names]) => {
  const { conditions, maxLocalSteps, promise } = await import("/theory.js");
  const { bestPlan } = await import("/optimum.js");
  return roads.map(({ tables, points }) => {
    const road = conditions(tables);
    const found = points.map(([h, t]) => Object.values(promise(road, h, t)));
    const best = bestPlan(road);
    return { most: maxLocalSteps(road), found, best: best && names.map((name) => best[name]) };
  });
}"""


def test_the_browser_computes_what_mobfl_computes_to_1e_9(visit: Open) -> None:
    rng = np.random.default_rng(9)
    roads = [*edges(), *roads_at_random(400), *fleets_at_random(roads_at_random(200))]
    asked = [points_of(road, rng) for road in roads]
    tables = [json.loads(json.dumps(road.to_dict())) for road in roads]
    given = [{"tables": each, "points": points} for each, points in zip(tables, asked, strict=True)]
    for road, points, came in zip(roads, asked, visit().evaluate(IN_THE_BROWSER, [given, BEST]), strict=True):
        steps, rounds = np.array(points).T
        np.testing.assert_allclose(came["found"], np.stack(theory.promise(road, steps, rounds), -1), rtol=1e-9, atol=0)
        assert came["most"] == theory.max_local_steps(road)
        best = plan(road)
        if best.reason is not None:
            assert came["best"] is None
            continue
        h, t, g = best.numbers
        assert came["best"][0] == h
        assert came["best"][1] == pytest.approx(t, rel=1e-7)  # g is flat there: half of the digits make all of g's
        assert came["best"][2] == pytest.approx(g, rel=1e-9)
        # Where a step hardly jitters, Λ leaps within the last digits of T: it must fit the T that the browser found.
        uploads, valid, _ = theory.promise(road, h, came["best"][1])
        np.testing.assert_allclose(came["best"][3:], [uploads, valid], rtol=1e-9)


ANYTIME = ("round_s", "local_steps", "objective", "averaged_objective", "uploads", "valid")
ANYTIME_IN_THE_BROWSER = """async ([roads, names]) => {
  const { conditions } = await import("/theory.js");
  const { KNOWLEDGE, anytimePromise, longestStepsAndSlope } = await import("/anytime.js");
  const { bestAnytime, isExact, plansAnytime } = await import("/anytime_optimum.js");
  const numbers = (promise) => promise && names.map((name) => promise[name]);
  return roads.map(({ tables, rounds }) => {
    const road = conditions(tables);
    return KNOWLEDGE.map((knows) => ({
      knows,
      found: rounds.map((t) => [
        ...numbers(anytimePromise(road, t, knows)), longestStepsAndSlope(road, t, knows).slope,
      ]),
      best: plansAnytime(road) ? numbers(bestAnytime(road, knows)) : undefined,
      exact: isExact(road),
    }));
  });
}"""


def anytime_in_the_browser(visit: Open, roads: list[Scenario], shares: tuple[float, ...]) -> Iterator[Any]:
    """Of every road and everything that vehicles may know, what the browser finds."""
    given = [
        {"tables": json.loads(json.dumps(road.to_dict())), "rounds": [share * road.dwell_s for share in shares]}
        for road in roads
    ]
    for road, asked, came in zip(roads, given, visit().evaluate(ANYTIME_IN_THE_BROWSER, [given, ANYTIME]), strict=True):
        for each in came:
            promised = [anytime_numbers(road, t, each["knows"]) for t in asked["rounds"]]
            np.testing.assert_allclose(each["found"], promised, rtol=1e-9, atol=1e-300)
            yield road, each


def anytime_numbers(road: Scenario, t: float, knows: theory.Knows) -> list[float]:
    at = AnytimePlan.at(road, t, knows)
    told = (at.round_s, at.local_steps, at.objective, at.averaged_objective, at.expected_uploads, at.valid_round_prob)
    return [*told, float(theory.longest_steps_slope(road, t, knows))]  # type: ignore[list-item]


def without_noise(roads: list[Scenario]) -> list[Scenario]:
    return [road.with_values({"training.noise_uploads": 0}) for road in roads]


def test_the_browser_plans_anytime_rounds_as_mobfl_does_to_1e_9(visit: Open) -> None:
    many = [*edges(), *roads_at_random(40), *fleets_at_random(roads_at_random(30))]
    roads = [road for road in without_noise(many) if road.traffic.speed_sd_mps <= 1e-9 * road.traffic.speed_mps]
    planned = 0
    for road, came in anytime_in_the_browser(visit, roads, (0.3, 1.0, 2.5)):
        best, expected = came["best"], plan_anytime(road, came["knows"])
        if expected.reason is not None:
            assert best is None
            continue
        assert best[2] == pytest.approx(expected.objective, rel=1e-9 if came["exact"] else 1e-3)
        np.testing.assert_allclose(best, anytime_numbers(road, best[0], came["knows"])[:-1], rtol=1e-9)
        planned += came["exact"]
    assert planned > 100


def test_where_speeds_spread_the_browsers_anytime_rounds_are_nearly_the_best(visit: Open) -> None:
    """What they promise is exact; the server says the best T once a slider rests."""
    urban, highway = load_scenario("urban"), load_scenario("highway")
    for road, came in anytime_in_the_browser(visit, [urban, highway], (0.2, 0.9)):
        around = came["best"][0] * np.geomspace(0.5, 2.0, 41)
        assert came["best"][2] >= 0.999 * theory.anytime_objective(road, around, came["knows"]).max()
        np.testing.assert_allclose(came["best"], anytime_numbers(road, came["best"][0], came["knows"])[:-1], rtol=1e-9)


# ---- plan -------------------------------------------------------------------------------------------


def slider(page: Any, key: str) -> Any:
    return page.locator(f'[data-key="{key}"] input[type=range]')


def test_a_slider_that_is_dragged_shows_the_plan_of_its_value(visit: Open) -> None:
    page = visit()
    anytime_settled(page)
    assert shown_plan(page) == as_shown(plan(load_scenario("paper")))
    assert shown_anytime_plan(page) == as_shown_anytime(plan_anytime(load_scenario("paper")))
    page.route("**/api/*", lambda _: None)  # the server is asked in vain
    box = slider(page, "traffic.speed_mps").bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for share in np.linspace(0.4, 0.2, 9):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    page.mouse.up()
    two_frames(page)
    speed = float(page.input_value('[id="field-traffic.speed_mps"]'))
    assert 5 < speed < 15
    slower = load_scenario("paper").with_values({"traffic.speed_mps": speed})
    assert shown_plan(page) == as_shown(plan(slower))
    assert shown_anytime_plan(page) == as_shown_anytime(plan_anytime(slower))
    page.unroute("**/api/*")
    slider(page, "traffic.speed_mps").press("ArrowRight")
    settled(page)
    speed = float(page.input_value('[id="field-traffic.speed_mps"]'))
    assert shown_plan(page) == as_shown(plan(load_scenario("paper").with_values({"traffic.speed_mps": speed})))
    assert page.inner_text("#plan-says") == ""


def test_every_preset_shows_its_plan(visit: Open) -> None:
    page = visit()
    for name in ("urban", "highway", "carpark", "thesis", "mixed-fleet"):
        page.select_option("#preset", name)
        settled(page)
        assert shown_plan(page) == as_shown(plan(load_scenario(name)))
        assert "–" not in shown_anytime_plan(page)
    anytime_settled(page)
    assert shown_anytime_plan(page) == as_shown_anytime(plan_anytime(load_scenario("mixed-fleet")))


def test_what_vehicles_know_is_chosen_and_kept_in_the_address(visit: Open) -> None:
    page = visit()
    page.select_option("#knows", "leaving")
    anytime_settled(page)
    best, fixed = plan_anytime(load_scenario("paper"), "leaving"), plan(load_scenario("paper"))
    assert shown_anytime_plan(page) == as_shown_anytime(best)
    assert page.inner_text("#best-average") == page.inner_text("#best-g")
    assert best.objective is not None
    assert f"Anytime rounds take {best.objective / fixed.numbers[2]:.3g} times" in page.inner_text("#beside")
    until(page, "location.hash.includes('knows=leaving')")
    again = visit("#" + page.url.partition("#")[2])
    anytime_settled(again)
    assert again.input_value("#knows") == "leaving"
    assert shown_anytime_plan(again) == as_shown_anytime(best)
    odd = visit("#plan?knows=everything")
    assert odd.input_value("#knows") == "nothing"


def test_where_averaging_counts_the_page_says_that_anytime_rounds_are_not_planned(visit: Open) -> None:
    page = visit("#plan?training.noise_uploads=2")
    wait_for_text(page, "#plan-says", "uploads that are worth half a round (ν) must be 0 for anytime rounds, got 2")
    settled(page)
    assert shown_plan(page)[0] != "–"
    assert shown_anytime_plan(page) == ("–",) * 6


def test_classes_can_be_typed_added_and_removed(visit: Open) -> None:
    page = visit()
    page.select_option("#preset", "mixed-fleet")
    settled(page)
    assert page.input_value("#fleet-1-min_step_s") == "0.12"
    page.fill("#fleet-1-min_step_s", "0.1")
    until(page, "location.hash.includes('fleet')")
    settled(page)
    road = load_scenario("mixed-fleet")
    quicker = [each.model_dump(exclude_none=True) for each in road.fleet]
    quicker[1]["min_step_s"] = 0.1
    assert shown_plan(page) == as_shown(plan(road.with_values({"fleet": quicker})))
    page.fill("#fleet-1-share", "0.4")
    wait_for_text(page, "#plan-says", "the shares of the classes must add up to 1, got 1.1")
    page.fill("#fleet-1-share", "0.3")
    page.click("#add-class")
    assert page.input_value("#fleet-2-share") == "0.15"
    page.click('[aria-label="remove class 3"]')
    page.click('[aria-label="remove class 2"]')
    settled(page)
    assert page.locator(".class").count() == 0
    assert shown_plan(page) == as_shown(plan(load_scenario("paper")))


def test_a_law_that_only_the_server_knows(visit: Open) -> None:
    page = visit()
    page.select_option('[id="field-compute.law"]', "lognormal")
    settled(page)
    anytime_settled(page)
    lognormal = load_scenario("paper").with_values({"compute.law": "lognormal"})
    assert shown_plan(page) == as_shown(plan(lognormal))
    assert shown_anytime_plan(page) == as_shown_anytime(plan_anytime(lognormal))
    wait_for_text(page, "#plan-says", "Steps of this law are planned by the server")
    assert page.locator("#pictures").is_hidden()
    page.select_option('[id="field-compute.law"]', "measured")
    wait_for_text(page, "#plan-says", "law of the random part of a step = 'measured' must come with measured times")


def test_roads_that_cannot_be_planned_say_why(visit: Open) -> None:
    page = visit()
    page.fill('[id="field-road.length_m"]', "40")
    wait_for_text(page, "#plan-says", "lengthen the section beyond 44 m")
    settled(page)
    assert shown_plan(page) == ("–",) * 5
    assert shown_anytime_plan(page) == ("–",) * 6
    assert page.inner_text("#plan-says").count("lengthen the section") == 1  # both plans say the same
    for text, sentence in (("-5", "length of the section (L) must be > 0, got -5"), ("", "(L) must be a number")):
        page.fill('[id="field-road.length_m"]', text)
        wait_for_text(page, "#plan-says", sentence)
        assert page.get_attribute('[id="field-road.length_m"]', "aria-invalid") == "true"
    page.fill('[id="field-road.length_m"]', "400")
    page.fill('[id="field-compute.min_step_s"]', "0.00001")  # so many steps that only the server answers, with a no
    wait_for_text(page, "#plan-says", "at most 200000 steps")
    page.fill('[id="field-compute.min_step_s"]', "0.0005")  # and so many that it answers with a plan
    settled(page)
    road = load_scenario("paper").with_values({"compute.min_step_s": 0.0005})
    assert shown_plan(page) == as_shown(plan(road))


def test_a_link_given_as_size_and_rates_takes_the_same_time(visit: Open) -> None:
    page = visit()
    page.get_by_label("size and rates").check()
    settled(page)
    assert page.input_value('[id="field-link.model_bytes"]') == "62632"
    assert shown_plan(page)[0] == "24"
    page.fill('[id="field-link.uplink_bps"]', "250528")
    settled(page)
    road = load_scenario("paper").with_values({"link.upload_s": 2.0})
    assert shown_plan(page) == as_shown(plan(road))
    page.get_by_label("in seconds").check()
    assert page.input_value('[id="field-link.upload_s"]') == "2"


def test_a_click_tells_what_that_plan_would_give(visit: Open) -> None:
    page = visit()
    settled(page)
    box = page.locator("#surface").bounding_box()
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    until(page, "document.querySelector('#ask-h').value !== ''")
    h, t = int(page.input_value("#ask-h")), float(page.input_value("#ask-t"))
    _, valid, g = theory.promise(load_scenario("paper"), h, t)
    says = page.inner_text("#asked-says")
    assert says.startswith(f"g = {g:.4g} /s, {100 * g / plan(load_scenario('paper')).numbers[2]:.1f} % of the best")
    assert f"{100 * valid:.1f} % of the rounds valid" in says
    page.fill("#ask-h", "89")
    page.fill("#ask-t", "5")
    wait_for_text(page, "#asked-says", "No upload: 89 steps take at least 19.8 s")
    page.fill("#ask-h", "200")
    wait_for_text(page, "#asked-says", "longer than any vehicle stays")


def test_the_address_holds_all_of_it(visit: Open) -> None:
    page = visit("#plan?from=urban&traffic.speed_mps=8&at=20,25.5&h=10,20")
    settled(page)
    road = load_scenario("urban").with_values({"traffic.speed_mps": 8})
    assert shown_plan(page) == as_shown(plan(road))
    assert (page.input_value("#ask-h"), page.input_value("#compared")) == ("20", "10,20")
    slider(page, "traffic.arrivals_per_s").press("ArrowRight")
    page.get_by_label("in seconds").check()
    page.get_by_text("Training", exact=True).click()
    page.fill('[id="field-training.samples_per_vehicle"]', "500")
    page.fill('[id="field-training.samples_per_vehicle-most"]', "900")
    settled(page)
    until(page, "location.hash.includes('900')")
    again = visit("#" + page.url.partition("#")[2])
    settled(again)
    assert shown_plan(again) == shown_plan(page)
    assert again.evaluate("JSON.stringify(mobfl.plan.state.tables())") == page.evaluate(
        "JSON.stringify(mobfl.plan.state.tables())"
    )
    wait_for_text(visit("#plan?from=nothing&road.length_m=%3Cb%3E&at=x&y=z"), "#plan-says", "(L) must be")


def test_downloads_are_what_they_say(visit: Open, tmp_path: Path) -> None:
    page = visit("#plan?from=highway&traffic.speed_mps=25")
    settled(page)

    def saved(selector: str) -> Path:
        with page.expect_download() as download:
            page.click(selector)
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        return file

    assert load_scenario(saved("#save-toml")) == load_scenario("highway").with_values({"traffic.speed_mps": 25})
    assert tomllib.loads((tmp_path / "highway.toml").read_text())["traffic"]["speed_mps"] == 25
    svg = saved("[data-save=surface][data-as=svg]").read_text()
    assert svg.startswith("<svg ")
    assert "round length T (s)" in svg
    assert saved("[data-save=curves][data-as=png]").read_bytes().startswith(b"\x89PNG")


# ---- road -------------------------------------------------------------------------------------------


def number(page: Any, selector: str) -> float:
    return float(page.inner_text(selector).removesuffix(" %"))


def test_the_counters_come_to_the_expectation_as_the_road_plays(visit: Open) -> None:
    page = visit("#road?traffic.arrivals_per_s=0.3")
    until(page, "document.querySelector('#road-expected').innerText !== '–'")
    best = plan(load_scenario("paper").with_values({"traffic.arrivals_per_s": 0.3}))
    assert page.inner_text("#road-expected") == f"{best.expected_uploads:.4g}"
    page.select_option("#road-speed", "1000")
    page.click("#road-play")
    until(page, "Number(document.querySelector('#road-rounds').innerText) > 400")
    page.click("#road-play")
    two_frames(page)
    rounds = number(page, "#road-rounds")
    assert best.expected_uploads is not None
    # Five standard errors of rounds that share vehicles: the seed is fixed, so this is about the code, not about luck.
    assert abs(number(page, "#road-mean") - best.expected_uploads) < 5 * (2 * best.expected_uploads / rounds) ** 0.5
    assert number(page, "#road-mean") == pytest.approx(number(page, "#road-uploads") / rounds, rel=1e-3)
    assert abs(number(page, "#road-empty") - number(page, "#road-expected-empty")) < 10
    page.click("#road-step")
    until(page, f"document.querySelector('#road-rounds').innerText === '{rounds + 1:.0f}'")
    page.click("#road-again")
    until(page, "document.querySelector('#road-rounds').innerText === '0'")
    page.fill("#road-h", "60")
    page.fill("#road-t", "20")
    expected = theory.expected_uploads(load_scenario("paper").with_values({"traffic.arrivals_per_s": 0.3}), 60, 20.0)
    wait_for_text(page, "#road-expected", f"{expected:.4g}")


def test_a_road_without_a_plan_or_with_too_many_vehicles_says_so(visit: Open) -> None:
    page = visit("#road?road.length_m=40")
    wait_for_text(page, "#road-says", "There is no plan for this road")
    wait_for_text(visit("#road?traffic.arrivals_per_s=100"), "#road-says", "at most 400 vehicles")


def test_traces_good_and_broken(visit: Open, tmp_path: Path) -> None:
    page = visit("#road?knows=leaving")
    enter = np.concatenate([80.0 * k + np.arange(8.0) for k in range(60)])
    names = np.array([f"{MARKUP}{i}" for i in range(len(enter))])
    good, broken = tmp_path / "good.csv", tmp_path / f"{MARKUP}.csv"
    write_crossings(Crossings(names, enter, enter + 20.0), good)
    broken.write_text(f"vehicle,enter_s,leave_s\n{MARKUP},5,{MARKUP}\n")
    page.set_input_files("#trace-file", good)
    page.click("#trace-go")
    page.wait_for_selector("#trace-result table")
    assert "480 crossings" in page.inner_text("#trace-says")
    assert page.locator("#trace-result tbody tr").count() == 3
    assert " to " in page.inner_text("#trace-result tbody tr:first-child")  # the promise's interval
    best = plan_anytime(load_scenario("paper"), "leaving", Crossings(names, enter, enter + 20.0))
    wait_for_text(page, "#trace-result tbody tr:nth-child(3)", "anytime rounds, leaving known")
    wait_for_text(page, "#trace-result tbody tr:nth-child(3)", f"{best.objective:.4g} /s")
    assert page.locator("#trace-result canvas").count() == 2
    page.set_input_files("#trace-file", broken)
    page.click("#trace-go")
    wait_for_text(page, "#trace-says", "line 2")
    assert f"{MARKUP}.csv, line 2: there must be a number in leave_s, got '{MARKUP}'" in page.inner_text("#trace-says")
    assert page.locator("#trace-result *").count() == 0
    assert page.locator("img").count() == 0


def test_a_trace_can_be_cancelled_while_its_clock_runs(visit: Open, server: PageServer, tmp_path: Path) -> None:
    page = visit("#road")
    enter, file = np.arange(20_000.0), tmp_path / "long.csv"
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 2_000.0), file)  # it takes minutes
    assert page.locator("#trace-cancel").is_hidden()
    page.set_input_files("#trace-file", file)
    page.click("#trace-go")
    wait_for_text(page, "#trace-clock", "2 s, at most 300 s")
    assert page.inner_text("#trace-says") == "Comparing long.csv with Poisson traffic …"
    assert page.locator("#trace-go").is_disabled()
    page.click("#trace-cancel")
    wait_for_text(page, "#trace-says", "Cancelled after")
    assert (page.locator("#trace-cancel").is_hidden(), page.locator("#trace-go").is_enabled()) == (True, True)
    assert page.inner_text("#trace-clock") == ""
    for _ in range(600):
        if not server.workers():
            break
        page.wait_for_timeout(100)
    assert server.workers() == []


# ---- runs -------------------------------------------------------------------------------------------


def cells(page: Any, column: str) -> list[str]:
    names = [re.sub(" [▲▼]$", "", name) for name in page.locator("#runs-table thead th").all_inner_texts()]
    return page.locator(f"#runs-table tbody td:nth-child({names.index(column) + 1})").all_inner_texts()


def test_runs_are_listed_sorted_found_and_drawn(visit: Open) -> None:
    page = visit("#runs?by=run")
    runs_read(page)
    assert cells(page, "status") == ["done"] * 4
    assert any(MARKUP in name for name in cells(page, "run"))
    assert page.locator("img").count() == 0
    page.get_by_role("button", name="H", exact=True).click()
    assert cells(page, "H") == ["5", "10", "10", "10"]
    page.get_by_role("button", name="H ▲").click()
    assert cells(page, "H") == ["10", "10", "10", "5"]
    page.fill("#runs-filter", "5,6")
    assert cells(page, "H") == ["5"]
    assert page.inner_text("#runs-count") == "1 of 4 runs, 4 done"
    page.fill("#runs-filter", "")
    page.select_option("#runs-column", "count")
    assert cells(page, "best count")
    two_frames(page)
    page.locator("#fig3").press("ArrowRight")
    said = page.inner_text("#fig3-says")
    assert f"{MARKUP} 5,6 s1: H = 5, T = 6 s, seed 1" in said
    before = page.locator("#runs-table input:checked").count()
    page.locator("#fig3").press("Enter")
    assert page.locator("#runs-table input:checked").count() == before - 1
    page.click("#runs-none")
    wait_for_text(page, "#overlay-says", "Choose runs in the table.")


def test_a_point_of_fig_3_tells_its_run_when_hovered(visit: Open) -> None:
    page = visit("#runs")
    runs_read(page)
    page.locator("#fig3").scroll_into_view_if_needed()
    box = page.locator("#fig3").bounding_box()
    # T = 6 s on an axis from 0 to 10 s, between margins of 62 pixels; how high the points are, we find.
    x = box["x"] + 62 + 0.6 * (box["width"] - 124)
    told = set[str]()
    for y in np.linspace(box["y"] + 30, box["y"] + box["height"] - 40, 40):
        page.mouse.move(x, y)
        told.add(page.inner_text("#fig3-says"))
    runs = {text.partition(": H = ")[2].partition(",")[0] for text in told if ": H = " in text}
    assert runs == {"5", "10"}


def test_a_run_is_watched_while_it_trains(visit: Open, runs: Path) -> None:
    page = visit("#runs?by=run")
    runs_read(page)
    road = Scenario.from_dict(SMALL).with_values({"training.duration_s": 240.0})
    job = Job(CountingTask(step_s=0.08), road, (3, 6.0), 7)
    training = threading.Thread(target=train, args=(job, runs / "live"), kwargs={"checkpoint_s": 0})
    training.start()
    row = page.locator("#runs-table tbody tr", has_text="live")
    seen = list[str]()
    wait_for_text(page, "#runs-table tbody tr", "running")
    while training.is_alive():
        seen.append(row.locator("td.text").nth(1).inner_text())
        page.wait_for_timeout(300)
    training.join()
    wait_for_text(page, "#runs-count", "5 done")
    shares = [int(text.split()[1]) for text in seen if text.startswith("running")]
    assert shares == sorted(shares)
    assert len(set(shares)) > 1
    row.locator("input").check()
    wait_for_text(page, "#overlay-legend", "H = 3, T = 6 s, seed 7")


# ---- everybody --------------------------------------------------------------------------------------


def test_a_keyboard_is_enough(visit: Open) -> None:
    page = visit()
    settled(page)

    def tab_to(selector: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"{selector} cannot be reached")

    tab_to('[data-key="road.length_m"] input[type=range]')
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    length = float(page.input_value('[id="field-road.length_m"]'))
    assert length > 400
    settled(page)
    assert shown_plan(page) == as_shown(plan(load_scenario("paper").with_values({"road.length_m": length})))
    tab_to("#surface")
    page.keyboard.press("ArrowUp")
    best = plan(load_scenario("paper").with_values({"road.length_m": length})).numbers[0]
    wait_for_value(page, "#ask-h", str(best + 1))
    page.keyboard.press("Escape")
    wait_for_value(page, "#ask-h", "")
    page.locator("#views a").nth(1).focus()
    page.keyboard.press("Enter")
    until(page, "mobfl.road !== undefined")
    road_ready(page)
    tab_to("#road-play")
    page.keyboard.press("Space")
    wait_for_text(page, "#road-play", "Pause")
    tab_to("#road-step")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#road-rounds').innerText !== '0'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(visit: Open, scheme: str) -> None:
    for view, ready in (("plan?from=urban&at=20,25", anytime_settled), ("road", road_ready), ("runs", runs_read)):
        page = visit(f"#{view}", width=390, scheme=scheme)
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert light == (scheme == "light")


def test_the_page_is_small(browser: Any, server: PageServer) -> None:
    page = browser.new_page()
    sizes = dict[str, int]()
    page.on("response", lambda response: response.ok and sizes.update({response.url: len(response.body())}))
    page.goto(server.entrance)
    anytime_settled(page)
    page.close()
    assert len(sizes) < 26
    assert sum(sizes.values()) < 1_000_000
