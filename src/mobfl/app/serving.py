"""The server on its port, until Ctrl-C."""

import asyncio
import signal
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from mobfl.app.server import build
from mobfl.app.workers import warm_up
from mobfl.errors import InputError
from mobfl.interrupts import SIGNALS, handled

# Whoever is still being answered when the server ends has this long.
_LAST_WORDS_S = 1
_UNKNOWN_TO_UVICORN = [number for number in SIGNALS if number not in (signal.SIGINT, signal.SIGTERM)]
# From a connection's first byte to the end of a request's headers.
MOST_HEAD_S = 10.0
# How long a browser has to read the file that leads it to the page.
_BROWSER_S = 30


class _Server(uvicorn.Server):
    """Opens the browser once it has begun."""

    opens: Path | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.opens is not None:
            threading.Thread(target=_open_browser, args=(self.opens,), daemon=True).start()


class _Impatient(H11Protocol):
    """Closes connections on which no whole request comes; of its body, `read_body` takes care."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._clock is None:
            self._clock = self.loop.call_later(MOST_HEAD_S, self._give_up)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._clock = None

    def _give_up(self) -> None:
        sentence = f"a request's headers must come within {MOST_HEAD_S:g} s, got none or only a part"
        head = "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
        self.transport.write(f"{head}{sentence}".encode())
        self.transport.close()


@contextmanager
def _leading_to(address: str | None) -> Iterator[Path | None]:
    """A file that sends a browser there and that only we can read, unlike what programs are started with."""
    if address is None:
        yield None
        return
    descriptor, name = tempfile.mkstemp(".html", "mobfl-")
    with open(descriptor, "w") as file:  # noqa: PTH123
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _open_browser(file: Path) -> None:
    webbrowser.open(file.as_uri())
    time.sleep(_BROWSER_S)
    file.unlink(missing_ok=True)


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


def address_of(host: str, port: int, token: str | None = None) -> str:
    place = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    return place if token is None else f"{place}?token={token}"


def serve(
    bound: socket.socket, host: str, token: str | None, runs: Path | None = None, opens: str | None = None
) -> None:
    """Serves the page until a signal; without a token everybody is let in. `opens` is an address for the browser."""
    server: _Server

    def closing() -> bool:
        return server.should_exit

    warm_up()
    config = uvicorn.Config(
        build(host, bound.getsockname()[1], token, runs, closing), log_level="warning", lifespan="off", ws="none",
        loop="asyncio", http=_Impatient, server_header=False, timeout_graceful_shutdown=_LAST_WORDS_S,
    )  # fmt: skip
    server = _Server(config)
    with (
        bound,
        _leading_to(opens) as server.opens,
        handled(lambda *_: signal.raise_signal(signal.SIGTERM), _UNKNOWN_TO_UVICORN),
    ):
        server.run([bound])
