"""The token: who is let in, how it comes, and where it is not to be seen."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from browser import chromium, until
from fake_task import CountingTask
from mobfl import Job, Scenario, train
from mobfl.app.serving import _leading_to
from page_server import TOKEN, PageServer, free_port, page_server

PRIVATE = [
    ("GET", "/"),
    ("GET", "/index.html"),
    ("GET", "/main.js"),
    ("GET", "/api/start"),
    ("GET", "/api/live"),
    ("GET", "/api/curve?run=private&column=loss"),
    ("POST", "/api/plan"),
    ("POST", "/api/anytime"),
    ("POST", "/api/road"),
    ("POST", "/api/trace?name=a.csv"),
    ("DELETE", "/api/trace?job=a"),
    ("GET", "/nothing"),
    ("HEAD", "/"),
    ("OPTIONS", "/"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("runs")
    road = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}})
    train(Job(CountingTask(), road, (10, 6.0), 1), folder / "private")
    with page_server("--runs", str(folder)) as server:
        yield server


# ---- strangers --------------------------------------------------------------------------------------


def as_cookie(page: PageServer, token: str, port: int = 0) -> dict[str, str]:
    return {"Cookie": f"mobfl-token-{port or page.port}={token}"}


@pytest.mark.parametrize(("method", "path"), PRIVATE)
def test_who_has_no_token_sees_nothing_and_reads_where_it_is(page: PageServer, method: str, path: str) -> None:
    status, answer, headers = page.ask_as_stranger(method, path, b"{}")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert "set-cookie" not in headers
    if method != "HEAD":
        (line,) = json.loads(answer)["errors"]
        assert line.startswith("this page needs its token: open the address with ?token=… that mobfl app printed")


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "mobfl-token-{port}=another-token"},
        {"Cookie": "mobfl-token-{port}="},
        {"Cookie": "mobfl-token-{port}=\N{LATIN SMALL LETTER E WITH ACUTE}"},
        {"Cookie": f"mobfl-token-{{port}}={TOKEN} and more"},
        {"Cookie": f"mobfl-token-1={TOKEN}"},
        {"Authorization": "Bearer another-token"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
    ],
)
def test_a_wrong_token_is_none(page: PageServer, headers: Mapping[str, str]) -> None:
    given = {name: value.format(port=page.port) for name, value in headers.items()}
    for path in ("/", "/api/live", "/api/start"):
        status, answer, _ = page.ask_as_stranger("GET", path, headers=given)
        assert status == 401
        assert "token" in json.loads(answer)["errors"][0]


@pytest.mark.parametrize("token", ["another-token", "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%00", "%ff"])
def test_a_wrong_token_in_the_address_is_none_and_is_not_repeated(page: PageServer, token: str) -> None:
    status, answer, headers = page.ask_as_stranger("GET", f"/?token={token}")
    assert (status, "set-cookie" in headers) == (401, False)
    (line,) = json.loads(answer)["errors"]
    assert line.startswith("the token must be this page's, got another")
    assert token not in line or not token


def test_a_token_in_the_address_of_a_question_is_not_taken(page: PageServer) -> None:
    assert page.ask_as_stranger("POST", f"/api/plan?token={TOKEN}", b"{}")[0] == 401


def test_a_person_reads_the_sentence_as_a_page(page: PageServer) -> None:
    status, answer, headers = page.ask_as_stranger("GET", "/", headers={"Accept": "text/html,*/*"})
    assert (status, headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert b"This page needs its token: open the address with ?token=" in answer
    assert page.ask_as_stranger("GET", "/page.css")[0] == 200  # which that page looks like


# ---- who has it -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("/?token={}", "/"),
        ("/api/start?token={}", "/api/start"),
        ("/?a=1&token={}&b=%26", "/?a=1&b=%26"),
        ("//evil.example/?token={}", "/evil.example/"),
        ("/%5Cevil.example?token={}", "/%5Cevil.example"),
    ],
)
def test_the_token_comes_once_with_the_address_and_stays_in_a_cookie(page: PageServer, asked: str, place: str) -> None:
    status, answer, headers = page.ask_as_stranger("GET", asked.format(TOKEN))
    assert (status, answer, headers["location"]) == (303, b"", place)
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert cookie == f"mobfl-token-{page.port}={TOKEN}"
    assert {each.lower() for each in attributes} == {"httponly", "path=/", "samesite=strict"}
    assert headers["referrer-policy"] == "no-referrer"
    assert page.ask_as_stranger("GET", "/", headers={"Cookie": f"other=1; {cookie}"})[0] == 200


def test_after_a_link_on_another_page_the_browser_comes_by_itself(page: PageServer) -> None:
    """It would not send the cookie after a redirection, which counts as that page's."""
    came = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    status, answer, headers = page.ask_as_stranger("GET", f"/?token={TOKEN}", headers=came)
    assert (status, headers["refresh"]) == (200, "0; url=/")
    assert TOKEN.encode() not in answer


