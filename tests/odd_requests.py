"""Requests that no page of ours would send: extreme numbers, wrong types, broken bytes, odd lines and headers."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from mobfl import load_scenario
from mobfl.scenario import FIELDS
from page_server import PageServer

_PATIENCE_S = 400.0  # the page gives a trace 300 s, of which the first may take some for compiling


class Odd(NamedTuple):
    """One request, as bytes; `{cookie}` and `{host}` are filled in when it is sent."""

    name: str
    text: bytes


# As they stand in JSON. What is no JSON is there too.
EXTREMES = (
    "NaN", "Infinity", "-Infinity", "1e308", "-1e308", "1e309", "5e-324", "-0.0", "0", "-1", "1e-300", "1e15", "true",
    "null", '""', '"1"', '"\\ud800"', "[]", "[1]", "[[1]]", "{}", '{"a": 1}', "9" * 400, "-" + "9" * 400, "9" * 5000,
)  # fmt: skip
PAPER = load_scenario("paper").to_dict()
ROAD = {"tables": PAPER, "local_steps": 24, "round_s": 11.776, "seed": 3, "first": 0, "count": 2}
TRACE = b"vehicle,enter_s,leave_s\n" + b"".join(b"%d,%d,%d\n" % (i, 7 * i, 7 * i + 20) for i in range(60))
_BODIES = (
    b"", b"{", b"}", b"[]", b"5", b"null", b'"a"', b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x00" * 64, b"{}" * 20,
    b'{"a":' * 40_000, b"[" * 90_000, b'{"road": {"length_m": 5, "length_m": 6}}', b'{"road": {}, "road": {}}',
    b'{"\\ud800": {"\\udfff": 1}}', b'{"road": {"\xff": 1}}', b'{"": {"": {}}}', b"x" * 200_000, b'{"fleet": 5}',
    b'{"fleet": [5]}', b'{"fleet": [{}]}', b'{"fleet": [{"share": 1e308}, {"share": -1e308}]}',
    b'{"fleet": [' + b",".join([b'{"share": 0.001}'] * 1000) + b"]}",
    b'{"compute": {"law": "measured", "step_samples": [' + b",".join([b"1e-5"] * 9000) + b"]}}",
    b'{"compute": {"law": "measured", "step_samples": [0, -1, 1e308, null]}}',
    b'{"compute": {"law": "measured", "step_samples": "/etc/passwd"}}',
    json.dumps({"key " * 100: {}}).encode(),
)  # fmt: skip
_TRACES = (
    b"", b"\x00", b"\xff\xfe\x00", b"vehicle,enter_s,leave_s\n", b"vehicle,enter_s,leave_s\n1,1,2\n",
    b"vehicle,enter_s,leave_s\n1,nan,2\n", b"vehicle,enter_s,leave_s\n1,1e308,1e309\n2,-1e308,0\n",
    b"vehicle,enter_s,leave_s\n" + b"a" * 300_000 + b",1,2\n", b"vehicle,enter_s,leave_s\n" + b'"' * 1001 + b",1,2\n",
    b"vehicle;enter_s;leave_s\n1;1;2\n2;1;2\n", b"time,id,x,y\n0,a,1,1\n", b"<a/>", b"<a", b"<" * 5000,
    b"<a>" * 20_000, b"\x1f\x8b\x08", TRACE[:-7],
)  # fmt: skip
_PATHS = (
    "/..", "/../..", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%00", "/main.js%00.html", "/%ff%fe",
    "/%", "/%zz", "//", "//127.0.0.1/", "/./", "/api", "/api/", "/api/plan/", "/API/PLAN", "/api/start/..", "/;", "/?",
    "/?" + "a" * 9000, "/" + "a" * 9000, "/" + "%41" * 3000, "/" + "a/" * 4000, "/api/start?" + "a=1&" * 2000, "*",
    "http://evil.example/", "http://127.0.0.1/api/start", "/\\..\\..", "/api/curve?run=%00&column=%00", "/#a",
    "/api/curve?run=../..&column=loss", "/api/curve?run=a&column=__class__", "/api/curve?run=" + "a" * 9000,
    "/api/curve?run=run&column=" + quote("\ud800", errors="surrogatepass"), "/api/curve?run=run&column=end_s",
    "/api/curve?run=run&column=loss&run=other", "/static/main.js", "/main.js/", "/index.html?x", "/favicon.ico",
    "/api/start?token=", "/api/start?token=" + "a" * 9000, "/?token=%00%ff",
)  # fmt: skip
_METHODS = (
    "HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "A" * 300, "DELETE", "POST", "GET",
)  # fmt: skip
_ROUTES = (
    "/", "/main.js", "/api/start", "/api/plan", "/api/anytime", "/api/road", "/api/trace", "/api/curve", "/api/map",
    "/api/again", "/api/deployment",
)  # fmt: skip
_HEADERS = (
    "Range: bytes=0-10", "Range: bytes=-1", "Range: bytes=99999999999999999999-", "Range: bytes=0-0,1-1,2-2",
    "Range: x", "If-None-Match: *", 'If-None-Match: "x"', "If-Match: *", 'If-Match: "x"', "If-Range: x",
    "If-Modified-Since: never",
    "If-Modified-Since: Wed, 18 Nov 2026 00:00:00 GMT", "If-Unmodified-Since: Wed, 18 Nov 1970 00:00:00 GMT",
    "Accept: " + "text/html," * 900, "Accept: \xe9\xff", "Accept-Encoding: gzip, br, \xff", "Content-Type: multipart/x",
    "Cookie: " + "a=b; " * 2000, "Cookie: =;;=;\xff", "Authorization: \xff\xfe", "Authorization: Bearer " + "x" * 9000,
    "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: nonsense",
    "Content-Length: -1", "Content-Length: 1e3", "Content-Length: 99999999999999999999",
    "Content-Length: " + "9" * 5000,
    "Content-Length: 1\r\nContent-Length: 2", "Expect: 100-continue", "Expect: the unexpected", "X: " + "y" * 70_000,
    "\r\n".join(f"X-{i}: y" for i in range(500)), "Host: evil.example", "Host: a\r\nHost: b", "No colon", " : ",
    "\x00: x",
    "X-Forwarded-For: 1.2.3.4", "X-HTTP-Method-Override: DELETE", "Origin: null", "Sec-Fetch-Site: cross-site",
)  # fmt: skip
_LINES = (
    b"", b"\r\n", b"\x00\x01\x02", b"GET", b"GET /", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n", b"GET  /  HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"A" * 100_000, b"\n" * 1000,
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n folded: x\r\n\r\n", b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n",
)  # fmt: skip


def _request(name: str, method: str, path: str, body: bytes = b"", headers: str | None = None) -> Odd:
    """With the length of its body, unless the headers say how long it is, or no Host, which they have."""
    lines = [f"{method} {path} HTTP/1.1", *([headers] if headers else [])]
    given = (headers or "").lower()
    if "host:" not in given:
        lines.append("Host: {host}")
    if "content-length" not in given and "transfer-encoding" not in given:
        lines.append(f"Content-Length: {len(body)}")
    lines += ["Cookie: {cookie}", "Connection: close", "", ""]
    return Odd(name, "\r\n".join(lines).encode("latin-1") + body)


def _with_number(table: dict[str, Any], key: str, number: str) -> bytes:
    """The table as JSON with a value at `a.b` that Python could not write."""
    first, _, rest = key.partition(".")
    changed = {**table, first: {**table.get(first, {}), rest: "@"}} if rest else {**table, first: "@"}
    return json.dumps(changed).replace('"@"', number).encode()


def _bodies() -> Iterator[Odd]:
    for number in EXTREMES:
        for key in [*FIELDS, "fleet", "road", "radio", "radio.uplink_hz", "nonsense", "road.nonsense"]:
            yield _request(f"plan {key} = {number[:20]}", "POST", "/api/plan", _with_number(PAPER, key, number))
        for key in ROAD:
            yield _request(f"road {key} = {number[:20]}", "POST", "/api/road", _with_number(ROAD, key, number))
    for key in ROAD:
        rest = {name: value for name, value in ROAD.items() if name != key}
        yield _request(f"road without {key}", "POST", "/api/road", json.dumps(rest).encode())
    for body in _BODIES:
        for path in ("/api/plan", "/api/road"):
            yield _request(f"{path} {body[:30]!r}", "POST", path, body)
        tables = json.dumps({"tables": json.loads(body)}).encode() if _is_json(body) else b'{"tables": ' + body + b"}"
        yield _request(f"road of {body[:30]!r}", "POST", "/api/road", tables)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _traces() -> Iterator[Odd]:
    for content in _TRACES:
        for name in ("a.csv", "a.xml", "a.csv.gz"):
            yield _request(f"{name} {content[:30]!r}", "POST", f"/api/trace?name={name}", content)
    odd = (
        "",
        "\0",
        "a\nb",
        "../a.csv",
        "a" * 5000 + ".csv",
        "é.csv",
        "a.csv.csv",
        ".csv",
        "a.parquet",
        "CON.csv",
        "a.gz",
    )
    for text in odd:
        yield _request(f"named {text[:20]!r}", "POST", f"/api/trace?{urlencode({'name': text})}", TRACE)
        yield _request(
            f"section {text[:20]!r}", "POST", f"/api/trace?{urlencode({'name': 'a.csv', 'section': text})}", TRACE
        )
        yield _request(f"job {text[:20]!r}", "POST", f"/api/trace?{urlencode({'name': 'a.csv', 'job': text})}", TRACE)
        yield _request(f"cancel {text[:20]!r}", "DELETE", f"/api/trace?{urlencode({'job': text})}")
    for section in ("circle:0,0,1e200", "circle:nan,0,1", "box:0,0,0,0", "edge:", "polygon:1", "circle:" + "1," * 2000):
        asked = urlencode({"name": "a.csv", "section": section})
        yield _request(f"section {section[:20]!r}", "POST", f"/api/trace?{asked}", b"time,id,x,y\n0,a,1,1\n1,a,2,1\n")
    for number in EXTREMES[:-1]:
        asked = urlencode({"name": "a.csv", "tables": f'{{"road": {{"length_m": {number}}}}}'})
        yield _request(f"trace with length {number[:20]}", "POST", f"/api/trace?{asked}", TRACE)
        body = b"vehicle,enter_s,leave_s\n1,0,5\n2,%s,9\n3,7,%s\n" % (number.encode(), number.encode())
        yield _request(f"trace of {number[:20]}", "POST", "/api/trace?name=a.csv", body)


_NETS = (
    b"<net/>", b"<net>", b'<net><edge id="a"><lane shape="0,0 1e999,1"/></edge></net>',
    b'<net><lane shape="0,0 1,1"/></net>',
    b'<net><edge id="a"><lane shape="' + b"0,0 " * 50_000 + b'"/></edge></net>', b"<fcd-export/>",
    b"<net>" + b'<edge id="a" function="internal"/>' * 5000 + b"</net>",
    b"time,id,x,y\n0,a,1e12,-1e12\n1,a,nan,1\n", TRACE,
)  # fmt: skip


def _views() -> Iterator[Odd]:
    """What maps, commands and deployments are asked with."""
    for content in (*_TRACES, *_NETS):
        for name in ("a.net.xml", "a.csv", "a.xml.gz"):
            yield _request(f"map {name} {content[:30]!r}", "POST", f"/api/map?name={name}", content)
    for number in EXTREMES:
        yield _request(f"again {number[:20]}", "POST", "/api/again", b'{"runs": %s}' % number.encode())
        yield _request(f"again [{number[:20]}]", "POST", "/api/again", b'{"runs": [%s]}' % number.encode())
    for text in ("", "run", "../run", "/etc/passwd", "\0", "a" * 5000, "run/../run", "\ud800"):
        asked = quote(text, errors="surrogatepass")
        yield _request(f"deployment {text[:20]!r}", "GET", f"/api/deployment?run={asked}")
        yield _request(f"again of {text[:20]!r}", "POST", "/api/again", json.dumps({"runs": [text]}).encode())
        yield _request(f"plan from {text[:20]!r}", "POST", f"/api/plan?from={asked}", b"{}")
        yield _request(f"stage of {text[:20]!r}", "GET", f"/api/trace?job={asked}")
    yield _request("again of many", "POST", "/api/again", json.dumps({"runs": ["run"] * 401}).encode())


def _lines() -> Iterator[Odd]:
    for path in _PATHS:
        for method in ("GET", "POST"):
            yield _request(f"{method} {path[:40]}", method, path)
    for method in _METHODS:
        for path in (*_ROUTES, "/api/live") if method not in ("GET", "HEAD") else _ROUTES:
            yield _request(f"{method[:10]} {path}", method, path, b"{}")
    for header in _HEADERS:
        for method, path in (("GET", "/"), ("GET", "/api/start"), ("POST", "/api/plan")):
            yield _request(f"{path} with {header[:40]!r}", method, path, b"{}" if method == "POST" else b"", header)
    for line in _LINES:
        yield Odd(f"line {line[:30]!r}", line)


def odd_requests() -> list[Odd]:
    return [*_lines(), *_traces(), *_views(), *_bodies()]


def send(page: PageServer, odd: Odd) -> bytes:
    """What comes back until the server closes the connection."""
    host = f"127.0.0.1:{page.port}".encode()
    text = odd.text.replace(b"{cookie}", page.cookie["Cookie"].encode()).replace(b"{host}", host)
    parts = list[bytes]()
    with socket.create_connection(("127.0.0.1", page.port), timeout=_PATIENCE_S) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # it has answered before it had all
            connection.sendall(text)
        with suppress(ConnectionResetError):
            while part := connection.recv(1 << 16):
                parts.append(part)
    return b"".join(parts)
