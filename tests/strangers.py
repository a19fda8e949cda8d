"""What people try who have no business at a base station, with nothing but what they have: a port, perhaps `ca.crt`."""

import encodings.idna  # noqa: F401  # here, since it cannot be read any more as another user
import http.client
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

NOBODY = 65534  # a user of this machine who is not us
PROTOBUF = {"Content-Type": "application/protobuf"}
CONTROL = ("list-nodes", "register-node", "start-run", "list-runs", "stream-logs")
RUNTIME = ("acquire-task", "pull-task-input", "push-logs")
HOSTILE_APP = """
from pathlib import Path
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    Path({mark!r}).write_text("a stranger's code has run here")
"""
HOSTILE_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hostile"
version = "1.0.0"
description = ""
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "hostile:app"
clientapp = "hostile:app"
"""


def ask(
    port: int,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    ca: Path | None = None,
    host: str = "127.0.0.1",
) -> tuple[int, str]:
    """The status of a POST and what was said; a connection that was cut is status 0."""
    context = None if ca is None else ssl.create_default_context(cafile=str(ca))
    link: Any = (
        http.client.HTTPConnection(host, port, timeout=20)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=20, context=context)
    )
    try:
        link.request("POST", path, body, {**PROTOBUF, **(headers or {})})
        answer = link.getresponse()
        return answer.status, answer.read(4096).decode(errors="replace")
    except OSError as error:
        return 0, str(error)
    finally:
        link.close()


def ask_as(user: int, port: int, path: str, **given: Any) -> tuple[int, str]:
    """As another user of this machine: only root can become one."""
    words = json.dumps({"port": port, "path": path, **given})
    done = subprocess.run(
        [sys.executable, __file__, str(user), words], capture_output=True, text=True, check=True, timeout=60
    )
    status, said = json.loads(done.stdout)
    return status, said


def hostile_app(folder: Path, mark: Path) -> Path:
    """A Flower app that leaves a file where its code runs."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(HOSTILE_PROJECT)
    (folder / "hostile.py").write_text(HOSTILE_APP.format(mark=str(mark)))
    return folder


if __name__ == "__main__":
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    print(json.dumps(ask(**json.loads(sys.argv[2]))))
