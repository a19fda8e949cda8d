"""The page's server, asked over real sockets: what it answers, whom it refuses, and how it ends."""

import asyncio
import gzip
import http.client
import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from click.testing import CliRunner
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

import mobfl
from fake_task import CountingTask
from mobfl import Crossings, Job, MissingExtraError, Scenario, load_scenario, simulate, theory, train
from mobfl.app.fields import SLIDERS, fields
from mobfl.app.requests import read_body
from mobfl.app.runs import RunsFolder
from mobfl.app.security import refusal
from mobfl.cli import cli
from mobfl.mobility.poisson import poisson_crossings
from mobfl.mobility.recorded import write_crossings
from mobfl.planning.anytime import plan_anytime
from mobfl.rounds.orders import FixedPlan
from mobfl.rounds.rules import simulate_rounds
from mobfl.scenario import FIELDS, RADIO_FIELDS, packaged_scenarios
from mobfl.scenario.symbols import SYMBOLS
from mobfl.theory import Delays
from page_server import PATIENCE_S, PageServer, free_port, page_server

SMALL = {"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}}
PAPER = load_scenario("paper").to_dict()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed, t in ((1, 6.0), (2, 6.0), (1, 9.0)):
        train(Job(CountingTask(), Scenario.from_dict(SMALL), (10, t), seed), folder / f"<b>{t:g}</b>-{seed}")
    return folder


@pytest.fixture(scope="module")
def page(runs: Path) -> Iterator[PageServer]:
    with page_server("--runs", str(runs)) as server:
        yield server


def errors(answer: tuple[int, Any]) -> tuple[int, list[str]]:
    return answer[0], answer[1]["errors"]


# Those of one station with transfers that take the same seconds for all.
IN_SECONDS = [name for name in packaged_scenarios() if (road := load_scenario(name)).radio is None and not road.is_city]


# ---- the scenario and its plan ----------------------------------------------------------------------


def test_every_value_has_words_and_a_slider_that_reaches_all_packaged_scenarios() -> None:
    not_typed = {"compute.step_samples", "link.download_bytes", "link.upload_bytes", "training.alike"}
    typed = [key for key in FIELDS if key not in not_typed and not key.startswith("energy.")]
    told = [field["key"] for field in fields()]
    of_radio = [key for key in told if key.startswith("radio.")]
    assert told == [*of_radio, *typed]
    assert (
        {"radio.path_loss", "radio.uplink_hz", "radio.vehicle_dbm", "radio.sharing"}
        <= set(of_radio)
        <= set(RADIO_FIELDS)
    )
    assert set(SYMBOLS) == set(FIELDS) | set(RADIO_FIELDS)
    for name in packaged_scenarios():
        for key, slider in SLIDERS.items():
            value = load_scenario(name).value(key)
            assert value is None or slider.low <= value <= slider.high, (name, key)
    for field in fields():
        assert field["meaning"]
        assert (field["slider"] is None) == (field["kind"] == "choice")


def test_the_start_tells_the_page_what_there_is(page: PageServer) -> None:
    status, answer, headers = page.ask("GET", "/api/start")
    told = json.loads(answer)
    assert status == 200
    assert set(told["presets"]) == {name for name in packaged_scenarios() if not load_scenario(name).is_city}
    assert told["presets"]["urban"]["tables"] == load_scenario("urban").to_dict()
    assert told["presets"]["paper"]["summary"].startswith("The road of the MOB-FL paper")
    assert told["has_runs"] is True
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", IN_SECONDS)
def test_a_plan_is_the_one_of_mobfl_plan(page: PageServer, name: str) -> None:
    scenario = load_scenario(name)
    status, told = page.post("/api/plan", scenario.to_dict())
    assert (status, told["plan"]) == (200, mobfl.plan(scenario).to_dict())
    assert told["toml"] == scenario.to_toml()
    h, t, _ = mobfl.plan(scenario).numbers
    assert told["contributing_visit_prob"] == theory.contributing_visit_prob(scenario, h, t)


@pytest.mark.parametrize("knows", theory.KNOWLEDGE)
def test_anytime_rounds_are_planned_as_mobfl_plan_for_anytime_does(page: PageServer, knows: theory.Knows) -> None:
    scenario = load_scenario("mixed-fleet")
    assert page.post(f"/api/anytime?knows={knows}", scenario.to_dict()) == (
        200, {"plan": plan_anytime(scenario, knows).to_dict()},
    )  # fmt: skip


def test_wrong_anytime_rounds_are_told_in_our_sentences(page: PageServer) -> None:
    status, lines = errors(page.post("/api/anytime?knows=everything", {}))
    assert (status, lines) == (400, ["knows must be one of nothing, mean, predicted, leaving, got 'everything'"])
    status, lines = errors(page.post("/api/anytime", {"training": {"noise_uploads": 2}}))
    assert (status, lines) == (400, ["training.noise_uploads must be 0 for anytime rounds, got 2.0"])
    status, told = page.post("/api/anytime", {"road": {"length_m": 40}})
    assert (status, told["plan"]["status"], told["plan"]["round_s"]) == (200, "infeasible", None)


def test_an_infeasible_road_says_why(page: PageServer) -> None:
    status, told = page.post("/api/plan", {"road": {"length_m": 40}})
    assert (status, told["plan"]["status"], told["contributing_visit_prob"]) == (200, "infeasible", None)
    assert "lengthen the section beyond 44 m" in told["plan"]["reason"]


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"road": {"length_m": -5}}, "road.length_m must be > 0, got -5"),
        ({"road": {"length_m": "long"}}, "road.length_m must be a number, got 'long'"),
        ({"road": {"length_m": None}}, "road.length_m must be a number, got None"),
        ({"road": {"length_m": 10**400}}, "road.length_m"),
        ({"road": {"lenght_m": 5}}, "road.lenght_m is not a known key, did you mean road.length_m?"),
        ({"road": 5}, "road must be a table, got 5"),
        ({"traffic": {"speed_mps": True}}, "traffic.speed_mps must be a number, got True"),
        ({"compute": {"min_step_s": 1e-6}}, "at most 200000 steps fit into a stay"),
    ],
)
def test_wrong_scenarios_are_told_in_our_sentences(page: PageServer, tables: Any, sentence: str) -> None:
    for path, content in (("/api/plan", tables), ("/api/anytime", tables), ("/api/road", {"tables": tables})):
        status, lines = errors(page.post(path, content))
        assert status == 400
        assert sentence in lines[0]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"null", b"\xff\xfe", b'{"road": {"length_m": NaN}}', b'{"road": {"length_m": Infinity}}',
     b'{"a":' * 50_000, b'{"road": {"length_m": ' + b"9" * 5000 + b"}}", b"x" * 200_000],
    ids=lambda body: repr(body[:30]),
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/plan", "/api/road"])
def test_a_malformed_request_is_refused_in_a_sentence(page: PageServer, path: str, body: bytes) -> None:
    status, answer, _ = page.ask("POST", path, body)
    assert status in (400, 413)
    (line,) = json.loads(answer)["errors"]
    assert "must be" in line
    assert "Traceback" not in line


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/plan", 405), ("/api/nothing", 404), ("/nothing", 404), ("/api/curve", 400), ("/api/curve?run=x", 400)],
)
def test_other_paths_are_refused_as_json(page: PageServer, path: str, status: int) -> None:
    came, answer, _ = page.ask("GET", path)
    assert came == status
    assert json.loads(answer)["errors"]


