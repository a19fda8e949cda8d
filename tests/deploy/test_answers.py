"""Each answer is fetched by itself: one that never completes, is cut or is huge costs nobody else theirs."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Array, ArrayRecord, Message
from flwr.supercore.primitives.asymmetric import generate_key_pairs

from deployed_road import deployment
from fleet_nodes import FleetNode, fleet
from loopback import ForgetfulLoopback, Loopback, loopback
from mobfl import Scenario, read_history
from mobfl.deploy.events import read_events
from mobfl.deploy.local.deployment import flower_command, listens
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


def uploads(
    tmp_path: Path,
    round_s: float,
    *others: FleetNode,
    rounds: int = 3,
    kind: type[Loopback] = ForgetfulLoopback,
) -> list[int]:
    """Of five honest vehicles and others, round by round."""
    road = ROAD.with_values({"training.duration_s": rounds * round_s})
    settings = deployment(road, tmp_path / "run", f"10,{round_s:g}", scale=1.0)
    with loopback(settings, tmp_path, kind=kind) as machines:
        nodes = [*(FleetNode("", name) for name in HONEST), *others]
        for node in nodes:
            node.address = f"127.0.0.1:{machines.port}"
            if isinstance(machines, AuthenticatingLoopback):
                machines.admit(node)
        with fleet(*nodes):
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


class AuthenticatingLoopback(Loopback):
    """With TLS and node authentication."""

    def start_superlink(self) -> None:
        key, certificate = (str(self._folder / name) for name in ("server.key", "server.crt"))
        names = ["-subj", "/CN=station", "-addext", "subjectAltName=IP:127.0.0.1"]
        kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-days", "2"]
        words = ["openssl", "req", *kind, *names, "-keyout", key, "-out", certificate]
        subprocess.run(words, check=True, capture_output=True)
        self.root = Path(certificate).read_bytes()
        address = f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{certificate}"\n'
        config = self._folder / "flower" / "config.toml"
        config.write_text(f'[superlink]\ndefault = "mobfl"\n[superlink.mobfl]\n{address}')
        files = [f"--ssl-ca-certfile={certificate}", f"--ssl-certfile={certificate}", f"--ssl-keyfile={key}"]
        command = [flower_command("flower-superlink"), "--host", "127.0.0.1", "--port", str(self.port)]
        self.superlink = self._start("superlink", *command, *files, "--enable-supernode-auth")
        self.until("the SuperLink listens", lambda: listens(self.port))

    def admit(self, node: FleetNode) -> None:
        node.root, node.keys = self.root, generate_key_pairs()
        public = self._folder / f"{node.name}.pub"
        public.write_bytes(node.keys[1].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
        command = [flower_command("flwr"), "supernode", "register", str(public), "mobfl"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)


@pytest.mark.parametrize(
    "kind",
    [
        ForgetfulLoopback,
        pytest.param(
            AuthenticatingLoopback,
            marks=[pytest.mark.slow, pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")],
        ),
    ],
)
def test_an_answer_in_anothers_name_is_refused(tmp_path: Path, kind: type[Loopback]) -> None:
    """The SuperLink takes it: a thief who has somehow learnt the other's message lacks its nonce all the same."""
    late = threading.Event()
    victim = FleetNode("", "victim", lambda node, order: (late.wait(2), node.answer(order))[-1])
    thief = FleetNode("", "thief", in_anothers_name(victim))
    bystander = FleetNode("", "bystander")
    total = uploads(tmp_path, 10.0, victim, thief, bystander, rounds=1, kind=kind)
    of_victim, of_thief = kinds(tmp_path / "run", victim), kinds(tmp_path / "run", thief)
    assert ("dropped", "without the order's nonce") in of_victim, (of_victim, of_thief)
    assert ("uploaded", None) not in of_victim
    assert of_thief == [("began", None), ("uploaded", None)]  # its own answer counts as its own, whatever is inside
    assert total == [len(HONEST) + 2]


@pytest.mark.slow
@pytest.mark.parametrize("behave", [never_completes, cut, huge])
def test_rounds_of_eight_seconds_keep_their_five_uploads(tmp_path: Path, behave) -> None:  # type: ignore[no-untyped-def]
    assert uploads(tmp_path, 8.0, FleetNode("", "bad", behave)) == [5, 5, 5]
