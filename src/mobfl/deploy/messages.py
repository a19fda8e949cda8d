"""What base station and vehicles say to each other, as Flower's messages.

An order goes out with the model, an answer comes back with an upload. Both name the run and the round, so that nothing
counts elsewhere, and an answer repeats the order's nonce: a random text that only the vehicle was given that the order
went to, so that nobody else can answer it. A model travels as one array of bytes, a safetensors file: Flower fetches
every array by itself, and a request per tensor took longer than all else. Answers come from strangers: their size is
held against the model before they are read, names, types and shapes after that; nothing is unpickled, and anything
else in an answer is ignored.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from safetensors.numpy import load, save

from mobfl.learning.codecs import Codec
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, unlike

MODEL, ORDER, ANSWER = "model", "order", "answer"
_WEIGHTS, _FORMAT = "weights", "safetensors"
_HEADER_BYTES = 1024  # at most, and as much for every tensor
_RECORDS_BYTES = 1 << 16  # that Flower's records around an upload have at most
_MOST_TEXT = 80


@dataclass(frozen=True)
class TrainingOrder:
    """What a vehicle is asked for: H steps from the model that comes with this, or as many as fit, in this round."""

    run: str
    round: int
    attempt: int  # the rounds that this vehicle was in before
    local_steps: int  # H; where as many are taken as fit, no more than these
    learning_rate: float
    begin_unix_s: float  # on the base station's clock
    deadline_unix_s: float  # after it nobody waits for an answer
    scale: float = 1.0  # wall-clock seconds per second of the road
    landing_s: float = 0.0  # how long answers lately took from the vehicle's app to the base station
    local: str = ""  # digests of how vehicles train and of how uploads travel: a vehicle that has others refuses
    codec: str = ""
    nonce: str = ""  # what the answer must repeat
    # ---- where a vehicle takes as many steps as fit; clocks may differ, so it is told how long it has, not until when
    knows: str = ""  # of its leaving; empty: all take H
    error: float = 0.0  # by which it is wrong about that, a share of its stay
    begin_s: float = 0.0  # on the road's clock
    window_s: float = 0.0  # seconds of the road from then to the round's end, or to when it is said to leave
    left_s: float = 0.0  # wall-clock time that was left of the window when this was sent
    messages_s: float = 0.0  # wall-clock time that order and answer took, when the base station measured it
    spare_s: float = 0.0  # by which its answer in `spare_round` came before the end that it was told; < 0: after it
    spare_round: int = -1


@dataclass(frozen=True)
class Answer:
    """What comes back beside the weights; D_m, and what the vehicle says of itself."""

    run: str
    round: int
    samples: int
    vehicle: str = ""
    returned_unix_s: float = math.nan  # when its app was done
    behind_s: float = 0.0  # by how much it was done later than the delay that was imposed on it
    steps: int = 0  # that it took, where as many are taken as fit
    sits_out: bool = False  # not one would have fitted
    compute_s: float = 0.0  # that its local steps took, on the road's clock; 0: it does not say
    nonce: str = ""  # the order's, which `answer_message` writes


class Refusal(Exception):  # noqa: N818
    """Why what was received is not an upload."""


def pack_model(model: Weights) -> ArrayRecord:
    """Packed once, it is shared by all messages of a round."""
    data = save({name: np.ascontiguousarray(values) for name, values in model.items()})
    return ArrayRecord({_WEIGHTS: Array("uint8", (len(data),), _FORMAT, data)})


def order_message(node: int, packed: ArrayRecord, order: TrainingOrder, ttl_s: float) -> Message:
    content = RecordDict({MODEL: packed, ORDER: ConfigRecord(asdict(order))})
    return Message(content, node, MessageType.TRAIN, ttl=ttl_s, group_id=str(order.round))


def read_order(message: Message) -> tuple[TrainingOrder, Weights]:
    """On the vehicle, which trusts its base station as far as types go."""
    given = message.content[ORDER]
    order = TrainingOrder(**{field.name: given[field.name] for field in fields(TrainingOrder)})  # type: ignore[arg-type]
    return order, load(message.content.array_records[MODEL][_WEIGHTS].data)


def answer_message(message: Message, answer: Answer, upload: bytes | None = None) -> Message:
    """To the order in this message, with the upload as the codec wrote it; without, the vehicle gives up."""
    nonce = message.content.config_records[ORDER]["nonce"]
    content = RecordDict({ANSWER: ConfigRecord({**asdict(answer), "nonce": nonce})})
    if upload is not None:
        content[MODEL] = ArrayRecord({_WEIGHTS: Array("uint8", (len(upload),), _FORMAT, upload)})
    return Message(content, reply_to=message)


def read_answer(message: Message) -> Answer:
    """What an answer says of itself; what is missing or of another kind is as if it were not said."""
    given: Mapping[str, Any] = message.content.config_records.get(ANSWER) or {}

    def said(name: str, kind: type, otherwise: Any) -> Any:
        value = given.get(name)
        finite = not isinstance(value, float) or math.isfinite(value)
        return value if type(value) is kind and finite else otherwise

    return Answer(
        run=said("run", str, ""),
        round=said("round", int, -1),
        samples=said("samples", int, 0),
        vehicle=said("vehicle", str, "")[:_MOST_TEXT],
        returned_unix_s=said("returned_unix_s", float, math.nan),
        behind_s=said("behind_s", float, 0.0),
        steps=said("steps", int, 0),
        sits_out=said("sits_out", bool, False),
        compute_s=said("compute_s", float, 0.0),
        nonce=said("nonce", str, ""),
    )


def has_upload(message: Message) -> bool:
    """Whether there is anything to take: a vehicle that gave up answers without a model."""
    return bool(message.content.array_records.get(MODEL))


def read_upload(message: Message, model: Weights, most_samples: int, codec: Codec) -> Upload:
    """The upload in an answer, whose arrays have this model's names, types and shapes; raises `Refusal`.

    Whether their numbers are fit to be merged is judged by `merge`, as in simulation.
    """
    samples = read_answer(message).samples
    if samples > most_samples:
        raise Refusal("too many samples")
    return Upload(_weights_like(model, message.content.array_records[MODEL], codec), samples, model)


def _weights_like(model: Weights, sent: Mapping[str, Array], codec: Codec) -> Weights:
    array = sent.get(_WEIGHTS)
    if array is None or array.stype != _FORMAT:
        raise Refusal("another model")
    if len(array.data) > _most_upload_bytes(model, codec):
        raise Refusal("too large")
    try:
        weights = codec.decode(array.data, model)
    except Exception:  # whatever a stranger's bytes do to a codec, they are no upload
        raise Refusal("unreadable") from None
    if (reason := unlike(model, weights)) is not None:
        raise Refusal(reason)
    return weights


def most_answer_bytes(model: Weights, codec: Codec) -> int:
    """No answer that can be averaged has more."""
    return _most_upload_bytes(model, codec) + _RECORDS_BYTES


def _most_upload_bytes(model: Weights, codec: Codec) -> int:
    return codec.size(model) + _HEADER_BYTES * (1 + len(model))