def test_a_program_sends_it_in_a_header(page: PageServer) -> None:
    given = {"Authorization": f"bearer {TOKEN}"}
    status, answer, _ = page.ask_as_stranger("POST", "/api/plan", b"{}", given)
    assert (status, json.loads(answer)["plan"]["local_steps"]) == (200, 24)


def test_two_pages_at_once_do_not_disturb_each_other(page: PageServer) -> None:
    with page_server(token="the-other-page") as other:
        both = {"Cookie": f"{page.cookie['Cookie']}; {other.cookie['Cookie']}"}
        assert [each.ask_as_stranger("GET", "/", headers=both)[0] for each in (page, other)] == [200, 200]
        assert other.ask_as_stranger("GET", "/", headers=page.cookie)[0] == 401


def test_it_is_printed_once_and_is_in_no_log() -> None:
    with page_server(token="not-for-the-log") as server:
        server.ask("GET", "/?token=not-for-the-log")
        server.ask("GET", "/nothing?token=not-for-the-log")
        server.ask("POST", "/api/plan?token=not-for-the-log", b"{")
        server.ask("GET", "/?token=not-for-the-log", headers={"Upgrade": "websocket", "Connection": "Upgrade"})
        server.process.terminate()
        assert all("not-for-the-log" not in text for text in server.process.communicate(timeout=120))


# ---- the command ------------------------------------------------------------------------------------


