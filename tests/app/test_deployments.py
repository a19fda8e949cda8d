"""A deployment that goes on: what its events say is what the page shows."""

import json
from pathlib import Path
from typing import Any

import pytest

from browser import until
from deployed_log import Line, line
from fake_task import CountingTask
from mobfl import InputError, Job, Scenario, train
from mobfl.app.deployments import Deployment, told
from mobfl.app.event_tail import EventTail
from mobfl.deploy.events import Event, EventLog, read_events
from page_server import page_server
from page_visits import MARKUP, SMALL, wait_for_text

# b stays and is rejected once; a uploads and leaves; c dies without a word in round 0; d is late in round 0 and trains
# again in round 1.
STORY = [
    line("started", 0, 0.0, unix_s=1000.0, scale=2.0),
    line("began", 0, 0.0, "a"), line("began", 0, 0.0, "b"), line("began", 0, 1.0, "c"), line("began", 0, 2.0, "d"),
    line("uploaded", 0, 6.0, "a"), line("rejected", 0, 7.0, "b", reason=f"not finite {MARKUP}"),
    line("left", 0, 8.0, "a"), line("cut_off", 0, 10.0, "d"), line("ended", 0, 10.0, overshoot_s=0.0),
    line("began", 1, 10.0, "b", 1), line("began", 1, 10.0, "d", 1),
    line("late", 1, 10.5, "d", 0), line("uploaded", 1, 14.0, "b", 1),
]  # fmt: skip


def test_who_is_there_and_what_became_of_whom() -> None:
    now = told(STORY, unix_s=1030.0)
    assert (now["round"], now["over"], now["present"], now["now_s"]) == (1, False, 2, 15.0)
    assert {each["node"]: each["state"] for each in now["vehicles"]} == {"b": "uploaded", "d": "began"}
    assert now["states"] == {"uploaded": 1, "began": 1}
    by_node = {each["node"]: each for each in now["vehicles"]}
    assert (by_node["b"]["uploads"], by_node["b"]["rejected"], by_node["d"]["late"]) == (1, 1, 2)
    assert now["rounds"][0] == {
        "round": 0, "began": 4, "uploads": 1, "late": 1, "rejected": 1, "left": 1, "failed": 0,
    }  # fmt: skip
    assert [each["kind"] for each in now["last"]] == ["late", "rejected"]
    assert told([*STORY, line("ended", 1, 20.0)])["over"] is True


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "began", "round": 0, "at_s": 1.0, "node": ["x"]}, {"kind": "left", "round": 0, "at_s": 1.0, "node": 7},
        {"kind": "uploaded", "round": 10**12, "at_s": -1e9, "node": "z"}, {"kind": "x" * 999, "round": -5, "at_s": 0},
        {"kind": "started", "round": 0, "at_s": 0.0, "scale": 0, "unix_s": "now"},
        {"kind": "rejected", "round": 0, "at_s": 0.0, "node": "b", "reason": {"a": 1}, "vehicle": None},
    ],
)  # fmt: skip
def test_odd_events_do_no_harm(odd: Line) -> None:
    json.dumps(told([odd, *STORY, odd]), allow_nan=False)


def test_only_deployments_are_shown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run must be a deployment with events\.jsonl, got none"):
        Deployment(tmp_path).look()


def _written(lines: list[Line]) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


