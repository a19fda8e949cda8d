"""What comes in from a browser: read within limits, and refused in a sentence."""

import asyncio
import json
from collections import Counter
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mobfl.errors import InputError

MOST_JSON_BYTES = 100_000
MOST_IDLE_S = 10.0  # without a byte of a body
MOST_BODY_S = 120.0  # until all of it is there
_CLOSE = {"Connection": "close"}  # what still comes of a body that is refused is not read

_BYTES_PER_MB = 1_000_000
_LABELS = {"local_steps": "H", "round_s": "T"}  # what the page calls them


async def read_body(request: Request, most_bytes: int) -> bytes:
    """All of it; 413 as soon as it is known to be more than that, 408 when it does not come."""
    too_much = HTTPException(413, f"what is sent must be at most {megabytes(most_bytes)}, got more", _CLOSE)
    if int(request.headers.get("content-length", 0)) > most_bytes:  # a number, or the server has refused it
        raise too_much
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(MOST_BODY_S), asyncio.timeout(MOST_IDLE_S) as idle:
            async for part in request.stream():
                idle.reschedule(asyncio.get_running_loop().time() + MOST_IDLE_S)
                size += len(part)
                if size > most_bytes:
                    raise too_much
                parts.append(part)
    except TimeoutError:
        rule = f"within {MOST_BODY_S:g} s and without a break of {MOST_IDLE_S:g} s"
        raise HTTPException(408, f"what is sent must come {rule}, got {size} bytes until then", _CLOSE) from None
    return b"".join(parts)


async def read_table(request: Request) -> dict[str, Any]:
    """The JSON object in the body."""
    return table_from(await read_body(request, MOST_JSON_BYTES))


def table_from(text: bytes | str) -> dict[str, Any]:
    try:
        content = json.loads(text, parse_constant=_refuse, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"what is sent must be JSON, got {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"what is sent must be a JSON object, got {type(content).__name__}")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant}, which is not a number of JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} more than once")
    return table


def whole(table: dict[str, Any], name: str, least: int, most: int) -> int:
    value = table.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{_labelled(name)} must be a whole number from {least} to {most}, got {value!r}")
    return value


def positive(table: dict[str, Any], name: str, least: float, most: float) -> float:
    value = table.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{_labelled(name)} must be a number from {least:g} to {most:g}, got {value!r}")
    return float(value)


def texts(table: dict[str, Any], name: str, most: int) -> list[str]:
    value = table.get(name)
    if not isinstance(value, list) or len(value) > most or not all(isinstance(each, str) for each in value):
        raise InputError(f"{name} must be a list of at most {most} texts, got {type(value).__name__}")
    return value


def _labelled(name: str) -> str:
    return _LABELS.get(name, name)


def megabytes(size: int) -> str:
    return f"{size / _BYTES_PER_MB:g} MB"
