"""The server's rounds over a grid in this process: who counts, what is refused, and that nothing else is touched."""

import json
import math
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from deployed_road import StoryClock
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import (
    ANSWER,
    MODEL,
    Answer,
    TrainingOrder,
    answer_message,
    has_upload,
    order_message,
    pack_model,
    read_answer,
    read_order,
)
from mobfl.deploy.station.answers import Announced, FetchedAtOnce, FetchedEach, TooLargeError, unreadable
from mobfl.deploy.station.round_loop import NODES_S, Agreement, RoundLoop, RoundSeen, RoundWork, as_rounds
from mobfl.deploy.vehicle.client_app import train
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.rules import merge, rule_named
from mobfl.rounds.rows import Outcome

MODEL_SENT = {"w": np.zeros(3, np.float32)}
T_S = 10.0
AGREED = Agreement(10, Plain())


def good(message: Message) -> Message:
    order, model = read_order(message)
    trained = {name: values + order.local_steps for name, values in model.items()}
    return answer_message(message, Answer(order.run, order.round, 4, "good"), Plain().encode(trained, model))


def after(delay_s: float, answer: Callable[[Message], Message] = good) -> Callable[..., Any]:
    return lambda message, now_s: (answer(message), now_s + delay_s)


def vehicle(node: int, delay_s: float, enter_s: float = -1.0, leave_s: float = math.inf, **how: Any) -> InProcessNode:
    return InProcessNode(node, enter_s, leave_s, after(delay_s, **how))


class Story:
    """Rounds of ten seconds and five steps, one after the other."""

    def __init__(self, folder: Path, *nodes: InProcessNode) -> None:
        self.clock, self.folder = StoryClock(), folder
        self.log = EventLog(folder / "events.jsonl")
        self.loop = RoundLoop(InProcessGrid(nodes, self.clock), self.clock, "run 7", self.log, AGREED)

    def round(self, number: int = 0) -> RoundSeen:
        return self.loop.run_round(RoundWork(number, number * T_S, T_S, 5, 0.1, MODEL_SENT))

    def kinds(self) -> list[tuple[str, str]]:
        return [(event["node"], event["kind"]) for event in read_events(self.folder)]


def test_who_uploads_and_who_does_not(tmp_path: Path) -> None:
    story = Story(
        tmp_path,
        vehicle(1, 4.0),  # there from the start: done at 4
        vehicle(2, 4.0, enter_s=5.0),  # joins in the middle: done at 9
        vehicle(3, 4.0, enter_s=7.0),  # joins too late for this round
        vehicle(4, 6.0, leave_s=5.0),  # leaves before it is done
        vehicle(5, 10.0),  # done as the round ends: equality counts
    )
    rows = as_rounds(RoundWork(0, 0.0, T_S, 5, 0.1, MODEL_SENT), story.round().attempts, 0.0).vehicles
    assert rows is not None
    outcomes = dict(zip(rows.key.tolist(), rows.outcome.tolist(), strict=True))
    assert outcomes == {
        1: Outcome.UPLOADED,
        2: Outcome.UPLOADED,
        3: Outcome.ROUND_OVER,
        4: Outcome.LEFT_EARLY,
        5: Outcome.UPLOADED,
    }
    began = dict(zip(rows.key.tolist(), rows.begin_s.tolist(), strict=True))
    assert began == pytest.approx({1: 0.0, 2: 5.0, 3: 7.0, 4: 0.0, 5: 0.0}, abs=NODES_S + 0.01)
    assert rows.end_s[rows.key.tolist().index(4)] == pytest.approx(5.0, abs=NODES_S + 0.01)
    assert Counter(story.kinds()) == Counter(
        [(str(node), "began") for node in (1, 2, 3, 4, 5)]
        + [(str(node), "uploaded") for node in (1, 2, 5)]
        + [("4", "left"), ("3", "cut_off")]
    )


