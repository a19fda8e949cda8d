"""Nodes as a stranger would write them: threads that speak to a real SuperLink, and may lie."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, iterate_object_tree
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_connection import http_request_response

from mobfl.deploy.messages import Answer, answer_message, read_order
from mobfl.learning.codecs.plain import Plain

_LOOK_S = 0.4


@dataclass
class FleetNode:
    """Gets orders, and hands each to `behave` together with itself; without, it answers as it should."""

    address: str
    name: str
    behave: "Callable[[FleetNode, Message], None] | None" = None
    keys: Any = None
    root: bytes | None = None
    node: int = 0
    orders: list[Message] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def live(self) -> None:
        """Until it is told to stop."""
        secure = {"insecure": self.root is None, "root_certificates": self.root, "authentication_keys": self.keys}
        with http_request_response(self.address, **secure) as connection:  # type: ignore[arg-type]
            self.node, self._receive, self._send, _, _, self._pull, self._push, self._confirm = connection
            while not self.stop.is_set():
                received = self._receive()
                if received is None:
                    self.stop.wait(_LOOK_S)
                    continue
                order = self._order(*received)
                self.orders.append(order)
                (self.behave or FleetNode.answer)(self, order)

    def _order(self, head: Message, tree: Any) -> Message:
        run = head.metadata.run_id
        contents = {part.object_id: self._part(run, part.object_id) for part in iterate_object_tree(tree)}
        self._confirm(run, tree.object_id)
        order = inflate_object_from_contents(tree.object_id, contents)
        assert isinstance(order, Message)
        order.metadata.__dict__["_message_id"] = tree.object_id
        return order

    def _part(self, run: int, part: str) -> bytes:
        while True:
            try:
                return self._pull(run, part)
            except Exception:  # it is on its way
                time.sleep(_LOOK_S)

    def good_answer(self, order: Message, **said: Any) -> Message:
        told, model = read_order(order)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = order.metadata.run_id, self.node, 1
        trained = {name: values + 1 for name, values in model.items()}
        answer = Answer(**{"run": told.run, "round": told.round, "samples": 20, "vehicle": self.name, **said})
        return answer_message(order, answer, Plain().encode(trained, model))

    def answer(self, order: Message) -> None:
        self.upload(self.good_answer(order))

    def upload(
        self,
        answer: Message,
        parts: Callable[[int], bool] = lambda _: True,
        pause_s: float = 0.0,
        reply_to: str | None = None,
    ) -> None:
        """Announces the answer, as one to `reply_to` if told, and sends those of its parts; the first is innermost."""
        answer.metadata.__dict__["_message_id"] = answer.object_id
        objects, tree = get_all_nested_objects(answer), get_object_tree(answer)
        objects = {part: content.deflate() for part, content in objects.items()}
        if reply_to is not None:
            answer.metadata.__dict__["_reply_to_message_id"] = reply_to
        wanted, session = self._send(answer, tree, 0.1)
        for number, (part, content) in enumerate(objects.items()):
            if part in wanted and parts(number):
                self.stop.wait(pause_s)
                self._push(answer.metadata.run_id, session, part, content)


@contextmanager
def fleet(*nodes: FleetNode) -> Iterator[None]:
    """Those that are there; all have registered."""
    threads = [threading.Thread(target=node.live, daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    while not all(node.node for node in nodes):
        time.sleep(0.02)
    try:
        yield
    finally:
        for node in nodes:
            node.stop.set()
        for thread in threads:
            thread.join(10)
