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
from strangers import CONTROL, NOBODY, RUNTIME, ask, ask_as

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def deployed(folder: Path) -> Iterator[int]:
    """A local deployment with vehicles that stay, and the port of its SuperLink; vehicles open none."""
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
        yield _superlinks_port(process, folder / "run" / "logs" / "superlink.log", folder / "said")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _superlinks_port(process: subprocess.Popen[bytes], log: Path, said: Path) -> int:
    until, running = time.monotonic() + 240, r"Uvicorn running on http://127.0.0.1:(\d+)"
    while time.monotonic() < until and process.poll() is None:
        if log.exists() and (found := re.search(running, log.read_text(errors="replace"))):
            return int(found[1])
        time.sleep(0.2)
    raise AssertionError(f"nothing listens: {said.read_text()}")


@ROOT_ONLY
def test_other_users_and_pages_get_nothing(tmp_path: Path) -> None:
    with deployed(tmp_path) as superlink:
        assert ask(superlink, "/v1/control/list-nodes")[0] == 200  # ours
        for call in (*(f"control/{name}" for name in CONTROL), *(f"runtime/{name}" for name in RUNTIME)):
            assert ask_as(NOBODY, superlink, f"/v1/{call}")[0] == 403, call
        assert ask_as(NOBODY, superlink, "/v1/fleet/register-node")[0] == 403
        rebound = {"Host": f"road.example:{superlink}"}
        page = {"Origin": "http://road.example", "Sec-Fetch-Site": "cross-site"}
        for headers in (rebound, page, rebound | page, {"Origin": "null"}, {"Host": ""}):
            assert ask(superlink, "/v1/control/list-nodes", headers=headers)[0] == 403, headers
    said = (tmp_path / "said").read_text()
    assert "runs as root" in said
    assert processes.carrying(f"FLWR_HOME={tmp_path}") == []