# ---- the road ---------------------------------------------------------------------------------------


def asked(first: int, count: int, **values: Any) -> dict[str, Any]:
    return {"tables": PAPER, "local_steps": 24, "round_s": 11.776, "seed": 3, "first": first, "count": count} | values


def test_the_rows_are_those_of_the_rounds_that_simulate_runs(page: PageServer) -> None:
    scenario = load_scenario("paper")
    portions = [page.post("/api/road", asked(first, 20))[1] for first in (0, 20, 300)]
    blocks = simulate_rounds(poisson_crossings(scenario, 3), FixedPlan(24, 11.776), Delays.of(scenario), 3)
    block = next(blocks)
    assert block.vehicles is not None
    by_hand = block.vehicles.to_dicts(Delays.of(scenario))
    for first, came in zip((0, 20, 300), portions, strict=True):
        wanted = [row for row in by_hand if first <= row["round"] < first + 20]
        assert [row["vehicle"] for row in came["vehicles"]] == [row["vehicle"] for row in wanted]
        assert [row["outcome"] for row in came["vehicles"]] == [row["outcome"] for row in wanted]
        assert [row["end_s"] for row in came["vehicles"]] == pytest.approx([row["end_s"] for row in wanted])
        assert [row["uploads"] for row in came["rounds"]] == block.uploads[first : first + 20].tolist()
        for row in came["vehicles"]:
            assert row["leave_s"] - row["enter_s"] == pytest.approx(20.0)
            assert row["enter_s"] <= row["download_s"] <= row["end_s"] <= row["leave_s"] + 1e-9


