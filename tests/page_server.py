"""A `mobfl app` of one's own to talk to: a real process on a free port, ended as a person ends it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PageServer:
    port: int
    process: "subprocess.Popen[str]"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Exactly this request: no path is tidied up, no header is added but Host."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = dict(headers or {})
            connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
            for name, value in {"Content-Length": str(len(body or b"")), **given}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read(), {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def post(self, path: str, content: Any) -> tuple[int, Any]:
        status, answer, _ = self.ask("POST", path, json.dumps(content).encode())
        return status, json.loads(answer)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def page_server(*options: str) -> Iterator[PageServer]:
    port = free_port()
    command = [sys.executable, "-m", "mobfl", "app", "--port", str(port), "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment())
    try:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        yield PageServer(port, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def _environment() -> dict[str, str]:
    source = str(Path(__file__).parent.parent / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
