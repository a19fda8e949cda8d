"""`mobfl deploy --local` answers nobody but who started it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_deploy_processes import PATHS

from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import listens
from strangers import CONTROL, NOBODY, RUNTIME, ask, ask_as

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def deployed(folder: Path) -> Iterator[dict[str, list[int]]]:
    """A local deployment with vehicles that stay, and the ports where its parts listen."""
    words = ["deploy", "--local", "--task", "deployed_road:counting_task", "--option", "by_batches=true"]
    small = ["training.duration_s=600", "training.samples_per_vehicle=[20, 40]", "training.batch_size=8"]
    road = [
        "--plan",
        "5,10",
        "--scale",
        "1",
        "--vehicles",
        "2",
        *(word for value in small for word in ("--set", value)),
    ]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "mobfl", *words, *road, "--out", str(folder / "run")],
            env={**os.environ, "PYTHONPATH": PATHS}, stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
    try:
        yield _ports(process, folder / "run" / "logs", folder / "said")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _ports(process: subprocess.Popen[bytes], logs: Path, said: Path) -> dict[str, list[int]]:
    until, running = time.monotonic() + 240, r"Uvicorn running on http://127.0.0.1:(\d+)"
    while time.monotonic() < until and process.poll() is None:
        files = {kind: list(logs.glob(f"{kind}*.log")) for kind in ("superlink", "vehicle-")}
        found = {
            kind: [int(port) for file in some for port in re.findall(running, file.read_text(errors="replace"))]
            for kind, some in files.items()
        }
        if all(found.values()):
            return {kind: [port for port in ports if listens(port)] for kind, ports in found.items()}
        time.sleep(0.2)
    raise AssertionError(f"nothing listens: {said.read_text()}")


@ROOT_ONLY
def test_other_users_and_pages_get_nothing(tmp_path: Path) -> None:
    with deployed(tmp_path) as ports:
        [superlink] = ports["superlink"]
        assert ask(superlink, "/v1/control/list-nodes")[0] == 200  # ours
        for call in (*(f"control/{name}" for name in CONTROL), *(f"runtime/{name}" for name in RUNTIME)):
            assert ask_as(NOBODY, superlink, f"/v1/{call}")[0] == 403, call
        assert ask_as(NOBODY, superlink, "/v1/fleet/register-node")[0] == 403
        for port in ports["vehicle-"]:
            assert ask_as(NOBODY, port, "/v1/runtime/acquire-task")[0] in {0, 403}  # 0: it has left meanwhile
        rebound = {"Host": f"road.example:{superlink}"}
        page = {"Origin": "http://road.example", "Sec-Fetch-Site": "cross-site"}
        for headers in (rebound, page, rebound | page, {"Origin": "null"}, {"Host": ""}):
            assert ask(superlink, "/v1/control/list-nodes", headers=headers)[0] == 403, headers
    said = (tmp_path / "said").read_text()
    assert "runs as root" in said
    assert processes.carrying(f"FLWR_HOME={tmp_path}") == []
