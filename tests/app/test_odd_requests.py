"""Nothing that is sent to the page has another answer than a good one or a sentence about what is wrong."""

import json
import re
from collections.abc import Iterator

import pytest

from fake_task import CountingTask
from mobfl import Job, Scenario, train
from odd_requests import Odd, odd_requests, send
from page_server import PATIENCE_S, PageServer, page_server

SMALL = {"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}}
ALL = odd_requests()
# What stops coming is waited for, but not for long here.
IMPATIENT = {"mobfl.app.requests:MOST_IDLE_S": "1.0", "mobfl.app.serving:MOST_HEAD_S": "1.0"}


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("runs")
    train(Job(CountingTask(), Scenario.from_dict(SMALL), (10, 6.0), 1), folder / "run")
    with page_server("--runs", str(folder), limits=IMPATIENT) as server:
        yield server


def wrong_with(odd: Odd, answer: bytes) -> str | None:
    """None if it is an answer as it should be."""
    head, _, body = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head.startswith(b"HTTP/1.1 ") else 0
    if not (200 <= status < 300 or 400 <= status < 500):
        return f"status {status}: {answer[:200]!r}"
    if status < 300 or odd.text.startswith(b"HEAD "):
        return None
    first = body[: int(length.group(1))] if (length := re.search(rb"content-length: (\d+)", head)) else body
    lines = json.loads(first)["errors"] if b"application/json" in head else [body.decode()]
    is_sentence = bool(lines) and all(len(line.split()) >= 2 for line in lines)
    return None if is_sentence and b"Traceback" not in body else f"no sentence: {body[:200]!r}"


def refusals(page: PageServer, requests: list[Odd]) -> dict[str, str]:
    found = {odd.name: wrong_with(odd, send(page, odd)) for odd in requests}
    return {name: reason for name, reason in found.items() if reason is not None}


@pytest.mark.parametrize(
    "requests",
    [pytest.param(ALL[::15], id="some"), pytest.param(ALL, id="all", marks=pytest.mark.slow)],
)
def test_odd_requests_have_good_answers_or_sentences_and_the_page_lives_on(
    page: PageServer, requests: list[Odd]
) -> None:
    assert refusals(page, requests) == {}
    status, told = page.post("/api/plan", {})
    assert (status, told["plan"]["local_steps"]) == (200, 24)
    assert page.workers() == []
    page.process.terminate()
    assert "Traceback" not in page.process.communicate(timeout=PATIENCE_S)[1]


def test_there_are_as_many_as_there_should_be() -> None:
    assert len({odd.text for odd in ALL}) >= 972
