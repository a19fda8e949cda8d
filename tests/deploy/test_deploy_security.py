"""The guide's setup for several machines, on loopback: TLS, known nodes only, and a round over it."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_deploy_processes import ROAD

from deployed_road import deployment
from loopback import Loopback, loopback
from mobfl.deploy.events import read_events
from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import flower_command, listens

pytestmark = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="needs openssl and ssh-keygen"
)
CERTIFICATES = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 365 -subj "/CN=our roads" \
    -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.crt
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj "/CN=station" -keyout server.key -out server.csr
echo "subjectAltName=DNS:localhost,IP:127.0.0.1" > names
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile names -out server.crt
ssh-keygen -q -t ecdsa -b 384 -N "" -C "" -f car
ssh-keygen -q -t ecdsa -b 384 -N "" -C "" -f thief
"""


class GuardedLoopback(Loopback):
    """As the guide sets it up."""

    def start_superlink(self) -> None:
        folder = self._folder
        subprocess.run(["bash", "-euc", CERTIFICATES], cwd=folder, check=True, capture_output=True)
        address = f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{folder / "ca.crt"}"\n'
        (folder / "flower" / "config.toml").write_text(f'[superlink]\ndefault = "mobfl"\n[superlink.mobfl]\n{address}')
        certificates = [f"--ssl-{kind}={folder / file}" for kind, file in _FILES.items()]
        command = [flower_command("flower-superlink"), "--host", "127.0.0.1", "--port", str(self.port)]
        database = ["--database", str(folder / "superlink.db")]
        self.superlink = self._start("superlink", *command, *certificates, *database, "--enable-supernode-auth")
        self.until("the SuperLink listens", lambda: listens(self.port))

    def register(self, key: str) -> None:
        command = [flower_command("flwr"), "supernode", "register", str(self._folder / f"{key}.pub"), "mobfl"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def start_node(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        config = f'vehicle="{name}" trainer="{self._folder / "trainer"}"'
        command = [flower_command("flower-supernode"), "--superlink", f"127.0.0.1:{self.port}", "--node-config", config]
        return self._start(name, *command, "--port", str(processes.free_port()), *arguments)


_FILES = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}


def ended(process: subprocess.Popen[bytes]) -> Callable[[], bool]:
    return lambda: process.poll() is not None


def test_only_known_nodes_take_part_and_all_is_encrypted(tmp_path: Path) -> None:
    settings = deployment(ROAD.with_values({"training.duration_s": 30.0}), tmp_path / "run", "10,30", scale=1.0)
    with loopback(settings, tmp_path, kind=GuardedLoopback) as road:
        assert isinstance(road, GuardedLoopback)
        road.register("car")
        trusted = ("--root-certificates", str(tmp_path / "ca.crt"))
        car = road.start_node("car", *trusted, "--auth-supernode-private-key", str(tmp_path / "car"))
        strangers = {
            "with an unknown key": road.start_node(
                "thief", *trusted, "--auth-supernode-private-key", str(tmp_path / "thief")
            ),
            "without a key": road.start_node("nobody", *trusted),
        }
        for kind, stranger in strangers.items():
            road.until(f"a node {kind} is refused", ended(stranger))
            assert stranger.returncode != 0
        in_the_clear = road.start_node("open", "--insecure", "--max-retries", "0")
        road.until("a node without encryption is refused", ended(in_the_clear))
        assert car.poll() is None
        time.sleep(1.0)
        road.start_server(lead_s=0.0)
        road.until("the run is done", lambda: _status(tmp_path / "run") == "done")
    events = [(event["kind"], event.get("vehicle")) for event in read_events(tmp_path / "run")]
    assert [kind for kind, _ in events].count("began") == 1
    assert ("uploaded", "car") in events


def _status(run: Path) -> str:
    file = run / "run.json"
    return str(json.loads(file.read_text())["status"]) if file.exists() else "waiting"
