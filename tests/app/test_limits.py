"""What one request may take: time, memory, places; and that nothing is left when somebody stops."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from fake_task import CountingTask
from mobfl import Crossings, InputError, Job, Scenario, train
from mobfl.app import requests
from mobfl.app.requests import read_body
from mobfl.app.runs import RunsFolder
from mobfl.app.workers import Lane, Limits
from mobfl.mobility.recorded import write_crossings
from page_server import PATIENCE_S, PageServer, page_server

SMALL = Scenario.from_dict({"training": {"samples_per_vehicle": 32, "batch_size": 8, "duration_s": 60.0}})


def wait_until(condition: Callable[[], object], most_s: float = PATIENCE_S) -> None:
    for _ in range(int(20 * most_s)):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("never came true")


# ---- one lane ---------------------------------------------------------------------------------------


def lane(seconds: float = 60, mib: int = 512, at_once: int = 1, waiting: int = 1) -> Lane:
    return Lane("a sum", "mobfl sum", Limits(seconds, mib, at_once, waiting))


def run(function: Callable[..., Any], *given: Any, **limits: Any) -> Any:
    async def asked() -> Any:
        return await lane(**limits).run(function, *given)

    return asyncio.run(asked())


def test_work_is_done_in_another_process_and_comes_back_as_json() -> None:
    assert run(sum, [1, 2, 3]) == (200, b"6")
    assert int(run(os.getpid).content) != os.getpid()


def test_work_that_takes_too_long_or_too_much_is_ended_with_a_sentence() -> None:
    rule = "a sum must take at most {} in the page, got more; mobfl sum has no such limit"
    with pytest.raises(InputError) as refused:
        run(time.sleep, 600, seconds=0.5)
    assert str(refused.value) == rule.format("0.5 s")
    with pytest.raises(InputError) as refused:
        run(bytearray, 400 << 20, mib=100)
    assert str(refused.value) == rule.format("100 MiB")


def test_input_errors_are_answers_and_a_worker_that_dies_is_a_mistake_of_ours() -> None:
    status, content = run(Scenario.from_dict, {"road": {"length_m": -5}})
    assert (status, json.loads(content)) == (400, {"errors": ["road.length_m must be > 0, got -5"]})
    with pytest.raises(RuntimeError, match="a worker ended with status -9"):
        run(signal.raise_signal, signal.SIGKILL)


def test_there_are_only_so_many_places() -> None:
    full = lane(at_once=1, waiting=1)
    with full.place(), full.place():
        with pytest.raises(HTTPException) as refused, full.place():
            raise AssertionError("let in")
        assert refused.value.status_code == 429
        assert refused.value.detail.startswith("at most 2 requests for a sum may wait at once, got one more")
    with full.place():  # those that have left gave theirs back
        pass


# ---- traces -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A trace for minutes: 20,000 vehicles, of which 2,000 are there at once."""
    enter = np.arange(20_000.0)
    file = tmp_path_factory.mktemp("trace") / "endless.csv"
    write_crossings(Crossings(np.arange(len(enter)), enter, enter + 2_000.0), file)
    return file.read_bytes()


@pytest.fixture(scope="module")
def long_to_read() -> bytes:
    """A trace whose reading alone takes seconds."""
    rows = (f"{i},{i},{i + 20}" for i in range(400_000))
    return "\n".join(["vehicle,enter_s,leave_s", *rows]).encode()


def begin_trace(page: PageServer, content: bytes, job: str = "") -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE_S)
    query = urlencode({"name": "a.csv", "job": job})
    connection.request("POST", f"/api/trace?{query}", content, page.cookie)
    return connection


def answer_of(connection: http.client.HTTPConnection) -> tuple[int, list[str]]:
    with closing(connection):
        response = connection.getresponse()
        return response.status, json.loads(response.read())["errors"]


def at_work(page: PageServer, count: int) -> None:
    wait_until(lambda: len(page.workers()) == count)


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with page_server() as server:
        yield server


def test_planning_does_not_wait_for_traces_and_each_can_be_cancelled(page: PageServer, endless: bytes) -> None:
    traces = {f"job-{i}": begin_trace(page, endless, f"job-{i}") for i in range(4)}
    at_work(page, 2)  # the other two wait
    status, told = page.post("/api/plan", {})
    assert (status, told["plan"]["local_steps"]) == (200, 24)
    at_work(page, 2)  # all of that before any trace was done
    for name, trace in traces.items():
        status, answer, _ = page.ask("DELETE", f"/api/trace?job={name}")
        assert (status, json.loads(answer)) == (200, {"cancelled": True})
        assert answer_of(trace) == (409, ["this was cancelled"])
    at_work(page, 0)
    status, answer, _ = page.ask("DELETE", "/api/trace?job=job-0")
    assert (status, json.loads(answer)["errors"]) == (404, ["job must be under way, got 'job-0'"])


def test_who_goes_away_leaves_no_work_behind(page: PageServer, endless: bytes) -> None:
    trace = begin_trace(page, endless)
    at_work(page, 1)
    trace.close()
    at_work(page, 0)


def test_names_of_jobs_are_plain_and_new(page: PageServer, endless: bytes) -> None:
    trace = begin_trace(page, endless, "mine")
    at_work(page, 1)
    assert answer_of(begin_trace(page, endless, "mine")) == (
        400,
        ["job must be a new name, got 'mine', which is under way"],
    )
    assert answer_of(begin_trace(page, endless, "a b"))[1] == ["job must be 1 to 64 letters, digits, - or _, got 'a b'"]
    trace.close()
    at_work(page, 0)


