"""The commands that the page offers do what it shows: each is copied, run, and its numbers are compared."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from click.testing import CliRunner

from browser import until
from mobfl import Crossings, Scenario, load_scenario, plan
from mobfl.app.commands import asked_for
from mobfl.cli import cli
from mobfl.experiments.sweep_file import load_sweep
from mobfl.mobility.recorded import write_crossings
from mobfl.scenario import parse_setting
from page_server import PageServer, page_server
from page_visits import Open, anytime_settled, runs_read, settled, two_frames, wait_for_text

_SMALL = (
    "images urban --set training.duration_s=60 --set training.samples_per_vehicle=32 --set training.batch_size=8"
    " --option training_samples=100 --option validation_samples=20 --plan 5,6.25"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("runs")
    run_command(f"mobfl train {_SMALL} --seed 1 --out {folder / 'first'}")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[PageServer]:
    with page_server("--runs", str(runs)) as started:
        yield started


def run_command(text: str, *more: str) -> Any:
    name, *words = shlex.split(text)
    assert name == "mobfl"
    done = CliRunner().invoke(cli, [*words, *more, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def run_in_a_shell(text: str, folder: Path) -> Any:
    """As it is pasted into a terminal, whose shell takes it apart."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HOME": "/nowhere"}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{text} --json"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def copied(page: Any, box: str, start: str) -> str:
    """What the button beside the first command that starts so puts into the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = page.locator(f"{box} .command-line", has_text=start).first
    line.get_by_role("button").click()
    line.get_by_text("copied").wait_for()
    return str(page.evaluate("navigator.clipboard.readText()"))


def saved(page: Any, selector: str, file: Path) -> Path:
    with page.expect_download() as download:
        page.click(selector)
    download.value.save_as(file)
    return file


def test_a_plan_is_found_again_by_its_command(visit: Open) -> None:
    page = visit("#plan?from=urban&traffic.speed_mps=8&knows=leaving")
    anytime_settled(page)
    page.get_by_text("The same on the command line").locator("visible=true").click()
    found = run_command(copied(page, "#plan-command", "mobfl plan"))
    assert page.inner_text("#best-h") == str(found["local_steps"])
    assert page.inner_text("#best-g") == f"{found['objective']:.4g} /s"
    found = run_command(copied(page, "#plan-command", "mobfl plan urban --set traffic.speed_mps=8.0 --for"))
    assert page.inner_text("#anytime-v") == f"{found['objective']:.4g} /s"


def test_names_with_quotes_and_dollars_reach_mobfl_through_a_shell(visit: Open, tmp_path: Path) -> None:
    names = ["it's", 'two "words" $HOME `x` \\n !!', "a\nb; rm -f x"]
    shares = [
        {"name": name, "share": share, "min_step_s": 0.2} for name, share in zip(names, (0.5, 0.3, 0.2), strict=True)
    ]
    page = visit(f"#plan?{urlencode({'from': 'urban', 'fleet': json.dumps(shares)})}")
    settled(page)
    page.get_by_text("The same on the command line").locator("visible=true").click()
    command = copied(page, "#plan-command", "mobfl plan")
    found = run_in_a_shell(command, tmp_path)
    assert page.inner_text("#best-g") == f"{found['objective']:.4g} /s"
    words = shlex.split(command)
    assert load_scenario("urban").with_values(dict([parse_setting(words[4])])).to_dict()["fleet"][1]["name"] == names[1]


def test_what_a_trace_shows_is_found_again_by_its_commands(visit: Open, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    enter = np.sort(rng.uniform(0, 3000, 600))
    file = tmp_path / "our $road's trace.csv"
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + rng.uniform(15, 30, len(enter))), file)
    page = visit("#road?knows=leaving&traffic.participation=0.5")
    page.set_input_files("#trace-file", file)
    page.click("#trace-go")
    page.wait_for_selector("#trace-result table")
    page.locator("#trace-result details summary").click()
    own, theorem, anytime = (
        page.locator(f"#trace-result tbody tr:nth-child({row}) td").all_inner_texts() for row in (1, 2, 3)
    )
    found = run_in_a_shell(copied(page, "#trace-command", "mobfl plan"), tmp_path)
    assert (own[1], own[3]) == (str(found["local_steps"]), f"{found['objective']:.4g} /s")
    found = run_in_a_shell(copied(page, "#trace-command", "--for anytime:knows=leaving"), tmp_path)
    assert anytime[3] == f"{found['objective']:.4g} /s"
    for number, shown in enumerate((own, theorem)):
        command = page.locator("#trace-command code", has_text="mobfl simulate").nth(number).inner_text()
        found = run_in_a_shell(command, tmp_path)
        assert (shown[5], shown[9]) == (f"{found['mean_uploads']:.4g}", f"{found['variance_to_mean']:.3g}")
    training = page.locator("#trace-command code", has_text="mobfl train").inner_text()
    assert shlex.split(training)[-8:] == ["--trace", file.name, "--plan", "mobfl", "--seed", "1", "--out", "run"]


def test_a_radio_has_commands_for_both_plans(visit: Open) -> None:
    page = visit('#plan?from=paper-radio&radio.sharing="fifo"&knows=leaving')
    settled(page)
    page.get_by_text("The same on the command line").locator("visible=true").click()
    words = ["paper-radio", "--set", 'radio.sharing="fifo"']
    assert shlex.split(copied(page, "#plan-command", "mobfl plan")) == ["mobfl", "plan", *words]
    anytime = copied(page, "#plan-command", "--for anytime")
    assert shlex.split(anytime) == ["mobfl", "plan", *words, "--for", "anytime:knows=leaving"]
    wait_for_text(page, "#plan-command", "the plan above is the quick one")


def test_rounds_are_simulated_again_by_their_command(visit: Open) -> None:
    page = visit("#road?round=10,9.5&seed=3&traffic.arrivals_per_s=0.3")
    until(page, "document.querySelector('#road-expected').innerText !== '–'")
    for done in range(1, 6):
        page.click("#road-step")
        until(page, f"document.querySelector('#road-rounds').innerText === '{done}'")
    two_frames(page)
    command = copied(page, "#road-command", "mobfl simulate")
    assert command.endswith("--plan 10,9.5 --rounds 5 --seed 3")
    found = run_command(command)
    assert page.inner_text("#road-mean") == f"{found['mean_uploads']:.4g}"
    assert page.inner_text("#road-expected") == f"{found['expected_uploads']:.4g}"


def test_a_run_and_a_sweep_are_trained_again_by_their_commands(
    visit: Open, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = visit("#runs")
    runs_read(page)
    page.get_by_text("The same on the command line").locator("visible=true").click()
    command = copied(page, "#runs-command", "mobfl train")
    assert run_command(command)["min_loss"] == _loss(runs / "first")
    assert _loss(tmp_path / "again-1") == _loss(runs / "first")
    saved(page, "#save-again", tmp_path / "shown.toml")
    run_command(copied(page, "#runs-command", "mobfl sweep"), "--workers", "1")
    (again,) = (tmp_path / "again" / "runs").iterdir()
    assert _loss(again) == _loss(runs / "first")


def _loss(run: Path) -> float:
    return float(json.loads((run / "run.json").read_text())["results"]["min_loss"])


def test_the_plan_offers_a_sweep_of_what_it_compares(visit: Open, tmp_path: Path) -> None:
    page = visit("#plan?h=10,24,60&traffic.speed_mps=18")
    settled(page)
    page.get_by_text("The same on the command line").locator("visible=true").click()
    sweep = saved(page, "#save-sweep", tmp_path / "sweep.toml")
    requests = load_sweep(sweep).requests
    road = load_scenario("paper").with_values({"traffic.speed_mps": 18.0})
    others = {f"{h},best" for h in (10, 24, 60)} - {f"{plan(road).local_steps},best"}
    assert {request.plan for request in requests} == {"mobfl", *others}
    assert {request.seed for request in requests} == {1, 2, 3}
    assert all((request.task, request.scenario) == ("beams", road) for request in requests)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"traffic.speed_mps": 8.5, "training.split": "dirichlet"},
        {"link.model_bytes": 62632, "link.downlink_bps": 5e5, "link.uplink_bps": 2.5e5},
        {"fleet": [{"name": "it's", "share": 0.5}, {"name": 'two "words"', "share": 0.5, "min_step_s": 0.1}]},
        {"training.samples_per_vehicle": [500, 900]},
        {"compute.law": "lognormal", "compute.extra_sd_s": 0.3},
    ],
)
@pytest.mark.parametrize("start", ["paper", "urban"])
def test_the_words_of_a_scenario_are_read_as_the_same_scenario(start: str, values: dict[str, Any]) -> None:
    scenario = load_scenario(start).with_values(values)
    asked = asked_for(scenario, start)
    assert asked is not None
    words = shlex.split(shlex.join(asked.words))
    read = dict(parse_setting(word) for word in words[2::2])
    assert load_scenario(words[0]).with_values(read) == scenario


def test_a_scenario_that_no_setting_can_make_has_no_words() -> None:
    radio = load_scenario("paper-radio")
    in_seconds = Scenario.from_dict({**radio.to_dict(), "radio": None, "link": {"download_s": 1.0, "upload_s": 2.0}})
    assert asked_for(in_seconds, "paper-radio") is None
    assert asked_for(in_seconds) is not None