def test_the_expectation_comes_with_the_first_rounds_and_holds_the_simulated_mean(page: PageServer) -> None:
    _, came = page.post("/api/road", asked(0, 1))
    assert came["expected_uploads"] == theory.expected_uploads(load_scenario("paper"), 24, 11.776)
    mean = simulate(load_scenario("paper"), 24, 11.776, 20_000, seed=3).mean_uploads.value
    # Twice the 95 % band: it must not be so wide that it says nothing, and independent rounds would give this.
    assert abs(mean - came["expected_uploads"]) < 2 * came["reach"] / 20_000**0.5
    assert 1.0 < came["reach"] / (1.96 * came["expected_uploads"] ** 0.5) < 2.0
    assert "expected_uploads" not in page.post("/api/road", asked(1, 1))[1]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"local_steps": 0}, "H must be a whole number from 1 to 200000, got"),
        ({"local_steps": 2.5}, "H must be a whole number from 1 to 200000, got"),
        ({"round_s": 0}, "T must be a number from 0.001 to 1e+09, got"),
        ({"round_s": "1"}, "T must be a number from 0.001 to 1e+09, got"),
        ({"round_s": 5e-324}, "T must be a number from 0.001 to 1e+09, got 5e-324"),
        ({"round_s": 1e308}, "T must be a number from 0.001 to 1e+09, got 1e+308"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"count": 201}, "count must be a whole number from 1 to 200, got 201"),
        ({"first": 20_000}, "first must be a whole number from 0 to 19995, got 20000"),
        ({"tables": {"traffic": {"arrivals_per_s": 1e6}}}, "a round must have at most 400 vehicles"),
        ({"tables": {"traffic": {"arrivals_per_s": 1e5, "participation": 1e-4}}}, "at most 2000000 vehicles"),
        (
            {"tables": {"traffic": {"participation": 1e-9}}},
            "traffic.participation must be >= 0.0001 to be drawn, got 1e-09",
        ),
        ({"tables": None}, "a scenario must be a mapping of tables, got None"),
    ],
)
def test_rounds_that_would_cost_too_much_are_refused(page: PageServer, values: Any, sentence: str) -> None:
    status, (line,) = errors(page.post("/api/road", asked(0, 5) | values))
    assert status == 400
    assert sentence in line


# ---- traces -----------------------------------------------------------------------------------------


def upload(page: PageServer, name: str, content: bytes, section: str = "", tables: Any = PAPER) -> tuple[int, Any]:
    query = urlencode({"name": name, "section": section, "tables": json.dumps(tables)})
    status, answer, _ = page.ask("POST", f"/api/trace?{query}", content)
    return status, json.loads(answer)