def few_traces(seconds: float) -> dict[str, str]:
    return {"mobfl.app.server:TRACES": f"mobfl.app.server.Limits(seconds={seconds}, mib=512, at_once=1, waiting=1)"}


def test_one_trace_too_many_is_refused(endless: bytes) -> None:
    with page_server(limits=few_traces(600)) as page:
        traces = [begin_trace(page, endless) for _ in range(2)]
        at_work(page, 1)
        wait_until(lambda: answer_of(begin_trace(page, b""))[0] == 429)  # once the second one is seen too
        _, (line,) = answer_of(begin_trace(page, b""))
        assert line.startswith("at most 2 requests for the comparison of a trace may wait at once, got one more")
        for trace in traces:
            trace.close()
        at_work(page, 0)
        assert answer_of(begin_trace(page, b""))[0] == 400  # there is room again


def test_a_trace_that_takes_too_long_is_ended(endless: bytes) -> None:
    with page_server(limits=few_traces(1)) as page:
        rule = "the comparison of a trace must take at most 1 s in the page, got more"
        sentence = f"{rule}; mobfl plan --trace FILE has no such limit"
        assert answer_of(begin_trace(page, endless)) == (400, [sentence])
        at_work(page, 0)


def alive(pid: int) -> bool:
    """Whether it runs; one that is dead but not yet buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_page_and_leave_no_file(
    long_to_read: bytes, tmp_path: Path, number: signal.Signals
) -> None:
    with page_server(environment={"TMPDIR": str(tmp_path)}) as page, closing(begin_trace(page, long_to_read)):
        at_work(page, 1)
        (worker,) = page.workers()
        wait_until(lambda: unnamed_files(worker))  # it reads the trace
        page.process.send_signal(number)
        _, said = page.process.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not alive(worker))
    assert said.strip() == ""  # but for the line that Ctrl-C ends
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def unnamed_files(pid: int) -> list[str]:
    """Files that a process has open and nobody else can find."""
    try:
        return [path for fd in Path(f"/proc/{pid}/fd").iterdir() if "(deleted)" in (path := str(fd.readlink()))]
    except OSError:
        return []


# ---- slow senders -----------------------------------------------------------------------------------


def send(page: PageServer, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE_S)
    connection.sendall(text.encode())
    return connection


def all_of(connection: socket.socket) -> str:
    with connection, connection.makefile("rb") as answer:
        return answer.read().decode()


def test_uploads_and_headers_that_stop_coming_are_given_up(tmp_path: Path) -> None:
    limits = {"mobfl.app.requests:MOST_IDLE_S": "0.5", "mobfl.app.serving:MOST_HEAD_S": "0.5"}
    with page_server(limits=limits, environment={"TMPDIR": str(tmp_path)}) as page:
        head = f"Host: 127.0.0.1\r\nCookie: {page.cookie['Cookie']}\r\nContent-Length: 1000\r\n\r\n"
        for path in ("/api/trace?name=a.csv", "/api/plan", "/api/road"):
            answer = all_of(send(page, f"POST {path} HTTP/1.1\r\n{head}vehicle"))
            assert answer.startswith("HTTP/1.1 408 ")
            assert "must come within 120 s and without a break of 0.5 s, got 7 bytes until then" in answer
        for part in ("", "GET / HT", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCook"):
            answer = all_of(send(page, part))
            assert answer.startswith("HTTP/1.1 408 ")
            assert answer.endswith("a request's headers must come within 0.5 s, got none or only a part")
        assert page.ask("POST", "/api/plan", b"{}")[0] == 200


def test_a_page_that_is_killed_during_an_upload_leaves_no_file(tmp_path: Path) -> None:
    with page_server(environment={"TMPDIR": str(tmp_path)}) as page:
        head = f"Host: 127.0.0.1\r\nCookie: {page.cookie['Cookie']}\r\nContent-Length: 2000000\r\n\r\n"
        upload = send(page, f"POST /api/trace?name=a.csv HTTP/1.1\r\n{head}" + "x" * 1_000_000)
        page.ask("POST", "/api/plan", b"{}")
        page.process.kill()
        page.process.wait()
        upload.close()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_body_that_comes_in_drops_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_BODY_S", 0.3)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(HTTPException) as refused:
        asyncio.run(read_body(Request({"type": "http", "headers": []}, receive), 1000))
    assert refused.value.status_code == 408
    assert "within 0.3 s" in refused.value.detail


# ---- pipes in the place of files --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "rounds.parquet", "timing.json"])
def test_a_pipe_in_the_place_of_a_runs_file_blocks_nothing(tmp_path: Path, name: str) -> None:
    for run in ("good", "odd"):
        train(Job(CountingTask(), SMALL, (10, 6.0), 1), tmp_path / run)
    (tmp_path / "odd" / name).unlink()
    os.mkfifo(tmp_path / "odd" / name)
    os.mkfifo(tmp_path / "sweep.json")
    program = (
        "import json, sys; from pathlib import Path; from mobfl.app.runs import RunsFolder\n"
        "seen = RunsFolder(Path(sys.argv[1])).look()\n"
        "print(json.dumps({run: [each.row['status'], each.row.get('reason')] for run, each in seen.items()}))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, timeout=PATIENCE_S, check=True
    )
    assert json.loads(done.stdout) == {
        "good": ["done", None],
        "odd": ["unreadable", f"{name} must be a file, got something else"],
    }
    with pytest.raises(InputError, match=f"{name} must be a file, got something else"):
        RunsFolder(tmp_path).curve("odd", "loss")
