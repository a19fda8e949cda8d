"""Each answer is fetched by itself: one that never completes, is cut or is huge costs nobody else theirs."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, Message

from deployed_road import deployment
from fleet_nodes import FleetNode, fleet
from loopback import ForgetfulLoopback, loopback
from mobfl import Scenario, read_history
from mobfl.deploy.events import read_events
from mobfl.deploy.messages import MODEL

ROAD = Scenario.from_dict(
    {
        "link": {"download_s": 0.001, "upload_s": 0.001},
        "compute": {"min_step_s": 0.001, "extra_step_s": 0.0},
        "training": {"samples_per_vehicle": [20, 40], "batch_size": 8},
    }
)
HONEST = ("a", "b", "c", "d", "e")


def never_completes(node: FleetNode, order: Message) -> None:
    node.upload(node.good_answer(order), parts=lambda number: number > 0)


def cut(node: FleetNode, order: Message) -> None:
    """Announces an array that is shorter than its own head says."""
    answer = node.good_answer(order)
    record = answer.content.array_records[MODEL]
    array = record["weights"]
    record["weights"] = Array(array.dtype, (10 * len(array.data),), array.stype, array.data[: len(array.data) // 2])
    node.upload(answer)


def huge(node: FleetNode, order: Message) -> None:
    answer = node.good_answer(order)
    data = bytes(200_000_000)
    answer.content[MODEL] = ArrayRecord({"weights": Array("uint8", (len(data),), "safetensors", data)})
    node.upload(answer)


def slow(node: FleetNode, order: Message) -> None:
    """Six parts over a bad link: most of the round, but in time."""
    node.upload(node.good_answer(order), pause_s=0.3)


def uploads(tmp_path: Path, round_s: float, *others: FleetNode, rounds: int = 3) -> list[int]:
    """Of five honest vehicles and others, round by round."""
    road = ROAD.with_values({"training.duration_s": rounds * round_s})
    settings = deployment(road, tmp_path / "run", f"10,{round_s:g}", scale=1.0)
    with loopback(settings, tmp_path, kind=ForgetfulLoopback) as machines:
        address = f"127.0.0.1:{machines.port}"
        nodes = [FleetNode(address, name) for name in HONEST]
        for other in others:
            other.address = address
        with fleet(*nodes, *others):
            machines.start_server(lead_s=0.0)
            machines.until(
                "the run is done", lambda: (machines.out / "run.json").exists() and _status(machines.out) == "done"
            )
    columns = read_history(tmp_path / "run").columns
    return [int(number) for number in columns["uploads"] - columns["rejected"]]


def _status(run: Path) -> str:
    return str(json.loads((run / "run.json").read_text())["status"])


def kinds(run: Path, vehicle: FleetNode) -> list[tuple[str, str | None]]:
    events = [event for event in read_events(run) if event.get("node") == str(vehicle.node)]
    return [(event["kind"], event.get("reason")) for event in events]


def test_nobody_waits_for_an_upload_that_is_slow_cut_or_never_complete(tmp_path: Path) -> None:
    stuck, torn, late = (
        FleetNode("", name, behave) for name, behave in (("stuck", never_completes), ("torn", cut), ("late", slow))
    )
    assert uploads(tmp_path, 8.0, stuck, torn, late, rounds=2) == [6, 6]
    run = tmp_path / "run"
    assert {kind for kind, _ in kinds(run, stuck)} == {"began", "cut_off"}
    assert {kind for kind, _ in kinds(run, torn)} == {"began", "rejected"}
    assert [kind for kind, _ in kinds(run, late)].count("uploaded") == 2


def in_anothers_name(victim: FleetNode) -> Callable[[FleetNode, Message], None]:
    """Answers the other's order before it does, and its own with the other's written inside."""

    def steal(node: FleetNode, order: Message) -> None:
        while len(victim.orders) < len(node.orders):
            time.sleep(0.05)
        own, others = node.good_answer(order), victim.orders[-1]
        node.upload(Message(own.content, reply_to=others))
        answer = Message(node.good_answer(order, vehicle="victim").content, reply_to=order)
        shown = answer.metadata.reply_to_message_id
        answer.metadata.__dict__["_reply_to_message_id"] = others.metadata.message_id  # in what is inside
        node.upload(answer, reply_to=shown)

    return steal


def test_an_answer_in_anothers_name_is_refused(tmp_path: Path) -> None:
    """The SuperLink takes it: a thief who has somehow learnt the other's message lacks its nonce all the same."""
    late = threading.Event()
    victim = FleetNode("", "victim", lambda node, order: (late.wait(2), node.answer(order))[-1])
    thief = FleetNode("", "thief", in_anothers_name(victim))
    bystander = FleetNode("", "bystander")
    total = uploads(tmp_path, 10.0, victim, thief, bystander, rounds=1)
    of_victim, of_thief = kinds(tmp_path / "run", victim), kinds(tmp_path / "run", thief)
    assert ("dropped", "without the order's nonce") in of_victim, (of_victim, of_thief)
    assert ("uploaded", None) not in of_victim
    assert of_thief == [("began", None), ("uploaded", None)]  # its own answer counts as its own, whatever is inside
    assert total == [len(HONEST) + 2]


@pytest.mark.slow
@pytest.mark.parametrize("behave", [never_completes, cut, huge])
def test_rounds_of_eight_seconds_keep_their_five_uploads(tmp_path: Path, behave) -> None:  # type: ignore[no-untyped-def]
    assert uploads(tmp_path, 8.0, FleetNode("", "bad", behave)) == [5, 5, 5]
