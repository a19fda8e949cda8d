"""How a vehicle's Flower app and the trainer beside it talk: frames over a Unix socket, as light as possible.

A frame is its length (8 bytes, big-endian) and a safetensors file, whose metadata hold a small table as JSON.
"""

import json
import socket
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from mobfl.learning.weights import Weights

_LENGTH_BYTES = 8
MOST_BYTES = 1 << 31
UPLOAD = "upload"  # the array of bytes that a trainer answers with


class TrainerError(Exception):
    """The trainer is not there, or says what went wrong."""


def send_frame(connection: socket.socket, table: Mapping[str, Any], weights: Weights) -> None:
    tensors = {name: np.ascontiguousarray(values) for name, values in weights.items()}
    frame = save(tensors, metadata={"mobfl": json.dumps(dict(table))})
    connection.sendall(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)


def receive_frame(connection: socket.socket) -> tuple[dict[str, Any], Weights]:
    length = int.from_bytes(_exactly(connection, _LENGTH_BYTES), "big")
    if not 0 < length <= MOST_BYTES:
        raise TrainerError(f"a frame must have 1 to {MOST_BYTES} bytes, got {length}")
    frame = _exactly(connection, length)
    return _table(frame), load(frame)


def _table(frame: bytes) -> dict[str, Any]:
    """safetensors' own reader of bytes leaves the metadata out; they stand in the JSON that the file begins with."""
    header = json.loads(frame[8 : 8 + int.from_bytes(frame[:8], "little")])
    return dict(json.loads(header["__metadata__"]["mobfl"]))


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 20))
        if not part:
            raise TrainerError("the other side hung up")
        received += part
    return bytes(received)


def ask_trainer(path: str, wish: Mapping[str, Any], model: Weights, timeout_s: float) -> tuple[dict[str, Any], Weights]:
    """What the trainer makes of the model; raises `TimeoutError` if that takes longer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise TrainerError(f"no trainer at {path}: {error.strerror}; start mobfl trainer") from None
        send_frame(connection, wish, model)
        table, weights = receive_frame(connection)
    if "error" in table:
        raise TrainerError(str(table["error"]))
    return table, weights