def first_line(*options: str, environment: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, "-m", "mobfl", "app", "--no-browser", "--port", str(free_port()), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline() or process.stderr.readline()
        process.kill()
        return line


def test_every_start_has_a_new_token_unless_one_is_given() -> None:
    tokens = {first_line().partition("?token=")[2].partition(" ")[0] for _ in range(2)}
    assert len(tokens) == 2
    assert all(len(token) >= 40 for token in tokens)
    assert "?token=my-own-token (Ctrl-C" in first_line("--token", "my-own-token")
    assert "?token=from-outside (Ctrl-C" in first_line(environment={"MOBFL_TOKEN": "from-outside"})
    assert "?token=my-own-token (Ctrl-C" in first_line(
        "--token", "my-own-token", environment={"MOBFL_TOKEN": "from-outside"}
    )


RULE = "must be 8 to 128 letters, digits, - or _, got"


def test_tokens_that_an_address_cannot_hold_are_refused_but_not_repeated() -> None:
    assert first_line("--token", "short") == f"--token {RULE} 5 characters\n"
    assert first_line("--token", "") == f"--token {RULE} 0 characters\n"
    assert first_line("--token", "with a space") == f"--token {RULE} 12 characters\n"
    assert first_line(environment={"MOBFL_TOKEN": "a;b=c;d=e"}) == f"MOBFL_TOKEN {RULE} 9 characters\n"
    assert first_line("--no-token", "--token", "my-own-token") == "--token must not be given with --no-token\n"


def test_without_a_token_everybody_is_let_in_and_the_terminal_says_so() -> None:
    with page_server(token=None) as server:
        assert server.ask_as_stranger("POST", "/api/plan", b"{}")[0] == 200
        assert server.process.stderr is not None
        warning = "Every user of this computer can see the page and your runs: there is no token.\n"
        assert server.process.stderr.readline() == warning


def test_the_file_that_leads_a_browser_to_the_page_is_for_its_owner_only() -> None:
    with _leading_to("http://127.0.0.1:8000/?token=a&b") as file:
        assert file is not None
        assert file.stat().st_mode & 0o777 == 0o600
        assert 'content="0;url=http://127.0.0.1:8000/?token=a&amp;b"' in file.read_text()
    assert not file.exists()


# ---- a browser --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def test_the_address_bar_forgets_the_token_and_the_page_works(tab: Any, page: PageServer) -> None:
    tab.goto(f"{page.entrance}#runs")
    tab.wait_for_selector("#runs-table tbody tr")  # the stream has the cookie too
    assert tab.url == f"{page.address}#runs"
    tab.reload()
    tab.wait_for_selector("#runs-table tbody tr")
    assert tab.evaluate("document.cookie") == ""  # no script can read it


def test_a_page_that_was_started_again_says_so(tab: Any, page: PageServer) -> None:
    tab.goto(page.address)
    assert "This page needs its token" in tab.inner_text("main")
    tab.goto(page.entrance)
    tab.wait_for_selector("#results[data-settled=true]")
    tab.context.clear_cookies()
    tab.fill('[id="field-road.length_m"]', "500")
    tab.locator("#plan-says", has_text="this page needs its token").wait_for()


def test_the_file_leads_a_browser_in(tab: Any, page: PageServer) -> None:
    with _leading_to(page.entrance) as file:
        assert file is not None
        tab.goto(file.as_uri())
        tab.wait_for_selector("#results[data-settled=true]")
    assert tab.url.startswith(page.address)
    assert "token" not in tab.url


ELSEWHERE = """<!doctype html><title>elsewhere</title><a id=link href="{entrance}">the page</a>
<form id=form method=post action="{address}api/plan" enctype="text/plain"><input name='{{"a":"' value='"}}'></form>"""


@pytest.fixture
def elsewhere(page: PageServer, tmp_path: Path) -> Iterator[str]:
    """A page of another origin, on another port of this computer."""
    (tmp_path / "index.html").write_text(ELSEWHERE.format(entrance=page.entrance, address=page.address))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(tmp_path))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


ATTEMPTS = """async (address) => {
  const tried = async (path, options) => {
    try {
      const answer = await fetch(address + path, { credentials: "include", ...options });
      return answer.type === "opaque" ? "opaque" : answer.status;
    } catch { return "refused"; }
  };
  return [
    await tried("api/start", {}),
    await tried("api/plan", { method: "POST", body: "{}" }),
    await tried("api/trace?job=a", { method: "DELETE" }),
    await new Promise((done) => {
      const script = Object.assign(document.createElement("script"), { src: address + "main.js" });
      script.onload = () => done("loaded");
      script.onerror = () => done("refused");
      document.head.append(script);
    }),
    await new Promise((done) => {
      const events = new EventSource(address + "api/live", { withCredentials: true });
      events.onmessage = () => done("read");
      events.onerror = () => done("refused");
    }),
  ];
}"""


def test_a_page_of_another_origin_can_do_nothing_though_the_browser_is_let_in(
    tab: Any, page: PageServer, elsewhere: str
) -> None:
    tab.goto(page.entrance)
    tab.wait_for_selector("#results[data-settled=true]")
    tab.goto(elsewhere)
    assert tab.evaluate(ATTEMPTS, page.address) == ["refused"] * 5
    with tab.expect_navigation():
        tab.evaluate("document.querySelector('#form').submit()")
    assert "Origin must be this page" in tab.content()


def test_a_link_with_the_token_on_another_page_leads_in(tab: Any, elsewhere: str) -> None:
    tab.goto(elsewhere)
    tab.click("#link")
    tab.wait_for_selector("#results[data-settled=true]")
    until(tab, "!location.href.includes('token')")
