"""Who may ask: the person at this computer, through a page that came from here.

A page of another site that is open in the same browser can send requests to 127.0.0.1 too. It is told apart by the Host
under which it asks (a name that was made to point here) and by the Origin that the browser adds.
"""

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL = {"127.0.0.1", "localhost", "::1"}
_EVERYWHERE = {"0.0.0.0", "::"}
_OTHERS = {"cross-site", "same-site"}  # the latter is another port of this computer
_HTTP_PORT = 80
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


class SameOriginOnly:
    """Refuses what did not come from our own page, and says to the browser what our page may do."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        reason = refusal(Headers(scope=scope), self.host)
        answer = self.app if reason is None else JSONResponse({"errors": [reason]}, status_code=403)
        await answer(scope, receive, send_with_headers)


def refusal(headers: Headers, bound_host: str) -> str | None:
    """Why a request with these headers is refused, None if it is not."""
    host = headers.get("host", "")
    asked = _place(host)
    if asked is None or not _is_ours(asked[0], _name(bound_host)):
        return f"Host must be where this page is served, got {host!r}"
    origin = headers.get("origin")
    if origin is not None and _origin(origin) != asked:
        return f"Origin must be this page, got {origin!r}"
    if headers.get("sec-fetch-site") in _OTHERS and headers.get("sec-fetch-mode") != "navigate":
        return "only this page may ask, got a request of another site"
    return None


def _origin(origin: str) -> tuple[str, int] | None:
    scheme, _, host = origin.partition("://")
    return _place(host) if scheme.lower() == "http" else None


def _place(host: str) -> tuple[str, int] | None:
    """Name and port of a Host; None if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        found = _name(parts.hostname or ""), parts.port or _HTTP_PORT
    except ValueError:
        return None
    return found if parts.netloc == host and parts.username is None else None


def _name(host: str) -> str:
    """The one way in which a name or an address is compared: Tower. is tower, [0::1] is ::1."""
    name = host.strip("[]").lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _is_ours(name: str, bound_host: str) -> bool:
    if name in _LOCAL or name == bound_host:
        return True
    # Served everywhere, we may be asked for under any address, but not under names that others give us.
    return bound_host in _EVERYWHERE and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
