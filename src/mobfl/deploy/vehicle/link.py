"""A vehicle's link to its SuperLink: joins, gets orders, answers, leaves, and calls again when it is cut.

The vehicle asks, the SuperLink never calls. Nothing that comes over the link is executed: an order is numbers.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from mobfl.deploy.vehicle import flower
from mobfl.deploy.vehicle.settings import Vehicle
from mobfl.deploy.vehicle.waits import retries_s
from mobfl.errors import InputError

Say = Callable[[str], None]

# A link on which nothing moves for so long is cut. Uploads may have filled buffers that drain slowly.
_ASKING_S, _CARRYING_S, _LEAVING_S = 5.0, 30.0, 3.0
_BEAT_S = 4.0
_INTERVAL_S = flower.HEARTBEAT_MIN_INTERVAL  # without a sign of life for twice as long, a node is taken for gone
_REFUSED_FOR_S = flower.HEARTBEAT_PATIENCE * _INTERVAL_S + 10.0  # after which who died on the road may join again
_AWAY = (502, 503, 504)  # what a proxy says while the SuperLink is not there
_PART_WAIT_S, _LONGEST_PART_WAIT_S = 0.03, 0.5  # for parts of an order that the base station is still sending


class UnknownNodeError(Exception):
    """The SuperLink does not know this node (any more)."""


class Link:
    """One vehicle at one SuperLink. Not for several threads, but for its own sign of life."""

    def __init__(self, vehicle: Vehicle, say: Say) -> None:
        self._vehicle, self._say = vehicle, say
        own = vehicle.private_key()
        self._registers = own is None  # who has no key that is known makes one for as long as it is there
        keys = flower.generate_key_pairs() if own is None else (own, own.public_key())
        self._public_key = flower.public_key_to_bytes(keys[1])
        self._speakers = (flower.RuntimeVersionHttpInterceptor("SuperNode"), flower.NodeAuthHttpInterceptor(*keys))
        self._tls = vehicle.tls()
        self._asking, self._carrying = self._client(_ASKING_S), self._client(_CARRYING_S)
        self._node = flower.Node()  # whose number is 0 until it has joined
        self._joined_once = self._lost = False
        self._over = threading.Event()

    def _client(self, timeout_s: float) -> flower.FleetHttpClient:
        return flower.FleetHttpClient(
            self._vehicle.url, interceptors=self._speakers, verify=self._tls, timeout=timeout_s
        )

    # ---- joining and leaving -----------------------------------------------------------------------

    def join(self) -> int:
        """Calls until the SuperLink lets this vehicle in; raises if it will not. Returns the node's number."""
        until, told, waits = time.monotonic() + _REFUSED_FOR_S, False, retries_s()
        while True:
            try:
                self._node = flower.Node(node_id=self._activate())
                break
            except (httpx.HTTPStatusError, UnknownNodeError) as error:
                reason = self._refusal(error)
                if not self._joined_once and time.monotonic() > until:
                    raise InputError(reason) from None
                if not told:
                    self._say(f"{reason}: trying again")
                told = True
                time.sleep(next(waits))
        if not self._joined_once:
            threading.Thread(target=self._beat, daemon=True).start()
        self._joined_once = True
        self._say(f"{self._vehicle.name} has joined {self._vehicle.superlink} as node {self._node.node_id}")
        return int(self._node.node_id)

    def _activate(self) -> int:
        key = self._public_key
        if self._registers:
            with suppress(_AlreadyThere):
                self._reach(self._asking.RegisterNode, flower.RegisterNodeFleetRequest(public_key=key))
        request = flower.ActivateNodeRequest(public_key=key, heartbeat_interval=_INTERVAL_S)
        return int(self._reach(self._asking.ActivateNode, request).node_id)

    def _refusal(self, error: httpx.HTTPStatusError | UnknownNodeError) -> str:
        where, name = self._vehicle.superlink, self._vehicle.name
        if isinstance(error, UnknownNodeError):
            return f"--superlink must accept what {name} signs, got a refusal from {where}: do the clocks agree?"
        said = flower.FlowerError.from_json(error.response.text)
        if said is not None and said.code == flower.ApiErrorCode.FLEET_SUPERNODE_REGISTRATION_DISABLED:
            return f"--key must be given, as the SuperLink {where} lets in registered vehicles only, got none"
        if said is not None and said.code == flower.ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
            key = self._vehicle.key
            return f"--key must be registered at the SuperLink {where}, and nobody else be there with it, got {key}"
        reason = said.message if said is not None else f"status {error.response.status_code}"
        return f"--superlink must let {name} in, got from {where}: {reason}"

    def leave(self) -> None:
        """Says good-bye if anybody listens; does not wait for long."""
        self._over.set()
        if node := self._node.node_id:
            with suppress(httpx.HTTPError), self._client(_LEAVING_S) as client:
                client.DeactivateNode(flower.DeactivateNodeRequest(node_id=node))
                if self._registers:
                    client.UnregisterNode(flower.UnregisterNodeFleetRequest(node_id=node))
                self._say(f"{self._vehicle.name} has left {self._vehicle.superlink}")
        self._asking.close()
        self._carrying.close()

    def _beat(self) -> None:
        """Signs of life, while orders come and while steps are taken."""
        while not self._over.wait(_BEAT_S):
            request = flower.SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=_INTERVAL_S)
            with suppress(
                httpx.HTTPError, RuntimeError
            ):  # the link is cut, which whoever asks for orders says, or closed
                self._asking.SendNodeHeartbeat(request)

    # ---- orders and answers ------------------------------------------------------------------------

    def next_order(self) -> flower.Message | None:
        """None if there is none now; raises if it never came in full."""
        pulled = self._reach(self._asking.PullMessages, flower.PullMessagesRequest(node=self._node))
        if not pulled.messages_list:
            return None
        tree, run = pulled.message_object_trees[0], pulled.messages_list[0].metadata.run_id
        carry = self._carrier(pulled.messages_list[0].metadata)
        message = flower.pull_and_inflate_object_from_tree(
            tree,
            flower.make_pull_object_fn_protobuf(carry(self._carrying.PullObject), self._node, run),
            flower.make_confirm_message_received_fn_protobuf(
                carry(self._carrying.ConfirmMessageReceived), self._node, run
            ),
            return_type=flower.Message,
            initial_backoff=_PART_WAIT_S,
            backoff_cap=_LONGEST_PART_WAIT_S,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id  # as Flower's own node does
        return message

    def send(self, answer: flower.Message, took_s: float) -> None:
        """Tries until nobody waits for it any more."""
        answer.metadata.__dict__["_message_id"] = answer.object_id
        carry = self._carrier(answer.metadata)
        with flower.no_object_id_recompute():
            request = flower.PushMessagesRequest(
                node=self._node,
                messages_list=[flower.message_to_proto(flower.remove_content_from_message(answer))],
                message_object_trees=[flower.get_object_tree(answer)],
                clientapp_runtime_list=[took_s],
            )
            pushed, run = carry(self._carrying.PushMessages)(request), answer.metadata.run_id
            push_object = flower.make_push_object_fn_protobuf(
                carry(self._carrying.PushObject), self._node, run, pushed.session_id
            )
            parts = flower.get_all_nested_objects(answer)
            flower.push_objects(parts, push_object, object_ids_to_push=set(pushed.objects_to_push))

    def _carrier(self, metadata: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Calls that are tried again until the message has expired."""
        until_unix_s = metadata.created_at + metadata.ttl
        return lambda call: lambda request: self._reach(call, request, until_unix_s)

    # ---- a link that is cut ------------------------------------------------------------------------

    def _reach(self, call: Callable[[Any], Any], request: Any, until_unix_s: float = float("inf")) -> Any:
        """What the SuperLink says, however often it has to be called until then."""
        for wait_s in retries_s():
            try:
                answer = call(request)
            except httpx.TransportError as error:
                lost: httpx.HTTPError = error
            except httpx.HTTPStatusError as error:
                lost = _away(error)
            else:
                self._found()
                return answer
            self._miss(lost)
            if self._over.is_set() or time.time() + wait_s > until_unix_s:
                raise lost
            time.sleep(wait_s)
        raise AssertionError("waits never end")

    def _miss(self, error: httpx.HTTPError) -> None:
        reason, where = str(error) or type(error).__name__, self._vehicle.superlink
        if not self._joined_once and "CERTIFICATE_VERIFY_FAILED" in reason:
            raise InputError(f"--root-certificates must vouch for the SuperLink {where}, got {reason}") from None
        if not self._lost:
            self._say(f"no answer from the SuperLink {where} ({reason}): trying again")
        self._lost = True

    def _found(self) -> None:
        if self._lost:
            self._say(f"the SuperLink {self._vehicle.superlink} answers")
        self._lost = False


class _AlreadyThere(Exception):  # noqa: N818
    """The key was registered, and the answer got lost."""


def _away(error: httpx.HTTPStatusError) -> httpx.HTTPStatusError:
    """The error if it only says that the SuperLink is away; else raises what it says."""
    status = error.response.status_code
    if status in _AWAY:
        return error
    if status == httpx.codes.UNAUTHORIZED:
        raise UnknownNodeError from error
    said = flower.FlowerError.from_json(error.response.text)
    if said is not None and said.code == flower.ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
        raise _AlreadyThere from error
    raise error
