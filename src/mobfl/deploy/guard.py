"""Who may speak to Flower's servers on this machine: we, and no other user and no page in a browser.

Flower 1.41 serves three interfaces at one port and asks only vehicles who they are (Fleet). Whoever reaches the other
two can register keys and start code (Control), or take an app's work and answer in its place (Runtime). A port at
127.0.0.1 is open to every user of the machine, and to pages: one whose name is made to point here (DNS rebinding) may
send anything. The kernel knows which user holds the other end of a connection, and browsers say who sent them.
"""

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.h11_impl import H11Protocol

# All that a node asks for. With --enable-supernode-auth each of these wants a signature of a registered key.
FLEET_PATHS = tuple(
    f"/v1/fleet/{call}"
    for call in (
        "activate-node", "deactivate-node", "register-node", "unregister-node", "send-node-heartbeat",
        "pull-messages", "push-messages", "pull-object", "push-object", "confirm-message-received",
        "get-run", "get-fab",
    )
)  # fmt: skip
_TCP, _ESTABLISHED = Path("/proc/net/tcp"), "01"
_LOOKS = 3  # the kernel may leave out a line if others change while it is read
_LOOPBACK = "127.0.0.1"


def guard(open_to_others: Iterable[str] = ()) -> None:
    """From now on servers of this process answer only our own user, and others at these paths alone."""
    HTTP_PROTOCOLS["auto"] = partial(_GuardedProtocol, frozenset(open_to_others))  # type: ignore[assignment]


def tells_users_apart() -> bool:
    """Whether this system says which user holds a connection's other end; without, only pages are kept out."""
    return _TCP.exists()


class _GuardedProtocol(H11Protocol):
    """Uvicorn's, which looks at who is there before Flower does; it runs for every connection."""

    def __init__(self, open_to_others: frozenset[str], **given: Any) -> None:
        super().__init__(**given)
        self._open_to_others, self._served = open_to_others, self.app
        self.app = self._answer
        self.ws_protocol_class = None  # Flower has no web sockets, and they would go past `_answer`

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._ours = not tells_users_apart() or _user_of(self.client, self.server) == os.geteuid()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._refusal(scope["path"], Headers(scope=scope))
        if reason is None:
            await self._served(scope, receive, send)
        else:
            self.logger.warning("refused %s: %s", scope["path"], reason)
            await PlainTextResponse(f"{reason}\n", 403, {"connection": "close"})(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> str | None:
        if "origin" in headers or "sec-fetch-site" in headers:
            return "pages in a browser have nothing to ask here"
        if headers.get("host", "").rpartition(":")[0] != _LOOPBACK:
            return f"Host must be {_LOOPBACK}, got {headers.get('host')!r}"
        if not self._ours and path not in self._open_to_others:
            return "other users of this machine have nothing to ask here"
        return None


def _user_of(end: tuple[str, int] | None, server: tuple[str, int | None] | None) -> int | None:
    """The user who holds the connection's other end, as long as he does: once closed it counts as root's."""
    if end is None or server is None or server[1] is None:
        return None
    wanted = f" {_written(*end)} {_written(server[0], server[1])} {_ESTABLISHED} "
    for _ in range(_LOOKS):
        _, _, rest = _TCP.read_text().partition(wanted)
        if rest:
            return int(rest.split(maxsplit=4)[3])
    return None


def _written(address: str, port: int) -> str:
    """As /proc/net/tcp does: 127.0.0.1:80 is 0100007F:0050 on machines that write the least byte first."""
    number = int.from_bytes(bytes(map(int, address.split("."))), sys.byteorder)
    return f"{number:08X}:{port:04X}"