def test_the_next_round_begins_afresh_and_late_answers_are_counted_not_averaged(tmp_path: Path) -> None:
    story = Story(tmp_path, vehicle(1, 12.0))
    assert story.round(0).uploads == []
    assert story.round(1).uploads == []
    events = [(each["round"], each["kind"], each["attempt"]) for each in read_events(tmp_path)]
    assert events == [(0, "began", 0), (0, "cut_off", 0), (1, "began", 1), (0, "late", 0), (1, "cut_off", 1)]


def test_a_vehicle_that_comes_back_finds_at_most_one_order_that_is_over(tmp_path: Path) -> None:
    """It was asleep for six rounds of three seconds; the SuperLink hands orders out until they expire."""
    lives = list[tuple[float, float]]()

    def asleep(message: Message, _: float) -> tuple[Message, float]:
        begin_s = read_order(message)[0].begin_unix_s
        lives.append((begin_s, begin_s + message.metadata.ttl))
        return good(message), math.inf

    story = Story(tmp_path, InProcessNode(1, -1.0, math.inf, asleep))
    for number in range(7):
        story.loop.run_round(RoundWork(number, number * 3.0, 3.0, 5, 0.1, MODEL_SENT))
    awake_s = lives[6][0] + 0.1
    assert len(lives) == 7
    assert sum(begin_s <= awake_s < expires_s for begin_s, expires_s in lives) == 2


def test_an_order_that_is_over_is_given_up_without_a_step(tmp_path: Path) -> None:
    """Not even its trainer is asked, which is not there."""
    InProcessGrid([], StoryClock())  # which says who sends messages
    order = TrainingOrder("7", 0, 0, 5, 0.1, time.time() - 9, time.time() - 1, nonce="n")
    message = order_message(1, pack_model(MODEL_SENT), order, 10.0)
    reply = train(message, SimpleNamespace(node_config={"trainer": str(tmp_path / "nobody")}, node_id=1))
    assert (has_upload(reply), read_answer(reply).nonce) == (False, "n")


def test_ten_vehicles_that_join_in_the_same_second_all_count(tmp_path: Path) -> None:
    story = Story(tmp_path, *(vehicle(node, 3.0, enter_s=2.0 + node / 10) for node in range(1, 11)))
    assert len(story.round().uploads) == 10


def replied(message: Message, content: RecordDict) -> Message:
    """With the order's nonce, as every answer must."""
    told = content.config_records.get(ANSWER)
    if told is not None:
        told["nonce"] = read_order(message)[0].nonce
    return Message(content, reply_to=message)


def wrong(content: Callable[[int], RecordDict]) -> Callable[[Message], Message]:
    return lambda message: replied(message, content(read_order(message)[0].round))


def said(number: int, **more: Any) -> ConfigRecord:
    return ConfigRecord({"run": "run 7", "round": number, "samples": 4, **more})


def raw(data: bytes) -> ArrayRecord:
    return ArrayRecord({"weights": Array("uint8", (len(data),), "safetensors", data)})


PICKLED = pickle.dumps(print)