@pytest.mark.parametrize("most_at_once", [1, 300, 10**9])
def test_a_log_that_grows_is_read_as_if_it_had_been_there_at_once(tmp_path: Path, most_at_once: int) -> None:
    """Also where a server was killed and begins its round again, and where lines come in halves."""
    again = [*STORY[:-2], line("started", 1, 10.0, unix_s=1020.0, scale=2.0), *STORY[-4:]]
    whole, file = _written(again), tmp_path / "events.jsonl"
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "events.jsonl").write_bytes(whole)
    expected = told(read_events(tmp_path / "whole"), unix_s=1030.0)
    tail, seen = EventTail(file, most_at_once), list[Event]()
    for end in [*range(0, len(whole), 97), len(whole)]:
        file.write_bytes(b"") if not file.exists() else None
        with file.open("ab") as log:
            log.write(whole[file.stat().st_size : end])
        more = True
        while more:
            begins_again, events, more = tail.read()
            seen = [*([] if begins_again else seen), *events]
    assert told(seen, unix_s=1030.0) == expected
    assert tail.damaged == 0
    file.write_bytes(_written(STORY[:3]))  # another deployment in the same place
    assert tail.read().begins_again


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    odd = b'{"kind": "began"}\n\x00\xff{{{\n\n[1]\n' + b"x" * 5000 + b"\n"
    file.write_bytes(_written(STORY[:6]) + odd + _written(STORY[6:]) + b'{"kind": "upl')
    now = Deployment(tmp_path).look()
    assert (now["damaged"], now["present"], now["totals"]["uploaded"]) == (4, 2, 2)


def test_of_a_long_deployment_only_those_who_are_there_are_kept(tmp_path: Path) -> None:
    lines = [line("started", 0, 0.0, unix_s=0.0, scale=1.0)]
    for number in range(300):
        for vehicle in range(20):
            node = f"{number // 3}-{vehicle}"  # new ones after every three rounds
            lines += [
                line("began", number, 10.0 * number, node, number),
                line("uploaded", number, 10.0 * number + 5, node, number),
            ]
        lines.append(line("ended", number, 10.0 * number + 10, overshoot_s=0.0))
    (tmp_path / "events.jsonl").write_bytes(_written(lines))
    now = Deployment(tmp_path).look()
    assert (now["present"], now["totals"]["uploaded"], now["round"], now["over"]) == (20, 6000, 299, True)
    assert [each["round"] for each in now["rounds"]] == list(range(288, 300))
    assert {each["uploads"] for each in now["vehicles"]} == {3}


def deployed(folder: Path) -> EventLog:
    """A run that says that it is a deployment, and its log."""
    train(Job(CountingTask(), Scenario.from_dict(SMALL), (10, 6.0), 1), folder)
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "deployment": {"scale": 2.0}}))
    return EventLog(folder / "events.jsonl")


def add(log: EventLog, lines: list[Line]) -> None:
    for each in lines:
        log.add(each["kind"], each["round"], each["at_s"], **{k: v for k, v in each.items() if k not in _FIRST})


_FIRST = ("kind", "round", "at_s")


def test_the_page_follows_a_deployment(browser: Any, tmp_path: Path) -> None:
    log = deployed(tmp_path / "runs" / "deployed")
    add(log, STORY[:6])
    with page_server("--runs", str(tmp_path / "runs")) as server:
        page = browser.new_context(viewport={"width": 390, "height": 900}).new_page()
        page.goto(f"{server.entrance}#runs")
        until(page, "document.querySelector('#deployment-present')?.innerText === '4'")
        assert page.inner_text("#deployment-trains") == "3"
        assert page.inner_text("#deployment-round") == "1"
        add(log, STORY[6:])
        until(page, "document.querySelector('#deployment-present').innerText === '2'")
        shown = [text.split("\t")[:2] for text in page.locator("#deployment-vehicles tbody tr").all_inner_texts()]
        assert shown == [["b", "✓ has uploaded"], ["d", "H trains"]]
        assert page.inner_text("#deployment-rejected") == "1"
        assert page.inner_text("#deployment-late") == "2"
        assert f"b was rejected – not finite {MARKUP}." in page.inner_text("#deployment-last")
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        wait_for_text(page, "#deployment-says", "This deployment does not go on (done): below is how it ended.")
        with (tmp_path / "runs" / "deployed" / "events.jsonl").open("a") as file:
            file.write("half a li\n")
        wait_for_text(page, "#deployment-says", "One line of events.jsonl is damaged, and left out.")
        status, answer, _ = server.ask("GET", "/api/deployment?run=..%2F..")
        assert (status, b"run must be one of the folder" in answer) == (400, True)
        page.context.close()