@pytest.fixture(scope="module")
def platoons(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Eight vehicles together every 80 seconds, as a signal lets them go."""
    enter = np.concatenate([80.0 * k + np.arange(8.0) for k in range(100)])
    file = tmp_path_factory.mktemp("trace") / "platoons.csv"
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 20.0), file)
    return file.read_bytes()


def test_a_trace_is_compared_with_poisson_traffic(page: PageServer, platoons: bytes) -> None:
    status, came = upload(page, "platoons.csv", platoons)
    assert status == 200
    assert (came["crossings"], came["dwell_s"]) == (800, pytest.approx(20.0))
    own, theorem = came["simulations"]
    assert (own["title"], theorem["title"]) == ("the trace's own plan", "Theorem 1's plan")
    assert theorem["empty_prob"] > theorem["poisson_empty_prob"] + 0.1  # platoons leave more rounds empty
    assert own["expected_empty_prob"] == pytest.approx(1 - came["plan"]["valid_round_prob"])
    assert "not Poisson" in theorem["warning"]
    assert came["plan"]["objective"] > came["plan"]["poisson_plan"]["real_objective"]
    assert came["anytime"]["knows"] == "nothing"
    assert came["anytime"]["objective"] > came["plan"]["objective"]
    assert came["anytime"]["averaged_objective"] < came["anytime"]["objective"]
    for each in (own, theorem):
        assert sum(each["histogram"]) == pytest.approx(1.0)
        assert each["histogram"][0] == pytest.approx(each["empty_prob"])
        assert each["poisson"][0] == pytest.approx(each["poisson_empty_prob"])
    lines = came.pop("commands")["lines"]
    status, again = upload(page, "platoons.csv.gz", gzip.compress(platoons))
    assert again.pop("commands")["lines"] == [line.replace("platoons.csv", "platoons.csv.gz") for line in lines]
    assert (status, again) == (200, came)


def test_sumos_files_are_read_too(page: PageServer) -> None:
    trips = "".join(f'<tripinfo id="v{i}" depart="{10 * i}" arrival="{10 * i + 20}"/>' for i in range(200))
    status, came = upload(page, "tripinfo.xml", f"<tripinfos>{trips}</tripinfos>".encode())
    assert (status, came["crossings"]) == (200, 200)
    lines = [f"{t},{i},{20.0 * (t - 10 * i)},0" for t in range(1000) for i in range(t // 10 - 4, t // 10 + 1) if i >= 0]
    fcd = "\n".join(["time,id,x,y", *lines]).encode()
    status, came = upload(page, "fcd.csv", fcd, "box:0,-5,400,5")
    assert (status, came["dwell_s"]) == (200, pytest.approx(20.0, abs=0.5))
    status, lines = errors(upload(page, "fcd.csv", fcd))
    assert (status, lines) == (
        400,
        ["trace 'fcd.csv' holds positions: a section must say which part of the road counts"],
    )


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"vehicle,enter_s,leave_s\n1,5,2\n", "a.csv, line 2: there must be leave_s >= enter_s"),
        ("a.csv", b"vehicle,enter_s,leave_s\n1,x,2\n", "a.csv, line 2: there must be a number in enter_s, got 'x'"),
        ("a.csv", b"", "a.csv, line 1: there must be a header and rows, got an empty file"),
        ("a.csv", b"\xff\xfe\x00", "must be complete text"),
        ("a.csv", b"vehicle,enter_s,leave_s\n1,1,2\n", "crossings must span some time between enterings"),
        ("../../etc/passwd", b"x", "a trace must be a .csv, .txt or .xml file (.gz allowed), got 'passwd'"),
        ("a.parquet", b"PAR1", "a trace must be a .csv, .txt or .xml file"),
        ("", b"x", "a trace must be a .csv, .txt or .xml file"),
        ("a.csv.gz", b"no gzip", "a .gz file must be packed by gzip"),
        ("a.csv.gz", gzip.compress(b"vehicle,enter_s,leave_s\n" * 9, mtime=0)[:-9], "a .gz file must be complete"),
        ("a.csv.gz", gzip.compress(b" " * 40_000_000), "at most 32 MB when unpacked"),
        ("a.xml", b'<!DOCTYPE x [<!ENTITY y "z">]><tripinfos/>', "a.xml, line 1: there must be elements only"),
        ("<img src=x>.csv", b"vehicle,enter_s,leave_s\n1,x,2\n", "<img src=x>.csv, line 2"),
    ],
)
def test_a_broken_trace_is_told_with_its_own_name_and_line(
    page: PageServer, name: str, content: bytes, sentence: str
) -> None:
    status, lines = errors(upload(page, name, content))
    assert status == 400
    assert sentence in lines[0]
    assert "mobfl-" not in lines[0]  # where we put it is nobody's business


def test_a_wrong_section_or_scenario_beside_a_trace_is_told(page: PageServer, platoons: bytes) -> None:
    assert errors(upload(page, "a.csv", platoons, "here"))[1][0].startswith("section must be edge:ID")
    assert errors(upload(page, "a.csv", platoons, tables=[]))[1] == ["what is sent must be a JSON object, got list"]
    assert errors(upload(page, "a.csv", platoons, tables={"road": 1}))[1] == ["road must be a table, got 1"]


def test_too_large_an_upload_is_refused_before_it_is_read(page: PageServer) -> None:
    with pytest.raises(HTTPException) as refused:
        asyncio.run(_read_endless(1000))
    assert refused.value.status_code == 413
    status, answer, _ = page.ask("POST", "/api/trace?name=a.csv", b"", {"Content-Length": "40000000"})
    assert (status, json.loads(answer)["errors"]) == (413, ["what is sent must be at most 32 MB, got more"])


async def _read_endless(most_bytes: int) -> bytes:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    return await read_body(Request({"type": "http", "headers": []}, receive), most_bytes)


# ---- runs -------------------------------------------------------------------------------------------


def first_event(page: PageServer) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
    connection.request("GET", "/api/live", headers=page.cookie)
    response = connection.getresponse()
    assert response.headers["content-type"].startswith("text/event-stream")
    line = response.readline().decode()
    connection.close()
    return json.loads(line.removeprefix("data: "))


def test_the_stream_begins_with_all_runs(page: PageServer, runs: Path) -> None:
    rows = {row["run"]: row for row in first_event(page)["rows"]}
    assert set(rows) == {folder.relative_to(runs).as_posix() for folder in (f.parent for f in runs.rglob("run.json"))}
    row = rows["<b>6</b>-1"]
    assert (row["local_steps"], row["round_s"], row["seed"], row["status"]) == (10, 6.0, 1, "done")
    assert row["objective"] == theory.objective(Scenario.from_dict(SMALL), 10, 6.0)
    best = mobfl.read_history(runs / "<b>6</b>-1").best("count")
    assert row["kpis"]["count"] == {"label": "count", "best": best, "more_is_better": True, "leads": False}
    assert row["setting"] == rows["<b>9</b>-1"]["setting"]


def test_a_curve_is_the_runs_history(page: PageServer, runs: Path) -> None:
    history = mobfl.read_history(runs / "<b>6</b>-1")
    status, answer, _ = page.ask("GET", f"/api/curve?{urlencode({'run': '<b>6</b>-1', 'column': 'loss'})}")
    curve = json.loads(answer)
    assert status == 200
    assert curve["now"] == [40.0, *history.columns["loss"].tolist()]
    assert curve["best"] == np.minimum.accumulate(curve["now"]).tolist()
    assert curve["time_s"] == [0.0, *history.columns["end_s"].tolist()]


def test_a_folder_is_read_again_only_where_it_has_changed(tmp_path: Path) -> None:
    road = Scenario.from_dict(SMALL)
    train(Job(CountingTask(), road, (10, 6.0), 1), tmp_path / "a")
    train(Job(CountingTask(), road, (10, 6.0), 2), tmp_path / "b")
    folder = RunsFolder(tmp_path)
    before = dict(folder.look())
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.json").write_text("{")
    description = json.loads((tmp_path / "b" / "run.json").read_text())
    (tmp_path / "b" / "run.json").write_text(json.dumps(description | {"status": "interrupted"}))
    after = folder.look()
    assert after["a"] is before["a"]
    assert (before["b"].row["status"], after["b"].row["status"]) == ("done", "interrupted")
    assert after["c"].row["status"] == "unreadable"
    assert "must be JSON" in after["c"].row["reason"]


def test_a_sweeps_runs_have_their_studies_and_those_to_come_are_waiting(tmp_path: Path) -> None:
    train(Job(CountingTask(), Scenario.from_dict(SMALL), (10, 6.0), 1), tmp_path / "runs" / "first")
    entry = {"task": "counting", "study": "steps", "label": "a label"}
    runs = [entry | {"run": name} for name in ("first", "second", "../../outside")]
    (tmp_path / "sweep.json").write_text(json.dumps({"title": "t", "hopeless_plans": 0, "runs": runs}))
    rows = {name: seen.row for name, seen in RunsFolder(tmp_path).look().items()}
    assert {name: (row["status"], row["study"]) for name, row in rows.items()} == {
        "first": ("done", "steps"),
        "second": ("waiting", "steps"),
    }


@pytest.mark.parametrize(
    "name", ["..", "../secret", "/etc/passwd", "%2e%2e/secret", "a/../../secret", "", "\0", "linked"]
)
def test_no_name_leads_out_of_the_folder(page: PageServer, runs: Path, name: str) -> None:
    secret = runs.parent / "secret"
    if not secret.exists():
        train(Job(CountingTask(), Scenario.from_dict(SMALL), (10, 6.0), 1), secret)
        (runs / "linked").symlink_to(secret)
        (runs / "half").mkdir()
        (runs / "half" / "run.json").symlink_to(secret / "run.json")
    for given in (quote(name), quote(quote(name))):
        status, answer, _ = page.ask("GET", f"/api/curve?column=loss&run={given}")
        assert (status, "run must be one of the folder's" in json.loads(answer)["errors"][0]) == (400, True)
    assert {"linked", "half", "secret"}.isdisjoint(row["run"] for row in first_event(page)["rows"])


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/server.py",
        "//etc/passwd",
        "/static/../server.py",
        "/page.css/",
        "/x\0",
    ],
)
def test_no_path_leads_out_of_the_pages_own_files(page: PageServer, path: str) -> None:
    status, answer, _ = page.ask("GET", path.replace("\0", "%00"))
    assert status == 404
    assert b"import" not in answer


def test_without_a_folder_runs_are_not_found() -> None:
    with page_server() as server:
        for path in ("/api/live", "/api/curve?run=a&column=loss"):
            status, answer, _ = server.ask("GET", path)
            assert (status, "mobfl app --runs FOLDER" in json.loads(answer)["errors"][0]) == (404, True)


# ---- who may ask ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"Host": "evil.example"}, "Host"),
        ({"Host": "evil.example:{port}"}, "Host"),
        ({"Host": "127.0.0.1.evil.example:{port}"}, "Host"),
        ({"Host": "192.168.1.7:{port}"}, "Host"),
        ({"Host": "[::bad"}, "Host"),
        ({"Origin": "http://evil.example"}, "Origin"),
        ({"Origin": "null"}, "Origin"),
        ({"Origin": "https://127.0.0.1:{port}"}, "Origin"),
        ({"Origin": "http://127.0.0.1:1"}, "Origin"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "another site"),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, "another site"),
    ],
)
@pytest.mark.parametrize("request_line", [("GET", "/"), ("GET", "/api/live"), ("POST", "/api/plan")])
def test_strangers_are_refused(
    page: PageServer, headers: dict[str, str], word: str, request_line: tuple[str, str]
) -> None:
    given = {name: value.format(port=page.port) for name, value in headers.items()}
    status, answer, _ = page.ask(*request_line, b"{}", given)
    assert status == 403
    assert word in json.loads(answer)["errors"][0]


def test_the_page_itself_may_ask_under_the_names_of_this_computer(page: PageServer) -> None:
    for host in (f"127.0.0.1:{page.port}", f"localhost:{page.port}", f"[::1]:{page.port}"):
        given = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert page.ask("POST", "/api/plan", b"{}", given)[0] == 200
    assert page.ask("GET", "/", None, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


@pytest.mark.parametrize(
    ("bound", "host", "answered"),
    [
        ("0.0.0.0", "192.168.1.7:8000", True),
        ("0.0.0.0", "evil.example:8000", False),
        ("::", "[fe80::1]:8000", True),
        ("tower.local", "tower.local:8000", True),
        ("tower.local", "192.168.1.7:8000", False),
        ("Tower", "tower:8000", True),
        ("tower", "TOWER:8000", True),
        ("Tower", "tower.:8000", True),
        ("Tower.", "tower", True),
        ("Tower", "tower.evil.example:8000", False),
        ("Tower", "tower@evil.example", False),
        ("Tower", "evil.example/@tower", False),
        ("Tower", "tower:no-port", False),
        ("FE80::0:1", "[fe80::1]:8000", True),
        ("127.0.0.1", "LocalHost:8000", True),
        ("127.0.0.1", "[0:0::1]:8000", True),
        ("127.0.0.1", "", False),
    ],
)
def test_served_more_widely_it_answers_to_addresses_but_not_to_strange_names(
    bound: str, host: str, answered: bool
) -> None:
    assert (refusal(Headers({"host": host}), bound) is None) == answered


def test_the_origin_is_compared_as_the_host_is() -> None:
    for origin, answered in (("http://TOWER:8000", True), ("http://tower.:8000", True), ("http://tower", False)):
        assert (refusal(Headers({"host": "tower:8000", "origin": origin}), "Tower") is None) == answered


@pytest.mark.parametrize("path", ["/", "/main.js", "/api/start", "/api/nothing"])
def test_every_answer_tells_the_browser_to_trust_nobody_else(page: PageServer, path: str) -> None:
    headers = page.ask("GET", path)[2]
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_it_listens_on_this_computer_only(page: PageServer) -> None:
    ports = Path("/proc/net/tcp")
    if not ports.exists():
        pytest.skip("needs Linux's list of sockets")
    listening = [line.split()[1] for line in ports.read_text().splitlines()[1:] if line.split()[3] == "0A"]
    assert [address for address in listening if address.endswith(f":{page.port:04X}")] == [f"0100007F:{page.port:04X}"]


# ---- the command ------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mobfl", "app", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_wrong_options_are_told_in_a_sentence(page: PageServer, tmp_path: Path) -> None:
    for arguments, sentence in (
        (("--port", "0"), "--port must be 1 to 65535, got 0"),
        (("--port", "65536"), "--port must be 1 to 65535, got 65536"),
        (("--port", str(page.port)), f"--port {page.port} of 127.0.0.1 must be free, got: Address already in use"),
        (("--runs", str(tmp_path / "none")), "--runs must be a folder, got"),
        (("--port", str(free_port()), "--host", "no such host"), "--host must be a name or address of this computer"),
    ):
        done = run(*arguments, "--no-browser")
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith(sentence)
        assert len(done.stderr.splitlines()) == 1


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else found(name))
    came = CliRunner().invoke(cli, ["app"])
    assert isinstance(came.exception, MissingExtraError)  # status 1
    assert str(came.exception) == "the page needs the extra 'app': pip install 'mobfl[app]'"


def test_ctrl_c_ends_it_at_once_with_a_stream_open_and_work_under_way(runs: Path, platoons: bytes) -> None:
    with page_server("--runs", str(runs)) as server:
        stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        stream.request("GET", "/api/live", headers=server.cookie)
        assert stream.getresponse().readline().startswith(b"data: ")
        busy = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        query = urlencode({"name": "a.csv", "tables": json.dumps({"compute": {"min_step_s": 0.001}})})
        busy.request("POST", f"/api/trace?{query}", platoons, server.cookie)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=20) == 130
        stream.close()
        busy.close()
