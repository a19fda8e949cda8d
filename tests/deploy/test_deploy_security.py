"""The guide's setup for several machines, on loopback: TLS, known nodes only, a proxy, and a round over it."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.proto.control_pb2 import RegisterNodeRequest
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from test_deploy_processes import ROAD

from deployed_road import deployment
from loopback import Loopback, loopback
from mobfl.deploy.certificates import ensure_certificates
from mobfl.deploy.events import read_events
from mobfl.deploy.flower_app import CONNECTION
from mobfl.deploy.gateway import write_flower_home
from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import flower_command, flower_environment, listens
from strangers import CONTROL, NOBODY, RUNTIME, ask, ask_as, hostile_app

pytestmark = [
    pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen"),
    pytest.mark.skipif(not shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), reason="needs nginx"),
]
CERTIFICATES = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}


class GuardedLoopback(Loopback):
    """As the guide sets it up."""

    def start_superlink(self) -> None:
        for key in ("car", "careful", "thief"):
            subprocess.run([*_SSH_KEYGEN, "-f", str(self._folder / key)], check=True)
        self.station = self._folder / "station"
        self.environment = flower_environment(self.station / "flower") | {"PYTHONPATH": self.environment["PYTHONPATH"]}
        words = ["station", str(self.station), "--name", "station.example", "--listen", f"127.0.0.1:{self.port}"]
        self.superlink = self._start("station", sys.executable, "-m", "mobfl", *words)
        self.until("the station is open", lambda: "is open at" in (self.logs / "station.log").read_text())

    @property
    def inner_port(self) -> int:
        """Where the SuperLink itself listens."""
        return int((self.station / "flower" / "config.toml").read_text().split("127.0.0.1:")[1].split('"')[0])

    def flower(self, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = self.environment if home is None else flower_environment(home)
        return subprocess.run([flower_command("flwr"), *words], env=environment, capture_output=True, text=True)

    def register(self, key: str) -> None:
        done = self.flower("supernode", "register", str(self._folder / f"{key}.pub"))
        assert done.returncode == 0, done.stdout

    def start_node(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        config = f'vehicle="{name}" trainer="{self._folder / "trainer"}"'
        command = [flower_command("flower-supernode"), "--superlink", f"localhost:{self.port}", "--node-config", config]
        return self._start(name, *command, "--port", str(processes.free_port()), *arguments)

    def start_with_key(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        trusted = ("--root-certificates", str(self.station / "ca.crt"))
        return self.start_node(name, *trusted, "--auth-supernode-private-key", str(self._folder / name), *more)


_SSH_KEYGEN = ("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-C", "")


def ended(process: subprocess.Popen[bytes]) -> Callable[[], bool]:
    return lambda: process.poll() is not None


def strangers_key() -> bytes:
    return RegisterNodeRequest(public_key=public_key_to_bytes(generate_key_pairs()[1])).SerializeToString()


def test_flower_alone_runs_a_strangers_code(folder: Path) -> None:
    """Why there is a proxy and a guard. Should this fail one day, Flower asks who is there, and both may go."""
    home, port = folder, processes.free_port()
    (home / "flower").mkdir()
    ensure_certificates(home, [])
    write_flower_home(home, port)
    environment = flower_environment(home / "flower")
    files = [f"--ssl-{kind}={home / file}" for kind, file in CERTIFICATES.items()]
    words = ["--host", "127.0.0.1", "--port", str(port), "--enable-supernode-auth"]
    superlink = processes.start(
        [flower_command("flower-superlink"), *words, *files], environment, folder / "superlink.log"
    )
    try:
        _wait(lambda: listens(port))
        assert ask(port, "/v1/control/register-node", strangers_key(), ca=home / "ca.crt")[0] == 200
        app = hostile_app(folder / "app", folder / "mark")
        subprocess.run([flower_command("flwr"), "run", str(app)], env=environment, check=True, capture_output=True)
        _wait((folder / "mark").exists)
    finally:
        processes.end([superlink])
        processes.kill_carrying(f"FLWR_HOME={folder}")


def _wait(happened: Callable[[], bool], patience_s: float = 120.0) -> None:
    until = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_only_known_nodes_take_part_and_strangers_get_nothing(folder: Path) -> None:
    settings = deployment(ROAD.with_values({"training.duration_s": 30.0}), folder / "run", "10,30", scale=1.0)
    with loopback(settings, folder, kind=GuardedLoopback) as road:
        assert isinstance(road, GuardedLoopback)
        for key in ("car", "careful"):
            road.register(key)
        again = road.flower("supernode", "register", str(folder / "car.pub"))
        assert again.returncode != 0
        assert "already in use" in again.stdout + again.stderr
        car = road.start_with_key("car")
        careful = road.start_with_key("careful", "--trusted-entities", str(_trusted(folder)))
        assert_strangers_are_refused(road, folder)
        assert (car.poll(), careful.poll()) == (None, None)
        assert_nodes_without_a_known_key_are_refused(road)
        road.start_server(lead_s=0.0)
        road.until("the run is done", lambda: _status(folder / "run") == "done")
        # Flower refuses every app there, signed or not, unless its SuperLink has a licence.
        assert "App verification is not supported by the connected SuperLink" in (road.logs / "careful.log").read_text()
    assert not (folder / "mark").exists()
    events = [(event["kind"], event.get("vehicle")) for event in read_events(folder / "run")]
    assert ("uploaded", "car") in events
    assert ("uploaded", "careful") not in events


def assert_nodes_without_a_known_key_are_refused(road: GuardedLoopback) -> None:
    trusted = ("--root-certificates", str(road.station / "ca.crt"))
    strangers = {
        "with an unknown key": road.start_with_key("thief"),
        "without a key": road.start_node("nobody", *trusted),
        "without encryption": road.start_node("open", "--insecure", "--max-retries", "0"),
    }
    for kind, stranger in strangers.items():
        road.until(f"a node {kind} is refused", ended(stranger))
        assert stranger.returncode != 0, kind


def assert_strangers_are_refused(road: GuardedLoopback, folder: Path) -> None:
    ca, inner = road.station / "ca.crt", road.inner_port
    calls = [*(f"/v1/control/{name}" for name in CONTROL), *(f"/v1/runtime/{name}" for name in RUNTIME)]
    for path in (*calls, "/docs", "/v1/fleet/pull-messages/../../control/list-nodes", "/v1/fleet/get-run/"):
        assert ask(road.port, path, strangers_key(), ca=ca, host="localhost")[0] == 403, path
    for path in ("/v1/fleet/pull-messages", "/v1/fleet/register-node", "/v1/fleet/%70ull-messages"):
        assert ask(road.port, path, ca=ca, host="localhost")[0] == 401, path
    assert ask(road.port, "/v1/fleet/push-object", bytes(9 << 20), ca=ca, host="localhost")[0] in {0, 413}
    if os.geteuid() == 0:  # another user of the base station's machine, who goes past the proxy
        for path in calls:
            assert ask_as(NOBODY, inner, path, ca=str(ca))[0] == 403, path
        assert ask_as(NOBODY, inner, "/v1/fleet/pull-messages", ca=str(ca))[0] == 401
    app, home = hostile_app(folder / "hostile", folder / "mark"), folder / "strangers-home"
    home.mkdir()
    link = f'address = "localhost:{road.port}"\nroot-certificates = "{ca}"\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "{CONNECTION}"\n[superlink.{CONNECTION}]\n{link}')
    for words in (("run", str(app)), ("supernode", "register", str(folder / "thief.pub")), ("supernode", "list")):
        assert road.flower(*words, home=home).returncode != 0, words
    assert road.flower("supernode", "list").returncode == 0  # the operator


def _trusted(folder: Path) -> Path:
    """A vehicle that runs nothing but what was signed with this key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / "signer")], check=True)
    file = folder / "trusted.yaml"
    file.write_text(f"fpk_operator: '{(folder / 'signer.pub').read_text().strip()}'\n")
    return file


def _status(run: Path) -> str:
    file = run / "run.json"
    return str(json.loads(file.read_text())["status"]) if file.exists() else "waiting"
