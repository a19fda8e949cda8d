"""How long a message takes when there is nothing to compute: what Flower adds to download and upload."""

import time

from flwr.serverapp import Grid

from mobfl.deploy.events import EventLog
from mobfl.deploy.messages import TrainingOrder, order_message, pack_model
from mobfl.deploy.station.round_loop import POLL_S
from mobfl.learning.weights import Weights

_MESSAGES = 3
_PATIENCE_S = 30.0
_APART_S = 0.9  # so that they meet a node at different moments between two of its looks for messages


def measured_round_trip_s(grid: Grid, run: str, model: Weights, log: EventLog) -> float:
    """The longest of a few round trips with this model, after one in which the node gets the app; waits for a node."""
    log.add("measuring", -1, 0.0)
    took_s = list[float]()
    while len(took_s) <= _MESSAGES:
        node = next(iter(sorted(grid.get_node_ids())), None)
        answered_s = None if node is None else _round_trip_s(grid, node, run, model)
        if answered_s is None:
            time.sleep(POLL_S)
            continue
        took_s.append(answered_s)
        time.sleep(_APART_S)
    longest_s = max(took_s[1:])
    log.add("measured", -1, 0.0, round_trip_s=longest_s)
    return longest_s


def _round_trip_s(grid: Grid, node: int, run: str, model: Weights) -> float | None:
    """None if no answer came."""
    began, now = time.monotonic(), time.time()
    order = TrainingOrder(run, -1, 0, 0, 1.0, now, now + _PATIENCE_S)
    ids = [each for each in grid.push_messages([order_message(node, pack_model(model), order, _PATIENCE_S)]) if each]
    while ids and time.monotonic() - began < _PATIENCE_S:
        for answer in grid.pull_messages(ids):
            return None if answer.has_error() else time.monotonic() - began
        time.sleep(POLL_S)
    return None
