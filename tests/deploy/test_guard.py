"""Who is answered by a server in our guard."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from uvicorn.config import HTTP_PROTOCOLS

from mobfl.deploy.guard import FLEET_PATHS, _GuardedProtocol, _written, guard
from mobfl.deploy.local.processes import free_port
from strangers import NOBODY, ask, ask_as

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
CLOSES_AT_ONCE = """
import encodings.idna, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for _ in range(200):
    link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    link.sendall(b"POST /v1/control/start-run HTTP/1.1\\r\\nHost: 127.0.0.1:1\\r\\nContent-Length: 0\\r\\n\\r\\n")
    link.close()
"""


@contextmanager
def serving(*open_to_others: str) -> Iterator[tuple[int, list[str]]]:
    """A server in the guard, at a port, and the paths that it was asked for."""
    asked = list[str]()

    async def app(scope, receive, send) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    port = free_port()
    protocol = partial(_GuardedProtocol, frozenset(open_to_others))
    settings = uvicorn.Config(app, port=port, http=protocol, lifespan="off", ws="none", log_level="error")
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield port, asked
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:1"}, 200),  # through a tunnel the port is another
        ({"Host": "road.example"}, 403),
        ({"Host": "127.0.0.1.road.example:8000"}, 403),
        ({"Host": "localhost:8000"}, 403),  # a name, which a page's owner cannot bend, but nobody needs either
        ({"Host": ""}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"X-Forwarded-For": "127.0.0.1", "Origin": "https://road.example"}, 403),
        ({"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "https://road.example"}, 403),
    ],
)
def test_pages_are_refused_by_what_browsers_say(headers: dict[str, str], status: int) -> None:
    with serving() as (port, asked):
        assert ask(port, "/v1/control/list-nodes", headers=headers)[0] == status
        assert len(asked) == (status == 200)


@ROOT_ONLY
def test_another_user_gets_the_open_paths_alone() -> None:
    with serving(*FLEET_PATHS) as (port, asked):
        status, said = ask_as(NOBODY, port, "/v1/control/start-run")
        assert (status, said) == (403, "other users of this machine have nothing to ask here\n")
        for path in ("/v1/fleet/../control/start-run", "/v1/fleet/pull-messages/", "/V1/fleet/pull-messages", "//v1"):
            assert ask_as(NOBODY, port, path)[0] == 403
        assert ask_as(NOBODY, port, "/v1/control/start-run", headers={"X-Forwarded-For": "127.0.0.1"})[0] == 403
        assert asked == []
        assert ask_as(NOBODY, port, "/v1/fleet/pull-messages")[0] == 200


@ROOT_ONLY
def test_a_connection_that_was_closed_is_nobodys() -> None:
    """The kernel writes user 0 for it, and the server of this test runs as root."""
    with serving() as (port, asked):
        subprocess.run([sys.executable, "-c", CLOSES_AT_ONCE, str(port)], check=True)
        assert ask(port, "/ours")[0] == 200
        assert asked == ["/ours"]


def test_the_guard_is_what_uvicorn_takes_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS["auto"])
    guard()
    settings = uvicorn.Config(lambda *_: None, lifespan="off", ws="none")
    settings.load()
    assert settings.http_protocol_class.func is _GuardedProtocol  # type: ignore[attr-defined]


def test_the_kernels_way_of_writing_an_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = Path("/proc/net/tcp").read_text()
        assert f" {_written('127.0.0.1', port)} " in lines


def test_the_fleets_paths_are_all_that_flowers_node_asks_for() -> None:
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

    served = {path for _, path in PROTOBUF_REQUEST_TYPES if path.startswith("/v1/fleet/")}
    assert served == set(FLEET_PATHS)
