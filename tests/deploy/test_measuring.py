"""How long messages take is asked of several nodes, and no one of them decides."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message

from mobfl.deploy.clock import WallClock
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import Answer, answer_message, read_order
from mobfl.deploy.station import measuring
from mobfl.deploy.station.measuring import RoundTrips, measured_round_trips
from mobfl.learning.codecs.plain import Plain

MODEL_SENT = {"w": np.zeros(3, np.float32)}


def echo(message: Message) -> Message:
    order, model = read_order(message)
    return answer_message(message, Answer(order.run, order.round, 1, "x"), Plain().encode(model, model))


def garbage(message: Message) -> Message:
    order, _ = read_order(message)
    return answer_message(message, Answer(order.run, order.round, 1, "x"), b"\0" * 8)


def of_another_run(message: Message) -> Message:
    _, model = read_order(message)
    return answer_message(message, Answer("another", -1, 1, "x"), Plain().encode(model, model))


def without_nonce(message: Message) -> Message:
    reply = echo(message)
    reply.content.config_records["answer"]["nonce"] = "guessed"
    return reply


def measured(folder: Path, *nodes: tuple[float, Callable[[Message], Message]]) -> RoundTrips:
    clock = WallClock(0.0, time.time())

    def node(number: int, delay_s: float, answer: Callable[[Message], Message]) -> InProcessNode:
        return InProcessNode(number, -1.0, math.inf, lambda message, now_s: (answer(message), now_s + delay_s))

    grid = InProcessGrid([node(i, *each) for i, each in enumerate(nodes, 1)], clock)
    return measured_round_trips(grid, "7", MODEL_SENT, EventLog(folder / "events.jsonl"))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as impatient."""
    for name, value in (("_APART_S", 0.05), ("_PATIENCE_S", 3.0), ("_OTHERS_S", 1.0)):
        monkeypatch.setattr(measuring, name, value)


@pytest.mark.parametrize(
    "bad",
    [(math.inf, echo), (0.0, garbage), (0.0, of_another_run), (0.0, without_nonce)],
    ids=["silent", "garbage", "another's", "forged"],
)
def test_a_node_that_is_silent_or_sends_garbage_neither_blocks_nor_decides(
    tmp_path: Path, bad: tuple[float, Callable[[Message], Message]]
) -> None:
    trips = measured(tmp_path, bad, (0.2, echo))  # the bad one is asked first
    assert len(trips.by_node) == 1
    assert len(trips.by_node[0]) == 3  # without the one in which the node gets the app
    assert min(trips.by_node[0]) >= 0.2
    (told,) = (event for event in read_events(tmp_path) if event["kind"] == "measured")
    assert (told["nodes"], told["messages"], told["round_trip_s"]) == (1, 3, told["50%"])


def test_a_node_that_takes_long_does_not_decide() -> None:
    trips = RoundTrips(((1.0, 1.2, 1.1), (1.3, 1.1, 1.2), (20.0, 25.0, 29.0)))
    assert trips.quantile_s(0.5) == 1.2
    assert trips.quantile_s(0.9) == pytest.approx(1.28)
    assert trips.describe()["nodes"] == 3


def test_all_nodes_are_asked_side_by_side(tmp_path: Path) -> None:
    assert len(measured(tmp_path, *[(0.1, echo)] * 3).by_node) == 3
