"""The vehicle's Flower app. Flower starts a new process for every message, so it imports as little as it can.

The steps are taken by a trainer that stays alive beside it (`mobfl trainer`), which the node's configuration names:
`trainer` (its socket), `vehicle` (a name), and in a local deployment `key`, which the vehicle's draws are addressed by.
"""

import time
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from safetensors.numpy import save

from mobfl.deploy.messages import Answer, TrainingOrder, answer_message, read_order
from mobfl.deploy.vehicle.trainer_link import UPLOAD, ask_trainer
from mobfl.learning.weights import Weights

app = ClientApp()

# Of an order, what the trainer must know.
_PASSED_ON = (
    "round", "attempt", "local_steps", "learning_rate", "local", "codec", "knows", "error", "begin_s", "window_s",
    "left_s", "messages_s", "spare_s", "spare_round", "begin_unix_s", "scale",
)  # fmt: skip


@app.train()
def train(message: Message, context: Context) -> Message:
    """H steps from the model that came, or as many as fit, answered in time or given up when the round is over."""
    received_unix_s = time.time()
    order, model = read_order(message)
    vehicle = str(context.node_config.get("vehicle", context.node_id))
    if order.local_steps == 0:  # the base station measures how long a message takes
        return answer_message(message, Answer(order.run, order.round, 1, vehicle, time.time()), save(dict(model)))
    try:
        answered, upload = _trained(order, model, vehicle, dict(context.node_config), received_unix_s)
    except TimeoutError:
        return answer_message(message, Answer(order.run, order.round, 0, vehicle))
    if not answered["steps"]:
        return answer_message(message, Answer(order.run, order.round, 0, vehicle, sits_out=True))
    due_unix_s = order.begin_unix_s + answered["delay_s"] * order.scale
    behind_s = max(time.time() + order.landing_s - due_unix_s, 0.0) if answered["delay_s"] else 0.0
    if due_unix_s > order.deadline_unix_s:
        _sleep_until(order.deadline_unix_s)
        return answer_message(message, Answer(order.run, order.round, 0, vehicle))
    _sleep_until(due_unix_s - order.landing_s)
    samples, steps = int(answered["samples"]), int(answered["steps"])
    compute_s = float(answered.get("compute_s", 0.0))
    answer = Answer(order.run, order.round, samples, vehicle, time.time(), behind_s, steps, compute_s=compute_s)
    return answer_message(message, answer, upload)


def _trained(
    order: TrainingOrder, model: Weights, vehicle: str, config: dict[str, Any], received_unix_s: float
) -> tuple[dict[str, Any], bytes]:
    # By this vehicle's own clock, where it is told how long it has.
    deadline_unix_s = received_unix_s + order.left_s if order.knows else order.deadline_unix_s
    left_s = deadline_unix_s - time.time()
    if left_s <= 0:
        raise TimeoutError
    told: dict[str, Any] = {name: getattr(order, name) for name in _PASSED_ON}
    mine: dict[str, Any] = {name: config[name] for name in ("enter_s", "leave_s") if name in config}
    wish: dict[str, Any] = {
        **told,
        **mine,
        "vehicle": vehicle,
        "key": str(config.get("key", "")),
        "deadline_unix_s": deadline_unix_s,
        "received_unix_s": received_unix_s,
    }
    answered, arrays = ask_trainer(str(config["trainer"]), wish, model, left_s)
    return answered, arrays[UPLOAD].tobytes()


def _sleep_until(unix_s: float) -> None:
    time.sleep(max(unix_s - time.time(), 0.0))
