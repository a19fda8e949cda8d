"""The token: who has it is the person that started the page.

On a computer with several users each of them can reach 127.0.0.1. The token is printed where only that person reads it.
It comes in once with the address and stays in a cookie.
"""

import re
import secrets
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mobfl.errors import InputError

LEAST_LENGTH, MOST_LENGTH = 8, 128
_LETTERS = re.compile(f"[A-Za-z0-9_-]{{{LEAST_LENGTH},{MOST_LENGTH}}}")
_OPEN = {"/page.css"}  # which the page without a token needs
_MISSING = (
    "this page needs its token: open the address with ?token=… that mobfl app printed in its terminal"
    " (or send the header Authorization: Bearer TOKEN)"
)
_WRONG = (
    "the token must be this page's, got another: a page that was started again has a new one, in the address that"
    " mobfl app printed in its terminal"
)
_HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>mobfl</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css"></head><body><header><h1>mobfl</h1></header>
<main><p class="note bad">{}</p></main></body></html>
"""


def new_token() -> str:
    return secrets.token_urlsafe(32)


def checked(token: str, name: str = "token") -> str:
    """A token of one's own; what an address or a cookie could not hold as it is, is refused."""
    if not _LETTERS.fullmatch(token):
        rule = f"{LEAST_LENGTH} to {MOST_LENGTH} letters, digits, - or _"
        raise InputError(f"{name} must be {rule}, got {len(token)} characters")  # but not which: it is a secret
    return token


class TokenNeeded:
    """Lets those in who have the token; who brings it with the address gets the cookie, and an address without it."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self._token = app, token.encode()
        self._cookie = f"mobfl-token-{port}"  # a browser sends cookies to all ports of a computer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app if scope["type"] != "http" or scope["path"] in _OPEN else self._answer(scope)
        await answer(scope, receive, send)

    def _answer(self, scope: Scope) -> ASGIApp:
        headers, (in_address, rest) = Headers(scope=scope), _split(scope["query_string"])
        brought = in_address if scope["method"] in ("GET", "HEAD") else None
        if brought is not None and self._is_right(brought):
            return self._entered(scope, headers, rest)
        given = self._given(headers)
        if given is not None and self._is_right(given):
            return self.app
        return _refused(headers, _MISSING if given is None and brought is None else _WRONG)

    def _given(self, headers: Headers) -> str | None:
        """What the cookie or else the header holds."""
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return sent.strip()
        return cookie_parser(headers.get("cookie", "")).get(self._cookie)

    def _is_right(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(errors="replace"), self._token)

    def _entered(self, scope: Scope, headers: Headers, rest: str) -> Response:
        """To the same place without the token in the address bar."""
        # Only a path: two slashes would lead to another computer.
        place = "/" + scope["raw_path"].decode("ascii").lstrip("/\\") + (f"?{rest}" if rest else "")
        answer: Response = RedirectResponse(place, 303)
        if headers.get("sec-fetch-site") == "cross-site":
            # The browser would not send the cookie after a redirection that somebody else began, a file for example.
            answer = HTMLResponse(_HTML.format("…"), headers={"Refresh": f"0; url={place}"})
        answer.set_cookie(self._cookie, self._token.decode(), path="/", httponly=True, samesite="strict")
        return answer


def _split(query: bytes) -> tuple[str | None, str]:
    """The token in the address, and the rest of it."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    tokens = [value for name, value in pairs if name == "token"]
    return (tokens[-1] if tokens else None), urlencode([pair for pair in pairs if pair[0] != "token"])


def _refused(headers: Headers, sentence: str) -> Response:
    wanted = {"WWW-Authenticate": "Bearer"}
    if "text/html" in headers.get("accept", ""):
        return HTMLResponse(_HTML.format(escape(f"{sentence[0].upper()}{sentence[1:]}.")), 401, wanted)
    return JSONResponse({"errors": [sentence]}, 401, wanted)
