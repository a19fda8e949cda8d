"""How long a message takes when there is nothing to compute: what Flower adds to download and upload.

Several nodes are asked side by side. Who is silent, slow or answers with anything but the model that it was sent
neither blocks nor decides: what counts is the median over nodes, and nobody is waited for long once one has answered.
"""

import secrets
import time
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from mobfl.deploy.events import EventLog
from mobfl.deploy.messages import (
    Refusal,
    TrainingOrder,
    has_upload,
    most_answer_bytes,
    order_message,
    pack_model,
    read_answer,
    read_upload,
)
from mobfl.deploy.station.answers import Arrived, Fetch, FetchedAtOnce
from mobfl.deploy.station.round_loop import NONCE_BYTES, POLL_S, answers
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.weights import Weights

_NODES = 8  # at most
_MESSAGES = 4  # to each; the first, with which it gets the app, does not count
_PATIENCE_S = 30.0  # for one answer
_OTHERS_S = 10.0  # for the other nodes, once one is done
_APART_S = 0.9  # so that messages meet a node at different moments between two of its looks for them
_PLAIN = Plain()


@dataclass(frozen=True)
class RoundTrips:
    """Seconds that messages took, by node."""

    by_node: tuple[tuple[float, ...], ...]

    def quantile_s(self, share: float) -> float:
        """The median over nodes of what this share of a node's messages took at most: no node decides by itself."""
        return float(np.median([np.quantile(each, share) for each in self.by_node]))

    def describe(self) -> dict[str, float | int]:
        """For run.json and the events."""
        quantiles = {f"{share:.0%}": self.quantile_s(share) for share in (0.1, 0.5, 0.9)}
        return {"nodes": len(self.by_node), "messages": sum(map(len, self.by_node)), **quantiles}


@dataclass
class _Asked:
    """A node, and the message that it has not answered yet."""

    node: int
    took_s: list[float] = field(default_factory=list)
    message: str = ""
    nonce: str = ""
    sent: float = 0.0
    next: float = 0.0  # when to ask again, on the monotonic clock

    @property
    def done(self) -> bool:
        return len(self.took_s) >= _MESSAGES


def measured_round_trips(grid: Grid, run: str, model: Weights, log: EventLog, fetch: Fetch | None = None) -> RoundTrips:
    """Of a few messages with this model to each of some nodes; waits for a node."""
    log.add("measuring", -1, 0.0)
    measuring = _Measuring(grid, run, model, fetch or FetchedAtOnce(grid))
    while not measuring.over:
        measuring.go_on()
        time.sleep(POLL_S)
    trips = measuring.trips
    log.add("measured", -1, 0.0, round_trip_s=trips.quantile_s(0.5), **trips.describe())
    return trips


class _Measuring:
    def __init__(self, grid: Grid, run: str, model: Weights, fetch: Fetch) -> None:
        self._grid, self._run, self._model, self._fetch = grid, run, model, fetch
        self._packed, self._most_bytes = pack_model(model), most_answer_bytes(model, _PLAIN)
        self._asked = dict[int, _Asked]()
        self._until = np.inf  # on the monotonic clock

    @property
    def over(self) -> bool:
        return bool(self._until < time.monotonic()) or self._all_done

    @property
    def _all_done(self) -> bool:
        return bool(self._asked) and all(each.done for each in self._asked.values())

    @property
    def trips(self) -> RoundTrips:
        return RoundTrips(tuple(tuple(each.took_s[1:]) for each in self._asked.values() if each.done))

    def go_on(self) -> None:
        self._look_for_nodes()
        now = time.monotonic()
        self._take(self._fetch([each.message for each in self._asked.values() if each.message], self._most_bytes))
        for each in self._asked.values():
            if each.message and now - each.sent > _PATIENCE_S:
                each.message = ""
            if not each.message and not each.done and each.next <= now:
                self._ask(each)

    def _look_for_nodes(self) -> None:
        listed = sorted(self._grid.get_node_ids())
        for node in [node for node, each in self._asked.items() if node not in listed and not each.done]:
            del self._asked[node]
        for node in [node for node in listed if node not in self._asked][: _NODES - len(self._asked)]:
            self._asked[node] = _Asked(node)

    def _ask(self, asked: _Asked) -> None:
        asked.nonce, asked.sent, now = secrets.token_hex(NONCE_BYTES), time.monotonic(), time.time()
        order = TrainingOrder(self._run, -1, 0, 0, 1.0, now, now + _PATIENCE_S, nonce=asked.nonce)
        sent = list(self._grid.push_messages([order_message(asked.node, self._packed, order, _PATIENCE_S)]))
        asked.message = (sent[0] or "") if sent else ""

    def _take(self, arrived: Arrived) -> None:
        now = time.monotonic()
        for each in self._asked.values():
            if each.message not in arrived:
                continue
            if self._is_right(each, arrived[each.message]):
                each.took_s.append(now - each.sent)
            each.message, each.next = "", now + _APART_S
            if each.done:
                self._until = min(self._until, now + _OTHERS_S)

    def _is_right(self, asked: _Asked, message: Message | Exception) -> bool:
        if isinstance(message, Exception) or not message.has_content() or not has_upload(message):
            return False
        answer = read_answer(message)
        try:
            read_upload(message, self._model, answer.samples, _PLAIN)
        except Refusal:
            return False
        return answers(asked.nonce, answer) and (answer.run, answer.round) == (self._run, -1)
