"""The SuperLink as a mailbox: what Flower 1.41's grid does in `pull_messages`, part by part.

Flower fetches all answers one after the other, waits for parts that are not there yet and reads whatever size they
have. Its client's own steps are private; all that is used of them is in this module.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from flwr.app import Message, RecordDict
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.superlink.grid import HttpGrid

from mobfl.deploy.station.answers import Announced, GoneError, TooLargeError

_ENVELOPE_BYTES = 1024  # that a response adds to an object
_HEADERS = {"content-type": PROTOBUF_MEDIA_TYPE, "accept": PROTOBUF_MEDIA_TYPE, "accept-encoding": "identity"}


class SuperLinkMailbox:
    def __init__(self, grid: HttpGrid) -> None:
        self._grid, self._run_id = grid, grid.run.run_id

    def look(self, orders: list[str]) -> list[Announced]:
        """Whose answer it is says the SuperLink, which has compared it with the order."""
        told = self._grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=orders))
        return [
            Announced(
                message.metadata.reply_to_message_id,
                tuple(part.object_id for part in iterate_object_tree(tree)),
            )
            for message, tree in zip(told.messages_list, told.message_object_trees, strict=True)
        ]

    def read(self, part: str, most_bytes: int) -> bytes | None:
        received, most_bytes = bytearray(), most_bytes + _ENVELOPE_BYTES
        try:
            with self._asked_for(part) as response:
                for some in response.iter_raw():
                    received += some
                    if len(received) > most_bytes:
                        raise TooLargeError
        except httpx.TransportError:  # whether the SuperLink is broken shows at the next look
            return None
        told = PullObjectResponse.FromString(bytes(received))
        if not told.object_found:
            raise GoneError
        return told.object_content if told.object_available else None

    @contextmanager
    def _asked_for(self, part: str) -> Iterator[httpx.Response]:
        """The response before its body was read, which Flower's own client reads whole."""
        client = self._grid._runtime_client
        request = PullObjectRequest(node=self._grid.node, run_id=self._run_id, object_id=part)
        content = request.SerializeToString(deterministic=True)
        post = client._client.build_request(
            "POST", f"{client._base_url}/v1/runtime/pull-object", content=content, headers=_HEADERS
        )
        context = ProtobufRequestContext("/flwr.proto.Runtime/PullObject", request, post)
        response = client._send(context, stream=True)
        try:
            response.raise_for_status()
            yield response
        finally:
            response.close()

    def unpack(self, announced: Announced, contents: dict[str, bytes]) -> Message:
        return unpacked(announced, contents)

    def discard(self, announced: Announced) -> None:
        self._grid._runtime_client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(
                node=self._grid.node, run_id=self._run_id, message_object_id=announced.parts[-1]
            )
        )


def unpacked(announced: Announced, contents: dict[str, bytes]) -> Message:
    """What a node's bytes say; raises whatever Flower raises if they are damaged."""
    message = inflate_object_from_contents(announced.parts[-1], contents)
    if not isinstance(message, Message) or not (message.has_error() or isinstance(message.content, RecordDict)):
        raise TypeError("not a message")
    return message
