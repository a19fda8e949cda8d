"""A grid whose nodes live in this process: real messages, no transport. For tests, and to measure the server alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from flwr.app import Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from mobfl.deploy.clock import Clock
from mobfl.deploy.station.round_loop import NODE_UNAVAILABLE

# What a node makes of a message that it got at this time of the road: its answer, and when that arrives.
Handle = Callable[[Message, float], tuple[Message, float]]


@dataclass(frozen=True)
class InProcessNode:
    """On the road from entering to leaving; what it has not sent by then is lost."""

    node: int
    enter_s: float
    leave_s: float
    handle: Handle


@dataclass(frozen=True)
class _Sent:
    message: Message
    node: InProcessNode
    answer: Message
    due_s: float

    def arrived(self, now_s: float) -> Message | None:
        if self.due_s <= min(now_s, self.node.leave_s):
            return self.answer
        if self.node.leave_s < now_s:
            return Message(Error(NODE_UNAVAILABLE, "the node has left"), reply_to=self.message)
        return None


class InProcessGrid(Grid):
    """Flower's interface of a grid over these nodes, on any clock."""

    def __init__(self, nodes: Sequence[InProcessNode], clock: Clock) -> None:
        self._nodes, self._clock = {node.node: node for node in nodes}, clock
        self._sent = dict[str, _Sent]()
        # Flower's messages carry who sends them, which its own processes set when they start.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def set_run(self, run: Run) -> None:
        raise NotImplementedError("the run is the caller's")

    @property
    def run(self) -> Run:
        raise NotImplementedError("the run is the caller's")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        now_s = self._clock.now_s()
        return [node.node for node in self._nodes.values() if node.enter_s <= now_s < node.leave_s]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=node) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        message.metadata.__dict__["_message_id"] = str(uuid4())  # as Flower's own grid in memory does
        node = self._nodes[message.metadata.dst_node_id]
        answer, due_s = node.handle(message, self._clock.now_s())
        self._sent[message.metadata.message_id] = _Sent(message, node, answer, due_s)
        return message.metadata.message_id

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        now_s, arrived = self._clock.now_s(), list[Message]()
        for message_id in message_ids:
            answer = self._sent[message_id].arrived(now_s) if message_id in self._sent else None
            if answer is not None:
                del self._sent[message_id]
                arrived.append(answer)
        return arrived

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise NotImplementedError("rounds poll for themselves")
