"""The server on its port, until Ctrl-C."""

import signal
import socket
import threading
import webbrowser
from pathlib import Path

import uvicorn

from mobfl.app.server import build
from mobfl.errors import InputError
from mobfl.interrupts import SIGNALS, handled

# Whoever is still being answered when the server ends has this long.
_LAST_WORDS_S = 1
_UNKNOWN_TO_UVICORN = [number for number in SIGNALS if number not in (signal.SIGINT, signal.SIGTERM)]


class _Server(uvicorn.Server):
    """Opens the browser once it has begun."""

    opens: str | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.opens is not None:
            threading.Thread(target=webbrowser.open, args=(self.opens,), daemon=True).start()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port in use is known before anything else is done."""
    if not 1 <= port <= 65535:
        raise InputError(f"port must be 1 to 65535, got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError(f"host must be a name or address of this computer, got {host!r}: {error.strerror}") from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()  # whoever comes before the server has begun waits
    except OSError as error:
        bound.close()
        raise InputError(f"port {port} of {host} must be free, got: {error.strerror}") from None
    return bound


def address_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(bound: socket.socket, host: str, runs: Path | None = None, opens: str | None = None) -> None:
    """Serves the page until a signal; `opens` is an address for the browser to open."""
    server: _Server

    def closing() -> bool:
        return server.should_exit

    config = uvicorn.Config(
        build(host, runs, closing), log_level="warning", lifespan="off", ws="none", loop="asyncio", http="h11",
        server_header=False, timeout_graceful_shutdown=_LAST_WORDS_S,
    )  # fmt: skip
    server = _Server(config)
    server.opens = opens
    with bound, handled(lambda *_: signal.raise_signal(signal.SIGTERM), _UNKNOWN_TO_UVICORN):
        server.run([bound])
