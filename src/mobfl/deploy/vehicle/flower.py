"""What a vehicle takes from Flower: its messages, and how they travel between a node and a SuperLink.

Flower's own node waits 3 s between two looks, half a second for an answer of its app, and starts a process for every
message; none of that can be set. So a vehicle speaks Flower's protocol itself, with the parts below. They are not among
what Flower promises to keep, which is why its version is pinned and why they are named here and nowhere else.
"""

from importlib.metadata import version

from mobfl.errors import MobflError

try:
    from flwr.app import Context, Error, Message, RecordDict
    from flwr.app.message import remove_content_from_message
    from flwr.common.constant import HEARTBEAT_MIN_INTERVAL, HEARTBEAT_PATIENCE, ErrorCode
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import (
        ActivateNodeRequest,
        DeactivateNodeRequest,
        PullMessagesRequest,
        PushMessagesRequest,
        RegisterNodeFleetRequest,
        UnregisterNodeFleetRequest,
    )
    from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.error import ApiErrorCode, FlowerError
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
        no_object_id_recompute,
    )
    from flwr.supercore.inflatable.inflatable_protobuf_utils import (
        make_confirm_message_received_fn_protobuf,
        make_pull_object_fn_protobuf,
        make_push_object_fn_protobuf,
    )
    from flwr.supercore.inflatable.inflatable_utils import (
        pull_and_inflate_object_from_tree,
        push_objects,
    )
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
except ImportError as missing:
    raise MobflError(f"a vehicle needs Flower 1.41 (flwr==1.41.*), got {version('flwr')}: {missing}") from missing

__all__ = [
    "HEARTBEAT_MIN_INTERVAL", "HEARTBEAT_PATIENCE", "ActivateNodeRequest", "ApiErrorCode", "Context",
    "DeactivateNodeRequest", "Error", "ErrorCode", "FleetHttpClient", "FlowerError", "Message", "Node",
    "NodeAuthHttpInterceptor", "PullMessagesRequest", "PushMessagesRequest",
    "RecordDict", "RegisterNodeFleetRequest", "RuntimeVersionHttpInterceptor", "SendNodeHeartbeatRequest",
    "UnregisterNodeFleetRequest", "generate_key_pairs", "get_all_nested_objects", "get_object_tree",
    "make_confirm_message_received_fn_protobuf", "make_pull_object_fn_protobuf", "make_push_object_fn_protobuf",
    "message_to_proto", "no_object_id_recompute", "public_key_to_bytes", "pull_and_inflate_object_from_tree",
    "push_objects", "remove_content_from_message",
]  # fmt: skip
