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

TOKEN = "a-token-for-tests"
PATIENCE_S = 600.0  # with an answer on busy cores, where the first one compiles


@dataclass(frozen=True)
class PageServer:
    port: int
    process: "subprocess.Popen[str]"
    token: str | None = TOKEN

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def cookie(self) -> dict[str, str]:
        """The header of a browser that has been let in."""
        return {} if self.token is None else {"Cookie": f"mobfl-token-{self.port}={self.token}"}

    @property
    def entrance(self) -> str:
        """The address that the terminal shows."""
        return self.address if self.token is None else f"{self.address}?token={self.token}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """This request with the cookie: no path is tidied up, no other header is added but Host."""
        return self.ask_as_stranger(method, path, body, {**self.cookie, **(headers or {})})

    def ask_as_stranger(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Exactly this request, without the cookie."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
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

    def workers(self) -> list[int]:
        """The processes that are at work for the page: children of the one that they are forked from."""
        return [pid for child in _children(self.process.pid) for pid in _children(child)]


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def page_server(
    *options: str,
    token: str | None = TOKEN,
    limits: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[PageServer]:
    """A page with this token (None: `--no-token`); `limits` are constants by `module:name`, as code, that differ."""
    port = free_port()
    program = [*_otherwise(limits or {}), "from mobfl.cli import main", "main()"]
    entry = ["--token", token] if token is not None else ["--no-token"]
    command = [sys.executable, "-c", "\n".join(program), "app", "--port", str(port), "--no-browser", *entry, *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_environment(), **(environment or {})},
    )
    try:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline()
        yield PageServer(port, process, token)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def _otherwise(limits: Mapping[str, str]) -> Iterator[str]:
    for place, value in limits.items():
        module, name = place.split(":")
        yield f"import {module}; {module}.{name} = {value}"


def _environment() -> dict[str, str]:
    source = str(Path(__file__).parent.parent / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
