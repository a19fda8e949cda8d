"""Answers that are damaged in every way: each is refused in words or harmless, and the honest one always counts."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from safetensors.numpy import save

from deployed_road import StoryClock
from mobfl.deploy.events import EventLog, read_events
from mobfl.deploy.local.in_process import InProcessGrid, InProcessNode
from mobfl.deploy.messages import ANSWER, MODEL, Answer, answer_message, read_order
from mobfl.deploy.station.answers import Announced, Arrived, FetchedAtOnce
from mobfl.deploy.station.mailbox import unpacked
from mobfl.deploy.station.round_loop import Agreement, RoundLoop, RoundWork
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.rules import merge, rule_named

MODEL_SENT = {"w": np.zeros((3, 2), np.float32), "norm.running_var": np.ones(2, np.float32)}
MOST_SAMPLES, HONEST, T_S = 40, 10**6, 10.0
Parts = dict[str, bytes]


def good(message: Message) -> Message:
    order, model = read_order(message)
    trained = {name: values + 1 for name, values in model.items()}
    return answer_message(message, Answer(order.run, order.round, 4, "car"), Plain().encode(trained, model))


# ---- damage to the bytes of what travels --------------------------------------------------------------


def flipped(draw: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(draw.randint(1, 20)):
        damaged[draw.randrange(len(damaged))] = draw.randrange(256)
    return bytes(damaged)


def cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def longer(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + draw.randbytes(draw.randint(1, 100)) + data[at:]


def noise(draw: random.Random, _: bytes) -> bytes:
    return draw.randbytes(draw.randrange(300))


BYTES = (flipped, cut, longer, noise)


def damaged_parts(draw: random.Random, parts: Parts) -> Parts:
    kind = draw.randrange(len(BYTES) + 2)
    one, other = draw.sample(sorted(parts), 2)
    if kind == len(BYTES):
        return {**parts, one: parts[other], other: parts[one]}
    if kind == len(BYTES) + 1:
        return {part: content for part, content in parts.items() if part != one}
    return {**parts, one: BYTES[kind](draw, parts[one])}


# ---- damage to what is said ----------------------------------------------------------------------------


def odd_value(draw: random.Random) -> Any:
    return draw.choice(
        [0, -1, 2**62, -(2**62), 0.0, float("nan"), float("inf"), -1e300, "", "x" * 10_000, "\0", b"", b"\xff" * 99,
         True, False, [1, 2], [0.5, float("nan")], ["a", "b"], [b"a"]]
    )  # fmt: skip


def odd_weights(draw: random.Random) -> bytes:
    """A safetensors file of another model, or one whose header lies."""
    kind = draw.choice([np.float32, np.float64, np.int8, np.uint64, np.float16, np.bool_])
    shape = draw.choice([(3, 2), (2, 3), (6,), (0,), (1, 3, 2), (300,)])
    values = draw.choice([0.0, 1.0, -1.0, np.nan, np.inf, 3e38])
    with np.errstate(all="ignore"):
        arrays = {"w": np.full(shape, values).astype(kind), "norm.running_var": np.full(2, values, np.float32)}
    data = save({name: each for name, each in arrays.items() if draw.random() < 0.9})
    if draw.random() < 0.5:
        return data
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    for entry in header.values():
        entry[draw.choice(["dtype", "shape", "data_offsets"])] = draw.choice(
            ["F32", "F64", "X", [2**60], [-1], [0, 10**12], [], None, [3, 2], {"a": 1}]
        )
    told = json.dumps(header).encode()
    return draw.choice([len(told), length, 2**63 - 1, 0]).to_bytes(8, "little") + told + data[8 + length :]


def odd_answer(draw: random.Random, message: Message) -> Message:
    answer = good(message)
    told = answer.content.config_records[ANSWER]
    content: dict[str, Any] = {ANSWER: told, MODEL: answer.content.array_records[MODEL]}
    if draw.random() < 0.5:
        told[draw.choice([*told, "colour"])] = odd_value(draw)
    if draw.random() < 0.7:
        data = odd_weights(draw)
        shape = draw.choice([(len(data),), (), (1, 2), (2**40,)])
        kind, name = draw.choice(["uint8", "float32", ""]), draw.choice(["weights", "weights", "w", ""])
        form = draw.choice(["safetensors", "safetensors", "numpy.ndarray", ""])
        content[MODEL] = ArrayRecord({name: Array(kind, shape, form, data)})
    if draw.random() < 0.1:
        content = {name: draw.choice([*content.values(), ConfigRecord()]) for name in content}
    return Message(RecordDict(content), reply_to=message)


# ---- rounds with them ----------------------------------------------------------------------------------


class Damaged:
    """Fetches what nodes in this process answered, as Flower would unpack it after its bytes were damaged."""

    def __init__(self, grid: InProcessGrid, draw: random.Random) -> None:
        self._fetch, self._draw, self.unreadable = FetchedAtOnce(grid), draw, 0

    def __call__(self, asked: Iterable[str], most_bytes: int) -> Arrived:
        arrived = self._fetch(asked, most_bytes)
        return {order: self._travelled(message) for order, message in arrived.items()}

    def _travelled(self, message: Message | Exception) -> Message | Exception:
        assert isinstance(message, Message)
        parts = {part: each.deflate() for part, each in get_all_nested_objects(message).items()}
        if message.metadata.src_node_id != HONEST and self._draw.random() < 0.6:
            parts = damaged_parts(self._draw, parts)
        try:
            return unpacked(Announced("", tuple(get_all_nested_objects(message))), dict(parts))
        except Exception as error:
            self.unreadable += 1
            return error


def try_damaged(folder: Path, seed: int, rounds: int, nodes: int) -> tuple[int, dict[str, int]]:
    """How many were tried, and how often what became of them."""
    draw, clock = random.Random(seed), StoryClock()

    def behave(answer: Callable[[Message], Message]) -> Callable[[Message, float], tuple[Message, float]]:
        return lambda message, now_s: (answer(message), now_s + 1.0)

    bad = [InProcessNode(i, -1.0, np.inf, behave(lambda message: odd_answer(draw, message))) for i in range(1, nodes)]
    grid = InProcessGrid([*bad, InProcessNode(HONEST, -1.0, np.inf, behave(good))], clock)
    log, fetch = EventLog(folder / "events.jsonl"), Damaged(grid, draw)
    loop = RoundLoop(grid, clock, "7", log, Agreement(MOST_SAMPLES, Plain()), fetch=fetch)
    tried = 0
    for number in range(rounds):
        seen = loop.run_round(RoundWork(number, number * T_S, T_S, 5, 0.1, MODEL_SENT))
        tried += len(seen.attempts) - 1
        (honest,) = (attempt.upload for attempt in seen.attempts if attempt.node == HONEST)
        assert honest is not None
        for upload in seen.uploads:
            assert {name: (each.shape, each.dtype) for name, each in upload.weights.items()} == {
                name: (each.shape, each.dtype) for name, each in MODEL_SENT.items()
            }
            assert upload.samples <= MOST_SAMPLES
        _, model, _ = merge(rule_named("mean"), {}, MODEL_SENT, seen.uploads)
        assert all(np.isfinite(values).all() for values in model.values())
        assert (model["norm.running_var"] >= 0).all()
    counts: dict[str, int] = {}
    for event in read_events(folder):
        assert len(json.dumps(event)) < 1000
        assert event["kind"] in ("began", "uploaded", "rejected", "failed", "dropped", "gave_up", "cut_off"), event
        counts[event["kind"]] = counts.get(event["kind"], 0) + 1
    return tried, counts


def test_damaged_answers_end_in_a_word_and_harm_nobody(tmp_path: Path) -> None:
    tried, counts = try_damaged(tmp_path, 1, rounds=2, nodes=151)
    assert tried == 300
    assert min(counts[kind] for kind in ("rejected", "failed", "dropped")) > 10, counts


@pytest.mark.slow
def test_twenty_thousand_damaged_answers(tmp_path: Path) -> None:
    total = 0
    for seed in range(27):
        folder = tmp_path / str(seed)
        folder.mkdir()
        total += try_damaged(folder, seed, rounds=5, nodes=150)[0]
    assert total == 27 * 5 * 149 > 20_105 - 1