GOOD_ARRAYS = {"w": np.ones(3, np.float32)}
NAN = {"w": np.array([1.0, np.nan, 1.0], np.float32)}
BAD: dict[str, tuple[Callable[[Message], Message], str]] = {
    "nan": (wrong(lambda k: RecordDict({MODEL: pack_model(NAN), ANSWER: said(k)})), "not finite"),
    "infinite": (
        wrong(lambda k: RecordDict({MODEL: pack_model({"w": np.full(3, np.inf, np.float32)}), ANSWER: said(k)})),
        "not finite",
    ),
    "another shape": (
        wrong(lambda k: RecordDict({MODEL: pack_model({"w": np.ones(4, np.float32)}), ANSWER: said(k)})),
        "wrong shape",
    ),
    "another type": (
        wrong(lambda k: RecordDict({MODEL: pack_model({"w": np.ones(3)}), ANSWER: said(k)})),  # type: ignore[dict-item]
        "wrong shape",
    ),
    "a thousand times too large": (
        wrong(lambda k: RecordDict({MODEL: pack_model({"w": np.ones(3000, np.float32)}), ANSWER: said(k)})),
        "too large",
    ),
    "other names": (
        wrong(lambda k: RecordDict({MODEL: pack_model({"v": np.ones(3, np.float32)}), ANSWER: said(k)})),
        "another model",
    ),
    "pickled": (wrong(lambda k: RecordDict({MODEL: raw(PICKLED), ANSWER: said(k)})), "unreadable"),
    "no bytes": (wrong(lambda k: RecordDict({MODEL: raw(b""), ANSWER: said(k)})), "unreadable"),
    "arrays of Flower's own": (
        wrong(lambda k: RecordDict({MODEL: ArrayRecord({"w": Array(np.ones(3, np.float32))}), ANSWER: said(k)})),
        "another model",
    ),
    "no samples": (
        wrong(lambda k: RecordDict({MODEL: pack_model(GOOD_ARRAYS), ANSWER: said(k, samples=0)})),
        "without samples",
    ),
    "samples as text": (
        wrong(lambda k: RecordDict({MODEL: pack_model(GOOD_ARRAYS), ANSWER: said(k, samples="many")})),
        "without samples",
    ),
    "a billion samples": (
        wrong(lambda k: RecordDict({MODEL: pack_model(GOOD_ARRAYS), ANSWER: said(k, samples=10**9)})),
        "too many samples",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_answer_is_rejected_and_harms_nobody(tmp_path: Path, case: str) -> None:
    answer, reason = BAD[case]
    story = Story(tmp_path, vehicle(1, 4.0, answer=answer), vehicle(2, 5.0))
    seen = story.round()
    _, model, rejections = merge(rule_named("mean"), {}, MODEL_SENT, seen.uploads)
    assert [*seen.refused, *rejections] == [reason]
    np.testing.assert_array_equal(model["w"], np.full(3, 5.0, np.float32))
    rejected = [event for event in read_events(tmp_path) if event["kind"] == "rejected"]
    assert [(event["node"], event["reason"]) for event in rejected] == [("1", reason)]


GARBAGE = said(0, vehicle=7, returned_unix_s="now", behind_s=[1, 2], colour="red")


def test_garbage_beside_a_good_model_is_ignored(tmp_path: Path) -> None:
    content = RecordDict({MODEL: pack_model(GOOD_ARRAYS), ANSWER: GARBAGE, "more": ConfigRecord({"x": 1})})
    story = Story(tmp_path, vehicle(1, 4.0, answer=lambda message: replied(message, content)))
    assert [upload.samples for upload in story.round().uploads] == [4]
    assert story.loop.landing_s == 0.0


@pytest.mark.parametrize("told", [said(3), ConfigRecord({"run": "run 6", "round": 0, "samples": 4}), None])
def test_an_answer_of_another_round_or_run_is_dropped(tmp_path: Path, told: ConfigRecord | None) -> None:
    content = RecordDict({MODEL: pack_model(GOOD_ARRAYS)} | ({ANSWER: told} if told else {}))
    story = Story(tmp_path, vehicle(1, 4.0, answer=lambda message: replied(message, content)))
    assert story.round().uploads == []
    assert ("1", "dropped") in story.kinds()


def test_an_app_that_breaks_is_an_event_and_no_more(tmp_path: Path) -> None:
    broken = vehicle(1, 2.0, answer=lambda message: Message(Error(2, "division by zero"), reply_to=message))
    story = Story(tmp_path, broken, vehicle(2, 5.0))
    assert len(story.round().uploads) == 1
    assert ("1", "failed") in story.kinds()
    assert len(story.round(1).uploads) == 1


class Told:
    """A mailbox in which answers lie in parts; a part may be missing, or come only after some looks."""

    def __init__(self, **answers: dict[str, bytes | None]) -> None:
        self.answers, self.asked, self.discarded = answers, list[list[str]](), list[str]()

    def look(self, orders: list[str]) -> list[Announced]:
        self.asked.append(orders)
        if "poison" in orders:
            raise ValueError("Invalid protobuf response payload")
        return [Announced(order, tuple(self.answers[order])) for order in orders if order in self.answers]

    def read(self, part: str, most_bytes: int) -> bytes | None:
        content = next(parts[part] for parts in self.answers.values() if part in parts)
        if content is not None and len(content) > most_bytes:
            raise TooLargeError
        return content

    def unpack(self, announced: Announced, contents: dict[str, bytes]) -> Any:
        if b"crooked" in contents.values():
            raise ValueError("Unexpected set of `children`")
        return b"".join(contents[part] for part in announced.parts)

    def discard(self, announced: Announced) -> None:
        self.discarded.append(announced.order)


def fetched(fetch: FetchedEach, *orders: str, until: int, most_bytes: int = 100) -> dict[str, Any]:
    """As the rounds ask, again and again, until so many have come."""
    arrived: dict[str, Any] = {}
    deadline = time.monotonic() + 20
    while len(arrived) < until:
        assert time.monotonic() < deadline, arrived
        arrived |= fetch([each for each in orders if each not in arrived], most_bytes)
        time.sleep(0.001)
    return arrived


def test_each_answer_comes_by_itself(tmp_path: Path) -> None:
    """What is unreadable, too large or incomplete costs nobody else theirs, and a bad one is not kept."""
    box = Told(
        good={"a": b"1", "b": b"2"},
        stuck={"c": b"1", "d": None},
        large={"e": b"1" * 60, "f": b"2" * 60},
        crooked={"g": b"crooked"},
    )
    fetch = FetchedEach(box, readers=1)  # one that never completes does not even hold a thread
    arrived = fetched(fetch, "stuck", "good", "large", "crooked", "nobody", until=3)
    assert arrived["good"] == b"12"
    assert {order: unreadable(arrived[order]) for order in ("large", "crooked")} == {
        "large": "too large",
        "crooked": "unreadable: ValueError",
    }
    assert "stuck" not in box.discarded
    box.answers["stuck"]["d"] = b"2"  # over a slow link it is there at last
    assert fetched(fetch, "stuck", "nobody", until=1) == {"stuck": b"12"}
    assert all("good" not in orders for orders in box.asked[1:])  # what was told is not asked for again


def test_what_nobody_asks_for_any_more_is_given_up() -> None:
    box = Told(stuck={"a": None})
    fetch = FetchedEach(box)
    while not fetch._fetching:
        fetch(["stuck"], 100)
    assert fetch([], 100) == {}
    while not box.discarded:
        time.sleep(0.001)
    assert (box.discarded, fetch._fetching) == (["stuck"], {})


def test_an_answer_with_a_million_parts_is_not_fetched() -> None:
    box = Told(parts={str(number): b"" for number in range(1000)})
    assert unreadable(fetched(FetchedEach(box), "parts", until=1)["parts"]) == "too large"


def test_an_announcement_that_spoils_a_look_spoils_only_the_first() -> None:
    box = Told(good={"a": b"1"})
    arrived = fetched(FetchedEach(box), "poison", "good", until=2)
    assert arrived["good"] == b"1"
    assert unreadable(arrived["poison"]) == "unreadable: ValueError"


def test_a_fetch_that_takes_long_keeps_nobody_waiting() -> None:
    """What is under way at the deadline is late; nothing is lost."""
    go, box = threading.Event(), Told(slow={"a": b"1"})
    box.read = lambda *_: b"1" if go.wait(10) else None  # type: ignore[method-assign]
    fetch = FetchedEach(box)
    for _ in range(100):
        assert fetch(["slow"], 100) == {}
    go.set()
    assert fetched(fetch, "slow", until=1) == {"slow": b"1"}


def test_nobody_can_answer_anothers_order(tmp_path: Path) -> None:
    """Not even whoever knows its message: the nonce went to the addressed node alone."""
    nonces = list[str]()

    def forged(nonce: str | None) -> Callable[[Message], Message]:
        def answer(message: Message) -> Message:
            reply = good(message)
            told = reply.content.config_records[ANSWER]
            nonces.append(str(told["nonce"]))
            del told["nonce"]
            if nonce is not None:
                told["nonce"] = nonce
            return reply

        return answer

    thieves = [vehicle(i, 1.0, answer=forged(nonce)) for i, nonce in enumerate((None, "", "0" * 32, "é\udc80"), 1)]
    story = Story(tmp_path, *thieves, vehicle(9, 2.0))
    assert len(story.round().uploads) == 1
    dropped = {event["node"]: event["reason"] for event in read_events(tmp_path) if event["kind"] == "dropped"}
    assert dropped == dict.fromkeys("1234", "without the order's nonce")
    assert len({*nonces}) == 4
    assert all(len(nonce) == 32 and nonce not in (tmp_path / "events.jsonl").read_text() for nonce in nonces)


class TwiceGrid(InProcessGrid):
    """Gives every answer again and again."""

    def pull_messages(self, message_ids: Any) -> Any:
        kept = dict(self._sent)
        arrived = super().pull_messages(message_ids)
        self._sent.update(kept)
        return [*arrived, *arrived]


def test_a_second_answer_changes_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path, vehicle(1, 4.0), vehicle(2, 12.0))
    story.loop._grid = TwiceGrid(list(story.loop._grid._nodes.values()), story.clock)  # type: ignore[attr-defined]
    story.loop._fetch = FetchedAtOnce(story.loop._grid)
    assert [len(story.round(number).uploads) for number in (0, 1)] == [1, 1]
    assert Counter(story.kinds()) == Counter(
        {("1", "began"): 2, ("1", "uploaded"): 2, ("2", "began"): 2, ("2", "cut_off"): 2, ("2", "late"): 1}
    )


def test_a_vehicle_that_gives_up_is_no_rejection(tmp_path: Path) -> None:
    def gives_up(message: Message) -> Message:
        return answer_message(message, Answer("run 7", 0, 0, "slow"))

    story = Story(tmp_path, vehicle(1, 4.0, answer=gives_up))
    seen = story.round()
    assert (seen.uploads, seen.refused) == ([], ())
    assert story.kinds() == [("1", "began"), ("1", "gave_up")]


def test_events_survive_a_line_that_was_cut_in_half(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    EventLog(file).add("began", 0, 1.5, node="1")
    with file.open("a") as half:
        half.write('{"kind": "uploaded", "rou')
    log = EventLog(file)
    log.add("started", 1, 3.0)
    assert [event["kind"] for event in read_events(tmp_path)] == ["began", "started"]


def test_what_a_killed_server_said_of_its_last_round_is_void(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    for kind, number in (("began", 0), ("uploaded", 0), ("ended", 0), ("began", 1), ("started", 1), ("began", 1)):
        log.add(kind, number, 0.0)
    told = [(event["kind"], event["round"]) for event in read_events(tmp_path)]
    assert told == [("began", 0), ("uploaded", 0), ("ended", 0), ("started", 1), ("began", 1)]
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 6
    assert all(json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines())


@pytest.mark.parametrize(("said_s", "told"), [(3.0, [3.0]), (5.0, []), (-1.0, []), (math.nan, []), (math.inf, [])])
def test_how_long_steps_took_is_told_as_far_as_it_is_possible(tmp_path: Path, said_s: float, told: list[float]) -> None:
    """The answer comes after four seconds."""

    def says(message: Message) -> Message:
        order, model = read_order(message)
        answer = Answer(order.run, order.round, 4, "v", compute_s=said_s)
        return answer_message(message, answer, Plain().encode(model, model))

    Story(tmp_path, vehicle(1, 4.0, answer=says)).round()
    (event,) = (each for each in read_events(tmp_path) if each["kind"] == "uploaded")
    assert [event[key] for key in event if key == "compute_s"] == told


def test_what_a_node_says_of_itself_cannot_harm(tmp_path: Path) -> None:
    """Numbers that are not finite are not said; a long error is cut."""

    def odd(message: Message) -> Message:
        order, model = read_order(message)
        answer = Answer(order.run, order.round, 4, "odd", math.nan, math.nan)
        return answer_message(message, answer, Plain().encode(model, model))

    def failing(message: Message) -> Message:
        return Message(Error(1, "x" * 100_000), reply_to=message)

    story = Story(tmp_path, vehicle(1, 1.0, answer=odd), vehicle(2, 1.0, answer=failing))
    assert len(story.round().uploads) == 1
    text = (tmp_path / "events.jsonl").read_text()
    assert "NaN" not in text
    assert len(text) < 3000
